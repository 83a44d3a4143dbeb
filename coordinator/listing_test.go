package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// Where other replicas have put versions since a log was listed, that listing lacks the recorded
// one. It is listed again: the look at a log that was cleaned would read a whole state (R22).
func TestAListingThatLagsIsMadeAgain(t *testing.T) {
	t.Parallel()
	one := sharedWorld("", time.Minute).open(t)
	one.create("t", twophase.ModeExclusive)
	one.commit("1", blind("t", "1"))
	one.settle()
	var counts *objtest.Counting
	two := one.replica(t, func(r *world) {
		r.wrapObjects = func(s objstore.Store) objstore.Store {
			counts = objtest.NewCounting(s, nil)
			return counts
		}
	})
	b := two.begin("k")
	st := two.stage(b.Token, blind("t", "2")) // for which the view is read
	one.commit("between", blind("t", "3"))    // which does not settle: what is staged at the other one, it need not know
	eventually(t, "the other replica has folded that", func() bool { return two.info("t").Version == 2 })
	if _, err := two.catalog.Commit(two.ctx(), coordinator.CommitRequest{Token: b.Token, Tables: []coordinator.TableParts{parts("t", st.Digest)}}); err != nil {
		t.Fatal(err)
	}
	if n := counts.Counts()[objtest.Call{Kind: objtest.List, Class: "log"}]; n > 2 {
		t.Errorf("the log was listed %d times", n)
	}
}

// A reader whose listing gets no answer holds up nobody who can get one of his own, and nobody for
// longer than he would wait.
func TestAListingThatHangsHoldsUpNobody(t *testing.T) {
	t.Parallel()
	hang, hung := make(chan struct{}, 1), make(chan struct{})
	w := &world{wrapObjects: func(s objstore.Store) objstore.Store {
		return objtest.Faulty{Store: s, Hook: func(ctx context.Context, op objtest.Op) objtest.Fate {
			if op.Kind != objtest.List || !strings.HasPrefix(op.Key, "t/") {
				return objtest.Done()
			}
			select {
			case <-hang:
				close(hung)
				<-ctx.Done()
				return objtest.Fate{Err: ctx.Err()}
			default:
				return objtest.Done()
			}
		}}
	}}
	w.open(t)
	w.create("t", twophase.ModeOpen)
	w.restart() // so that nothing of it is known
	hang <- struct{}{}
	b := w.begin("k")
	stage := func(ctx context.Context) chan error {
		staged := make(chan error, 1)
		go func() {
			_, err := w.catalog.Stage(ctx, coordinator.StageRequest{Token: b.Token, Table: "t", Read: blindRead, Actions: add("1")})
			staged <- err
		}()
		return staged
	}
	waits, leave := context.WithCancel(w.ctx())
	first := stage(waits)
	<-hung
	soon, over := context.WithTimeout(w.ctx(), 5*time.Second)
	defer over()
	second := stage(soon)
	if _, err := w.catalog.SetMode(soon, "t", twophase.ModeExclusive); err != nil {
		t.Error(err)
	}
	over()
	select {
	case err := <-second:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("whoever waits no longer was told %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("a caller that had gone still waited for the view")
	}
	leave()
	if err := <-first; err == nil {
		t.Error("the reading that hung has come")
	}
}
