package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/bench/measure"
)

// The goals of B6: from the start of the new process until it serves, and until
// every transaction that was in flight has a final answer.
const (
	B6Serve            = time.Second
	B6Resolve          = 3 * time.Second
	B6ResolveSimulated = 4 * time.Second // over stores that take the time of S3 and DynamoDB
)

// b6Tables are the tables that B6's clients write; each transaction takes b6Spread
// of them that lie side by side.
const (
	b6Tables = 12
	b6Spread = 3
)

// B6 kills the server with many transactions in flight, starts it again, and
// measures how long clients wait.
func B6(ctx context.Context, c Config) (*measure.Result, error) {
	r := &measure.Result{
		Name: "B6", Title: "SIGKILL with transactions in flight, milliseconds from the new process' start",
		Columns: []string{"contender", "kill", "in flight", "acked before", "serving", "half resolved", "all resolved", "committed", "aborted"},
	}
	for _, k := range c.Contenders {
		crashable, ok := k.(contend.Crashable)
		if !ok {
			continue
		}
		if err := b6(ctx, c, crashable, r); err != nil {
			return nil, fmt.Errorf("B6 %s: %w", k.Name(), err)
		}
	}
	if len(r.Rows) == 0 {
		return nil, errors.New("B6: none of the contenders has a server process to kill")
	}
	r.Note("%d clients, each with a transaction over %d of %d tables in flight; they repeat the same call until it has a final answer.",
		c.InFlight, b6Spread, b6Tables)
	return r, nil
}

// B6History is the goal for a catalog with a history: how much longer it may take than
// one without.
const B6History = 1.2

// b6Makers make a history.
const b6Makers = 256

// aged is a server with a history of so many transactions.
type aged struct {
	*entry
	server         contend.Server
	history        int
	serve, resolve measure.Samples
}

func b6(ctx context.Context, c Config, k contend.Crashable, r *measure.Result) (err error) {
	var all []*aged
	defer func() {
		for _, a := range all {
			err = errors.Join(err, a.server.Close())
		}
	}()
	histories := []int{0}
	if c.History > 0 {
		histories = append(histories, c.History)
	}
	for _, h := range histories {
		a, err := c.age(ctx, k, h)
		if err != nil {
			return err
		}
		all = append(all, a)
	}
	err = turns(c.Rounds, len(all), func(round, i int) error {
		a := all[i]
		c.progress("B6 %s, kill %d of %d", a.name, round+1, c.Rounds)
		k, err := a.kill(ctx, a.server, c.InFlight, c.Warm)
		if err != nil {
			return err
		}
		a.serve, a.resolve = append(a.serve, k.serving), append(a.resolve, k.resolved.Quantile(1))
		r.Add(a.name, round+1, k.inFlight, k.before, k.serving, k.resolved.Median(), k.resolved.Quantile(1), k.committed, k.aborted)
		return nil
	})
	if err != nil {
		return err
	}
	for _, a := range all {
		if _, err := a.check(ctx, nil); err != nil {
			return err
		}
		if k.Name() == c.Judged {
			c.b6Goals(a, all[0], r)
		}
	}
	return nil
}

func (c Config) b6Goals(a, fresh *aged, r *measure.Result) {
	resolve := B6Resolve
	if c.Simulated {
		resolve = B6ResolveSimulated
	}
	r.AtMost(a.name+", serving again, median, ms", measure.Milliseconds(a.serve.Median()), measure.Milliseconds(B6Serve))
	r.AtMost(a.name+", all resolved, median, ms", measure.Milliseconds(a.resolve.Median()), measure.Milliseconds(resolve))
	if a.history == 0 {
		return
	}
	r.AtMost(a.name+", serving again, x that without", float64(a.serve.Median())/float64(max(fresh.serve.Median(), 1)), B6History)
	r.AtMost(a.name+", all resolved, x that without", float64(a.resolve.Median())/float64(max(fresh.resolve.Median(), 1)), B6History)
}

// age opens a server and lets it have its history.
func (c Config) age(ctx context.Context, k contend.Crashable, history int) (*aged, error) {
	name := k.Name()
	if history > 0 {
		name = fmt.Sprintf("%s after %d", name, history)
	}
	dir := filepath.Join(c.Dir, "b6", fmt.Sprintf("%s-%d", k.Name(), history))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	s, err := k.OpenServer(ctx, dir, b6Tables)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	a := &aged{entry: &entry{name: name, session: s, numbers: map[int]int{}}, server: s, history: history}
	if history == 0 {
		return a, nil
	}
	c.progress("B6 %s: its history", name)
	makers := min(b6Makers, history)
	if _, err := a.each(ctx, makers, history/makers, b6Work); err != nil {
		return nil, errors.Join(fmt.Errorf("make a history: %w", err), s.Close())
	}
	return a, nil
}

// killed is what one kill showed.
type killed struct {
	inFlight, before   int
	serving            time.Duration
	resolved           measure.Samples
	committed, aborted int
}

// kill lets clients run, kills the server under them, starts it again, and waits
// until every client has the final answer to what it had in flight.
func (e *entry) kill(ctx context.Context, s contend.Server, clients int, warm time.Duration) (killed, error) {
	// Without a server the clients would repeat their calls for ever.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := &clientGroup{server: s, last: make([]lastCommit, clients), numbers: make([]int, clients)}
	for i := range clients {
		g.numbers[i] = e.numbers[i]
	}
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() { g.run(ctx, i) })
	}
	time.Sleep(warm)
	k := killed{inFlight: int(g.inFlight.Load()), before: int(g.acked.Load())}
	err := s.Kill()
	g.stop.Store(true)
	start := time.Now()
	err = errors.Join(err, s.Start())
	if err == nil {
		err = s.Serving(ctx)
	}
	k.serving = time.Since(start)
	if err != nil {
		cancel()
	}
	running.Wait()
	for i, l := range g.last {
		e.numbers[i] = g.numbers[i]
		err = errors.Join(err, k.add(l, start))
	}
	return k, err
}

// add counts a client's last transaction.
func (k *killed) add(l lastCommit, start time.Time) error {
	switch {
	case l.err == nil:
		k.committed++
	case errors.Is(l.err, contend.ErrAborted):
		k.aborted++
	default:
		return l.err
	}
	// A client that had nothing in flight at the kill has nothing to resolve.
	if d := l.answered.Sub(start); d > 0 {
		k.resolved = append(k.resolved, d)
	}
	return nil
}

// clientGroup are clients that commit one transaction after the other until stop,
// and then finish the one that they have in flight.
type clientGroup struct {
	server   contend.Server
	stop     atomic.Bool
	inFlight atomic.Int64
	acked    atomic.Int64
	last     []lastCommit
	numbers  []int
}

type lastCommit struct {
	answered time.Time
	err      error
}

func (g *clientGroup) run(ctx context.Context, i int) {
	for !g.stop.Load() {
		g.numbers[i]++
		w := contend.Work{Writer: i, Number: g.numbers[i], Tables: b6Work(i, g.numbers[i])}
		g.inFlight.Add(1)
		err := g.server.Commit(ctx, w)
		g.inFlight.Add(-1)
		g.last[i] = lastCommit{answered: time.Now(), err: err}
		if err != nil && !errors.Is(err, contend.ErrAborted) {
			return
		}
		g.acked.Add(1)
	}
}

func b6Work(client, number int) []int {
	tables := make([]int, b6Spread)
	for i := range tables {
		tables[i] = (client + number + i) % b6Tables
	}
	return tables
}
