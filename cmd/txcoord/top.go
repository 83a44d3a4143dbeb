package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// topCommand shows how the catalog is, again and again. Rates are of all that the server
// has folded, whichever server decided it.
type topCommand struct {
	Interval time.Duration `help:"How often to look." default:"2s" placeholder:"DURATION"`
	Tables   int           `help:"How many tables to show at most." default:"20"`
}

// minInterval keeps a slip of the finger from being load.
const minInterval = 100 * time.Millisecond

// sight is one look at the server.
type sight struct {
	at     time.Time
	status *txcoordv1.GetStatusResponse
	tables []*txcoordv1.Table
}

func (c *topCommand) Run(ctx context.Context, s *session) error {
	switch {
	case c.Interval < minInterval:
		return usage("--interval", c.Interval.String(), "give at least "+minInterval.String())
	case c.Tables < 0:
		return usage("--tables", fmt.Sprint(c.Tables), "give a number of tables, or 0")
	}
	in, isFile := s.in.(*os.File)
	out, outFile := s.out.(*os.File)
	if s.Output == "table" && isFile && outFile {
		if _, _, err := term.GetSize(int(out.Fd())); err == nil {
			if was, err := term.MakeRaw(int(in.Fd())); err == nil {
				defer func() { _ = term.Restore(int(in.Fd()), was) }() // it could be set a moment ago
				return c.live(ctx, s, keysOf(in), func() (int, int) { return sizeOf(out) })
			}
		}
	}
	return c.once(ctx, s)
}

// sizeOf is a terminal's, in columns and lines; one that has become none is small.
func sizeOf(out *os.File) (columns, lines int) {
	columns, lines, err := term.GetSize(int(out.Fd()))
	if err != nil {
		return 80, 24
	}
	return columns, lines
}

// interrupt is Ctrl-C on a terminal that hands over single keys.
const interrupt = 3

// look asks for the status and for the tables.
func (c *topCommand) look(ctx context.Context, s *session) (v sight, err error) {
	err = s.call(ctx, "asking "+s.Server, func(ctx context.Context, api *client.Client) error {
		if v.status, err = api.Status.GetStatus(ctx, &txcoordv1.GetStatusRequest{}); err != nil {
			return err
		}
		v.at = time.Now()
		for token := ""; ; {
			a, err := api.Tables.ListTables(ctx, &txcoordv1.ListTablesRequest{PageSize: maxPage, PageToken: token})
			if err != nil {
				return err
			}
			v.tables = append(v.tables, a.GetTables()...)
			if token = a.GetNextPageToken(); token == "" {
				return nil
			}
		}
	})
	s.quiet()
	return v, err
}

// once prints two looks' worth, for what is no terminal.
func (c *topCommand) once(ctx context.Context, s *session) error {
	before, err := c.look(ctx, s)
	if err != nil {
		return err
	}
	if s.Output == "id" {
		return s.lines(slowNames(before, c.Tables))
	}
	select {
	case <-time.After(c.Interval):
	case <-ctx.Done():
		return ctx.Err()
	}
	now, err := c.look(ctx, s)
	if err != nil {
		return err
	}
	if s.Output == "json" {
		b, err := marshal(topJSON(before, now, c.Tables))
		if err != nil {
			return err
		}
		return s.lines([]string{string(b)})
	}
	g := newGrid(s.out)
	topGrid(g, before, now, c.Tables)
	return g.flush()
}

// The sequences of ANSI terminals that live uses.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the alternate screen, no cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	endOfLine   = "\x1b[K"
	restOfPage  = "\x1b[J"
)

// live shows the newest look until q, Ctrl-C, or the end of the keys. A look that fails is
// said on the screen, and made again: the server may be starting.
func (c *topCommand) live(ctx context.Context, s *session, keys <-chan byte, size func() (columns, lines int)) (err error) {
	if _, err := io.WriteString(s.out, enterScreen); err != nil {
		return err
	}
	defer func() { _, _ = io.WriteString(s.out, leaveScreen) }() // whoever looked is gone
	quiet := *s
	quiet.err = io.Discard // its lines would stand in the picture
	defer func() { s.dialled = quiet.dialled }()
	ctx, stop := context.WithCancel(ctx)
	looks := make(chan looked, 1)
	look := func() {
		v, err := c.look(ctx, &quiet)
		looks <- looked{v, err}
	}
	looking := true
	go look()
	defer func() { // nothing of it is left behind
		stop()
		if looking {
			<-looks
		}
	}()
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	var before, now sight
	for {
		again := false
		select {
		case v := <-looks:
			looking = false
			if v.err == nil {
				before, now = now, v.sight
			}
			if ctx.Err() != nil {
				return nil
			}
			if err := c.draw(s.out, before, now, v.err, size); err != nil {
				return err
			}
		case k, ok := <-keys:
			if !ok || k == 'q' || k == 'Q' || k == interrupt {
				return nil
			}
			again = k == ' '
		case <-tick.C:
			again = true
		case <-ctx.Done():
			return nil
		}
		if again && !looking {
			looking = true
			go look()
		}
	}
}

