package measure

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what one run of the benchmarks found.
type Report struct {
	Started time.Time `json:"started"`
	Go      string    `json:"go"`
	System  string    `json:"system"`
	CPUs    int       `json:"cpus"`
	Results []*Result `json:"results"`
}

// NewReport describes the machine.
func NewReport(started time.Time) *Report {
	return &Report{Started: started.UTC(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU()}
}

// Result is what one benchmark found: a table of figures, and its goals.
type Result struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
	Goals   []Goal   `json:"goals"`
	// Notes are sentences that belong to the figures.
	Notes []string `json:"notes"`
}

// Add adds a row; there must be a value for each column.
func (r *Result) Add(values ...any) {
	if len(values) != len(r.Columns) {
		panic(fmt.Sprintf("%s: %d values for %d columns", r.Name, len(values), len(r.Columns)))
	}
	r.Rows = append(r.Rows, values)
}

// Note adds a sentence.
func (r *Result) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Goal is a limit and how the run stands to it.
type Goal struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	// Limit is the highest value that meets the goal, the lowest if AtLeast.
	Limit   float64 `json:"limit"`
	AtLeast bool    `json:"at_least"`
	Met     bool    `json:"met"`
}

// AtMost adds a goal that a value must not exceed.
func (r *Result) AtMost(what string, value, limit float64) {
	r.Goals = append(r.Goals, Goal{What: what, Value: value, Limit: limit, Met: value <= limit})
}

// AtLeast adds a goal that a value must reach.
func (r *Result) AtLeast(what string, value, limit float64) {
	r.Goals = append(r.Goals, Goal{What: what, Value: value, Limit: limit, AtLeast: true, Met: value >= limit})
}

func (g Goal) String() string {
	met, limit := "met   ", "<="
	if !g.Met {
		met = "MISSED"
	}
	if g.AtLeast {
		limit = ">="
	}
	return fmt.Sprintf("%s  %s: %s (goal %s %s)", met, g.What, figure(g.Value), limit, figure(g.Limit))
}

// WriteJSON writes the report for machines.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes one result for people.
func (r *Result) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s\n\n", r.Name, r.Title)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  "+strings.Join(r.Columns, "\t"))
	for _, row := range r.Rows {
		cells := make([]string, len(row))
		for i, v := range row {
			cells[i] = cell(v)
		}
		fmt.Fprintln(t, "  "+strings.Join(cells, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "\n  %s", n)
	}
	for _, g := range r.Goals {
		fmt.Fprintf(w, "\n  %s", g)
	}
	_, err := fmt.Fprintln(w)
	return err
}

func cell(v any) string {
	switch v := v.(type) {
	case time.Duration:
		return figure(Milliseconds(v))
	case float64:
		return figure(v)
	}
	return fmt.Sprint(v)
}

// figure writes a number with three digits that count.
func figure(f float64) string {
	digits := 2
	switch a := math.Abs(f); {
	case a >= 1000 || f == math.Trunc(f):
		digits = 0
	case a >= 100:
		digits = 1
	case a < 1:
		digits = 3
	}
	return fmt.Sprintf("%.*f", digits, f)
}
