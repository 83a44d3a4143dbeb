package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/bench/measure"
)

// B8Serve is the goal of B8: from the start of the process until it serves.
const B8Serve = 2 * time.Second

// b8Part is how many tables a transaction of B8 is over.
const b8Part = 1000

// B8 starts a server on a catalog of many tables, and measures how long it takes until it
// serves, tells the whole snapshot, and has committed on a table that it had not touched.
func B8(ctx context.Context, c Config) (*measure.Result, error) {
	r := &measure.Result{
		Name: "B8", Title: fmt.Sprintf("cold start with %d tables, milliseconds from the process' start", c.Many),
		Columns: []string{"contender", "start", "serving", "whole snapshot", "first commit", "MB", "requests until then"},
	}
	for _, k := range c.Contenders {
		crashable, ok := k.(contend.Crashable)
		if !ok {
			continue
		}
		if err := b8(ctx, c, crashable, r); err != nil {
			return nil, fmt.Errorf("B8 %s: %w", k.Name(), err)
		}
	}
	if len(r.Rows) == 0 {
		return nil, errors.New("B8: none of the contenders has a server process to start")
	}
	r.Note("Each table has a version of ours. The server was killed before each start, at rest.")
	return r, nil
}

func b8(ctx context.Context, c Config, k contend.Crashable, r *measure.Result) (err error) {
	dir := filepath.Join(c.Dir, "b8", k.Name())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	c.progress("B8 %s: %d tables", k.Name(), c.Many)
	s, err := k.OpenServer(ctx, dir, c.Many)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	e := &entry{name: k.Name(), session: s, numbers: map[int]int{}}
	for at := 0; at < c.Many; at += b8Part {
		if err := s.Commit(ctx, e.work(0, count(c.Many)[at:min(at+b8Part, c.Many)])); err != nil {
			return err
		}
	}
	var serving measure.Samples
	for round := range c.Rounds {
		c.progress("B8 %s, start %d of %d", e.name, round+1, c.Rounds)
		t, err := e.cold(ctx, c, s, round)
		if err != nil {
			return err
		}
		serving = append(serving, t.serving)
		r.Add(e.name, round+1, t.serving, t.snapshot, t.commit, t.megabytes, perTransaction(t.requests, 1))
	}
	if _, err := e.check(ctx, nil); err != nil {
		return err
	}
	if e.name == c.Judged {
		r.AtMost(fmt.Sprintf("serving %d tables, median, ms", c.Many), measure.Milliseconds(serving.Median()), measure.Milliseconds(B8Serve))
	}
	return nil
}

// started is what a start took.
type started struct {
	serving, snapshot, commit time.Duration
	megabytes                 float64
	requests                  contend.Requests
}

func (e *entry) cold(ctx context.Context, c Config, s contend.Server, round int) (t started, err error) {
	if err := s.Settle(ctx); err != nil {
		return t, err
	}
	cut, cuts := s.(contend.Cut)
	var before, after map[string]int64
	if cuts {
		if before, err = cut.Snapshot(ctx); err != nil {
			return t, err
		}
	}
	if err := s.Kill(); err != nil {
		return t, err
	}
	start := time.Now()
	if err := errors.Join(s.Start(), s.Serving(ctx)); err != nil {
		return t, err
	}
	t.serving = time.Since(start)
	if cuts {
		if after, err = cut.Snapshot(ctx); err != nil {
			return t, err
		}
		t.snapshot = time.Since(start)
		if len(after) != c.Many || !maps.Equal(before, after) {
			return t, fmt.Errorf("the snapshot after the start has %d tables, or other versions than before", len(after))
		}
	}
	if err := s.Commit(ctx, e.work(0, []int{round % c.Many})); err != nil {
		return t, err
	}
	t.commit = time.Since(start)
	t.requests = s.Requests()
	if w, ok := s.(contend.Weighed); ok {
		bytes, err := w.Memory()
		t.megabytes = float64(bytes) / (1 << 20)
		return t, err
	}
	return t, nil
}