// looked is the end of a look.
type looked struct {
	sight
	err error
}

// draw writes one picture over the one before, in one write.
func (c *topCommand) draw(out io.Writer, before, now sight, failed error, size func() (columns, lines int)) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "txcoord top, every %s; q ends, a blank looks now\n", c.Interval)
	if failed != nil {
		fmt.Fprintf(&text, "%s\n", printable(failed.Error()))
	}
	if now.status != nil {
		text.WriteByte('\n')
		g := newGrid(&text)
		topGrid(g, before, now, c.Tables)
		if err := g.flush(); err != nil {
			return err
		}
	}
	columns, lines := size()
	var picture bytes.Buffer
	picture.WriteString(home)
	all := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	for i, l := range all[:min(len(all), max(lines-1, 1))] {
		if i > 0 {
			picture.WriteString("\r\n")
		}
		picture.WriteString(cut(l, columns) + endOfLine)
	}
	picture.WriteString("\r\n" + restOfPage)
	_, err := out.Write(picture.Bytes())
	return err
}

// cut keeps a line from wrapping.
func cut(line string, columns int) string {
	if r := []rune(line); columns > 0 && len(r) > columns {
		return string(r[:columns])
	}
	return line
}

// keysOf reads keys until there are no more. The goroutine ends with the process.
func keysOf(in io.Reader) <-chan byte {
	keys := make(chan byte)
	go func() {
		defer close(keys)
		for b := make([]byte, 1); ; {
			if n, err := in.Read(b); n == 1 {
				keys <- b[0]
			} else if err != nil {
				return
			}
		}
	}()
	return keys
}

// rate is a count a second between two looks at one server; ok is false where there is none.
func rate(before, now sight, count func(*txcoordv1.GetStatusResponse) uint64) (r float64, ok bool) {
	took := now.at.Sub(before.at).Seconds()
	if before.status == nil || took <= 0 || self(before.status) != self(now.status) || count(now.status) < count(before.status) {
		return 0, false
	}
	return float64(count(now.status)-count(before.status)) / took, true
}

// self names the process that answered: what it counts begins with it.
func self(a *txcoordv1.GetStatusResponse) string {
	for _, r := range a.GetReplicas() {
		if r.GetSelf() {
			return r.GetId()
		}
	}
	return ""
}

// topRates are the rates that top shows.
var topRates = []struct {
	name  string
	count func(*txcoordv1.GetStatusResponse) uint64
}{
	{"commits", (*txcoordv1.GetStatusResponse).GetCommitted},
	{"conflicts", (*txcoordv1.GetStatusResponse).GetConflicts},
	{"aborts", (*txcoordv1.GetStatusResponse).GetAborted},
	{"entries", (*txcoordv1.GetStatusResponse).GetPosition},
	{"snapshots", (*txcoordv1.GetStatusResponse).GetLatestSnapshot},
}

// slowNames are those of slow: what tables why takes.
func slowNames(v sight, most int) (names []string) {
	tables, _ := slow(v, most)
	for _, t := range tables {
		names = append(names, t.GetName())
	}
	return names
}

// slow are the tables that have something to publish, in the oldest round first, then by
// how much waits.
func slow(v sight, most int) (out []*txcoordv1.Table, since map[string]time.Time) {
	since = map[string]time.Time{}
	for _, r := range slices.Backward(v.status.GetOpenRounds()) {
		for _, name := range r.GetTables() {
			since[name] = r.GetOpenedAt().AsTime()
		}
	}
	for _, t := range v.tables {
		if t.GetPendingChanges() > 0 || t.GetFreeze() != nil || !since[t.GetName()].IsZero() {
			out = append(out, t)
		}
	}
	slices.SortStableFunc(out, func(a, b *txcoordv1.Table) int {
		x, y := since[a.GetName()], since[b.GetName()]
		switch {
		case x.Equal(y):
			return int(b.GetPendingChanges()) - int(a.GetPendingChanges())
		case y.IsZero() || !x.IsZero() && x.Before(y):
			return -1
		default:
			return 1
		}
	})
	return out[:min(len(out), most)], since
}
