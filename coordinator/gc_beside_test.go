package coordinator_test

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// stopped is a removal that waits, before it is carried out or right after.
type stopped struct {
	key     string
	after   bool // it is carried out, and its answer waits
	answer  error
	reached chan struct{}
	goOn    chan struct{}
	once    sync.Once
	said    atomic.Bool // an answer was lost; no other is
}

func stopAt(key string, after bool) *stopped {
	return &stopped{key: key, after: after, reached: make(chan struct{}), goOn: make(chan struct{})}
}

func (s *stopped) do(key string, remove func() error) error {
	if !strings.HasSuffix(key, s.key) {
		return remove()
	}
	wait := func() { s.once.Do(func() { close(s.reached) }); <-s.goOn }
	if !s.after {
		wait()
		return remove()
	}
	err := remove()
	wait()
	if s.answer != nil && !s.said.Swap(true) {
		return s.answer
	}
	return err
}

type stoppedObjects struct {
	objstore.Store
	at *stopped
}

func (s stoppedObjects) Delete(ctx context.Context, key string) error {
	return s.at.do(key, func() error { return s.Store.Delete(ctx, key) })
}

type stoppedStore struct {
	lock.Store
	at *stopped
}

func (s stoppedStore) Delete(ctx context.Context, key string) error {
	return s.at.do(key, func() error { return s.Store.Delete(ctx, key) })
}

// TestRestoreBesideCollector: a replica puts back what another one has copied aside, and has
// not removed yet, or has removed without anybody knowing. Nothing is ever in neither place,
// and when the collector is over all of it comes back.
func TestRestoreBesideCollector(t *testing.T) {
	const extract, entry = "extracts/t-00000000000000aa", "ring/former/00000000"
	for name, at := range map[string]*stopped{
		"object, before it is removed": stopAt(extract, false), "object, before the answer": stopAt(extract, true),
		"key, before it is removed": stopAt(entry, false), "key, before the answer": stopAt(entry, true),
	} {
		for outcome, answer := range map[string]error{"answered": nil, "never answered": lock.ErrUnknown} {
			if answer != nil && !at.after {
				continue
			}
			at := stopAt(at.key, at.after)
			at.answer = answer
			t.Run(name+", "+outcome, func(t *testing.T) {
				t.Parallel()
				restoreBeside(t, at)
			})
		}
	}
}

func restoreBeside(t *testing.T, at *stopped) {
	w := sharedWorld("one", time.Hour)
	w.cfg.Now = func() time.Time { return time.Now().Add(day) }
	w.wrapObjects = func(s objstore.Store) objstore.Store { return stoppedObjects{s, at} }
	w.wrapStore = func(s lock.Store) lock.Store { return stoppedStore{s, at} }
	w.open(t)
	other := w.replica(t, func(r *world) { r.cfg.Address = "two" })
	w.litterTwo(at.key)
	before := w.lying(at.key)
	var run coordinator.GarbageReport
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run, err = w.catalog.CollectGarbage(w.ctx(), coordinator.GarbageRequest{Remove: true, FormerJournals: true})
	}()
	<-at.reached
	all := other.quarantined()
	if len(all) != 1 || all[0].Count != 1 {
		t.Fatalf("%+v", all)
	}
	q := all[0]
	for range 2 { // who repeats a call gets the same
		back, err := other.catalog.RestoreGarbage(w.ctx(), coordinator.RestoreRequest{Run: q.Run})
		if err != nil || back.Count != 1 || !back.Kept {
			t.Errorf("%+v, %v", back, err)
		}
	}
	close(at.goOn)
	<-ended
	if (err != nil) != (at.answer != nil) || err == nil && run.Run != q.Run {
		t.Errorf("%+v, %v", run, err)
	}
	if !maps.Equal(before, w.lying(at.key)) {
		t.Fatalf("%s is in neither place, it was %v and is %v", at.key, before, w.lying(at.key))
	}
	back, err := other.catalog.RestoreGarbage(w.ctx(), coordinator.RestoreRequest{Run: q.Run})
	if err != nil || back.Count != 1 || back.Kept != (at.answer != nil) {
		t.Errorf("%+v, %v", back, err)
	}
	now := w.keys()
	if now["object: _txcoord/"+w.catalog.Name()+"/"+at.key]+now["store: "+at.key] == "" {
		t.Errorf("%s is not back", at.key)
	}
	if left := other.quarantined(); (len(left) == 1) != back.Kept {
		t.Errorf("%+v are left, kept %t", left, back.Kept)
	}
	w.nothingLeftOfQuarantine()
}

// litterTwo lays one thing that nothing names, of the kind that the key is of.
func (w *world) litterTwo(key string) {
	w.t.Helper()
	if !strings.HasPrefix(key, "ring/") {
		w.put("_txcoord/"+w.catalog.Name()+"/"+key, "of a table that is not here")
		return
	}
	e := twophase.Entry{Header: twophase.Header{Catalog: "c", Incarnation: "former", Time: twophase.TimeOf(time.Now())}}
	if _, err := w.store.Put(w.ctx(), key, e.Encode(), lock.Always()); err != nil {
		w.t.Fatal(err)
	}
}

// lying are the contents that lie under a key, where it was or in quarantine: each once.
func (w *world) lying(key string) map[string]bool {
	out := map[string]bool{}
	for at, content := range w.keys() {
		if strings.HasSuffix(at, key) {
			out[content] = true
		}
	}
	return out
}

// quarantined are the quarantines that there are.
func (w *world) quarantined() []coordinator.Quarantine {
	w.t.Helper()
	r, err := w.catalog.CollectGarbage(w.ctx(), coordinator.GarbageRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Quarantines
}

// nothingLeftOfQuarantine: copies that stayed go by their age, and the marks too.
func (w *world) nothingLeftOfQuarantine() {
	w.t.Helper()
	var none time.Duration
	for range 2 { // what lies in its place is put into another one first
		if _, err := w.catalog.CollectGarbage(w.ctx(), coordinator.GarbageRequest{Remove: true, FormerJournals: true, QuarantineFor: &none}); err != nil {
			w.t.Fatal(err)
		}
	}
	for key := range w.keys() {
		if strings.Contains(key, "/quarantine/") {
			w.t.Errorf("%s stays for good", key)
		}
	}
}
