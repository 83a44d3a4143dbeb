package coordinator_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// Keys are used, forgotten and used again all the while that fsck looks: it never takes one
// of their transactions for another.
func TestFsckWhileKeysAreUsedAgain(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits = coordinator.Limits{OutcomeCount: 10, PollInterval: time.Millisecond, CheckpointEvery: 200}
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	w.create("b", twophase.ModeExclusive)
	var clients sync.WaitGroup
	var calls atomic.Int64
	for client := range 3 {
		clients.Go(func() { w.useAgain(client, &calls) })
	}
	done := make(chan struct{})
	go func() { clients.Wait(); close(done) }()
	looks, looked := 0, int64(-100)
	for going := true; going; {
		select {
		case <-done:
			going = false
		case <-time.After(time.Millisecond):
			if calls.Load() < looked+100 {
				continue // a look costs as much as a hundred calls
			}
		}
		looks, looked = looks+1, calls.Load()
		for _, f := range w.fsck("").Findings {
			if f.Code.Wrong() {
				t.Errorf("look %d: %s %s@%d %s: %s", looks, f.Code, f.Table, f.Version, f.Txn, f.What)
			}
		}
	}
	t.Logf("%d looks at %d calls", looks, calls.Load())
	w.settle()
	w.stop()
	if r := w.fsck(""); !r.Proven() || strings.Join(findings(r), "") != "" {
		t.Errorf("at rest: %v", findings(r))
	}
}

// useAgain is a client that uses some keys for one thing after the other, up until they have
// been used again 12 times.
func (w *world) useAgain(client int, calls *atomic.Int64) {
	before := map[string]twophase.Version{}
	for n, again := 0, 0; again < 12; n++ {
		if n == 5000 {
			w.t.Error("no key is ever forgotten")
			return
		}
		key := fmt.Sprint("key ", client, " ", n)
		if n%2 == 0 {
			key = fmt.Sprint("again ", client, " ", n%20)
		}
		path := fmt.Sprint(client, " ", n)
		if n%10 == 0 {
			path = fmt.Sprint(client, " 0") // its file is there
		}
		calls.Add(1)
		o, _, err := w.catalog.CommitOnce(w.ctx(), once(key, blind("a", path), blind("b", path)))
		if err != nil {
			continue // refused: its key is remembered, or its file is there
		}
		if was, used := before[key]; used && o.Committed.Tables[0].Version != was {
			again++
		}
		before[key] = o.Committed.Tables[0].Version
	}
}
