package scenario

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/bench/measure"
)

// The goals of B7: MB that are live in the journal's store, temporary objects that stay,
// MB of memory for a million transactions more, and entries of the journal, each of which
// is a sync, per transaction.
const (
	B7Store   = 50.0
	B7Slope   = 64.0
	B7Entries = 0.1
	b7Looks   = 10
	b7Peers   = 300 // transactions of those whose residue is compared
)

// B7 makes many transactions over three of many tables, and looks at what is left of them
// beside the tables' logs.
func B7(ctx context.Context, c Config) (*measure.Result, error) {
	r := &measure.Result{
		Name: "B7", Title: fmt.Sprintf("%d transactions over three of %d tables", c.Growth, c.Spread),
		Columns: []string{"contender", "transactions", "store MB", "server MB", "temporary objects", "entries per transaction", "requests per transaction"},
	}
	for _, k := range c.Contenders {
		ours := k.Name() == c.Judged || k.Name() == c.Judged+Ungathered
		if !ours && k.Name() != "dstor" {
			continue
		}
		if err := b7(ctx, c, counting(k), ours, r); err != nil {
			return nil, fmt.Errorf("B7 %s: %w", k.Name(), err)
		}
	}
	if len(r.Rows) == 0 {
		return nil, errors.New("B7: neither " + c.Judged + " nor dstor takes part")
	}
	r.Note("Temporary objects: drafts, staged parts, and copies of commits, once all is at rest.")
	return r, nil
}

func b7(ctx context.Context, c Config, k contend.Contender, ours bool, r *measure.Result) (err error) {
	e, err := c.open(ctx, "b7", k, c.Spread)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.session.Close()) }()
	writers := slices.Max(c.Writers)
	looks, each := b7Looks, max(c.Growth/writers/b7Looks, 1)
	if !ours {
		looks, each = 1, max(min(b7Peers, c.Growth)/writers, 1)
	}
	made := 0
	var last grown
	var memory []float64
	for look := range looks {
		c.progress("B7 %s, %d of %d", e.name, look+1, looks)
		n, err := e.each(ctx, writers, each, func(w, n int) []int {
			at := dice(w, n).IntN(c.Spread)
			return []int{at, (at + 1) % c.Spread, (at + 2) % c.Spread}
		})
		if err != nil {
			return err
		}
		made += n
		if last, err = e.grown(ctx, filepath.Join(c.Dir, "b7", e.name)); err != nil {
			return err
		}
		memory = append(memory, last.memory)
		requests := e.session.Requests().Minus(e.before)
		last.entries = float64(requests["key put"]) / float64(made)
		r.Add(e.name, made, last.store, last.memory, last.temporary, last.entries, perTransaction(requests, made))
	}
	if _, err := e.check(ctx, nil); err != nil {
		return err
	}
	if e.name != c.Judged {
		return nil
	}
	half := memory[len(memory)/2]
	more := float64(made) * float64(len(memory)-1-len(memory)/2) / float64(len(memory)) / 1e6
	r.AtMost(e.name+", store, MB", last.store, B7Store)
	r.AtMost(e.name+", temporary objects", float64(last.temporary), 0)
	r.AtMost(e.name+", entries per transaction", last.entries, B7Entries)
	r.AtMost(e.name+", memory in the second half, MB per million", (memory[len(memory)-1]-half)/max(more, 1e-9), B7Slope)
	return nil
}

// grown is what there is.
type grown struct {
	store, memory, entries float64
	temporary              int
}

func (e *entry) grown(ctx context.Context, dir string) (g grown, err error) {
	if err := e.session.Settle(ctx); err != nil {
		return g, err
	}
	if s, ok := e.session.(contend.Sized); ok {
		bytes, err := s.StoreBytes(ctx)
		if err != nil {
			return g, err
		}
		g.store = float64(bytes) / 1e6
	}
	if s, ok := e.session.(contend.Weighed); ok {
		bytes, err := s.Memory()
		if err != nil {
			return g, err
		}
		g.memory = float64(bytes) / 1e6
	}
	g.temporary, err = temporaries(dir)
	return g, err
}

// temporaries counts files that are not meant to stay.
func temporaries(dir string) (n int, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(path)
		if !d.IsDir() && (strings.HasSuffix(slashed, ".tmp") || strings.Contains(slashed, "/.tmp/") || strings.Contains(slashed, "/staged/")) {
			n++
		}
		return nil
	})
	return n, err
}
