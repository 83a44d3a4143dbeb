package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// TestRefusedAtTheHeadOnly: a replica that has not seen what another one did refuses
// nothing for that. It follows once an hour, so it looks only when it is asked.
func TestRefusedAtTheHeadOnly(t *testing.T) {
	t.Parallel()
	first := sharedWorld("one:1", time.Hour)
	first.cfg.Limits.FollowInterval = time.Hour
	one := first.open(t)
	two := one.replica(t, func(r *world) { r.cfg.Address = "two:1" })
	one.create("t", twophase.ModeExclusive)
	if s, err := two.catalog.Snapshot(two.ctx(), coordinator.SnapshotRef{}, nil); err != nil || s.Version != one.catalog.Shown() {
		t.Errorf("the latest snapshot is %+v, %v", s, err)
	}
	one.create("u", twophase.ModeExclusive)
	b := one.begin("job")
	two.stage(b.Token, blind("u", "a")) // TABLE_NOT_FOUND, by its own fold
	if _, err := one.catalog.Abort(one.ctx(), coordinator.OutcomeRef{Token: b.Token}, "no more"); err != nil {
		t.Fatal(err)
	}
	r := once("job", blind("t", "b"))
	r.Attempt = 2 // ATTEMPT_UNDECIDED, by its own fold
	if o, _, err := two.catalog.CommitOnce(two.ctx(), r); err != nil || o.Committed == nil {
		t.Errorf("%+v, %v", o, err)
	}
}

// unfollowed is the first of several replicas that do not look for what others append, with a
// table.
func unfollowed(t *testing.T) *world {
	t.Helper()
	w := sharedWorld("one:1", time.Hour)
	w.cfg.Limits.FollowInterval = time.Hour
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	return w
}

// TestLatestIsReadAtTheHead: what "the latest snapshot" is, and whether there is one of a number,
// no replica says by what it happens to have seen.
func TestLatestIsReadAtTheHead(t *testing.T) {
	t.Parallel()
	one := unfollowed(t)
	behind := func() *world { return one.replica(t, func(r *world) { r.cfg.Address = "two:1" }) }
	for what, said := range map[string]func(two *world, newest twophase.SnapshotVersion) (twophase.SnapshotVersion, error){
		"a difference up to the latest": func(two *world, _ twophase.SnapshotVersion) (twophase.SnapshotVersion, error) {
			d, err := two.catalog.Diff(two.ctx(), 1, 0)
			return d.To, err
		},
		"a difference up to one": func(two *world, newest twophase.SnapshotVersion) (twophase.SnapshotVersion, error) {
			d, err := two.catalog.Diff(two.ctx(), 1, newest)
			return d.To, err
		},
		"a list": func(two *world, _ twophase.SnapshotVersion) (twophase.SnapshotVersion, error) {
			p, err := two.catalog.Snapshots(two.ctx(), "", 1, "")
			if err != nil {
				return 0, err
			}
			return p.Snapshots[0].Version, nil
		},
		"a lease of the latest": func(two *world, _ twophase.SnapshotVersion) (twophase.SnapshotVersion, error) {
			l, _, err := two.catalog.Lease(two.ctx(), coordinator.LeaseRequest{TTL: time.Hour})
			return l.Snapshot, err
		},
		"a lease of one": func(two *world, newest twophase.SnapshotVersion) (twophase.SnapshotVersion, error) {
			l, _, err := two.catalog.Lease(two.ctx(), coordinator.LeaseRequest{TTL: time.Hour, Snapshot: newest})
			return l.Snapshot, err
		},
		"a tag": func(two *world, newest twophase.SnapshotVersion) (twophase.SnapshotVersion, error) {
			_, err := two.catalog.Tag(two.ctx(), "eod", newest)
			return newest, err
		},
		"a watch": func(two *world, newest twophase.SnapshotVersion) (twophase.SnapshotVersion, error) {
			after, seen, enough := newest-1, twophase.SnapshotVersion(0), errors.New("enough")
			err := two.catalog.Watch(two.ctx(), &after, func(c coordinator.SnapshotChange) error {
				seen = c.Version
				return enough
			})
			if errors.Is(err, enough) {
				err = nil
			}
			return seen, err
		},
	} {
		t.Run(what, func(t *testing.T) {
			two := behind()
			one.commit("before "+what, blind("t", what))
			one.commit("newest at "+what, blind("t", what+" again"))
			newest := one.catalog.Shown()
			if got, err := said(two, newest); err != nil || got != newest {
				t.Errorf("it is said of snapshot %d, %v, and the latest is %d", got, err, newest)
			}
		})
	}
}

