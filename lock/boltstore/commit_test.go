package boltstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
)

// gate holds commits up, before or after they are done.
type gate struct {
	before, after chan struct{}
	fail          error
	commits       int
}

// closedGate stops every commit until something is sent.
func closedGate(s handle) *gate {
	g := &gate{before: make(chan struct{}), after: make(chan struct{})}
	boltstore.OnCommit(s.Store, func(commit func() error) error {
		g.commits++
		<-g.before
		err := commit()
		<-g.after
		return errors.Join(err, g.fail)
	})
	return g
}

// let lets one commit through.
func (g *gate) let() {
	g.before <- struct{}{}
	g.after <- struct{}{}
}

// queued starts puts one after the other, so that their order is known.
func queued(t *testing.T, s lock.Store, n int, cond func(i int) lock.Condition) (answers []chan error) {
	for i := range n {
		answer := make(chan error, 1)
		answers = append(answers, answer)
		go func() {
			_, err := s.Put(t.Context(), "k", fmt.Append(nil, i), cond(i))
			answer <- err
		}()
		synctest.Wait()
	}
	return answers
}

func ifAbsent(int) lock.Condition { return lock.IfAbsent() }

// What waits while a commit is under way is the next commit: one, in order, with
// each condition on what stands before it.
func TestWaitingPutsAreOneCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openNew(t)
		g := closedGate(s)
		first := make(chan error, 1)
		go func() {
			_, err := s.Put(t.Context(), "first", nil, lock.IfAbsent())
			first <- err
		}()
		synctest.Wait()
		answers := queued(t, s, 100, func(i int) lock.Condition {
			if i == 99 {
				return lock.Always()
			}
			return lock.IfAbsent()
		})
		g.let()
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		g.let()
		for i, answer := range answers {
			if err := <-answer; (err == nil) != (i == 0 || i == 99) || err != nil && !errors.Is(err, lock.ErrConflict) {
				t.Errorf("put %d: %v", i, err)
			}
		}
		item, err := s.Get(t.Context(), "k")
		if err != nil || string(item.Value) != "99" || g.commits != 2 {
			t.Errorf("%q, %v, after %d commits", item.Value, err, g.commits)
		}
	})
}

// Refusals alone need no commit.
func TestRefusalsAreNotCommitted(t *testing.T) {
	s := openNew(t)
	commits := 0
	boltstore.OnCommit(s.Store, func(commit func() error) error {
		commits++
		return commit()
	})
	if _, err := s.Put(t.Context(), "k", nil, lock.IfAbsent()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "k", nil, lock.IfAbsent()); !errors.Is(err, lock.ErrConflict) {
		t.Error(err)
	}
	if err := s.Delete(t.Context(), "missing"); err != nil || commits != 1 {
		t.Errorf("%v, %d commits", err, commits)
	}
}

// A put that is cancelled in the queue is out of it; one that is cancelled in a
// commit is not.
func TestCancelledInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openNew(t)
		g := closedGate(s)
		ctx, cancel := context.WithCancel(t.Context())
		answers := map[string]chan error{"committing": make(chan error, 1), "waiting": make(chan error, 1)}
		for _, key := range []string{"committing", "waiting"} {
			go func() {
				_, err := s.Put(ctx, key, nil, lock.IfAbsent())
				answers[key] <- err
			}()
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		g.let()
		synctest.Wait()
		for key, unknown := range map[string]bool{"committing": true, "waiting": false} {
			if err := <-answers[key]; !errors.Is(err, context.Canceled) || errors.Is(err, lock.ErrUnknown) != unknown {
				t.Errorf("%s: %v", key, err)
			}
			if _, err := s.Get(t.Context(), key); (err == nil) != unknown {
				t.Errorf("%s: get says %v", key, err)
			}
		}
	})
}

