package coordinator_test

import (
	"context"
	"errors"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

const ownerOfT = "t/_delta_log/_txcoord/owner.json"

// ownerDeleted has the owner object of table t deleted by do.
func ownerDeleted(do func(context.Context, objstore.Store) error) func(objstore.Store) objstore.Store {
	return func(s objstore.Store) objstore.Store {
		return objtest.Faulty{Store: s, Hook: func(ctx context.Context, op objtest.Op) objtest.Fate {
			if op.Kind != objtest.Delete || op.Key != ownerOfT {
				return objtest.Done()
			}
			return objtest.Fate{Err: do(ctx, s)}
		}}
	}
}

// TestRegisterWhileTheOwnerObjectGoes: the owner object of a released table is removed in the
// background, and the place may be another table's by then, whose owner object it is. Whoever
// is last puts that back.
func TestRegisterWhileTheOwnerObjectGoes(t *testing.T) {
	t.Parallel()
	for _, recorded := range []bool{false, true} {
		deleting, goOn, deleted := make(chan struct{}), make(chan struct{}), make(chan struct{})
		holding := make(chan chan struct{}, 1)
		w := &world{wrapStore: func(s lock.Store) lock.Store { return hookedStore{s, holdRing(holding)} }}
		w.wrapObjects = ownerDeleted(func(ctx context.Context, s objstore.Store) error {
			close(deleting)
			<-goOn
			defer close(deleted)
			return s.Delete(ctx, ownerOfT)
		})
		w.open(t)
		w.create("t", twophase.ModeExclusive)
		w.create("beside", twophase.ModeExclusive)
		w.commit("1", blind("t", "1"))
		if _, _, err := w.catalog.CommitOnce(w.ctx(), coordinator.OnceRequest{Key: "go", Releases: []string{"t"}, Tables: []coordinator.OnceTable{blind("beside", "1")}}); err != nil {
			t.Fatal(err)
		}
		<-deleting
		w.settle()
		record := make(chan struct{})
		if !recorded {
			holding <- record
		}
		registered := make(chan error, 1)
		go func() {
			_, _, err := w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: "t", URI: w.uri("t"), Mode: twophase.ModeExclusive})
			registered <- err
		}()
		if recorded {
			w.must(<-registered)
		} else {
			w.eventually("it is claimed, and not recorded", func() bool { return len(holding) == 0 })
		}
		close(goOn)
		<-deleted
		if !recorded {
			close(record)
			w.must(<-registered)
		}
		w.eventually("the table has its owner object", func() bool { return w.stores("object: " + ownerOfT) })
		w.commit("2", blind("t", "2"))
		w.check(closedRun{})
	}
}

// TestReleaseIsGivenUpWhileTheOwnerObjectGoes: whose removal of the object nobody waits for any
// more, or gets no answer, may have removed that of the table that came behind.
func TestReleaseIsGivenUpWhileTheOwnerObjectGoes(t *testing.T) {
	t.Parallel()
	deleting, goOn := make(chan struct{}), make(chan struct{})
	w := &world{}
	w.wrapObjects = ownerDeleted(func(ctx context.Context, s objstore.Store) error {
		close(deleting)
		<-goOn
		_ = s.Delete(context.WithoutCancel(ctx), ownerOfT)
		return errors.Join(objstore.ErrUnknown, ctx.Err())
	})
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	ctx, giveUp := context.WithCancel(w.ctx())
	released := make(chan struct{})
	go func() {
		defer close(released)
		_ = w.catalog.Release(ctx, "t", false)
	}()
	<-deleting
	_, _, err := w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: "t", URI: w.uri("t"), Mode: twophase.ModeExclusive})
	w.must(err)
	giveUp()
	close(goOn)
	<-released
	w.eventually("the table has its owner object", func() bool { return w.stores("object: " + ownerOfT) })
	w.commit("2", blind("t", "2"))
}
