package coordinator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// entryLog keeps the commits of each entry, and holds the next append up when told to.
type entryLog struct {
	lock.Store
	hold chan chan struct{}

	mu      sync.Mutex
	commits [][]twophase.TxnID
}

func newEntryLog(s lock.Store) *entryLog {
	return &entryLog{Store: s, hold: make(chan chan struct{}, 1)}
}

// Put implements lock.Store.
func (l *entryLog) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	if !strings.HasPrefix(key, "ring/") {
		return l.Store.Put(ctx, key, value, c)
	}
	select {
	case release := <-l.hold:
		<-release
	default:
	}
	if e, err := storedEntry(value); err == nil {
		var ids []twophase.TxnID
		for _, r := range e.Records {
			if cm, ok := r.(*twophase.Committed); ok {
				ids = append(ids, cm.Txn)
			}
		}
		if ids != nil {
			l.mu.Lock()
			l.commits = append(l.commits, ids)
			l.mu.Unlock()
		}
	}
	return l.Store.Put(ctx, key, value, c)
}

// TestLightIsInTheNextEntry: while an entry is on its way one principal queues a
// hundred entries' worth, and another one transaction; it is in the next.
func TestLightIsInTheNextEntry(t *testing.T) {
	t.Parallel()
	var entries *entryLog
	w := &world{wrapStore: func(s lock.Store) lock.Store { entries = newEntryLog(s); return entries }}
	w.cfg.Limits.EntryBytes = 2 << 10
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("warm", blind("t", "warm"))
	as := func(who, key string) chan error {
		ctx, done := quota.WithCaller(w.ctx(), &quota.Caller{Name: who}), make(chan error, 1)
		go func() {
			_, _, err := w.catalog.CommitOnce(ctx, once(key, blind("t", key)))
			done <- err
		}()
		return done
	}
	release := make(chan struct{})
	entries.hold <- release
	all := []chan error{as("heavy", "first")}
	w.eventually("the first is on its way", func() bool { return len(entries.hold) == 0 })
	for i := range 1000 {
		all = append(all, as("heavy", fmt.Sprint(i)))
	}
	w.eventually("the heavy one waits", func() bool { return w.catalog.Queued() == 1000 })
	all = append(all, as("light", "light"))
	w.eventually("the light one waits", func() bool { return w.catalog.Queued() == 1001 })
	close(release)
	for _, done := range all {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	idOf := func(key string) twophase.TxnID { return twophase.DeriveTxnID(w.meta().Catalog, key, 1) }
	groups := entries.commits
	first := slices.IndexFunc(groups, func(ids []twophase.TxnID) bool { return slices.Contains(ids, idOf("first")) })
	if len(groups) < first+100 {
		t.Fatalf("%d entries hold what was queued, which shows nothing", len(groups)-first)
	}
	if !slices.Contains(groups[first+1], idOf("light")) {
		t.Errorf("the light one is not in the entry after the one that was on its way")
	}
}
