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
const (
	B2Rate  = 3000.0
	B2Share = 0.5
	b2Many  = 64
	// b2Count is for how long requests are counted, if that is done apart.
	b2Count = 500 * time.Millisecond
)

// B2 measures what writers get done that all append to one table, each with one
// transaction in flight.
func B2(ctx context.Context, c Config) (*measure.Result, error) {
	r := &measure.Result{
		Name: "B2", Title: "writers that append to one table, each with one transaction in flight",
		Columns: []string{"writers", "contender", "acked/s", "acked/s by round", "aborted", "p50 ms", "p99 ms", "slowest/fastest writer", "versions/s", "requests per transaction"},
	}
	for _, w := range c.Writers {
		if err := b2(ctx, c, w, r); err != nil {
			return nil, fmt.Errorf("B2 with %d writers: %w", w, err)
		}
	}
	r.Note("%s per line, in %d rounds in turn; durable writes on.", c.Duration, c.Rounds)
	return r, nil
}

func b2(ctx context.Context, c Config, writers int, r *measure.Result) (err error) {
	contenders := c.Contenders
	if writers == 1 {
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
		b, err := entries[i].drive(ctx, writers, c.Duration/time.Duration(c.Rounds))
		bursts[i] = append(bursts[i], b)
		return err
	})
	if err != nil {
		return err
	}
	for i, e := range entries {
		report, err := e.check(ctx, nil)
		if err != nil {
			return err
		}
		t := total(bursts[i])
		if err := b2Row(ctx, c, e, writers, bursts[i], t, report.OwnVersions, r); err != nil {
			return err
		}
		if e.name == c.Judged {
			b2Goals(e, writers, t, total(bursts[0]), r)
		}
	}
	return nil
}

// burst is what writers got done in one round.
type burst struct {
	acked   []int // by writer
	aborted int
	samples measure.Samples
	elapsed time.Duration
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

// drive lets writers run for a time. Each finishes what it has in flight, and that
// counts, as does the time it takes.
func (e *entry) drive(ctx context.Context, writers int, d time.Duration) (burst, error) {
	var stop atomic.Bool
	defer time.AfterFunc(d, func() { stop.Store(true) }).Stop()
	each := make([]burst, writers)
	errs := make([]error, writers)
	first := make([]int, writers)
	for w := range writers {
		first[w] = e.numbers[w]
	}
	start := time.Now()
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			each[w], errs[w] = write(ctx, e.session, w, first[w], &stop)
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
	return all, errors.Join(errs...)
}

// write commits one transaction after the other until stop.
func write(ctx context.Context, s contend.Session, writer, first int, stop *atomic.Bool) (burst, error) {
	b := burst{acked: []int{0}}
	for n := first + 1; !stop.Load(); n++ {
		start := time.Now()
		err := s.Commit(ctx, contend.Work{Writer: writer, Number: n, Tables: []int{0}})
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
	}
	return t
}

func b2Row(ctx context.Context, c Config, e *entry, writers int, rounds []burst, t burst, versions int, r *measure.Result) error {
	requests, err := e.requests(ctx, c, fmt.Sprintf("b2-%d", writers), 1, t.sum(), func(e *entry) (int, error) {
		b, err := e.drive(ctx, writers, b2Count)
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
		t.share(), float64(versions)/t.elapsed.Seconds(), requests)
	return nil
}

func b2Goals(e *entry, writers int, t, first burst, r *measure.Result) {
	r.AtMost(fmt.Sprintf("%s, %d writers, aborted", e.name, writers), float64(t.aborted), 0)
	switch writers {
	case 1:
		ratio := float64(t.samples.Median()) / float64(max(first.samples.Median(), 1))
		r.AtMost(e.name+", a lone writer, median, x bare", ratio, B1Limit)
	case b2Many:
		r.AtLeast(fmt.Sprintf("%s, %d writers, acknowledged/s", e.name, writers), t.rate(), B2Rate)
		r.AtLeast(fmt.Sprintf("%s, %d writers, slowest/fastest", e.name, writers), t.share(), B2Share)
	}
}
