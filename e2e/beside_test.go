package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/e2e/readers"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// TestEnginesReadEverySnapshot lets two engines read three tables of real Parquet
// files at every snapshot there is, with two kills among them.
func TestEnginesReadEverySnapshot(t *testing.T) {
	t.Parallel()
	readers.Require(t)
	w := newWorld(t, serverConfig{})
	w.start(nil)
	for _, name := range []string{"orders", "items", "customers"} {
		w.create(name, txcoordv1.TableMode_TABLE_MODE_OPEN)
	}
	w.look()
	for i := range 18 {
		tables := []string{"orders", "items", "customers"}
		w.commitOnce(fmt.Sprintf("order %d", i), w.rows(tables[i%2:]...))
		if i%7 == 5 {
			w.kill()
			w.start(nil)
		}
	}
	w.rest()
	if n := w.snapshot().GetVersion(); n != 3+18 {
		t.Errorf("%d snapshots, want one for each table and each transaction", n)
	}
	w.readByOthers(3 + 18)
}

// TestDeltaRSAppendsBesideUs has a delta-rs process append to an open table while
// we commit to it and to another one, and while our server is killed.
func TestDeltaRSAppendsBesideUs(t *testing.T) {
	t.Parallel()
	p := readers.Require(t)
	w := newWorld(t, stormConfig())
	w.start(nil)
	w.create("shared", txcoordv1.TableMode_TABLE_MODE_OPEN)
	w.create("ours", txcoordv1.TableMode_TABLE_MODE_EXCLUSIVE)
	w.look()
	const batches, rows = 25, 3
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	other, err := p.StartAppend(ctx, readers.Append{
		Path: w.table("shared"), Batches: batches, Rows: rows, Constants: map[string]any{"amount": 0}, Pause: 60 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	foreign := appended(other)
	ours := 0
	for done := false; !done; ours++ {
		select {
		case <-foreign.done:
			done = true
		default:
		}
		if ours == 4 {
			w.kill()
			w.start(nil)
		}
		// After the last batch, too: this commit absorbs it.
		w.commitOnce(fmt.Sprintf("beside %d", ours), w.rows("shared", "ours"))
	}
	w.rest()
	if err := errors.Join(foreign.err...); err != nil || len(foreign.versions) != batches {
		t.Fatalf("delta-rs has %d versions: %v", len(foreign.versions), err)
	}
	newest := versionIn(w.snapshot(), "shared")
	for v := range foreign.versions {
		if v >= newest {
			t.Errorf("version %d of delta-rs is above the last one of ours, %d", v, newest)
		}
	}
	// What is found while a round is open comes into the round's snapshot (R18).
	named := w.foreignSnapshots("shared")
	for v := range named {
		if !foreign.versions[v] {
			t.Errorf("a snapshot names version %d as foreign, and delta-rs does not know it", v)
		}
	}
	if len(named) == 0 {
		t.Error("no version of delta-rs has a snapshot of its own")
	}
	t.Logf("%d versions of delta-rs, %d with snapshots of their own, among %d transactions of ours", batches, len(named), ours)
	w.countsAll(t, p, "shared", int64(batches*rows))
	w.countsAll(t, p, "ours", 0)
}

// foreigners are the versions that another writer says it made.
type foreigners struct {
	done     chan struct{}
	versions map[int64]bool
	err      []error
}

func appended(a *readers.Appender) *foreigners {
	f := &foreigners{done: make(chan struct{}), versions: map[int64]bool{}}
	go func() {
		defer close(f.done)
		for {
			b, err := a.Next()
			switch {
			case errors.Is(err, io.EOF):
				_, err = a.Wait()
				f.err = append(f.err, err)
				return
			case err == nil && b.Error != "":
				err = errors.New(b.Error)
			}
			f.err = append(f.err, err)
			f.versions[b.Version] = true
		}
	}()
	return f
}

// foreignSnapshots lists the versions of a table that manifests of kind "foreign" bring.
func (w *world) foreignSnapshots(table string) map[int64]bool {
	w.t.Helper()
	dir := filepath.Join(w.warehouse(), "_txcoord", "default", "manifests")
	entries, err := os.ReadDir(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	found := map[int64]bool{}
	for _, e := range entries {
		var m struct {
			Snapshots []struct {
				Kind   string
				Tables []struct {
					Name    string
					Version int64
				}
			}
		}
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err == nil {
			err = json.Unmarshal(raw, &m)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		for _, s := range m.Snapshots {
			for _, t := range s.Tables {
				if s.Kind == "foreign" && t.Name == table && !strings.Contains(e.Name(), "checkpoint") {
					found[t.Version] = true
				}
			}
		}
	}
	return found
}

// countsAll wants a table to hold what our clients put there and so many rows more,
// at its newest version and at the latest snapshot's, which are the same.
func (w *world) countsAll(t *testing.T, p *readers.Python, table string, more int64) {
	t.Helper()
	s := w.snapshot()
	got := w.ask(t, p, []*txcoordv1.Snapshot{s})
	want := w.totalsAt(s.GetVersion())[table]
	want.rows += more
	for _, v := range []int64{readers.Latest, versionIn(s, table)} {
		if got[at{table, v}] != want {
			t.Errorf("%s at version %d: engines read %v, want %v", table, v, got[at{table, v}], want)
		}
	}
}
