package etcdstore

import (
	"fmt"
	"strconv"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/txcoord/txcoord/lock"
)

// watermark is the newest that the store knows of the cluster, so that a cluster
// that was put back to an older state is noticed (R7).
type watermark struct {
	mu       sync.Mutex
	cluster  uint64
	revision int64
	newest   guard
	failed   error
}

// guard is a key that was written at a revision. It never stands at a lower one
// again, unless the cluster goes back.
type guard struct {
	key string
	at  int64
	// kept: the key is never deleted, so that its absence says the same.
	kept bool
}

// guards are those of one put.
type guards []guard

// compare has etcd check the guards together with the condition of a put.
func (gs guards) compare() (cmps []clientv3.Cmp) {
	for _, g := range gs {
		cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(g.key), ">", g.at-1))
	}
	return cmps
}

// look reads the guards where a comparison failed.
func (gs guards) look() (ops []clientv3.Op) {
	for _, g := range gs {
		ops = append(ops, look(g.key))
	}
	return ops
}

// guards are what a put under a condition is guarded by: the newest put of the store, and
// what the condition names.
func (s *Store) guards(c lock.Condition) (gs guards) {
	if g := s.mark.guard(); g.key != "" {
		gs = append(gs, g)
	}
	key, rev, ok := c.Before()
	at, err := strconv.ParseInt(string(rev), 10, 64)
	switch {
	case !ok || err != nil:
		return gs
	case len(gs) > 0 && gs[0] == guard{key: s.key(key), at: at}:
		gs[0].kept = true // the usual case: the put before was the store's own
		return gs
	}
	return append(gs, guard{key: s.key(key), at: at, kept: true})
}

func (w *watermark) guard() guard {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newest
}

// remember makes a put the guard of the next. Only conditional ones, as nothing of the
// protocol is built on the others (heartbeats, where a catalog is open). They are not only
// those of the ring, whose keys stay: a payload is put if absent, and swept one day. So a
// guard that is not there says nothing, and is forgotten (judge); one that a condition
// names (kept) is of a key that is never deleted.
func (w *watermark) remember(key string, at int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at > w.newest.at {
		w.newest = guard{key: key, at: at}
	}
}

// forget drops a guard whose key was deleted.
func (w *watermark) forget(g guard) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.newest == g {
		w.newest = guard{}
	}
}

// seen is the newest revision of any answer.
func (w *watermark) seen() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.revision
}

// observe holds an answer against what had been seen before its request was sent.
// The answer itself may be of a write that was carried out; it is an error all the
// same, since nothing may be built on it.
func (w *watermark) observe(before int64, h *etcdserverpb.ResponseHeader) error {
	w.mu.Lock()
	if w.cluster == 0 {
		w.cluster = h.ClusterId
	}
	cluster := w.cluster
	w.revision = max(w.revision, h.Revision)
	w.mu.Unlock()
	switch {
	case h.ClusterId != cluster:
		return w.fail(fmt.Errorf("cluster %x answers in the place of %x", h.ClusterId, cluster))
	case h.Revision < before:
		return w.fail(fmt.Errorf("the cluster is at revision %d, and was at %d", h.Revision, before))
	}
	return nil
}

// fail makes the store refuse everything from now on.
func (w *watermark) fail(cause error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = fmt.Errorf("etcd was put back to an older state: %w (%w); stop all replicas and start anew from the tables with txcoord rebuild", cause, lock.ErrShort)
	}
	return w.failed
}

func (w *watermark) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}
