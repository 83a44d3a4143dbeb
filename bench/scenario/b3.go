package scenario

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/txcoord/txcoord/bench/measure"
)

// The goals of B3, in acknowledged transactions a second, and of the skewed choice's
// part of the even one's. Where the journal is in etcd, B3Decided with answers DECIDED
// over three tables, while what was answered is published at no less than B3KeptUp of
// the rate at which it was answered.
const (
	B3One     = 4000.0
	B3Three   = 2500.0
	B3Skewed  = 0.7
	B3Decided = 2000.0
	B3KeptUp  = 0.9
	b3Own     = 3
	b3Skew    = 0.99
	b3Shared  = 8
)

// b3Shape is which tables transactions are over.
type b3Shape struct {
	name   string
	tables shape
}

// b3Shapes are those of B3, over so many tables.
func b3Shapes(tables int) []b3Shape {
	zipf := newZipf(tables, b3Skew)
	return []b3Shape{
		{"one of its own", func(w, _ int) []int { return []int{b3Own * w} }},
		{"three of its own", func(w, _ int) []int { return []int{b3Own * w, b3Own*w + 1, b3Own*w + 2} }},
		{"any one", func(w, n int) []int { return []int{dice(w, n).IntN(tables)} }},
		{fmt.Sprintf("any one, Zipf %v", b3Skew), func(w, n int) []int { return []int{zipf.draw(dice(w, n).Float64())} }},
		{fmt.Sprintf("one of %d for all", b3Shared), func(w, _ int) []int { return []int{w % b3Shared} }},
	}
}

// dice are a transaction's own: every contender gets the same throws.
func dice(writer, number int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(writer), uint64(number)))
}

// zipf draws numbers of which each is rarer than the one before.
type zipf []float64 // sums of the weights up to each

func newZipf(n int, skew float64) zipf {
	sums := make(zipf, n)
	sum := 0.0
	for i := range sums {
		sum += math.Pow(float64(i+1), -skew)
		sums[i] = sum
	}
	return sums
}

// draw is the number at a place between 0 and 1.
func (z zipf) draw(at float64) int {
	return min(sort.SearchFloat64s(z, at*z[len(z)-1]), len(z)-1)
}

// B3 measures what many writers get done over many tables: each on its own, or on any.
func B3(ctx context.Context, c Config) (r *measure.Result, err error) {
	writers := slices.Max(c.Writers)
	tables := max(c.Spread, b3Own*writers)
	r = &measure.Result{
		Name: "B3", Title: fmt.Sprintf("%d writers over %d tables, each with one transaction in flight", writers, tables),
		Columns: []string{
			"tables", "contender", "acked/s", "acked/s by round", "published/s", "aborted", "p50 ms", "p99 ms", "slowest/fastest writer",
			"drained ms", "requests per transaction",
		},
	}
	entries, err := c.openAll(ctx, "b3", c.Contenders, tables)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeAll(entries)) }()
	seen := b3Seen{}
	for _, s := range b3Shapes(tables) {
		if err := b3(ctx, c, s, writers, entries, seen, r); err != nil {
			return nil, fmt.Errorf("B3, %s: %w", s.name, err)
		}
	}
	for _, e := range entries {
		if _, err := e.check(ctx, nil); err != nil {
			return nil, err
		}
	}
	b3Goals(c, b3Shapes(tables), seen, r)
	r.Note("%s per line, in %d rounds in turn; durable writes on. Published: acknowledged, over the time until the last of them was published.",
		c.Duration, c.Rounds)
	return r, nil
}

// b3Seen is what was seen, by shape and contender.
type b3Seen map[[2]string]burst