// TestTagsAtTwoReplicas: what a tag named before is not what this replica has seen of it.
func TestTagsAtTwoReplicas(t *testing.T) {
	t.Parallel()
	one := unfollowed(t)
	one.commit("a", blind("t", "a"))
	two := one.replica(t, func(r *world) { r.cfg.Address = "two:1" })
	if _, err := one.catalog.Tag(one.ctx(), "eod", 1); err != nil {
		t.Fatal(err)
	}
	warnings, err := two.catalog.Tag(two.ctx(), "eod", 2)
	if err != nil || !strings.Contains(fmt.Sprint(warnings), "tag eod named snapshot 1 until now, and names 2") {
		t.Errorf("%v, %v", warnings, err)
	}
}

// TestSameCallAtTwoReplicas: the first answer was lost. What one replica decided,
// published and swept is the answer of another one that has not seen any of it.
func TestSameCallAtTwoReplicas(t *testing.T) {
	t.Parallel()
	one := unfollowed(t)
	two := one.replica(t, func(r *world) { r.cfg.Address = "two:1" })
	b := one.begin("job")
	part := one.stage(b.Token, blind("t", "a"))
	call := coordinator.CommitRequest{Token: b.Token, Tables: []coordinator.TableParts{parts("t", part.Digest)}}
	want, err := one.catalog.Commit(one.ctx(), call)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the payload to be swept", func() bool {
		items, err := one.store.Scan(one.ctx(), "pay/", "", 0)
		return err == nil && len(items) == 0
	})
	got, err := two.catalog.Commit(two.ctx(), call)
	if err != nil || fmt.Sprint(deliveries(got)) != fmt.Sprint(deliveries(want)) {
		t.Errorf("%+v, %v", got, err)
	}
}

// clockedStore tells how far this machine's clock is ahead.
type clockedStore struct {
	lock.Store
	ahead *atomic.Int64
}

func (c clockedStore) Ahead() (time.Duration, bool) { return time.Duration(c.ahead.Load()), true }

// TestClockAhead: R16. A replica whose clock is ahead of the store's decides nothing,
// and goes on when that is mended.
func TestClockAhead(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	w := &world{wrapStore: func(s lock.Store) lock.Store { return clockedStore{s, &ahead} }}
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	ahead.Store(int64(6 * time.Second))
	_, err := w.try("k", blind("t", "a"))
	wantReason(t, "a commit", err, coordinator.StoreUnavailable)
	ahead.Store(int64(4 * time.Second))
	w.commit("k", blind("t", "a"))
}

// beforeList calls a hook before each look for manifests.
type beforeList struct {
	objstore.Store
	hook func()
}

func (b beforeList) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	if strings.Contains(o.Prefix, "/manifests/") {
		b.hook()
	}
	return b.Store.List(ctx, o)
}

// TestStartBesideOthers: while a replica starts, another one makes a snapshot and
// writes its manifest. That is no journal that went back (R7).
func TestStartBesideOthers(t *testing.T) {
	t.Parallel()
	one := sharedWorld("one:1", time.Hour).open(t)
	one.create("t", twophase.ModeExclusive)
	var once sync.Once
	two := one.replica(t, func(r *world) {
		r.cfg.Address = "two:1"
		r.wrapObjects = func(s objstore.Store) objstore.Store {
			return beforeList{s, func() {
				once.Do(func() {
					o := one.commit("k", blind("t", "a"))
					eventually(t, "the manifest", func() bool { return one.status().ManifestSnapshot >= o.Committed.Snapshot })
				})
			}}
		}
	})
	if two.catalog.Shown() != one.catalog.Shown() {
		t.Errorf("starts at snapshot %d of %d", two.catalog.Shown(), one.catalog.Shown())
	}
}
