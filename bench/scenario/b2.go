package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/bench/measure"
)

// The goals of B2, at many writers (64): acknowledged transactions a second, the
// slowest writer's share of the fastest's; and for a lone writer B1's ratio.
//
// Over simulated stores: B2Decided acknowledged transactions a second, and B2OverOCC
// times those of occ, where answers are DECIDED; where they are PUBLISHED, B2Floor of
// what as many writers would get done that each took as long as bare takes alone.
const (
	B2Rate    = 3000.0
	B2Share   = 0.5
	B2Decided = 2000.0
	B2OverOCC = 125.0
	B2Floor   = 0.9
	// B2Observed bounds what looking at a server costs of its processor.
	B2Observed = 1.05
	b2Many     = 64
	// b2Count is for how long requests are counted, if that is done apart.
	b2Count = 500 * time.Millisecond
)

// B2 measures what writers get done that all append to one table, each with one
// transaction in flight.
func B2(ctx context.Context, c Config) (*measure.Result, error) {
	r := &measure.Result{
		Name: "B2", Title: "writers that append to one table, each with one transaction in flight",
		Columns: []string{"writers", "contender", "acked/s", "acked/s by round", "aborted", "p50 ms", "p99 ms", "slowest/fastest writer", "versions/s", "drained ms", "server's processor, us per transaction", "requests per transaction"},
	}
	for _, w := range c.Writers {
		if err := b2(ctx, c, w, r); err != nil {
			return nil, fmt.Errorf("B2 with %d writers: %w", w, err)
		}
	}
	r.Note("%s per line, in %d rounds in turn; durable writes on. Drained: from the last answer of a round until "+
		"everything is published, and every snapshot has its manifest, at most.", c.Duration, c.Rounds)
	return r, nil
}

// oneTable is the shape of B2's transactions.
func oneTable(int, int) []int { return []int{0} }

func b2(ctx context.Context, c Config, writers int, r *measure.Result) (err error) {
	contenders := c.Contenders
	if writers == 1 || c.Simulated {
		contenders = append([]contend.Contender{c.Bare}, contenders...)
	}
	entries, err := c.openAll(ctx, fmt.Sprintf("b2-%d", writers), contenders, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll(entries)) }()
	bursts := make([][]burst, len(entries))
	err = turns(c.Rounds, len(entries), func(round, i int) error {
		c.progress("B2 writers %d, round %d of %d: %s", writers, round+1, c.Rounds, entries[i].name)
		b, err := entries[i].drive(ctx, writersOf(entries[i], writers), c.Duration/time.Duration(c.Rounds), oneTable)
		bursts[i] = append(bursts[i], b)
		return err
	})
	if err != nil {
		return err
	}
	totals := map[string]burst{}
	for i, e := range entries {
		report, err := e.check(ctx, nil)
		if err != nil {
			return err
		}
		totals[e.name] = total(bursts[i])
		if err := b2Row(ctx, c, e, writersOf(e, writers), bursts[i], totals[e.name], report.OwnVersions, r); err != nil {
			return err
		}
	}
	if c.Simulated {
		b2Simulated(c, writers, totals, r)
	} else if t, ok := totals[c.Judged]; ok {
		b2Goals(c.Judged, writers, t, total(bursts[0]), r)
		if o := totals[c.Judged+Observed]; o.spent > 0 && t.spent > 0 {
			r.AtMost(fmt.Sprintf("%s, %d writers, the server's processor, x %s", c.Judged+Observed, writers, c.Judged), float64(o.each())/float64(t.each()), B2Observed)
		}
		b2Turns(c.Judged, entries, bursts, r)
	}
	return nil
}

// writersOf is how many writers a contender gets. Bare is a floor under one transaction
// and has one, whatever the others have.
func writersOf(e *entry, writers int) int {
	if _, bare := e.session.(*contend.BareSession); bare {
		return 1
	}
	return writers
}

// burst is what writers got done in one round.
type burst struct {
	acked   []int // by writer
	aborted int
	samples measure.Samples
	elapsed time.Duration
	// rest is how long it took after the last answer until everything was published.
	rest time.Duration
	// drained is the sum of those of several rounds.
	drained time.Duration
	// spent is the server's time of the processor, from the begin until it was drained; 0 if
	// it cannot be seen.
	spent time.Duration
}

func (b burst) sum() int {
	n := 0
	for _, a := range b.acked {
		n += a
	}
	return n
}

func (b burst) rate() float64 { return float64(b.sum()) / b.elapsed.Seconds() }

// share is the slowest writer's part of the fastest's.
func (b burst) share() float64 {
	if most := slices.Max(b.acked); most > 0 {
		return float64(slices.Min(b.acked)) / float64(most)
	}
	return 0
}

// shape says which tables a writer's transaction of a number is over.
type shape func(writer, number int) []int

// drive lets writers run for a time. Each finishes what it has in flight, and that
// counts, as does the time it takes. Then what was answered comes to rest, apart.
func (e *entry) drive(ctx context.Context, writers int, d time.Duration, tables shape) (burst, error) {
	var stop atomic.Bool
	defer time.AfterFunc(d, func() { stop.Store(true) }).Stop()
	each := make([]burst, writers)
	errs := make([]error, writers)
	first := make([]int, writers)
	for w := range writers {
		first[w] = e.numbers[w]
	}
	before := e.spent()
	start := time.Now()
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			each[w], errs[w] = write(ctx, e.session, w, first[w], tables, &stop)
			if errs[w] != nil {
				stop.Store(true)
			}
		})
	}
	running.Wait()
	all := burst{elapsed: time.Since(start)}
	for w, b := range each {
		e.numbers[w] = first[w] + b.acked[0] + b.aborted
		all.acked = append(all.acked, b.acked[0])
		all.aborted += b.aborted
		all.samples = append(all.samples, b.samples...)
	}
	if err := errors.Join(errs...); err != nil {
		return all, err
	}
	err := e.drain(ctx, start, &all)
	all.spent = e.spent() - before
	return all, err
}

