package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/twophase"
)

// commitScenario is one transaction over three tables in one call. The client
// library repeats it over the restart.
func commitScenario() scenario {
	return scenario{
		client: func(w *world) (act, again func()) {
			changes := w.rows("left", "middle", "right")
			var first *client.Result
			act = func() { first = w.commitOnce("killed", changes) }
			again = func() { w.sameSnapshot(first, w.commitOnce("killed", changes)) }
			return act, again
		},
		writes: counted(map[string]int{
			"entry: committed with a bundle": 1,
			"version 2 of left":              1,
			"version 2 of middle":            1,
			"version 2 of right":             1,
			"entry: published":               1,
			"manifest 5":                     1,
			"delete bundle of payloads":      1,
		}),
	}
}

// decidedScenario is the same transaction, answered when it is decided: from then on it
// has to become visible, wherever the server dies.
func decidedScenario() scenario {
	s := commitScenario()
	s.fenced = true
	s.client = func(w *world) (act, again func()) {
		changes := w.rows("left", "middle", "right")
		act = func() {
			w.begins(w.idOf("killed"), changes)
			req := onceRequest("killed", changes, client.Blind())
			req.Wait = txcoordv1.Wait_WAIT_DECIDED
			r, err := w.client.CommitOnce(w.ctx(), req)
			if err != nil {
				w.t.Errorf("commit that is to be answered when it is decided: %v\n%s", err, w.log())
				return
			}
			w.commits(r.Outcome)
		}
		again = func() {
			if r := w.commitOnce("killed", changes); r != nil && r.Snapshot() == 0 {
				w.t.Errorf("answered as decided, and not published: %v", r.Outcome)
			}
		}
		return act, again
	}
	return s
}

// refuseScenario is a transaction that loses, and is told so over the restart.
func refuseScenario() scenario {
	return scenario{
		client: func(w *world) (act, again func()) {
			changes := w.rows("left", "middle", "right")
			act = func() { w.refusedOnce("killed", changes) }
			return act, act
		},
		writes: counted(map[string]int{
			"entry: aborted": 1,
		}),
	}
}

// stageScenario is Begin, three Stages, one of them too large for the store, and
// Commit. If the job is killed together with the server, it starts again under its
// key; else the client library repeats the call that has no answer.
func stageScenario(jobDies bool) scenario {
	s := scenario{
		writes: counted(map[string]int{
			"advisory of 0 tables": 1, "advisory of 1 tables": 1, "advisory of 2 tables": 1, "advisory of 3 tables": 1,
			"payload of left":                1,
			"payload of middle":              1,
			"payload object of right":        1,
			"facts object":                   1,
			"entry: committed":               1,
			"version 2 of left":              1,
			"version 2 of middle":            1,
			"version 2 of right":             1,
			"entry: published":               1,
			"manifest 5":                     1,
			"delete payload of left":         1,
			"delete payload of middle":       1,
			"delete payload object of right": 1,
			"delete advisory":                1,
		}),
	}
	s.config.Limits.FactsBytes = 4 << 10
	s.client = func(w *world) (act, again func()) {
		changes := append(w.rows("left", "middle"), large("right", 1000))
		var first *client.Result
		act = func() {
			if !jobDies {
				first = w.stageAndCommit(w.ctx(), "killed", changes)
				return
			}
			w.stageAndCommit(w.untilKilled(), "killed", changes)
			first = w.stageAndCommit(w.ctx(), "killed", changes)
		}
		again = func() { w.sameSnapshot(first, w.stageAndCommit(w.ctx(), "killed", changes)) }
		return act, again
	}
	return s
}

// untilKilled is a context that ends when the server was killed, or when all is
// done if it is not to be.
func (w *world) untilKilled() context.Context {
	ctx, cancel := context.WithCancel(w.ctx())
	go func() {
		defer cancel()
		w.ended(startLimit)
	}()
	return ctx
}

