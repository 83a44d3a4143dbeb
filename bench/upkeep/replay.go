package upkeep

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/txcoord/txcoord/bench/measure"
	"github.com/txcoord/txcoord/e2e/readers"
)

// ReplayRatio is the goal: no slower than delta-rs.
const ReplayRatio = 1.0

// In each version of the table that is replayed.
const (
	replayAdds    = 10
	replayRemoves = 5
)

// reader is somebody who opens the table.
type reader struct {
	name string
	// rival is the reader of delta-rs that does the same.
	rival string
	open  func(ctx context.Context, dir string) (outcome, error)
	seen  measure.Samples
	last  outcome
}

// Replay measures how long a log without a checkpoint takes to open, ours and
// delta-rs' reader in turns, on the same files.
func Replay(ctx context.Context, c Config) (*measure.Result, error) {
	t, err := newTable(filepath.Join(c.Dir, "replay"), "classic")
	for err == nil && t.next <= c.Versions {
		err = t.change(replayAdds, replayRemoves)
	}
	if err != nil {
		return nil, err
	}
	r := &measure.Result{
		Name: "replay", Title: fmt.Sprintf("open a log of %d versions without a checkpoint, %.1f MB", t.next, float64(t.size)/1e6),
		Columns: []string{"reader", "ms", "ms by round", "versions/s", "MB/s", "x delta-rs", "MB above idle", "requests"},
	}
	all := readersOf(ctx, r)
	for round := range c.Rounds {
		for i := range all {
			k := all[(round+i)%len(all)]
			c.progress("replay, round %d of %d: %s", round+1, c.Rounds, k.name)
			if k.last, err = k.open(ctx, t.dir); err != nil {
				return nil, fmt.Errorf("replay, %s: %w", k.name, err)
			}
			if want := int64(t.made - t.gone); k.last.Files != want {
				return nil, fmt.Errorf("replay, %s: %d live files, want %d", k.name, k.last.Files, want)
			}
			k.seen = append(k.seen, k.last.took())
		}
	}
	for _, k := range all {
		k.report(r, t, all)
	}
	r.Note("a process of its own each time; the time of opening, without the start of the process; the files in the page cache.")
	return r, nil
}

const (
	rivalOpens = "delta-rs, DeltaTable(path)"
	rivalLists = "delta-rs, and file_uris()"
)

// readersOf are ours, and delta-rs where it can be had.
func readersOf(ctx context.Context, r *measure.Result) []*reader {
	ours := func(what op) func(context.Context, string) (outcome, error) {
		return func(ctx context.Context, dir string) (outcome, error) { return step{what, dir}.run(ctx) }
	}
	all := []*reader{
		{name: "txcoord, state", rival: rivalOpens, open: ours(opState)},
		{name: "txcoord, live files", rival: rivalLists, open: ours(opFiles)},
	}
	p, err := readers.Open(ctx)
	if err != nil {
		r.Note("delta-rs is not here: %v", err)
		return all
	}
	theirs := func(took func(readers.Opened) time.Duration) func(context.Context, string) (outcome, error) {
		return func(ctx context.Context, dir string) (outcome, error) {
			o, err := p.Opened(ctx, dir)
			return outcome{Nanoseconds: int64(took(o)), Files: o.Files, Version: o.Version, Idle: o.Idle, Peak: o.Peak}, err
		}
	}
	return append(all,
		&reader{name: rivalOpens, open: theirs(func(o readers.Opened) time.Duration { return o.Opened })},
		&reader{name: rivalLists, open: theirs(func(o readers.Opened) time.Duration { return o.Listed })})
}

func (k *reader) report(r *measure.Result, t *table, all []*reader) {
	m := k.seen.Median()
	ratio, asked := any("-"), "not seen"
	if k.rival != "" {
		asked = requests(k.last.Requests)
	}
	for _, o := range all {
		if o.name == k.rival {
			x := float64(m) / float64(max(o.seen.Median(), 1))
			r.AtMost(k.name+", median, x delta-rs", x, ReplayRatio)
			ratio = x
		}
	}
	r.Add(k.name, m, fmt.Sprintf("%.0f-%.0f", measure.Milliseconds(k.seen.Quantile(0)), measure.Milliseconds(k.seen.Quantile(1))),
		perSecond(float64(t.next), m), float64(t.size)/1e6/m.Seconds(), ratio, k.last.above(), asked)
}