// bbolt shows a commit before its last sync. A reader must not see it before that.
func TestReadersWaitForTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openNew(t)
		old, err := s.Put(t.Context(), "other", []byte("old"), lock.IfAbsent())
		if err != nil {
			t.Fatal(err)
		}
		g := closedGate(s)
		put := queued(t, s, 1, ifAbsent)
		g.before <- struct{}{}
		synctest.Wait() // It is written, and shown, and not yet on disk.

		read := make(chan error, 2)
		go func() {
			_, err := s.Get(t.Context(), "k")
			read <- err
		}()
		go func() {
			page, err := s.Scan(t.Context(), "", "", 0)
			if len(page) != 2 {
				err = fmt.Errorf("scan finds %d", len(page))
			}
			read <- err
		}()
		synctest.Wait()
		if len(read) != 0 || len(put[0]) != 0 {
			t.Error("something is answered before the sync")
		}
		if item, err := s.Get(t.Context(), "other"); err != nil || item.Revision != old {
			t.Errorf("a key that nobody writes: %v, %v", item, err)
		}
		if page, err := s.Scan(t.Context(), "o", "", 0); err != nil || len(page) != 1 {
			t.Errorf("a prefix that nobody writes: %v, %v", page, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Get(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a reader that waits no longer: %v", err)
		}
		g.after <- struct{}{}
		for _, answer := range []chan error{read, read, put[0]} {
			if err := <-answer; err != nil {
				t.Error(err)
			}
		}
	})
}

// After a failed commit nobody knows anything until another one succeeds.
func TestFailedCommitIsUnknownToAll(t *testing.T) {
	for _, landed := range []bool{true, false} {
		s := openNew(t)
		failing := true
		boltstore.OnCommit(s.Store, func(commit func() error) error {
			if failing && !landed {
				return errDisk
			}
			err := commit()
			if failing {
				return errDisk
			}
			return err
		})
		for _, c := range []lock.Condition{lock.IfAbsent(), lock.IfAbsent()} {
			if _, err := s.Put(t.Context(), "k", []byte("v"), c); !errors.Is(err, lock.ErrUnknown) || !errors.Is(err, errDisk) {
				t.Errorf("landed %v: put: %v", landed, err)
			}
		}
		_, getErr := s.Get(t.Context(), "k")
		_, scanErr := s.Scan(t.Context(), "", "", 0)
		for _, err := range []error{getErr, scanErr} {
			if err == nil || errors.Is(err, lock.ErrNotFound) || errors.Is(err, lock.ErrUnknown) {
				t.Errorf("landed %v: a read is answered %v by what may be gone tomorrow", landed, err)
			}
		}
		failing = false
		item, err := s.Get(t.Context(), "k")
		if landed && (err != nil || string(item.Value) != "v") || !landed && !errors.Is(err, lock.ErrNotFound) {
			t.Errorf("landed %v: the disk is back: %q, %v", landed, item.Value, err)
		}
		if rev, err := s.Put(t.Context(), "k", []byte("w"), lock.Always()); err != nil || rev == item.Revision {
			t.Errorf("landed %v: %q after %q, %v", landed, rev, item.Revision, err)
		}
	}
}

// All of a group hear of its failure, those too that it had refused.
func TestFailedGroupIsUnknownToAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openNew(t)
		g := closedGate(s)
		first := queued(t, s, 1, func(int) lock.Condition { return lock.Always() })
		if err := s.Delete(cancelled(t), "k"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		rest := queued(t, s, 10, func(i int) lock.Condition {
			if i == 0 {
				return lock.Always()
			}
			return lock.IfAbsent()
		})
		g.let()
		if err := <-first[0]; err != nil {
			t.Error(err)
		}
		g.before <- struct{}{}
		synctest.Wait()
		g.fail = errDisk
		g.after <- struct{}{}
		for i, answer := range rest {
			if err := <-answer; !errors.Is(err, lock.ErrUnknown) || errors.Is(err, lock.ErrConflict) {
				t.Errorf("put %d: %v", i, err)
			}
		}
	})
}

func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// Close commits what waits, and leaves no goroutine behind.
func TestCloseCommitsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openNew(t)
		g := closedGate(s)
		first := queued(t, s, 1, ifAbsent)
		second := queued(t, s, 1, func(int) lock.Condition { return lock.Always() })
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		synctest.Wait()
		g.let()
		g.let()
		if err := errors.Join(<-first[0], <-second[0], <-closed); err != nil {
			t.Error(err)
		}
		if _, err := s.Put(t.Context(), "k", nil, lock.Always()); !errors.Is(err, boltstore.ErrClosed) {
			t.Error(err)
		}
		again := open(t, s.path)
		if _, err := again.Get(t.Context(), "k"); err != nil {
			t.Error(err)
		}
	})
}
