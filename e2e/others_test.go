package e2e_test

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/txcoord/txcoord/e2e/readers"
	"github.com/txcoord/txcoord/lock/boltstore"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// readByOthers has delta-rs and DuckDB open all tables at the versions of so many
// snapshots, spread over all of them, and at the newest, and compares with the
// clients' own books. Without the engines it skips or fails, as package readers says.
func (w *world) readByOthers(snapshots int) {
	w.t.Helper()
	w.t.(*testing.T).Run("others", func(t *testing.T) {
		p := readers.Require(t)
		latest := w.snapshot()
		var all []*txcoordv1.Snapshot
		for _, number := range spreadOver(uint64(len(w.tables)), latest.GetVersion(), snapshots) {
			s, err := w.client.SnapshotAt(w.ctx(), number)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		got := w.ask(t, p, all)
		for _, s := range all {
			w.agrees(t, s, got, w.totalsAt(s.GetVersion()))
		}
		for name, want := range w.totalsAt(latest.GetVersion()) {
			if got[at{name, readers.Latest}] != want {
				t.Errorf("newest version of %s: engines read %v, clients put %v there", name, got[at{name, readers.Latest}], want)
			}
		}
	})
}

// spreadOver are n numbers from first to last, both among them.
func spreadOver(first, last uint64, n int) []uint64 {
	var all []uint64
	for i := range n {
		all = append(all, first+(last-first)*uint64(i)/uint64(max(n-1, 1)))
	}
	return slices.Compact(all)
}

// at is a version of a table.
type at struct {
	table   string
	version int64
}

// ask has both engines read the tables at all snapshots' versions and the newest.
// They must agree.
func (w *world) ask(t *testing.T, p *readers.Python, snapshots []*txcoordv1.Snapshot) map[at]totals {
	t.Helper()
	var queries []readers.Query
	for _, table := range w.tables {
		q := readers.Query{Name: table.Name, Path: table.Path, Latest: true, Sums: []string{"amount"}}
		for _, s := range snapshots {
			q.Versions = append(q.Versions, versionIn(s, table.Name))
		}
		q.Versions = slices.Compact(q.Versions) // snapshots never go back
		queries = append(queries, q)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	results, err := p.ReadAgreed(ctx, queries...)
	if err != nil {
		t.Fatal(err)
	}
	got := map[at]totals{}
	for _, r := range results {
		amount, err := strconv.ParseInt(r.Sums["amount"], 10, 64)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		got[at{r.Name, r.Version}] = totals{rows: r.Count, amount: amount}
	}
	return got
}

// agrees compares what engines read at a snapshot with the books, and wants the
// amounts of all tables to add up to nothing.
func (w *world) agrees(t *testing.T, s *txcoordv1.Snapshot, got map[at]totals, want map[string]totals) {
	t.Helper()
	sum := int64(0)
	for _, table := range w.tables {
		read := got[at{table.Name, versionIn(s, table.Name)}]
		if read != want[table.Name] {
			t.Errorf("snapshot %d: engines read %v in %s, clients put %v there", s.GetVersion(), read, table.Name, want[table.Name])
		}
		sum += read.amount
	}
	if sum != 0 {
		t.Errorf("snapshot %d: the amounts that engines read add up to %d", s.GetVersion(), sum)
	}
}

// storeKeys lists the keys with prefixes. The server must not run.
func (w *world) storeKeys(prefixes ...string) []string {
	w.t.Helper()
	store, err := boltstore.Open(filepath.Join(w.config.Dir, "store.db"), boltstore.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer store.Close()
	var keys []string
	for _, prefix := range prefixes {
		for last := ""; ; {
			items, err := store.Scan(w.ctx(), prefix, last, 0)
			if err != nil {
				w.t.Fatal(err)
			}
			if len(items) == 0 {
				break
			}
			for _, item := range items {
				keys, last = append(keys, item.Key), item.Key
			}
		}
	}
	return keys
}
