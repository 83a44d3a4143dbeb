package coordinator_test

import (
	"strings"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

func TestOneCallCommitsSeveralTables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.create(name, twophase.ModeOpen)
	}
	o, _, err := w.catalog.CommitOnce(w.ctx(), coordinator.OnceRequest{Key: "k1", Tables: []coordinator.OnceTable{
		blind("a", "1.parquet"), blind("b", "1.parquet"), blind("c", "1.parquet"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if o.Committed == nil || o.Committed.Snapshot != 4 || len(o.Committed.Tables) != 3 {
		t.Fatalf("outcome %+v", o)
	}
	for _, d := range o.Committed.Tables {
		if d.Version != 1 || d.Status != twophase.StatusPublished {
			t.Errorf("table %s: %+v", d.Name, d)
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		if got := w.read(name, 1); !strings.Contains(got, `"1.parquet"`) || !strings.Contains(got, o.Txn.String()) {
			t.Errorf("table %s version 1: %s", name, got)
		}
	}
	w.restart()
	again, _, err := w.catalog.CommitOnce(w.ctx(), coordinator.OnceRequest{Key: "k1", Tables: []coordinator.OnceTable{
		blind("a", "1.parquet"), blind("b", "1.parquet"), blind("c", "1.parquet"),
	}})
	if err != nil || again.Txn != o.Txn {
		t.Fatalf("repeated: %+v, %v", again, err)
	}
}
