//go:build unix

package etcdstore_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/etcdstore"
	"github.com/txcoord/txcoord/twophase"
)

// back is a running store over a cluster that was put back to the state that it had
// before the last of the store's writes.
func back(t *testing.T, before, after func(s handle)) handle {
	t.Helper()
	e := servers.StartEtcd(t, servers.EtcdConfig{})
	m := e.Members[0]
	s := open(t, patient(e.Endpoints()...))
	before(s)
	m.Stop()
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(m.Dir)); err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	after(s)
	m.Kill()
	if err := errors.Join(os.RemoveAll(m.Dir), os.Rename(copied, m.Dir)); err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func putAll(t *testing.T, from, to int) func(s handle) {
	return func(s handle) {
		for i := from; i < to; i++ {
			if _, err := s.Put(t.Context(), fmt.Sprintf("ring/%d", i), nil, lock.IfAbsent()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// wantBack checks that the store refuses everything, and says why.
func wantBack(t *testing.T, s handle, first error) {
	t.Helper()
	_, putErr := s.Put(t.Context(), "other", nil, lock.Always())
	_, getErr := s.Get(t.Context(), "ring/0")
	_, scanErr := s.Scan(t.Context(), "", "", 0)
	for _, err := range []error{first, putErr, getErr, scanErr, s.Delete(t.Context(), "ring/0")} {
		if !errors.Is(err, lock.ErrShort) || !strings.Contains(err.Error(), "older state") || !strings.Contains(err.Error(), "txcoord rebuild") {
			t.Errorf("got %v", err)
		}
	}
}

// The next put of the ring would fit the older state, and is not carried out on it.
func TestPutOnAClusterThatWentBack(t *testing.T) {
	t.Parallel()
	s := back(t, putAll(t, 0, 5), putAll(t, 5, 7))
	_, err := s.Put(t.Context(), "ring/7", nil, lock.IfAbsent())
	wantBack(t, s, err)
	if _, err := open(t, s.cfg).Get(t.Context(), "ring/7"); !errors.Is(err, lock.ErrNotFound) {
		t.Errorf("the put was carried out: %v", err)
	}
}

func TestBatchOnAClusterThatWentBack(t *testing.T) {
	t.Parallel()
	s := back(t, putAll(t, 0, 5), putAll(t, 5, 7))
	_, err := s.PutBatch(t.Context(), "ring/7", nil, lock.IfAbsent(), []lock.Write{{Key: "beside"}})
	wantBack(t, s, err)
	for _, key := range []string{"ring/7", "beside"} {
		if _, err := open(t, s.cfg).Get(t.Context(), key); !errors.Is(err, lock.ErrNotFound) {
			t.Errorf("the put was carried out: %v", err)
		}
	}
}

func TestReadOfAClusterThatWentBack(t *testing.T) {
	t.Parallel()
	s := back(t, putAll(t, 0, 5), putAll(t, 5, 7))
	_, err := s.Get(t.Context(), "ring/0")
	wantBack(t, s, err)
}

// A cluster whose revisions were moved on after the restore, as etcd advises, is
// betrayed by a key that stands at an older one.
func TestClusterThatWentBackWithNewerRevisions(t *testing.T) {
	t.Parallel()
	rev := lock.Revision("")
	s := back(t, putAll(t, 0, 5), func(s handle) {
		item, err := s.Get(t.Context(), "ring/2")
		if err != nil {
			t.Fatal(err)
		}
		if rev, err = s.Put(t.Context(), "ring/2", nil, lock.IfRevision(item.Revision)); err != nil {
			t.Fatal(err)
		}
	})
	other := open(t, s.cfg)
	for i := range 20 {
		if _, err := other.Put(t.Context(), "bump", []byte{byte(i)}, lock.Always()); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Put(t.Context(), "ring/3", nil, lock.IfAbsent())
	wantBack(t, s, err)
	if rev == "" {
		t.Error("nothing was written after the copy")
	}
}

// moveOn gives the cluster newer revisions than it ever had, as restoring with
// --bump-revision does. Its id stays where the members' names and addresses do.
func moveOn(t *testing.T, cfg etcdstore.Config) {
	t.Helper()
	other := open(t, cfg)
	for i := range 20 {
		if _, err := other.Put(t.Context(), "bump", []byte{byte(i)}, lock.Always()); err != nil {
			t.Fatal(err)
		}
	}
}

// Where revisions were moved on, and the newest put is not there at all, the put before
// which the condition names says so: also to who has only read it.
func TestPredecessorIsGoneWithNewerRevisions(t *testing.T) {
	t.Parallel()
	var after lock.Condition
	var reader handle
	s := back(t, putAll(t, 0, 5), func(s handle) {
		putAll(t, 5, 7)(s)
		reader = open(t, s.cfg)
		item, err := reader.Get(t.Context(), "ring/6")
		if err != nil {
			t.Fatal(err)
		}
		after = lock.IfAbsent().After("ring/6", item.Revision)
	})
	moveOn(t, s.cfg)
	_, err := s.Put(t.Context(), "ring/7", nil, after)
	wantBack(t, s, err)
	_, err = reader.PutBatch(t.Context(), "ring/7", nil, after, []lock.Write{{Key: "beside"}})
	wantBack(t, reader, err)
	for _, key := range []string{"ring/7", "beside"} {
		if _, err := open(t, s.cfg).Get(t.Context(), key); !errors.Is(err, lock.ErrNotFound) {
			t.Errorf("the put was carried out: %v", err)
		}
	}
}

// A predecessor that stands, or that was written since, is no hindrance, and no excuse.
func TestPredecessorStands(t *testing.T) {
	t.Parallel()
	s := open(t, patient(servers.StartEtcd(t, servers.EtcdConfig{}).Endpoints()...))
	putAll(t, 0, 2)(s)
	item, err := s.Get(t.Context(), "ring/0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "ring/1", nil, lock.IfAbsent().After("ring/0", item.Revision)); !errors.Is(err, lock.ErrConflict) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Put(t.Context(), "ring/2", nil, lock.IfAbsent().After("ring/0", item.Revision)); err != nil {
		t.Error(err)
	}
	if _, err := s.Put(t.Context(), "ring/0", nil, lock.IfRevision(item.Revision)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutBatch(t.Context(), "ring/3", nil, lock.IfAbsent().After("ring/0", item.Revision), nil); err != nil {
		t.Error(err)
	}
	if _, err := s.PutBatch(t.Context(), "ring/1", nil, lock.IfAbsent().After("ring/0", item.Revision), nil); !errors.Is(err, lock.ErrConflict) {
		t.Errorf("got %v", err)
	}
}

// Journals that run on append nothing behind a gap: neither who wrote the newest entries,
// with other puts in between, nor who has read them.
func TestJournalsOnAClusterThatWentBackWithNewerRevisions(t *testing.T) {
	t.Parallel()
	var writer, reader *lock.Journal
	s := back(t, func(s handle) {
		writer = journal(t, s)
		appendTo(t, writer, 0, 3)
	}, func(s handle) {
		appendTo(t, writer, 3, 6)
		if _, err := s.Put(t.Context(), "pay/1", nil, lock.IfAbsent()); err != nil {
			t.Fatal(err)
		}
		reader = journal(t, open(t, s.cfg))
		for pos := range twophase.Position(6) {
			if _, err := reader.Read(t.Context(), pos); err != nil {
				t.Fatal(err)
			}
		}
	})
	moveOn(t, s.cfg)
	for name, j := range map[string]*lock.Journal{"who wrote": writer, "who read": reader} {
		if _, err := j.Append(t.Context(), 6, entryOf(j, 6)); !errors.Is(err, lock.ErrShort) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if next, err := journal(t, open(t, s.cfg)).Next(t.Context()); err != nil || next != 3 {
		t.Errorf("the journal goes on at %d: %v", next, err)
	}
	if _, err := journal(t, open(t, s.cfg)).Read(t.Context(), 6); !errors.Is(err, lock.ErrNotFilled) {
		t.Errorf("an entry stands behind the gap: %v", err)
	}
}

func journal(t *testing.T, s handle) *lock.Journal {
	t.Helper()
	j, err := lock.OpenJournal(t.Context(), s, 0)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func entryOf(j *lock.Journal, pos twophase.Position) []byte {
	m := j.Meta()
	e := twophase.Entry{Header: twophase.Header{Catalog: m.Catalog, Incarnation: m.Incarnation, Position: pos}}
	return e.Encode()
}

func appendTo(t *testing.T, j *lock.Journal, from, to twophase.Position) {
	t.Helper()
	for pos := from; pos < to; pos++ {
		if _, err := j.Append(t.Context(), pos, entryOf(j, pos)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOtherClusterInItsPlace(t *testing.T) {
	t.Parallel()
	e, other := servers.StartEtcd(t, servers.EtcdConfig{}), servers.StartEtcd(t, servers.EtcdConfig{})
	proxy := servers.NewTCPFaults(t, e.Members[0].Endpoint)
	s := open(t, patient("http://"+proxy.Addr))
	putAll(t, 0, 3)(s)
	putAll(t, 0, 20)(open(t, patient(other.Endpoints()...))) // Its revisions are newer.
	proxy.Redirect(other.Members[0].Endpoint)
	_, err := s.Get(t.Context(), "ring/0")
	wantBack(t, s, err)
}

// A guard that somebody deletes is no sign of anything.
func TestDeletedGuard(t *testing.T) {
	t.Parallel()
	e := servers.StartEtcd(t, servers.EtcdConfig{})
	s := open(t, patient(e.Endpoints()...))
	putAll(t, 0, 1)(s)
	if err := open(t, s.cfg).Delete(t.Context(), "ring/0"); err != nil {
		t.Fatal(err)
	}
	putAll(t, 0, 2)(s)
	if _, err := s.Put(t.Context(), "ring/0", nil, lock.IfAbsent()); !errors.Is(err, lock.ErrConflict) {
		t.Errorf("got %v", err)
	}
	if err := s.Delete(t.Context(), "ring/1"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutBatch(t.Context(), "ring/1", nil, lock.IfAbsent(), []lock.Write{{Key: "beside"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "beside"); err != nil {
		t.Error(err)
	}
}
