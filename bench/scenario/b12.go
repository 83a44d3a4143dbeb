package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/bench/measure"
)

// The goals of B12: of transactions that begin while the object store refuses everything
// none is refused, and no table is frozen; the server's memory grows by no more than
// B12Memory MB; when the object store is back, all of them are published within B12Drain.
const (
	B12Memory = 256.0
	B12Drain  = 30 * time.Second
	b12Tables = 16
	// b12Open is how many transactions may be open at once.
	b12Open = 1000
	// b12Warm is the part of the outage for which clients commit before it.
	b12Warm = 10
)

// B12 has the object store refuse everything for a while, as clients commit at a steady
// rate that does not wait for answers. Those who put by themselves, as seq, occ and
// dstor do, get nothing done meanwhile and do not take part.
func B12(ctx context.Context, c Config) (*measure.Result, error) {
	r := &measure.Result{
		Name: "B12", Title: fmt.Sprintf("the object store refuses everything for %s, %d transactions begin in a second", c.Outage, c.Rate),
		Columns: []string{
			"contender", "begun", "answered DECIDED", "refused", "not begun", "frozen tables", "p50 ms", "p99 ms", "p50 ms before", "MB before", "MB at most", "drained ms",
		},
	}
	for _, k := range c.Contenders {
		s, ok := k.(contend.Stalling)
		if !ok {
			continue
		}
		if k, ok = s.Stalling(); !ok {
			continue
		}
		if err := b12(ctx, c, k, r); err != nil {
			return nil, fmt.Errorf("B12 %s: %w", k.Name(), err)
		}
	}
	if len(r.Rows) == 0 {
		return nil, errors.New("B12: none of the contenders answers before it publishes: name txcoord-decided")
	}
	return r, nil
}

func b12(ctx context.Context, c Config, k contend.Contender, r *measure.Result) (err error) {
	e, err := c.open(ctx, "b12", k, b12Tables)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.session.Close()) }()
	s, ok := e.session.(contend.Stallable)
	if !ok {
		return errors.New("its object store cannot be made to fail")
	}
	load := &load{session: s, rate: c.Rate}
	c.progress("B12 %s: before", e.name)
	before, err := load.run(ctx, c.Outage/b12Warm)
	if err != nil {
		return err
	}
	if err := s.Settle(ctx); err != nil {
		return err
	}
	memory, err := s.Memory()
	if err != nil {
		return err
	}
	c.progress("B12 %s: the object store is out for %s", e.name, c.Outage)
	during, err := load.outage(ctx, c.Outage)
	if err != nil {
		return err
	}
	began := time.Now()
	if d, ok := s.(contend.Draining); ok {
		if err := d.Drain(ctx); err != nil {
			return fmt.Errorf("what was decided is not published: %w", err)
		}
	}
	drained := time.Since(began)
	if _, err := e.check(ctx, nil); err != nil {
		return err
	}
	megabytes := func(bytes int64) float64 { return float64(bytes) / (1 << 20) }
	r.Add(e.name, during.begun, len(during.samples), during.refused, during.late, during.frozen, during.samples.Median(), during.samples.Quantile(0.99),
		before.samples.Median(), megabytes(memory), megabytes(during.memory), drained)
	r.AtMost(e.name+", refused", float64(during.refused), 0)
	r.AtMost(e.name+", not begun", float64(during.late), 0)
	r.AtMost(e.name+", frozen tables", float64(during.frozen), 0)
	r.AtMost(e.name+", MB more than before", megabytes(during.memory-memory), B12Memory)
	r.AtMost(e.name+", drained, ms", measure.Milliseconds(drained), measure.Milliseconds(B12Drain))
	if during.why != nil {
		r.Note("The first that was refused: %v.", during.why)
	}
	return nil
}

// load begins transactions at a rate, whether or not those before are answered.
type load struct {
	session contend.Stallable
	rate    int
	number  int
}

// loaded is what came of it.
type loaded struct {
	begun, refused, late, frozen int
	samples                      measure.Samples
	memory                       int64 // at most
	why                          error // the first refusal
}

func (l *load) run(ctx context.Context, d time.Duration) (loaded, error) {
	var out loaded
	var mu sync.Mutex
	var open atomic.Int64
	var calls sync.WaitGroup
	start := time.Now()
	for i := 0; ; i++ {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(l.rate))
		if due.Sub(start) >= d && i > 0 {
			break
		}
		time.Sleep(time.Until(due))
		if open.Load() >= b12Open {
			out.late++
			continue
		}
		l.number++
		w := contend.Work{Number: l.number, Tables: []int{l.number % b12Tables}}
		out.begun++
		open.Add(1)
		calls.Go(func() {
			defer open.Add(-1)
			began := time.Now()
			err := l.session.Try(ctx, w)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				out.samples = append(out.samples, time.Since(began))
				return
			}
			out.refused++
			if out.why == nil {
				out.why = err
			}
		})
	}
	calls.Wait()
	if len(out.samples) == 0 {
		return out, fmt.Errorf("none of %d transactions was committed: %w", out.begun, out.why)
	}
	return out, ctx.Err()
}

// outage is run while the object store refuses everything, with a look at the server now
// and then.
func (l *load) outage(ctx context.Context, d time.Duration) (out loaded, err error) {
	if err := l.session.Out(ctx, true); err != nil {
		return out, err
	}
	watching, stop := context.WithCancel(ctx)
	var frozen int
	var memory int64
	var watched error
	var watch sync.WaitGroup
	watch.Go(func() { frozen, memory, watched = l.watch(watching) })
	out, err = l.run(ctx, d)
	stop()
	watch.Wait()
	out.frozen, out.memory = frozen, memory
	return out, errors.Join(err, watched, l.session.Out(context.WithoutCancel(ctx), false))
}

// watch is the most of tables that were frozen, and of memory, until ctx ends.
func (l *load) watch(ctx context.Context) (frozen int, memory int64, err error) {
	for {
		f, err := l.session.Frozen(context.WithoutCancel(ctx))
		if err != nil {
			return frozen, memory, err
		}
		m, err := l.session.Memory()
		if err != nil {
			return frozen, memory, err
		}
		frozen, memory = max(frozen, f), max(memory, m)
		select {
		case <-ctx.Done():
			return frozen, memory, nil
		case <-time.After(time.Second):
		}
	}
}
