//go:build unix

package etcdstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/etcdstore"
)

// eventually tries for a minute, and longer.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 6000 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s: not in time", what)
}

func etcdClient(t *testing.T, e *servers.Etcd) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Several stores compact side by side while they write; only what was replaced goes.
func TestCompaction(t *testing.T) {
	t.Parallel()
	e := servers.StartEtcd(t, servers.EtcdConfig{})
	cfg := fresh(e.Endpoints()...)
	cfg.UpkeepEvery = 20 * time.Millisecond
	first, second := open(t, cfg), open(t, cfg)
	rev, err := first.Put(t.Context(), "old", []byte("0"), lock.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	client := etcdClient(t, e)
	gone := func() bool {
		for _, s := range []handle{first, second} {
			if _, err := s.Put(t.Context(), "k", []byte("v"), lock.Always()); err != nil {
				t.Fatal(err)
			}
		}
		_, err := client.Get(t.Context(), cfg.Prefix+"k", clientv3.WithRev(2))
		return err != nil && strings.Contains(err.Error(), "compacted")
	}
	eventually(t, "the first revision is compacted", gone)
	if _, err := first.Put(t.Context(), "old", []byte("1"), lock.IfRevision(rev)); err != nil {
		t.Errorf("a key that was not replaced: %v", err)
	}
}

func TestNoCompaction(t *testing.T) {
	t.Parallel()
	e := servers.StartEtcd(t, servers.EtcdConfig{})
	cfg := fresh(e.Endpoints()...)
	cfg.UpkeepEvery, cfg.NoCompaction = 10*time.Millisecond, true
	s := open(t, cfg)
	for range 20 {
		if _, err := s.Put(t.Context(), "k", []byte("v"), lock.Always()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := etcdClient(t, e).Get(t.Context(), cfg.Prefix+"k", clientv3.WithRev(2)); err != nil {
		t.Errorf("the first revision: %v", err)
	}
}

// written is a log that many write to.
type written struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(b)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// A small quota fills up: the store complains at 60 %, and at the end nothing that
// etcd answers with "no space" is taken for not written.
//
// How many puts fit is etcd's affair: what it commits one by one takes up to twice the
// room of what it commits together. So each put is small beside what is left above the
// 60 %, and followed by a look at what is used; the alarm has to come with the first
// look that shows so much, before the quota is reached.
func TestQuota(t *testing.T) {
	t.Parallel()
	const quota = 16 << 20
	e := servers.StartEtcd(t, servers.EtcdConfig{Args: []string{"--quota-backend-bytes", fmt.Sprint(quota)}})
	cfg := fresh(e.Endpoints()...)
	var log written
	looks := &usages{}
	cfg.UpkeepEvery, cfg.NoCompaction = 5*time.Millisecond, true
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	cfg.OnUsage = looks.add
	s := open(t, cfg)
	eventually(t, "the use is known", func() bool { return len(s.Usage()) == 1 })
	if err := s.Alarm(); err != nil {
		t.Errorf("an empty cluster: %v", err)
	}
	const size = 128 << 10
	value := bytes.Repeat([]byte("v"), size)
	put := func(i int) error {
		_, err := s.Put(t.Context(), fmt.Sprint(i), value, lock.IfAbsent())
		return err
	}
	n := 0
	for ; s.Alarm() == nil && n*size < quota; n++ {
		if err := put(n); err != nil {
			t.Fatal(err)
		}
		_, seen := looks.newest()
		eventually(t, "a look that began after the put", func() bool { _, now := looks.newest(); return now > seen+1 })
	}
	eventually(t, "the alarm", func() bool { return s.Alarm() != nil && strings.Contains(log.String(), "etcd is filling up") })
	if u, _ := looks.newest(); u.Endpoint != e.Members[0].Endpoint || u.Quota != quota || u.Size*10 < quota*6 || u.NoSpace {
		t.Errorf("the hook was told %+v", u)
	}
	var err error
	for ; n*size < 40<<20 && err == nil; n++ {
		err = put(n)
	}
	if !errors.Is(err, lock.ErrUnknown) || !strings.Contains(err.Error(), "--quota-backend-bytes") {
		t.Fatalf("put %d in a full cluster: %v", n, err)
	}
	eventually(t, "no space", func() bool { return s.Alarm() != nil && strings.Contains(log.String(), "takes no writes") })
	if _, err := s.Get(t.Context(), "0"); err != nil {
		t.Errorf("read of a full cluster: %v", err)
	}
}

// usages is what the looks have seen.
type usages struct {
	mu   sync.Mutex
	last etcdstore.Usage
	n    int
}

func (l *usages) add(u etcdstore.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = u
	l.n++
}

// newest is what the last look has seen, and how many there were.
func (l *usages) newest() (etcdstore.Usage, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last, l.n
}

// A journal that replaces its entries for ever stays within the quota, since what it
// has written has the store compact sooner than the clock would.
func TestReplacingForEverFitsTheQuota(t *testing.T) {
	t.Parallel()
	e := servers.StartEtcd(t, servers.EtcdConfig{Args: []string{"--quota-backend-bytes", fmt.Sprint(48 << 20)}})
	cfg := fresh(e.Endpoints()...)
	cfg.UpkeepBytes = 4 << 20
	s := open(t, cfg)
	value := bytes.Repeat([]byte("v"), 256<<10)
	for i := range 400 {
		if _, err := s.Put(t.Context(), fmt.Sprint("ring/", i%8), value, lock.Always()); err != nil {
			t.Fatalf("after %d MiB: %v", i/4, err)
		}
	}
}
