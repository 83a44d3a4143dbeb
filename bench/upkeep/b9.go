package upkeep

import (
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/txcoord/txcoord/bench/measure"
)

// The goals of B9, for a million live files.
const (
	b9Files  = 1_000_000
	B9Memory = 250.0 // MB above idle
	B9Full   = 4 * time.Second
	B9More   = 200 * time.Millisecond // V2, for 1,000 adds more
	moreAdds = 1_000
)

// B9 measures checkpoints of a table with many live files: the first one, from the
// JSON commits, and the next one after 1,000 more adds, in both forms.
func B9(ctx context.Context, c Config) (*measure.Result, error) {
	r := &measure.Result{
		Name: "B9", Title: fmt.Sprintf("checkpoint of %d live files, and another one after %d more adds", c.Files, moreAdds),
		Columns: []string{"form", "checkpoint", "s", "processor s", "MB above idle", "checkpoint MB", "sidecars", "of them kept", "requests"},
	}
	for _, policy := range []string{"classic", "v2"} {
		if err := b9(ctx, c, policy, r); err != nil {
			return nil, fmt.Errorf("B9, %s: %w", policy, err)
		}
	}
	r.Note("one process per checkpoint; memory is its highest resident set less that before it began; %d MB of commits.", b9Size(c.Files)>>20)
	return r, nil
}

// b9Size is what the commits take, roughly.
func b9Size(files int) int64 { return int64(files) * int64(len(file(files).AddLine())) }

func b9(ctx context.Context, c Config, policy string, r *measure.Result) error {
	dir := filepath.Join(c.Dir, "b9-"+policy)
	c.progress("B9 %s: writing the commits of %d files", policy, c.Files)
	t, err := grown(ctx, dir, policy, c.Files)
	if err != nil {
		return err
	}
	for _, what := range []string{"of all", "after 1,000 more"} {
		if what != "of all" {
			if err := t.change(moreAdds, 0); err != nil {
				return err
			}
		}
		c.progress("B9 %s: checkpoint %s", policy, what)
		o, err := step{opCheckpoint, dir}.run(ctx)
		if err != nil {
			return err
		}
		if o.Files != int64(t.made) || o.Version != int64(t.next-1) {
			return fmt.Errorf("a checkpoint of version %d with %d files, want %d with %d", o.Version, o.Files, t.next-1, t.made)
		}
		r.Add(policy, what, o.took().Seconds(), o.CPU.Seconds(), o.above(), float64(o.Bytes)/1e6, o.Sidecars, o.Reused, requests(o.Requests))
		b9Goals(r, c, policy, what == "of all", o)
	}
	return nil
}

func b9Goals(r *measure.Result, c Config, policy string, full bool, o outcome) {
	if c.Files < b9Files {
		return // the goals are for a million
	}
	if o.Peak > 0 {
		r.AtMost(fmt.Sprintf("%s, MB above idle", policy), o.above(), B9Memory)
	}
	switch {
	case full:
		r.AtMost(policy+", seconds", o.took().Seconds(), B9Full.Seconds())
	case policy == "v2":
		r.AtMost("v2, seconds after 1,000 more adds", o.took().Seconds(), B9More.Seconds())
	}
}

// requests writes them as "get 3, put 1".
func requests(n map[string]int64) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%s %d", kind, n[kind]))
	}
	return strings.Join(parts, ", ")
}

func perSecond(n float64, d time.Duration) float64 {
	return math.Round(n / max(d.Seconds(), 1e-9))
}
