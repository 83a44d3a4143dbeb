package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/e2e/engines"
	"github.com/txcoord/txcoord/e2e/readers"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// meddler is what somebody else does to the table `left` while the server is dead.
// The killed transaction was to take a file away there and to add one, and to add one
// to `right`.
type meddler struct {
	do func(w *world, victim dataFile)
	// undecided, decided and put say what has to become of the transaction, by how far
	// it was when the server died: nothing was decided, or nothing of it stood in the
	// table yet, or it did.
	undecided, decided, put fate
}

// fate is what becomes of a transaction, and of the table.
type fate int

const (
	delivered fate = iota // in both tables
	refusedOr             // a conflict, or in both tables
	diverges              // given up on left, which is frozen until it is resolved
	replaced              // right has it; left is another table
	untouched             // nobody can write left; nothing is in right
)

func meddlers() map[string]meddler {
	return map[string]meddler{
		"removes": {removesVictim, refusedOr, diverges, delivered},
		"alters":  {altersLeft, refusedOr, delivered, delivered},
		"cleans":  {cleansLeft, delivered, delivered, delivered},
		"drops":   {dropsLeft, untouched, replaced, replaced},
	}
}

// TestKilledAndMeddledWith kills the server around the writes of a commit, has others
// change one of its tables before it is started again, and wants each transaction in
// all of its tables, or where that is not possible any more, to be told so.
func TestKilledAndMeddledWith(t *testing.T) {
	t.Parallel()
	readers.Require(t)
	for name, m := range meddlers() {
		for _, at := range []struct {
			kill
			fate
		}{
			{kill{"entry: committed with a bundle", 1, before}, m.undecided},
			{kill{"entry: committed with a bundle", 1, after}, m.decided},
			{kill{"version 2 of left", 1, before}, m.decided},
			{kill{"version 2 of left", 1, after}, m.put},
			{kill{"entry: published", 1, before}, m.put},
		} {
			t.Run(name+" "+at.kill.String(), func(t *testing.T) {
				t.Parallel()
				meddledWith(t, m, at.kill, at.fate)
			})
		}
	}
}

func meddledWith(t *testing.T, m meddler, k kill, want fate) {
	w := newWorld(t, stormConfig())
	w.start(&k)
	w.create("left", txcoordv1.TableMode_TABLE_MODE_OPEN)
	w.create("right", txcoordv1.TableMode_TABLE_MODE_OPEN)
	w.look()
	seed := w.rows("left", "right")
	w.commitOnce("seed", seed)
	w.settle()
	w.arm()
	victim := seed[0].adds[0]
	changes := []change{
		{table: "left", removes: []dataFile{victim}, adds: []dataFile{write(t, w.table("left"), 3, 100)}},
		{table: "right", adds: []dataFile{write(t, w.table("right"), 3, 0)}},
	}
	w.begins(w.idOf("killed"), changes)
	answered := make(chan error, 1)
	ctx := w.ctx()
	go func() { answered <- w.tryOnce(ctx, "killed", changes) }()
	if !w.ended(startLimit) || !w.wasKilled() {
		t.Fatalf("the server was not killed %s\n%s", k, w.log())
	}
	m.do(w, victim)
	w.start(nil)
	w.meets(want, <-answered)
}

// tryOnce commits what was read at version 1 and books the answer.
func (w *world) tryOnce(ctx context.Context, key string, changes []change) error {
	r, err := w.client.CommitOnce(ctx, onceRequest(key, changes, client.AtVersion(1, nil)))
	switch {
	case err == nil:
		w.commits(r.Outcome)
	case errors.Is(err, client.ErrAborted):
		w.refuses(w.idOf(key))
	}
	return err
}

// meets checks what became of the transaction, and goes on with both tables, or with
// the one that is left.
func (w *world) meets(want fate, err error) {
	w.t.Helper()
	if want == untouched || want == replaced {
		w.without("left")
	}
	switch want {
	case delivered, replaced:
		if err != nil {
			w.t.Errorf("the transaction is answered with %v\n%s", err, w.log())
		}
	case refusedOr:
		if err != nil && !errors.Is(err, client.ErrConflict) {
			w.t.Errorf("the transaction is answered with %v\n%s", err, w.log())
		}
	case diverges:
		if err != nil {
			w.t.Errorf("the transaction is answered with %v\n%s", err, w.log())
		}
		w.resolved("left", txcoordv1.FreezeCause_FREEZE_CAUSE_DIVERGED)
	case untouched:
		if err == nil {
			w.t.Error("committed, although the table is another one")
		}
	}
	w.tellsAgain("killed")
	if want == replaced || want == untouched {
		w.frozenFor("left", txcoordv1.FreezeCause_FREEZE_CAUSE_REPLACED)
		if want == untouched {
			w.commitOnce("afterwards", w.rows("right"))
		}
		w.judge(false)
		return
	}
	// What is staged while nobody has seen a metadata change yet would lose against it.
	w.waitFor("the end of left's log to be seen", func() bool {
		_, err := os.Stat(filepath.Join(w.table("left"), "_delta_log", fmt.Sprintf("%020d.json", versionIn(w.snapshot(), "left")+1)))
		return errors.Is(err, os.ErrNotExist)
	})
	w.commitOnce("afterwards", w.rows("left", "right"))
	w.rest()
	w.nothingFrozen()
}

