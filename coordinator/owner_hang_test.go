package coordinator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// Disks that hang under more tables than are looked at side by side, and heed no deadline:
// whose the others are is still noticed, and what hangs is said, though nobody writes there.
func TestOwnersBesideDisksThatHang(t *testing.T) {
	t.Parallel()
	hangs := make(chan struct{})
	answers := sync.OnceFunc(func() { close(hangs) })
	var hanging atomic.Bool
	w := &world{wrapObjects: func(s objstore.Store) objstore.Store {
		return objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			if hanging.Load() && strings.HasPrefix(op.Key, "dead") {
				<-hangs
			}
			return objtest.Done()
		}}
	}}
	w.cfg.Limits = coordinator.Limits{OwnerInterval: 5 * time.Millisecond, PutDeadline: 50 * time.Millisecond}
	w.open(t)
	t.Cleanup(answers)
	for n := range 9 {
		w.create(fmt.Sprint("dead", n), twophase.ModeExclusive)
	}
	w.create("well", twophase.ModeExclusive)
	w.settle()
	hanging.Store(true)
	w.eventually("all that hang are said", func() bool {
		dead := map[string]bool{}
		for _, tr := range w.status().Troubles {
			if strings.Contains(tr.Text, "has not answered a read") && strings.Contains(tr.Place, "dead") {
				dead[tr.Place] = true
			}
		}
		return len(dead) == 9
	})
	newer := w.owner("well")
	newer.Incarnation = strings.Repeat("f", 32)
	raw, err := json.Marshal(newer)
	if err != nil {
		t.Fatal(err)
	}
	w.put(ownerKey("well"), string(raw))
	w.eventually("it has seen that it is over", func() bool {
		var own *coordinator.Error
		return errors.As(w.tag(w.catalog.Tag(w.ctx(), "nothing", 0)), &own) && own.Reason == coordinator.JournalContradiction
	})
	answers()
	w.eventually("none hangs any more, and the catalog takes no writes", func() bool {
		st := w.status().Troubles
		return len(st) == 1 && strings.Contains(st[0].Text, "takes no writes")
	})
}