// stageAndCommit is a job. It goes on only when its advisory record is written, so
// that every run makes the same writes. An ended context ends it without a word.
func (w *world) stageAndCommit(ctx context.Context, key string, changes []change) *client.Result {
	r, err := w.client.Transact(ctx, key, func(tx *client.Tx) error {
		w.begins(tx.ID(), changes)
		w.advised(ctx, 0)
		for i, c := range changes {
			if _, err := tx.Stage(ctx, c.table, client.Blind(), c.lines()); err != nil {
				return err
			}
			w.advised(ctx, i+1)
		}
		return nil
	})
	switch {
	case ctx.Err() != nil && err != nil:
	case err != nil:
		w.t.Errorf("job %q: %v\n%s", key, err, w.log())
	default:
		w.published(ctx, r)
		w.commits(r.Outcome)
	}
	return r
}

// published waits for a transaction that an earlier life of the job has committed.
func (w *world) published(ctx context.Context, r *client.Result) {
	for r.Snapshot() == 0 && ctx.Err() == nil {
		o, err := w.client.OutcomeOfKey(ctx, r.Outcome.GetKey())
		if err != nil {
			w.t.Errorf("%v\n%s", err, w.log())
			return
		}
		r.Outcome = o
		time.Sleep(5 * time.Millisecond)
	}
}

// advised waits until the record of so many tables is written, or cannot be any more.
func (w *world) advised(ctx context.Context, tables int) {
	name := fmt.Sprintf("advisory of %d tables", tables)
	for ctx.Err() == nil && !w.wasKilled() && !slices.Contains(w.landed(), name) {
		time.Sleep(2 * time.Millisecond)
	}
}

// large is a change of many files, which are not there.
func large(table string, files int) change {
	c := change{table: table}
	for range files {
		f := dataFile{path: uuid.NewString() + ".parquet"}
		f.add = fmt.Appendf(nil, `{"add":{"path":%q,"partitionValues":{},"size":1,"modificationTime":1,"dataChange":true,`+
			`"stats":"{\"numRecords\":0}"}}`+"\n", f.path)
		c.adds = append(c.adds, f)
	}
	return c
}

// tablesScenario creates a table, registers one that is there, and releases it.
func tablesScenario() scenario {
	return scenario{
		client: func(w *world) (act, again func()) {
			w.foreignTable("old")
			w.knows("new")
			w.knows("old")
			act = func() {
				w.admin("create", func(ctx context.Context) error {
					_, err := w.client.Tables.CreateTable(ctx, &txcoordv1.CreateTableRequest{Name: "new", Uri: w.table("new"), SchemaJson: schema})
					return err
				})
				w.register("old")
				w.commitOnce("to both", w.rows("new", "old"))
				w.admin("release", func(ctx context.Context) error {
					_, err := w.client.Tables.ReleaseTable(ctx, &txcoordv1.ReleaseTableRequest{Table: "old"})
					if errors.Is(err, client.ErrNotFound) && w.wasKilled() {
						return nil // it was released, and the answer lost
					}
					return err
				})
			}
			again = func() {
				w.register("old")
				w.commitOnce("to both again", w.rows("new", "old", "middle"))
			}
			return act, again
		},
		writes: counted(map[string]int{
			"owner object of new": 2, "version 0 of new": 1, "entry: created": 1, "manifest 5": 1,
			"owner object of old": 2, "entry: registered": 1, "manifest 6": 1,
			"entry: committed with a bundle": 1, "version 1 of new": 1, "version 1 of old": 1, "entry: published": 1, "manifest 7": 1,
			"entry: released": 1, "delete extract of old": 1, "delete owner object of old": 1, "manifest 8": 1,
			"delete bundle of payloads": 1,
		}),
	}
}

