package coordinator_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

func ownerKey(table string) string { return table + "/_delta_log/_txcoord/owner.json" }

func (w *world) owner(table string) (o tables.Owner) {
	w.t.Helper()
	raw, _, err := w.objects.Get(w.ctx(), ownerKey(table), objstore.Range{})
	if err == nil {
		err = json.Unmarshal(raw, &o)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// The owner object says what a rebuild wants to know, also of a table that an older
// build claimed, and follows the table's mode.
func TestOwnerObjectFollowsTheTable(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.OwnerInterval = 5 * time.Millisecond
	w.open(t)
	info := w.createWith(coordinator.CreateRequest{Name: "t", Schema: schema, Mode: twophase.ModeExclusive, OneTxnPerVersion: true})
	want := tables.Owner{
		Format: 1, Catalog: w.owner("t").Catalog, Incarnation: w.owner("t").Incarnation, Table: info.ID, Name: "t", Mode: "exclusive", OneTxnPerVersion: true,
	}
	if d := cmp.Diff(want, w.owner("t")); d != "" {
		t.Errorf("created (-want +got): %s", d)
	}
	if _, err := w.catalog.SetMode(w.ctx(), "t", twophase.ModeOpen); err != nil {
		t.Fatal(err)
	}
	want.Mode = "open"
	if d := cmp.Diff(want, w.owner("t")); d != "" {
		t.Errorf("opened (-want +got): %s", d)
	}
	older := want
	older.Name, older.Mode, older.OneTxnPerVersion = "", "", false
	raw, err := json.Marshal(older)
	if err != nil {
		t.Fatal(err)
	}
	w.put(ownerKey("t"), string(raw))
	w.eventually("an older build's is brought up to date", func() bool { return w.owner("t") == want })
}

// A catalog one of whose tables belongs to a newer life of it is over: it decides
// nothing, and what it had decided is not put any more.
func TestSupersededCatalogStops(t *testing.T) {
	t.Parallel()
	gate := newGate()
	var looks atomic.Int64
	w := &world{wrapObjects: func(s objstore.Store) objstore.Store {
		return objtest.Faulty{Store: gate.over(s), Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			if op.Kind != objtest.Put && strings.HasPrefix(op.Key, "t/_delta_log/") {
				looks.Add(1)
			}
			return objtest.Done()
		}}
	}}
	w.cfg.Limits.OwnerInterval = 5 * time.Millisecond
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.create("other", twophase.ModeExclusive)
	gate.refuse()
	pending := w.background("pending", blind("t", "pending"))
	w.eventually("it is decided", func() bool { return w.info("t").Pending == 1 })
	newer := w.owner("other")
	newer.Incarnation = strings.Repeat("f", 32)
	raw, err := json.Marshal(newer)
	if err != nil {
		t.Fatal(err)
	}
	w.put(ownerKey("other"), string(raw))
	w.eventually("it has seen that", func() bool {
		err := w.tag(w.catalog.Tag(w.ctx(), "nothing", 0))
		var own *coordinator.Error
		return errors.As(err, &own) && own.Reason == coordinator.JournalContradiction
	})
	gate.release()
	// It was decided before, is in no log, and will be in none.
	w.saysNothingOf("pending", <-pending, coordinator.JournalContradiction)
	before := looks.Load()
	w.eventually("the publisher has looked again", func() bool { return looks.Load() > before+10 })
	wantReason(t, "a commit", second(w.try("k2", blind("t", "2"))), coordinator.JournalContradiction)
	w.stop()
	if w.versions("t") != 1 || w.owner("other").Incarnation != newer.Incarnation {
		t.Errorf("t has %d versions, and the owner is %+v", w.versions("t"), w.owner("other"))
	}
}
