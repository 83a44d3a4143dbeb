package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/bench/measure"
)

// B1Limit is the highest ratio of a transaction's time to the floor's: two appends
// to the store and the puts of all its tables at once.
const B1Limit = 1.3

// B1 measures how long one transaction takes until readers can see it, for
// transactions over 1, 10, 50 tables, one at a time.
func B1(ctx context.Context, c Config) (*measure.Result, error) {
	r := &measure.Result{
		Name: "B1", Title: "one transaction at a time, milliseconds until readers can see it",
		Columns: []string{"tables", "contender", "n", "p50", "p99", "p50 by round", "x bare", "x bare by round", "requests per transaction"},
	}
	for _, t := range c.Tables {
		if err := b1(ctx, c, t, r); err != nil {
			return nil, fmt.Errorf("B1 with %d tables: %w", t, err)
		}
	}
	r.Note("%d rounds, each %d transactions per contender, in turns of %d; durable writes on.", c.Rounds, c.Transactions, b1Turn)
	return r, nil
}

func b1(ctx context.Context, c Config, tables int, r *measure.Result) (err error) {
	what := fmt.Sprintf("b1-%d", tables)
	entries, err := c.openAll(ctx, what, append([]contend.Contender{c.Bare}, c.Contenders...), tables)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll(entries)) }()
	for _, e := range entries {
		if _, err := b1Block(ctx, e, tables, b1Turn); err != nil {
			return fmt.Errorf("warm up %s: %w", e.name, err)
		}
		if err := e.begin(ctx); err != nil {
			return fmt.Errorf("warm up %s: %w", e.name, err)
		}
	}
	for round := range c.Rounds {
		c.progress("B1 tables %d, round %d of %d", tables, round+1, c.Rounds)
		if err := b1Round(ctx, c, entries, tables); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if _, err := e.check(ctx, nil); err != nil {
			return err
		}
		if err := b1Row(ctx, c, tables, e, entries[0], r); err != nil {
			return err
		}
	}
	b1Halves(tables, entries[0], r)
	if c.Simulated {
		b1Simulated(c, tables, entries, r)
	}
	return nil
}

// The goals of B1 over simulated stores, against dstor, which does one table after the
// other: how many times faster transactions over ten tables are answered.
const (
	B1Published = 10.0
	B1Decided   = 60.0
	b1Many      = 10
)

func b1Simulated(c Config, tables int, entries []*entry, r *measure.Result) {
	medians := map[string]float64{}
	for _, e := range entries {
		medians[e.name] = float64(e.rounds.All().Median())
	}
	goal := func(name string, limit float64) {
		if ours, theirs := medians[name], medians["dstor"]; tables == b1Many && ours > 0 && theirs > 0 {
			r.AtLeast(fmt.Sprintf("%s, %d tables, median, x faster than dstor", name, tables), theirs/ours, limit)
		}
	}
	goal(c.Judged, B1Published)
	goal(c.Judged+Decided, B1Decided)
}

// b1Turn is how many transactions a contender makes before it is another's turn:
// few, since a shared machine's mood changes within seconds.
const b1Turn = 5

// b1Round lets every contender make the round's transactions, taking turns.
func b1Round(ctx context.Context, c Config, entries []*entry, tables int) error {
	samples := make([]measure.Samples, len(entries))
	passes := (c.Transactions + b1Turn - 1) / b1Turn
	err := turns(passes, len(entries), func(pass, i int) error {
		s, err := b1Block(ctx, entries[i], tables, min(b1Turn, c.Transactions-pass*b1Turn))
		samples[i] = append(samples[i], s...)
		return err
	})
	for i, e := range entries {
		e.rounds = append(e.rounds, samples[i])
	}
	return err
}

func b1Block(ctx context.Context, e *entry, tables, transactions int) (measure.Samples, error) {
	var samples measure.Samples
	for range transactions {
		w := e.work(0, count(tables))
		start := time.Now()
		if err := e.session.Commit(ctx, w); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		samples = append(samples, time.Since(start))
	}
	return samples, nil
}

func b1Row(ctx context.Context, c Config, tables int, e, bare *entry, r *measure.Result) error {
	all := e.rounds.All()
	requests, err := e.requests(ctx, c, fmt.Sprintf("b1-%d", tables), tables, len(all), func(e *entry) (int, error) {
		return e.apart(ctx, 2*b1Turn, func(int, int) []int { return count(tables) })
	})
	if err != nil {
		return fmt.Errorf("count requests of %s: %w", e.name, err)
	}
	low, high := e.rounds.Spread()
	ratio := float64(all.Median()) / float64(max(bare.rounds.All().Median(), 1))
	least, most := measure.Range(ratios(e.rounds, bare.rounds))
	r.Add(tables, e.name, len(all), all.Median(), all.Quantile(0.99), spread(low, high), ratio,
		fmt.Sprintf("%.2f-%.2f", least, most), requests)
	if e.name == c.Judged {
		r.AtMost(fmt.Sprintf("%s, %d tables, median, x bare", e.name, tables), ratio, cmp.Or(c.B1Limit, B1Limit))
	}
	return nil
}

// ratios compares the medians of each round.
func ratios(a, b measure.Rounds) []float64 {
	var all []float64
	for i := range a {
		if i < len(b) && b[i].Median() > 0 {
			all = append(all, float64(a[i].Median())/float64(b[i].Median()))
		}
	}
	return all
}

// b1Halves says what the floor consists of.
func b1Halves(tables int, bare *entry, r *measure.Result) {
	s, ok := bare.session.(*contend.BareSession)
	if !ok {
		return
	}
	appends, puts := s.Halves()
	r.Note("bare, %d tables: two appends %.2f ms, puts %.2f ms (medians).", tables,
		measure.Milliseconds(appends.Median()), measure.Milliseconds(puts.Median()))
}