// tellsAgain takes the newest answer into the books: parts may have been given up.
func (w *world) tellsAgain(key string) {
	w.t.Helper()
	o, err := w.client.OutcomeOfKey(w.ctx(), key)
	if err == nil && o.GetCommitted() != nil {
		w.commits(o)
	}
}

func (w *world) frozenFor(table string, cause txcoordv1.FreezeCause) {
	w.t.Helper()
	w.waitFor(fmt.Sprintf("%s to be frozen: %s", table, cause), func() bool {
		r, err := w.client.Tables.DescribeTable(w.ctx(), &txcoordv1.DescribeTableRequest{Table: table})
		return err == nil && r.GetTable().GetFreeze().GetCause() == cause
	})
}

// resolved is an operator's word on a table that froze.
func (w *world) resolved(table string, cause txcoordv1.FreezeCause) {
	w.t.Helper()
	w.frozenFor(table, cause)
	if _, err := w.client.Operations.ResolveTable(w.ctx(), &txcoordv1.ResolveTableRequest{Table: table, Reason: "looked at it"}); err != nil {
		w.t.Errorf("resolve %s: %v", table, err)
	}
}

// foreignVersion puts a version of somebody else's at the end of a table's log.
func (w *world) foreignVersion(table string, lines ...string) {
	w.t.Helper()
	info := fmt.Sprintf(`{"commitInfo":{"timestamp":%d,"operation":"WRITE","engineInfo":"somebody else"}}`, time.Now().UnixMilli())
	text := strings.Join(append([]string{info}, lines...), "\n") + "\n"
	name := filepath.Join(w.table(table), "_delta_log", fmt.Sprintf("%020d.json", replay(w.table(table)).version+1))
	whole := filepath.Join(w.config.Dir, filepath.Base(name))
	if err := os.WriteFile(whole, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Link(whole, name); err != nil {
		w.t.Fatal(err)
	}
}

// removesVictim takes away the file that the transaction takes away, or if it is gone
// already, all that is there.
func removesVictim(w *world, victim dataFile) {
	var lines []string
	files := replay(w.table("left")).files
	if _, there := files[victim.path]; there {
		files = map[string]int64{victim.path: victim.size}
	}
	for path, size := range files {
		lines = append(lines, strings.TrimSpace(string(dataFile{path: path, size: size}.remove())))
	}
	w.foreignVersion("left", lines...)
}

func altersLeft(w *world, _ dataFile) {
	meta := replay(w.table("left")).metaData
	meta["configuration"] = map[string]any{"owner": "somebody else"}
	line, err := json.Marshal(map[string]any{"metaData": meta})
	if err != nil {
		w.t.Fatal(err)
	}
	w.foreignVersion("left", string(line))
}

// cleansLeft: a delta-rs writes, makes a checkpoint, and days later removes what is
// below it.
func cleansLeft(w *world, _ dataFile) {
	rs := engines.StartDeltaRS(w.t)
	do := func(operation string, a engines.Arguments) {
		if _, err := rs.Do(w.ctx(), operation, w.table("left"), a); err != nil {
			w.t.Fatal(err)
		}
	}
	do("append", engines.Arguments{"first": 0, "rows": 1})
	do("create_checkpoint", nil)
	newest := replay(w.table("left")).version
	for v := range newest {
		if err := os.Remove(filepath.Join(w.table("left"), "_delta_log", fmt.Sprintf("%020d.json", v))); err != nil {
			w.t.Fatal(err)
		}
	}
}

func dropsLeft(w *world, _ dataFile) {
	if err := os.RemoveAll(w.table("left")); err != nil {
		w.t.Fatal(err)
	}
	w.foreignTable("left")
}

// without has everything that concerns a table left out of what is checked: it is
// another one now.
func (w *world) without(table string) {
	w.lookNoMore()
	w.history, w.gone = nil, table
}
