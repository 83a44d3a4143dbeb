package e2e_test

import (
	"testing"

	"github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// creates makes a change one that creates its table.
func (w *world) creates(c change) change {
	c.create = &txcoordv1.NewTable{Uri: w.table(c.table), SchemaJson: schema}
	return c
}

// defineScenario is one transaction that writes a table, creates two, one of them
// empty, alters a third, and releases one. What became of them is in one snapshot.
func defineScenario() scenario {
	return scenario{
		client: func(w *world) (act, again func()) {
			w.foreignTable("leaves")
			w.knows("leaves")
			w.knows("fresh")
			w.knows("empty")
			changes := w.rows("left", "fresh")
			changes[1] = w.creates(changes[1])
			changes = append(changes, w.creates(change{table: "empty"}), change{
				table: "right", alter: &txcoordv1.TableAlteration{AddColumns: []*txcoordv1.NewColumn{{Name: "more", Type: "INT"}}},
			})
			var first *client.Result
			act = func() {
				w.register("leaves")
				first = w.defineOnce("define", changes)
			}
			again = func() {
				w.sameSnapshot(first, w.defineOnce("define", changes))
				w.commitOnce("to all", w.rows("left", "fresh", "empty", "right"))
			}
			return act, again
		},
		writes: counted(map[string]int{
			"owner object of leaves": 2, "entry: registered": 1, "manifest 5": 1,
			"entry: committed with a bundle": 1,
			"version 2 of left":              1,
			"owner object of fresh":          1,
			"version 0 of fresh":             1,
			"owner object of empty":          1,
			"version 0 of empty":             1,
			"version 2 of right":             1,
			"entry: published":               1,
			"manifest 6":                     1,
			"delete extract of leaves":       1,
			"delete owner object of leaves":  1,
			"delete bundle of payloads":      1,
		}),
	}
}

// defineOnce commits in one call, and releases the table that leaves.
func (w *world) defineOnce(key string, changes []change) *client.Result {
	w.t.Helper()
	w.begins(w.idOf(key), changes)
	req := onceRequest(key, changes, client.Blind())
	req.Releases = []string{"leaves"}
	r, err := w.client.CommitOnce(w.ctx(), req)
	if err != nil {
		w.t.Errorf("commit %q: %v\n%s", key, err, w.log())
		return nil
	}
	w.commits(r.Outcome)
	return r
}

// TestEnginesReadWhatTransactionsDefine: delta-rs and DuckDB read tables whose version 0
// a transaction wrote, with rows and without, and a table that one altered.
func TestEnginesReadWhatTransactionsDefine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serverConfig{})
	w.start(nil)
	w.create("old", txcoordv1.TableMode_TABLE_MODE_OPEN)
	w.knows("fresh")
	w.knows("empty")
	w.look()
	changes := w.rows("old", "fresh")
	changes[1] = w.creates(changes[1])
	changes[1].create.Properties = map[string]string{"delta.enableInCommitTimestamps": "true", "delta.enableChangeDataFeed": "true"}
	w.commitOnce("define", append(changes, w.creates(change{table: "empty"})))
	all := w.rows("old", "fresh", "empty")
	all[2].alter = &txcoordv1.TableAlteration{
		AddColumns:    []*txcoordv1.NewColumn{{Name: "price", Type: "DECIMAL(10,2)", Comment: "none yet"}},
		SetProperties: map[string]string{"delta.appendOnly": "true"},
	}
	w.commitOnce("alter", all)
	w.commitOnce("append", w.rows("old", "fresh", "empty"))
	w.rest()
	w.readByOthers(2)
}
