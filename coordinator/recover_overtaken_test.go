package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// overtakenStore holds the start's read of one entry back until somebody else, who has a
// deadline, has folded to a later one; there his next read fails.
type overtakenStore struct {
	lock.Store
	held, until int

	once sync.Once
	past chan struct{}
}

func (s *overtakenStore) Get(ctx context.Context, key string) (lock.Item, error) {
	position := -1
	if ring, ok := strings.CutPrefix(key, "ring/"); ok {
		_, slot, _ := strings.Cut(ring, "/")
		_, _ = fmt.Sscanf(slot, "%d", &position)
	}
	switch _, bounded := ctx.Deadline(); {
	case position == s.held && !bounded:
		select {
		case <-s.past:
		case <-ctx.Done():
		case <-time.After(patient):
			return lock.Item{}, errors.New("nobody else reads the journal")
		}
	case position >= s.until && bounded:
		first := false
		s.once.Do(func() { first = true; close(s.past) })
		if first {
			return lock.Item{}, lock.ErrUnknown
		}
	}
	return s.Store.Get(ctx, key)
}

// TestStartOvertaken: a start reads ahead in windows of entries. What follows a
// transaction that released a table reads the head while they are folded, and so gets past a window that is
// slow to come. The start goes on where its windows end, and leaves no entry out.
func TestStartOvertaken(t *testing.T) {
	t.Parallel()
	one := sharedWorld("one:1", 0).open(t)
	one.create("t", twophase.ModeExclusive)
	one.create("gone", twophase.ModeExclusive)
	released := once("0", blind("t", "0"))
	released.Releases = []string{"gone"}
	first, _, err := one.catalog.CommitOnce(one.ctx(), released)
	one.must(err)
	for i, last := 1, first; last.Position < 128; i++ {
		last = one.commit(fmt.Sprint(i), blind("t", fmt.Sprint(i)))
	}
	one.stop()
	two := one.replica(t, func(r *world) {
		r.cfg.Address = "two:1"
		r.wrapStore = func(s lock.Store) lock.Store {
			return &overtakenStore{Store: s, held: 40, until: 70, past: make(chan struct{})}
		}
	})
	if got, _, err := two.catalog.CommitOnce(two.ctx(), released); err != nil || got.Txn != first.Txn {
		t.Errorf("%+v, %v; want %+v", got, err, first)
	}
}
