package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// A store that refuses everything while there is a reason to.
type refusingStore struct {
	lock.Store
	why *atomic.Pointer[lock.Refusal]
}

func (s refusingStore) refusal() error {
	if r := s.why.Load(); r != nil {
		return fmt.Errorf("ask: %w", r)
	}
	return nil
}

func (s refusingStore) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	if err := s.refusal(); err != nil {
		return "", err
	}
	return s.Store.Put(ctx, key, value, c)
}

func (s refusingStore) Get(ctx context.Context, key string) (lock.Item, error) {
	if err := s.refusal(); err != nil {
		return lock.Item{}, err
	}
	return s.Store.Get(ctx, key)
}

func (s refusingStore) Scan(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
	if err := s.refusal(); err != nil {
		return nil, err
	}
	return s.Store.Scan(ctx, prefix, after, limit)
}

func (s refusingStore) Delete(ctx context.Context, key string) error {
	if err := s.refusal(); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

// TestStoreThatRefuses: the credentials for the catalog's store are revoked, or its table is
// gone, under a running server. Calls are answered with what is wrong and what to do, the
// status and the table's explanation say it, nothing is frozen, and all goes on by itself.
func TestStoreThatRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		why  lock.Refusal
		says []string
	}{
		"denied": {
			lock.Refusal{Reason: lock.ErrDenied, Text: "the credentials lack a permission on table x", Remedy: "it needs dynamodb:PutItem"},
			[]string{"the credentials lack a permission on table x", "it needs dynamodb:PutItem", "what waits goes on by itself"},
		},
		"missing": {
			lock.Refusal{Reason: lock.ErrMissing, Text: "there is no table x", Remedy: "make it with txcoord store init"},
			[]string{"there is no table x", "bring it back with all that was in it", "A new one of its name is empty"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var why atomic.Pointer[lock.Refusal]
			w := &world{wrapStore: func(s lock.Store) lock.Store { return refusingStore{s, &why} }}
			w.open(t)
			w.create("t", twophase.ModeExclusive)
			c.why.Err = errors.New("the driver's own words")
			why.Store(&c.why)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, _, err := w.catalog.CommitOnce(ctx, once("k", blind("t", "1")))
			own, ok := errors.AsType[*coordinator.Error](err)
			if !ok || own.Reason != coordinator.OutcomeUnknown && own.Reason != coordinator.StoreUnavailable {
				t.Fatalf("a commit: %v", err)
			}
			w.eventually("the status says so", func() bool { return len(w.status().Troubles) > 0 })
			tr := w.status().Troubles[0]
			f := found(t, w.explain("t"), coordinator.FoundStoreTrouble)
			for what, told := range map[string]string{"answer": own.Message, "status": tr.Text + "; " + tr.Remedy, "table": f.Text + "; " + f.Remedy} {
				for _, say := range c.says {
					if !strings.Contains(told, say) {
						t.Errorf("%s: %q does not say %q", what, told, say)
					}
				}
				if strings.Contains(told, "own words") {
					t.Errorf("%s: %q has the driver's words", what, told)
				}
			}
			why.Store(nil)
			w.commit("k", blind("t", "1"))
			w.eventually("the trouble is over", func() bool { return len(w.status().Troubles) == 0 })
			w.neitherFrozenNorTwice("t", 2)
		})
	}
}

func (w *world) neitherFrozenNorTwice(table string, versions int) {
	w.t.Helper()
	if n := w.versions(table); n != versions {
		w.t.Errorf("%d versions", n)
	}
	if x := w.explain(table); slices.Contains(codes(x), coordinator.FoundFrozen) {
		w.t.Errorf("%+v", x)
	}
}

// refusingObjects refuses everything below a prefix while there is a reason to.
type refusingObjects struct {
	objstore.Store
	prefix string
	why    *atomic.Pointer[objstore.Refusal]
}

func (s refusingObjects) refusal(key string) error {
	if r := s.why.Load(); r != nil && strings.HasPrefix(key, s.prefix) {
		return fmt.Errorf("ask: %w", r)
	}
	return nil
}

func (s refusingObjects) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if err := s.refusal(key); err != nil {
		return err
	}
	return s.Store.PutIfAbsent(ctx, key, data)
}

func (s refusingObjects) Put(ctx context.Context, key string, data []byte) error {
	if err := s.refusal(key); err != nil {
		return err
	}
	return s.Store.Put(ctx, key, data)
}

func (s refusingObjects) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	if err := s.refusal(key); err != nil {
		return nil, objstore.Info{}, err
	}
	return s.Store.Get(ctx, key, r)
}

func (s refusingObjects) Stat(ctx context.Context, key string) (objstore.Info, error) {
	if err := s.refusal(key); err != nil {
		return objstore.Info{}, err
	}
	return s.Store.Stat(ctx, key)
}

func (s refusingObjects) Delete(ctx context.Context, key string) error {
	if err := s.refusal(key); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

func (s refusingObjects) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	if err := s.refusal(o.Prefix); err != nil {
		return func(yield func(objstore.Entry, error) bool) { yield(objstore.Entry{}, err) }
	}
	return s.Store.List(ctx, o)
}

// TestObjectsThatRefuse is the same of the bucket that all tables and manifests lie in. What
// is committed meanwhile stays, also for longer than freeze_after.
func TestObjectsThatRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		why  objstore.Refusal
		says []string
	}{
		"denied": {
			objstore.Refusal{Reason: objstore.ErrDenied, Text: "bucket b does not accept the credentials", Remedy: "set AWS_ACCESS_KEY_ID"},
			[]string{"bucket b does not accept the credentials", "set AWS_ACCESS_KEY_ID", "what waits goes on by itself"},
		},
		"missing": {
			objstore.Refusal{Reason: objstore.ErrMissing, Text: "there is no bucket b", Remedy: "create it"},
			[]string{"there is no bucket b", "bring it back with all that was in it", "A new one of its name is empty"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var why atomic.Pointer[objstore.Refusal]
			w := &world{wrapObjects: func(s objstore.Store) objstore.Store { return refusingObjects{s, "", &why} }}
			w.cfg.Limits.FreezeAfter, w.cfg.Limits.OwnerInterval = time.Millisecond, 5*time.Millisecond
			w.open(t)
			w.create("t", twophase.ModeExclusive)
			w.commit("before", blind("t", "0"))
			c.why.Err = errors.New("the driver's own words")
			why.Store(&c.why)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			o, _, err := w.catalog.CommitOnce(ctx, once("k", blind("t", "1")))
			if err != nil || o.Committed == nil {
				t.Fatalf("%+v, %v", o, err)
			}
			w.eventually("the status says so", func() bool { return len(w.status().Troubles) > 0 })
			tr := w.status().Troubles[0]
			f := found(t, w.explain("t"), coordinator.FoundStoreTrouble)
			for what, told := range map[string]string{"status": tr.Text + "; " + tr.Remedy, "table": f.Text + "; " + f.Remedy} {
				for _, say := range c.says {
					if !strings.Contains(told, say) {
						t.Errorf("%s: %q does not say %q", what, told, say)
					}
				}
			}
			if !strings.Contains(o.Committed.PendingReason, c.says[0]) {
				t.Errorf("pending, because %q", o.Committed.PendingReason)
			}
			why.Store(nil)
			if o := w.commit("k", blind("t", "1")); o.Committed.Snapshot == 0 {
				t.Errorf("%+v", o.Committed)
			}
			w.eventually("the trouble is over", func() bool { return len(w.status().Troubles) == 0 })
			w.neitherFrozenNorTwice("t", 3)
		})
	}
}
