package tables_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore"
)

// durables notes what is asked for as something that is durable, by the objects' names.
type durables struct {
	objstore.Store
	mu    sync.Mutex // commits are read several at once
	asked map[string]bool
}

func (d *durables) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked[strings.TrimPrefix(key, tableKey+"/_delta_log/")] = objstore.IsDurable(ctx)
	return d.Store.Get(ctx, key, r)
}

// TestRecordedCommitsAreDurable: Load and Tail say of the commits that they are durable, with
// an extract and without, with row tracking and without, and of nothing else; State, which
// reads logs that nobody recorded, says it of nothing.
func TestRecordedCommitsAreDurable(t *testing.T) {
	for _, c := range []struct {
		name   string
		make   func(*testing.T) *kept
		shelve bool
	}{
		{"extract", plainKept, true},
		{"checkpoint", plainKept, false},
		{"row tracking", func(t *testing.T) *kept {
			k := newKept(t)
			k.commit(featureProtocol(nil, []string{"rowTracking", "domainMetadata"}), metaOf(schemaJSON, nil, ""))
			return k
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := c.make(t)
			if c.shelve {
				k.shelf()
			}
			k.commit(addLine("a"), addLine("b"))
			k.checkpoint()
			k.commit(removedAt("a", time.Hour), addLine("c"))
			cfg := k.cfg.Log
			cfg.ReadCheckpoint = checkpoint.Read
			for what, call := range map[string]func(*tables.Log) error{
				"Load": k.loadOf, "Tail": k.tailOf,
				"State": func(l *tables.Log) error { _, err := l.State(t.Context(), tables.Latest); return err },
			} {
				d := &durables{Store: cfg.Store, asked: map[string]bool{}}
				cfg.Store = d
				if err := call(tables.NewLog(cfg)); err != nil {
					t.Fatal(err)
				}
				cfg.Store = d.Store
				want := map[string]bool{"_last_checkpoint": false, name(2, "json"): what != "State"}
				if at := name(1, "checkpoint.parquet"); d.asked[at] {
					t.Errorf("%s: %s is said to be durable", what, at)
				}
				delete(d.asked, name(1, "checkpoint.parquet"))
				if diff := cmp.Diff(want, d.asked); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
		})
	}
}
