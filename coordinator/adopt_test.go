package coordinator_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// lateList shows no open transaction in a list, as one does that was read before they began;
// and finds the record of one only when it has been asked for it so many times. Other replicas
// are not in sight, so that to sweep is the business of who sees so little.
type lateList struct {
	lock.Store
	key   string
	blind *atomic.Int64
}

func (s lateList) Scan(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
	if prefix == "open/" || prefix == "replica/" {
		return nil, nil
	}
	return s.Store.Scan(ctx, prefix, after, limit)
}

func (s lateList) Get(ctx context.Context, key string) (lock.Item, error) {
	if key == s.key && s.blind.Add(-1) >= 0 {
		return lock.Item{}, lock.ErrNotFound
	}
	return s.Store.Get(ctx, key)
}

// TestAnotherReplicasTransactionIsNotAdopted: what a sweep finds staged may be of a transaction
// that began at another replica since the last look at the list of those. It stays what it is:
// its record, its key and its deadline, at both.
func TestAnotherReplicasTransactionIsNotAdopted(t *testing.T) {
	t.Parallel()
	for name, blindFor := range map[string]int{"its record is there": 0, "its record comes while it is adopted": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := sharedWorld("one:1", time.Hour)
			one.cfg.Limits.InlineBytes = 1 // parts are objects, which the sweep of a start lists
			one.open(t)
			one.create("t", twophase.ModeExclusive)
			b, err := one.catalog.Begin(one.ctx(), coordinator.BeginRequest{Key: "job"})
			if err != nil {
				t.Fatal(err)
			}
			one.stage(b.Token, blind("t", "1"))
			record := func() string {
				item, err := one.store.Get(one.ctx(), "open/"+b.Txn.String())
				if err != nil {
					return ""
				}
				return string(item.Value)
			}
			one.eventually("its record is written for good", func() bool { return strings.Contains(record(), `"bytes"`) })
			before := record()
			var misses atomic.Int64
			misses.Store(int64(blindFor))
			two := one.replica(t, func(r *world) {
				r.cfg.Address = "two:1"
				r.wrapStore = func(s lock.Store) lock.Store { return lateList{s, "open/" + b.Txn.String(), &misses} }
			})
			listed := func(w *world) (out coordinator.OpenTxn) {
				list, err := w.catalog.List(w.ctx(), coordinator.ListRequest{PageSize: 10})
				if err != nil {
					t.Fatal(err)
				}
				if len(list.Open) > 0 {
					out = list.Open[0]
				}
				return out
			}
			two.eventually("it is listed by its key", func() bool { return listed(two).Key == "job" })
			if got, want := listed(two).Deadline, listed(one).Deadline; !got.Equal(want) {
				t.Errorf("its deadline is %s at the other replica, want %s", got, want)
			}
			two.stop() // what it has to write about it is written
			if got := record(); got != before {
				t.Errorf("its record was\n%s\nand is\n%s", before, got)
			}
			if _, err := one.catalog.Commit(one.ctx(), coordinator.CommitRequest{Token: b.Token, Tables: []coordinator.TableParts{parts("t", one.stage(b.Token, blind("t", "1")).Digest)}}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOwnTransactionIsNotAdopted: a sweep may find what a transaction staged that has begun
// here since the sweep did. It expires when it said, and what it staged counts once.
func TestOwnTransactionIsNotAdopted(t *testing.T) {
	t.Parallel()
	for name, inline := range map[string]int{"in an object": 1, "in an item": 1 << 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{}
			w.cfg.Limits.InlineBytes = inline
			w.open(t)
			w.create("t", twophase.ModeExclusive)
			b, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Key: "job"})
			if err != nil {
				t.Fatal(err)
			}
			w.stage(b.Token, blind("t", "1"))
			listed := func() coordinator.OpenTxn {
				list, err := w.catalog.List(w.ctx(), coordinator.ListRequest{PageSize: 10})
				if err != nil || len(list.Open) != 1 {
					t.Fatalf("%d are open, %v", len(list.Open), err)
				}
				return list.Open[0]
			}
			before := listed()
			w.catalog.SweepAgain(w.ctx())()
			if diff := cmp.Diff(before, listed()); diff != "" {
				t.Errorf("-before +after the sweep\n%s", diff)
			}
		})
	}
}
