// Package scenario holds the benchmarks: what is driven, what is measured, and
// what the figures have to be.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/bench/measure"
	"github.com/txcoord/txcoord/e2e/checker"
)

// Config says how large a run is.
type Config struct {
	// Dir is where each session gets a fresh folder.
	Dir string
	// Bare is the floor that B1 and B2 compare with.
	Bare contend.Bare
	// Contenders take turns in every run.
	Contenders []contend.Contender
	// Judged is the name of the contender that the goals are for, and with Decided
	// behind it that of the same one that answers when transactions are decided.
	Judged string
	// Simulated: the stores take the time of S3 and DynamoDB, and the goals are others.
	Simulated bool
	// Etcd: the journal is in an etcd, and B3 has a goal of its own.
	Etcd bool
	// Spread is the number of tables of B3 and B7, Many that of B8.
	Spread, Many int
	// History is how many transactions there were before those of B6; 0 for none.
	History int
	// Growth is the number of transactions of B7.
	Growth int
	// Outage is how long the object store fails in B12, and Rate how many transactions
	// begin there in a second.
	Outage time.Duration
	Rate   int
	// Rounds is how often the contenders take turns.
	Rounds int
	// B1Limit is B1's goal if it is not the constant of that name.
	B1Limit float64
	// Transactions, per round and contender, of B1.
	Transactions int
	// Tables per transaction, for B1.
	Tables []int
	// Writers on one table, for B2.
	Writers []int
	// Duration of B2, per contender and number of writers, over all rounds.
	Duration time.Duration
	// Races of B4, per round and contender.
	Races int
	// InFlight is the number of clients of B6, Warm how long they run before each kill.
	InFlight int
	Warm     time.Duration
	// Progress gets a line now and then; nil is silent.
	Progress io.Writer
}

// Decided ends the name of a contender that answers DECIDED.
const Decided = "-decided"

// Observed is how the name of a contender ends that is looked at: with metrics,
// traces, and a token that each call shows.
const Observed = "-observed"

// Ungathered is how the name of a contender ends that waits for nobody before an entry.
const Ungathered = "-ungathered"

// Benchmark is one of the benchmarks.
type Benchmark func(context.Context, Config) (*measure.Result, error)

// Benchmarks are all of them, by name.
func Benchmarks() map[string]Benchmark {
	return map[string]Benchmark{"B1": B1, "B2": B2, "B3": B3, "B4": B4, "B6": B6, "B7": B7, "B8": B8, "B12": B12, "B13": B13}
}

func (c Config) progress(format string, args ...any) {
	if c.Progress != nil {
		fmt.Fprintf(c.Progress, format+"\n", args...)
	}
}

// entry is a contender in a run, with its session and what was seen of it.
type entry struct {
	name string
	// counts is a session of the same contender whose requests can be seen, where
	// those of session cannot; else nil.
	counts  contend.Contender
	session contend.Session
	rounds  measure.Rounds
	before  contend.Requests
	numbers map[int]int
}

// open opens a session in a fresh folder below the run's.
func (c Config) open(ctx context.Context, what string, k contend.Contender, tables int) (*entry, error) {
	dir := filepath.Join(c.Dir, what, k.Name())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	s, err := k.Open(ctx, dir, tables)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", k.Name(), err)
	}
	e := &entry{name: k.Name(), session: s, numbers: map[int]int{}}
	if err := e.begin(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", k.Name(), err), s.Close())
	}
	if c, ok := k.(contend.Counted); ok && e.before == nil {
		e.counts = c.Counted()
	}
	return e, nil
}

// begin has the requests counted from here on. What the session still does for what it
// was asked before is waited for: a manifest, or the removal of something staged, that
// comes later than the answer counted as the next transaction's.
func (e *entry) begin(ctx context.Context) error {
	if err := e.session.Settle(ctx); err != nil {
		return err
	}
	e.before = e.session.Requests()
	return nil
}

// counted are the requests since begin, to the last one that they left to be made.
func (e *entry) counted(ctx context.Context, transactions int) (string, error) {
	if err := e.session.Settle(ctx); err != nil {
		return "", err
	}
	return perTransaction(e.session.Requests().Minus(e.before), transactions), nil
}

// requests are what transactions asked of the stores, on average. If the session
// does not tell, some are made for this alone in another one, after the times were
// taken: first some that do not count, then some that do.
func (e *entry) requests(ctx context.Context, c Config, what string, tables, transactions int, drive func(*entry) (int, error)) (text string, err error) {
	if e.counts == nil {
		return e.counted(ctx, transactions)
	}
	twin, err := c.open(ctx, what+"-counted", e.counts, tables)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, twin.session.Close()) }()
	if _, err := drive(twin); err != nil {
		return "", err
	}
	if err := twin.begin(ctx); err != nil {
		return "", err
	}
	n, err := drive(twin)
	if err != nil {
		return "", err
	}
	return twin.counted(ctx, n)
}

// openAll opens the contenders' sessions. On an error those already open are closed.
func (c Config) openAll(ctx context.Context, what string, contenders []contend.Contender, tables int) ([]*entry, error) {
	var entries []*entry
	for _, k := range contenders {
		e, err := c.open(ctx, what, k, tables)
		if err != nil {
			return nil, errors.Join(err, closeAll(entries))
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func closeAll(entries []*entry) error {
	var errs []error
	for _, e := range entries {
		errs = append(errs, e.session.Close())
	}
	return errors.Join(errs...)
}

// work is a writer's next transaction.
func (e *entry) work(writer int, tables []int) contend.Work {
	e.numbers[writer]++
	return contend.Work{Writer: writer, Number: e.numbers[writer], Tables: tables}
}

// check lets the session come to rest and the checker judge it.
func (e *entry) check(ctx context.Context, schema *checker.Schema) (*checker.Report, error) {
	if err := e.session.Settle(ctx); err != nil {
		return nil, fmt.Errorf("%s does not come to rest: %w", e.name, err)
	}
	books := e.session.Books()
	books.Schema = schema
	report, err := checker.Check(books)
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", e.name, err)
	}
	if err := report.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", e.name, err)
	}
	return report, nil
}

// turns calls each contender once a round, starting with another one each time.
func turns(rounds, contenders int, each func(round, contender int) error) error {
	for r := range rounds {
		for i := range contenders {
			if err := each(r, (r+i)%contenders); err != nil {
				return err
			}
		}
	}
	return nil
}

// perTransaction writes requests as averages: "key put 2, put 10".
func perTransaction(r contend.Requests, transactions int) string {
	if r == nil {
		return "not seen"
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(r)) {
		if kind == contend.WriteUnits || kind == contend.ReadUnits {
			continue // these are no requests: see Price
		}
		if n := math.Round(100*float64(r[kind])/float64(max(transactions, 1))) / 100; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %v", kind, n))
		}
	}
	return strings.Join(parts, ", ")
}

func count(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func spread(low, high time.Duration) string {
	return fmt.Sprintf("%.2f-%.2f", measure.Milliseconds(low), measure.Milliseconds(high))
}