// spent is the server's time of the processor so far; 0 if it cannot be seen.
func (e *entry) spent() (d time.Duration) {
	if s, ok := e.session.(contend.Spending); ok {
		d, _ = s.Spent()
	}
	return d
}

// each is the server's time of the processor for each acknowledged transaction.
func (b burst) each() time.Duration { return b.spent / time.Duration(max(b.sum(), 1)) }

// eachText is each in microseconds; nothing where the server's time cannot be seen.
func (b burst) eachText() any {
	if b.spent == 0 {
		return ""
	}
	return float64(b.each().Nanoseconds()) / 1e3
}

// drain waits until everything is published.
func (e *entry) drain(ctx context.Context, start time.Time, b *burst) error {
	if d, ok := e.session.(contend.Draining); ok {
		if err := d.Drain(ctx); err != nil {
			return fmt.Errorf("%s does not publish all that it answered: %w", e.name, err)
		}
		b.rest = time.Since(start) - b.elapsed
		b.drained = b.rest
	}
	return nil
}

// write commits one transaction after the other until stop.
func write(ctx context.Context, s contend.Session, writer, first int, tables shape, stop *atomic.Bool) (burst, error) {
	b := burst{acked: []int{0}}
	for n := first + 1; !stop.Load(); n++ {
		start := time.Now()
		err := s.Commit(ctx, contend.Work{Writer: writer, Number: n, Tables: tables(writer, n)})
		switch {
		case err == nil:
			b.acked[0]++
			b.samples = append(b.samples, time.Since(start))
		case errors.Is(err, contend.ErrAborted):
			b.aborted++
		default:
			return b, fmt.Errorf("writer %d: %w", writer, err)
		}
	}
	return b, nil
}

// total adds rounds up.
func total(rounds []burst) burst {
	t := burst{acked: make([]int, len(rounds[0].acked))}
	for _, b := range rounds {
		for w, n := range b.acked {
			t.acked[w] += n
		}
		t.aborted += b.aborted
		t.samples = append(t.samples, b.samples...)
		t.elapsed += b.elapsed
		t.rest = max(t.rest, b.rest)
		t.drained += b.drained
		t.spent += b.spent
	}
	return t
}

func b2Row(ctx context.Context, c Config, e *entry, writers int, rounds []burst, t burst, versions int, r *measure.Result) error {
	requests, err := e.requests(ctx, c, fmt.Sprintf("b2-%d", writers), 1, t.sum(), func(e *entry) (int, error) {
		b, err := e.drive(ctx, writers, b2Count, oneTable)
		return b.sum(), err
	})
	if err != nil {
		return fmt.Errorf("count requests of %s: %w", e.name, err)
	}
	var rates []float64
	for _, b := range rounds {
		rates = append(rates, b.rate())
	}
	low, high := measure.Range(rates)
	r.Add(writers, e.name, t.rate(), fmt.Sprintf("%.0f-%.0f", low, high), t.aborted, t.samples.Median(), t.samples.Quantile(0.99),
		t.share(), float64(versions)/t.elapsed.Seconds(), t.rest, t.eachText(), requests)
	return nil
}

func b2Goals(name string, writers int, t, first burst, r *measure.Result) {
	r.AtMost(fmt.Sprintf("%s, %d writers, aborted", name, writers), float64(t.aborted), 0)
	switch writers {
	case 1:
		ratio := float64(t.samples.Median()) / float64(max(first.samples.Median(), 1))
		r.AtMost(name+", a lone writer, median, x bare", ratio, B1Limit)
	case b2Many:
		r.AtLeast(fmt.Sprintf("%s, %d writers, acknowledged/s", name, writers), t.rate(), B2Rate)
		r.AtLeast(fmt.Sprintf("%s, %d writers, slowest/fastest", name, writers), t.share(), B2Share)
	}
}

// b2Simulated are the goals where the time is the stores'.
func b2Simulated(c Config, writers int, totals map[string]burst, r *measure.Result) {
	published, publishes := totals[c.Judged]
	decided, decides := totals[c.Judged+Decided]
	for _, name := range []string{c.Judged, c.Judged + Decided} {
		if t, ok := totals[name]; ok {
			r.AtMost(fmt.Sprintf("%s, %d writers, aborted", name, writers), float64(t.aborted), 0)
		}
	}
	if writers != b2Many {
		return
	}
	if bare := totals["bare"].samples.Median(); publishes && bare > 0 {
		r.AtLeast(fmt.Sprintf("%s, %d writers, acknowledged/s, of %d/(bare's median)", c.Judged, writers, writers),
			published.rate()/(float64(writers)/bare.Seconds()), B2Floor)
	}
	if !decides {
		return
	}
	r.AtLeast(fmt.Sprintf("%s, %d writers, acknowledged/s", c.Judged+Decided, writers), decided.rate(), B2Decided)
	if occ := totals["occ"]; len(occ.acked) > 0 {
		r.AtLeast(fmt.Sprintf("%s, %d writers, acknowledged/s, x occ", c.Judged+Decided, writers), decided.rate()/max(occ.rate(), 1), B2OverOCC)
	}
}
