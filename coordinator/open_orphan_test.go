package coordinator_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// TestOrphansExpireOverStarts: a staged part of a transaction that nobody knows is listed with
// a deadline from when it was found first. Starts do not move that; gc counts the part as too
// young until then, and it is swept.
func TestOrphansExpireOverStarts(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	w := &world{}
	w.cfg.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("1", blind("t", "1"))
	w.settle()
	before := w.garbage().Young.Count
	id := twophase.TxnID{7}
	part := fmt.Sprintf("_txcoord/%s/staged/%020d/%s/%s/%s", w.catalog.Name(), 1, id, w.info("t").ID, twophase.Hash{2})
	w.stop()
	w.put(part, "of nobody")
	w.start()
	var deadline time.Time
	for n := range 3 {
		w.eventually("it is listed as open", func() bool {
			list, err := w.catalog.List(w.ctx(), coordinator.ListRequest{PageSize: 10})
			if err != nil || len(list.Open) != 1 || list.Open[0].Txn != id {
				return false
			}
			if got := list.Open[0].Deadline; n == 0 {
				deadline = got
			} else if !got.Equal(deadline) {
				t.Errorf("after start %d its deadline is %s, and was %s", n, got, deadline)
			}
			return true
		})
		w.eventually("its record is there", func() bool {
			item, err := w.store.Get(w.ctx(), "open/"+id.String())
			if err != nil && !errors.Is(err, lock.ErrNotFound) {
				t.Fatal(err)
			}
			return strings.Contains(string(item.Value), string(w.info("t").ID))
		})
		if got := w.garbage().Young.Count; got != before+1 {
			t.Errorf("gc counts %d too young, and %d before", got, before)
		}
		later.Add(int64(5 * time.Hour))
		w.restart()
	}
	later.Add(int64(24 * time.Hour))
	w.restart()
	w.eventually("it is swept", func() bool { return w.keys()["object: "+part] == "" })
	w.eventually("its record is gone", func() bool {
		_, err := w.store.Get(w.ctx(), "open/"+id.String())
		return errors.Is(err, lock.ErrNotFound)
	})
}

func (w *world) garbage() coordinator.GarbageReport {
	w.t.Helper()
	r, err := w.catalog.CollectGarbage(w.ctx(), coordinator.GarbageRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}