// foreignTable is a table that somebody else made.
func (w *world) foreignTable(name string) {
	w.t.Helper()
	log := filepath.Join(w.table(name), "_delta_log")
	if err := os.MkdirAll(log, 0o755); err != nil {
		w.t.Fatal(err)
	}
	commit := fmt.Appendf(nil, `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`+"\n"+
		`{"metaData":{"id":%q,"format":{"provider":"parquet","options":{}},"schemaString":%q,"partitionColumns":[],"configuration":{},"createdTime":1}}`+"\n",
		uuid.NewString(), schema)
	if err := os.WriteFile(filepath.Join(log, fmt.Sprintf("%020d.json", 0)), commit, 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) admin(what string, call func(context.Context) error) {
	w.t.Helper()
	if err := call(w.ctx()); err != nil {
		w.t.Errorf("%s: %v\n%s", what, err, w.log())
	}
}

func (w *world) register(name string) {
	w.t.Helper()
	w.admin("register "+name, func(ctx context.Context) error {
		_, err := w.client.Tables.RegisterTable(ctx, &txcoordv1.RegisterTableRequest{Name: name, Uri: w.table(name)})
		return err
	})
}

// sameSnapshot: the same call, answered twice, says the same.
func (w *world) sameSnapshot(a, b *client.Result) {
	w.t.Helper()
	if a == nil || b == nil || a.Snapshot() == 0 || a.Snapshot() != b.Snapshot() {
		w.t.Errorf("the same call answers %v, then %v", a, b)
	}
}

// rows are a change of each of the tables, whose amounts add up to nothing.
func (w *world) rows(tables ...string) []change {
	var all []change
	sum := int64(0)
	for i, name := range tables {
		amount := int64(100 + i)
		if i == len(tables)-1 {
			amount = -sum
		}
		sum += amount
		all = append(all, change{table: name, adds: []dataFile{write(w.t, w.table(name), 3, amount)}})
	}
	return all
}

// onceRequest is a transaction in one call.
func onceRequest(key string, changes []change, read *txcoordv1.ReadDeclaration) *txcoordv1.CommitOnceRequest {
	req := &txcoordv1.CommitOnceRequest{Key: key}
	for _, c := range changes {
		t := &txcoordv1.OnceTable{Table: c.table, Actions: c.lines(), Create: c.create, Alter: c.alter}
		if c.create == nil && c.alter == nil {
			t.Read = read
		}
		req.Tables = append(req.Tables, t)
	}
	return req
}

// commitOnce commits in one call, which must succeed.
func (w *world) commitOnce(key string, changes []change) *client.Result {
	w.t.Helper()
	w.begins(w.idOf(key), changes)
	r, err := w.client.CommitOnce(w.ctx(), onceRequest(key, changes, client.Blind()))
	if err != nil {
		w.t.Errorf("commit %q: %v\n%s", key, err, w.log())
		return nil
	}
	w.commits(r.Outcome)
	return r
}

// refusedOnce tries a commit that has read tables before they were changed.
func (w *world) refusedOnce(key string, changes []change) {
	w.t.Helper()
	w.begins(w.idOf(key), changes)
	_, err := w.client.CommitOnce(w.ctx(), onceRequest(key, changes, client.AtVersion(0, client.WholeTable())))
	if !errors.Is(err, client.ErrConflict) {
		w.t.Errorf("commit of what was read before it changed: got %v, want a conflict\n%s", err, w.log())
		return
	}
	w.refuses(w.idOf(key))
}

// idOf is the id of a key's first attempt.
func (w *world) idOf(key string) string {
	return twophase.DeriveTxnID(w.catalogID(), key, 1).String()
}

func (w *world) catalogID() string {
	w.t.Helper()
	w.asked.Do(func() {
		st, err := w.client.Status.GetStatus(w.ctx(), &txcoordv1.GetStatusRequest{})
		if err != nil {
			w.t.Errorf("%v\n%s", err, w.log())
		}
		w.catalog = st.GetCatalogId()
	})
	return w.catalog
}
