package etcdstore

import (
	"context"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/txcoord/txcoord/lock"
)

var _ lock.Watcher = (*Store)(nil)

// watchAgain is about how long after an error a watch is set up again.
const watchAgain = time.Second

// Watch implements lock.Watcher. A member that has lost its leader ends the watch,
// and so does compaction; the next one begins with what is written from then on.
func (s *Store) Watch(ctx context.Context, prefix string, changed func(lock.Item)) {
	for ctx.Err() == nil && !s.closed.Load() {
		s.watchOnce(ctx, prefix, changed)
		changed(lock.Item{}) // some may have been missed
		select {
		case <-time.After(time.Duration((0.5 + rand.Float64()) * float64(watchAgain))):
		case <-ctx.Done():
		}
	}
}

func (s *Store) watchOnce(ctx context.Context, prefix string, changed func(lock.Item)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := s.client.Watch(clientv3.WithRequireLeader(ctx), s.key(prefix), clientv3.WithPrefix(), clientv3.WithFilterDelete())
	for answer := range changes {
		if answer.Err() != nil {
			return
		}
		for _, event := range answer.Events {
			changed(s.item(event.Kv))
		}
	}
}
