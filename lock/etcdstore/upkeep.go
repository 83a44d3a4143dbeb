package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/txcoord/txcoord/lock"
)

// alarmAt is the part of its quota that a member may use before the store complains.
const alarmAt = 0.6

// Usage is how much of its quota a member uses.
type Usage struct {
	Endpoint string
	// Size of the member's file in bytes, which the quota bounds, and what of it is
	// in use: defragmentation gives the difference back.
	Size, InUse, Quota int64
	// NoSpace: the cluster takes no more writes.
	NoSpace bool
}

// err is nil while a member has room.
func (u Usage) err() error {
	switch {
	case u.NoSpace:
		return fmt.Errorf("etcd takes no writes: %s uses %d MiB (%d MiB of them in use) of its quota of %d MiB; compact and defragment it, raise --quota-backend-bytes, and disarm the alarm",
			u.Endpoint, u.Size>>20, u.InUse>>20, u.Quota>>20)
	case u.Quota > 0 && float64(u.Size) >= alarmAt*float64(u.Quota):
		return fmt.Errorf("etcd is filling up: %s uses %d MiB (%d MiB of them in use) of its quota of %d MiB; defragment it if little is in use, else raise --quota-backend-bytes",
			u.Endpoint, u.Size>>20, u.InUse>>20, u.Quota>>20)
	default:
		return nil
	}
}

// usages is what the last look has seen, by member.
type usages struct {
	mu   sync.Mutex
	last map[string]Usage
}

// Usage is what the last look at the cluster has seen of each member that answered.
func (s *Store) Usage() []Usage {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	var all []Usage
	for _, u := range s.usage.last {
		all = append(all, u)
	}
	slices.SortFunc(all, func(a, b Usage) int { return strings.Compare(a.Endpoint, b.Endpoint) })
	return all
}

// Alarm is nil while all members have room: less than 60 % of the quota used. It
// says what to do otherwise.
func (s *Store) Alarm() error {
	var all []error
	for _, u := range s.Usage() {
		all = append(all, u.err())
	}
	return errors.Join(all...)
}

// wrote counts bytes, and has the upkeep look when they are many.
func (s *Store) wrote(n int) {
	if s.written.Add(int64(n)) < s.cfg.UpkeepBytes {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default: // It has not yet looked since the last one.
	}
}

// upkeep looks at the cluster now and then. Replicas look at different times.
func (s *Store) upkeep(ctx context.Context) {
	var last int64
	var denied error
	for {
		s.look(ctx)
		last, denied = s.compact(ctx, last, denied)
		timer := time.NewTimer(time.Duration((0.75 + rand.Float64()/2) * float64(s.cfg.UpkeepEvery)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// compact has etcd drop what was replaced before the last look, if this store has
// written since, and returns the revision for the next time. That another replica
// has compacted further is as good. That it may not is told once, as it lasts.
func (s *Store) compact(ctx context.Context, last int64, before error) (next int64, denied error) {
	next = s.mark.seen()
	if s.written.Swap(0) == 0 || s.cfg.NoCompaction || last == 0 {
		return next, before
	}
	err := s.compactTo(ctx, last)
	switch {
	case err == nil || ctx.Err() != nil:
		return next, nil
	case !errors.Is(err, lock.ErrDenied):
		s.cfg.Log.Warn("etcd was not compacted", "revision", last, "error", err)
	case before == nil:
		s.cfg.Log.Error("etcd was not compacted", "revision", last, "error", err)
		return next, err
	}
	return next, before
}

func (s *Store) compactTo(ctx context.Context, revision int64) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	_, err := s.client.Compact(ctx, revision)
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return nil
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return &lock.Refusal{
			Reason: lock.ErrDenied, Err: err,
			Text:   fmt.Sprintf("etcd's user %q may not compact, and the cluster fills up with the values that were replaced", s.cfg.Username),
			Remedy: "let the members do it (etcd --auto-compaction-retention=1m) and name the store with compact=false, or grant the user the role root",
		}
	}
	return err
}

// CheckUpkeep implements lock.Upkept. Before the first revision there is nothing to compact.
func (s *Store) CheckUpkeep(ctx context.Context) error {
	if s.cfg.NoCompaction {
		return nil
	}
	return s.compactTo(ctx, 1)
}

// look asks each member how much it uses, and tells.
func (s *Store) look(ctx context.Context) {
	for _, endpoint := range s.cfg.Endpoints {
		status, err := s.status(ctx, endpoint)
		if err != nil {
			continue // A member that is down takes no writes either.
		}
		u := s.usageOf(endpoint, status)
		if s.cfg.OnUsage != nil {
			s.cfg.OnUsage(u)
		}
		s.keep(u)
	}
}

func (s *Store) usageOf(endpoint string, status *clientv3.StatusResponse) Usage {
	u := Usage{Endpoint: endpoint, Size: status.DbSize, InUse: status.DbSizeInUse, Quota: status.DbSizeQuota}
	if u.Quota == 0 {
		u.Quota = s.cfg.Quota
	}
	for _, e := range status.Errors {
		// Alarms come as text: "memberID:1 alarm:NOSPACE".
		u.NoSpace = u.NoSpace || strings.Contains(e, etcdserverpb.AlarmType_NOSPACE.String())
	}
	return u
}

// keep remembers a member's use, and logs when it begins or ceases to be too much.
func (s *Store) keep(u Usage) {
	s.usage.mu.Lock()
	before := s.usage.last[u.Endpoint]
	if s.usage.last == nil {
		s.usage.last = map[string]Usage{}
	}
	s.usage.last[u.Endpoint] = u
	s.usage.mu.Unlock()
	switch err := u.err(); {
	case err != nil && (before.err() == nil || before.NoSpace != u.NoSpace):
		s.cfg.Log.Error("etcd's space", "error", err)
	case err == nil && before.err() != nil:
		s.cfg.Log.Info("etcd has room again", "endpoint", u.Endpoint)
	}
}

func (s *Store) status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	return s.client.Status(ctx, endpoint)
}
