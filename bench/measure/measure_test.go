package measure_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/bench/measure"
)

func TestQuantile(t *testing.T) {
	s := measure.Samples{50, 10, 30, 20, 40}
	for _, c := range []struct {
		q    float64
		want time.Duration
	}{{0, 10}, {0.2, 10}, {0.21, 20}, {0.5, 30}, {0.99, 50}, {1, 50}} {
		if got := s.Quantile(c.q); got != c.want {
			t.Errorf("quantile %v: %d, want %d", c.q, got, c.want)
		}
	}
	if got := (measure.Samples{}).Median(); got != 0 {
		t.Errorf("median of nothing: %d", got)
	}
	if d := cmp.Diff(measure.Samples{50, 10, 30, 20, 40}, s); d != "" {
		t.Errorf("samples were sorted in place: %s", d)
	}
}

func TestRounds(t *testing.T) {
	r := measure.Rounds{{1, 2, 3}, {10, 20, 30}, {5}}
	low, high := r.Spread()
	if low != 2 || high != 20 {
		t.Errorf("spread %d to %d, want 2 to 20", low, high)
	}
	if got := r.All().Median(); got != 5 {
		t.Errorf("median %d, want 5", got)
	}
}

func TestNumbers(t *testing.T) {
	if got := measure.Median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median %v", got)
	}
	if low, high := measure.Range([]float64{4, 1, 3}); low != 1 || high != 4 {
		t.Errorf("range %v to %v", low, high)
	}
	if got := measure.Milliseconds(1234567); got != 1.235 {
		t.Errorf("%v ms", got)
	}
}

func TestReport(t *testing.T) {
	r := &measure.Result{Name: "B0", Title: "a test", Columns: []string{"who", "p50 ms", "n"}}
	r.Add("seq", 1500*time.Microsecond, 7)
	r.Add("occ", 0.25, 12345)
	r.AtMost("slow", 1.31, 1.3)
	r.AtLeast("fast", 3000, 3000)
	r.Note("noted %d", 1)
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	want := `B0: a test

  who  p50 ms  n
  seq  1.50    7
  occ  0.250   12345

  noted 1
  MISSED  slow: 1.31 (goal <= 1.30)
  met     fast: 3000 (goal >= 3000)
`
	if d := cmp.Diff(want, text.String()); d != "" {
		t.Error(d)
	}
	report := measure.NewReport(time.Unix(0, 0))
	report.Results = append(report.Results, r)
	var b strings.Builder
	if err := report.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var back measure.Report
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Results) != 1 || back.Results[0].Goals[0].Met || !back.Results[0].Goals[1].Met {
		t.Errorf("read back: %+v", back)
	}
}

func TestRowsFitColumns(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a row with too few values went through")
		}
	}()
	(&measure.Result{Columns: []string{"a", "b"}}).Add(1)
}
