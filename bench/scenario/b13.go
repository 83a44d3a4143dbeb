package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/bench/measure"
)

// The goals of B13, for transactions over three tables: dollars of dstor's where writers
// have tables of their own, and where they share them; and puts per transaction, at most
// one for each table and a manifest.
const (
	B13Own    = 0.45
	B13Shared = 0.04
	b13Puts   = b3Own + 1
)

// b13Part is one way to spend money.
type b13Part struct {
	name    string
	writers int
	tables  shape
}

// drive has each writer make so many transactions; a writer who is alone leaves nothing
// undone between them.
func (p b13Part) drive(ctx context.Context, e *entry, transactions int) (committed int, err error) {
	if p.writers == 1 {
		return e.apart(ctx, transactions, p.tables)
	}
	return e.each(ctx, p.writers, transactions, p.tables)
}

func b13Parts(writers int) []b13Part {
	parts := []b13Part{}
	for _, t := range []int{1, 3, 10} {
		parts = append(parts, b13Part{fmt.Sprintf("one at a time, %d tables", t), 1, func(int, int) []int { return count(t) }})
	}
	return append(parts,
		b13Part{fmt.Sprintf("%d writers on one table", writers), writers, oneTable},
		b13Part{fmt.Sprintf("%d writers, three of their own", writers), writers, b3Shapes(1)[1].tables},
		b13Part{fmt.Sprintf("%d writers on the same three", writers), writers, func(int, int) []int { return count(b3Own) }})
}

// B13 counts the requests of transactions, and what they cost by list prices.
func B13(ctx context.Context, c Config) (r *measure.Result, err error) {
	writers := slices.Max(c.Writers)
	parts := b13Parts(writers)
	r = &measure.Result{
		Name: "B13", Title: "what a million transactions cost on S3 and DynamoDB, in dollars",
		Columns: []string{"transactions", "contender", "n", "$ per million", "of dstor's", "requests per transaction", "write units", "read units"},
	}
	var entries []*entry
	defer func() { err = errors.Join(err, closeAll(entries)) }()
	for _, k := range c.Contenders {
		if k.Name() == "occ" {
			continue // it leaves transactions over the same three tables in no common order, as the checker finds
		}
		e, err := c.open(ctx, "b13", counting(k), max(b3Own*writers, 10))
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	for i, p := range parts {
		if err := b13(ctx, c, p, i == 1, i == 4, i == 5, entries, r); err != nil {
			return nil, fmt.Errorf("B13, %s: %w", p.name, err)
		}
	}
	for _, e := range entries {
		if _, err := e.check(ctx, nil); err != nil {
			return nil, err
		}
	}
	r.Note("Prices for a million: PUT and LIST $%v, GET and HEAD $%v, a KiB written $%v, 4 KiB read $%v; %d transactions per writer.",
		contend.PricePut, contend.PriceGet, contend.PriceWriteUnit, contend.PriceReadUnit, c.Transactions)
	return r, nil
}

func b13(ctx context.Context, c Config, p b13Part, alone, own, shared bool, entries []*entry, r *measure.Result) error {
	prices, seen := map[string]float64{}, map[string]contend.Requests{}
	committed := map[string]int{}
	for _, e := range entries {
		c.progress("B13 %s: %s", p.name, e.name)
		if _, err := e.each(ctx, p.writers, 1, p.tables); err != nil { // to warm up
			return err
		}
		if err := e.begin(ctx); err != nil {
			return err
		}
		n, err := p.drive(ctx, e, c.Transactions)
		if err != nil {
			return err
		}
		if err := e.session.Settle(ctx); err != nil {
			return err
		}
		if e.session.Requests() == nil {
			return fmt.Errorf("the requests of %s cannot be seen", e.name)
		}
		seen[e.name], committed[e.name] = e.session.Requests().Minus(e.before), max(n, 1)
		prices[e.name] = 1e6 * contend.Price(seen[e.name]) / float64(committed[e.name])
	}
	for _, e := range entries {
		of := "not there"
		if d := prices["dstor"]; d > 0 {
			of = fmt.Sprintf("%.3f", prices[e.name]/d)
		}
		n, q := float64(committed[e.name]), seen[e.name]
		r.Add(p.name, e.name, committed[e.name], prices[e.name], of, perTransaction(q, committed[e.name]),
			float64(q[contend.WriteUnits])/n, float64(q[contend.ReadUnits])/n)
		if e.name == c.Judged {
			b13Goals(p.name, e.name, q, n, prices, alone, own, shared, r)
		}
	}
	return nil
}

func b13Goals(part, name string, q contend.Requests, n float64, prices map[string]float64, alone, own, shared bool, r *measure.Result) {
	r.AtMost(fmt.Sprintf("%s, %s, get, head and list", name, part), float64(q["get"]+q["head"]+q["list"])/n, 0)
	if alone || own {
		r.AtMost(fmt.Sprintf("%s, %s, puts", name, part), float64(q["put"]+q["put refused"])/n, b13Puts)
	}
	dstor := prices["dstor"]
	switch {
	case dstor == 0:
	case own:
		r.AtMost(fmt.Sprintf("%s, %s, $ of dstor's", name, part), prices[name]/dstor, B13Own)
	case shared:
		r.AtMost(fmt.Sprintf("%s, %s, $ of dstor's", name, part), prices[name]/dstor, B13Shared)
	}
}
