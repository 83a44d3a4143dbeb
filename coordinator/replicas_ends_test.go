package coordinator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/lock"
)

// slowAnnouncer puts announcements of replicas as a store behind a network may: one that its
// caller does not wait for lands all the same, later.
type slowAnnouncer struct {
	lock.Store
	sent, landed chan struct{}
}

func (s slowAnnouncer) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	if !strings.HasPrefix(key, "replica/") {
		return s.Store.Put(ctx, key, value, c)
	}
	s.sent <- struct{}{}
	defer func() { s.landed <- struct{}{} }()
	select {
	case <-ctx.Done():
		go func() {
			time.Sleep(100 * time.Millisecond)
			_, _ = s.Store.Put(context.WithoutCancel(ctx), key, value, c)
		}()
		return "", fmt.Errorf("put %s: %w", key, lock.ErrUnknown)
	case <-time.After(200 * time.Millisecond):
		return s.Store.Put(ctx, key, value, c)
	}
}

// A replica that ends while it announces itself leaves no announcement behind, which the
// others would list as a silent one for an hour.
func TestReplicaEndsWhileItAnnouncesItself(t *testing.T) {
	t.Parallel()
	late := slowAnnouncer{sent: make(chan struct{}, 100), landed: make(chan struct{}, 100)}
	w := &world{wrapStore: func(s lock.Store) lock.Store { late.Store = s; return late }}
	w.cfg.SharedStore = true
	w.open(t)
	<-late.sent
	w.stop()
	<-late.landed
	time.Sleep(200 * time.Millisecond) // for what landed behind the end
	items, err := w.store.Scan(t.Context(), "replica/", "", 0)
	if err != nil || len(items) != 0 {
		t.Errorf("left: %d, %v", len(items), err)
	}
}