func b3(ctx context.Context, c Config, s b3Shape, writers int, entries []*entry, seen b3Seen, r *measure.Result) error {
	for _, e := range entries {
		if err := e.begin(ctx); err != nil {
			return err
		}
	}
	bursts := make([][]burst, len(entries))
	err := turns(c.Rounds, len(entries), func(round, i int) error {
		c.progress("B3 %s, round %d of %d: %s", s.name, round+1, c.Rounds, entries[i].name)
		b, err := entries[i].drive(ctx, writers, c.Duration/time.Duration(c.Rounds), s.tables)
		bursts[i] = append(bursts[i], b)
		return err
	})
	if err != nil {
		return err
	}
	for i, e := range entries {
		t := total(bursts[i])
		seen[[2]string{s.name, e.name}] = t
		requests := "not seen"
		if e.session.Requests() != nil {
			if requests, err = e.counted(ctx, t.sum()); err != nil {
				return err
			}
		}
		var rates []float64
		for _, b := range bursts[i] {
			rates = append(rates, b.rate())
		}
		low, high := measure.Range(rates)
		r.Add(s.name, e.name, t.rate(), fmt.Sprintf("%.0f-%.0f", low, high), t.publishedRate(), t.aborted, t.samples.Median(),
			t.samples.Quantile(0.99), t.share(), t.rest, requests)
	}
	b3Turns(c.Judged, s.name, entries, bursts, r)
	return nil
}

// b3Turns notes how often other servers of ours answered, beside the judged one in the same
// round.
func b3Turns(judged, shape string, entries []*entry, bursts [][]burst, r *measure.Result) {
	at := slices.IndexFunc(entries, func(e *entry) bool { return e.name == judged })
	for i, e := range entries {
		if at < 0 || len(bursts[i]) < 2 || !strings.HasPrefix(e.name, judged+"-") {
			continue
		}
		var x []float64
		for n, b := range bursts[i] {
			x = append(x, b.rate()/max(bursts[at][n].rate(), 1))
		}
		r.Note("%s, %s, acknowledged/s, x that of %s in the same round: %s.", e.name, shape, judged, about(x))
	}
}

func b3Goals(c Config, shapes []b3Shape, seen b3Seen, r *measure.Result) {
	one, three, even, skewed := shapes[0].name, shapes[1].name, shapes[2].name, shapes[3].name
	decided := c.Judged + Decided
	for _, s := range shapes {
		if t, ok := seen[[2]string{s.name, c.Judged}]; ok {
			r.AtMost(fmt.Sprintf("%s, %s, aborted", c.Judged, s.name), float64(t.aborted), 0)
		}
	}
	if t, ok := seen[[2]string{even, c.Judged}]; ok {
		r.AtLeast(fmt.Sprintf("%s, %s / %s", c.Judged, skewed, even), seen[[2]string{skewed, c.Judged}].rate()/max(t.rate(), 1), B3Skewed)
	}
	if t, ok := seen[[2]string{one, c.Judged}]; ok && !c.Simulated && !c.Etcd {
		r.AtLeast(fmt.Sprintf("%s, %s, acknowledged/s", c.Judged, one), t.rate(), B3One)
		r.AtLeast(fmt.Sprintf("%s, %s, acknowledged/s", c.Judged, three), seen[[2]string{three, c.Judged}].rate(), B3Three)
	}
	t, ok := seen[[2]string{three, decided}]
	if !ok || !c.Etcd {
		return
	}
	r.AtLeast(fmt.Sprintf("%s, %s, acknowledged/s", decided, three), t.rate(), B3Decided)
	r.AtLeast(fmt.Sprintf("%s, %s, published/s of acknowledged/s", decided, three), t.publishedRate()/max(t.rate(), 1), B3KeptUp)
	if bare, ok := seen[[2]string{one, "occ"}]; ok {
		r.Note("The object store took %.0f puts a second from as many writers with nothing else to do (occ, %s).", bare.rate(), one)
	}
}

// publishedRate is rate, over the time until everything was published.
func (b burst) publishedRate() float64 {
	return float64(b.sum()) / (b.elapsed + b.drained).Seconds()
}
