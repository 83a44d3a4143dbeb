package coordinator_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// Begin and Commit look equally far for a committed attempt above one whose abort is not
// known any more: Begin names none that Commit would not see, and the other way round.
func TestBeginAndCommitLookEquallyFar(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("a", twophase.ModeExclusive)
	committed := []uint32{2, 1 + twophase.AttemptsAhead, 2 + twophase.AttemptsAhead}
	key := func(n uint32) string { return fmt.Sprint("committed by attempt ", n) }
	for _, n := range committed {
		r := once(key(n), blind("a", key(n)))
		for r.Attempt = 1; r.Attempt < n; r.Attempt++ {
			b, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Key: r.Key, Attempt: r.Attempt})
			if err == nil {
				_, err = w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Token: b.Token}, "")
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := w.catalog.CommitOnce(w.ctx(), r); err != nil {
			t.Fatal(err)
		}
	}
	w.settle()
	w.stop()
	w.rebuilt(coordinator.RebuildOptions{}) // the aborts are lost
	for _, n := range committed {
		for _, attempt := range []uint32{2, 1} {
			if attempt == n {
				continue
			}
			b, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Key: key(n), Attempt: attempt})
			if err != nil {
				t.Fatal(err)
			}
			near := n-attempt <= twophase.AttemptsAhead
			if got := len(b.Known) == 1 && b.Known[0].Attempt == n; got != near || len(b.Known) > 1 {
				t.Errorf("begin of attempt %d of %q knows %+v", attempt, key(n), b.Known)
			}
			if !near {
				_, _, err = w.catalog.CommitOnce(w.ctx(), coordinator.OnceRequest{Key: key(n), Attempt: attempt, Tables: []coordinator.OnceTable{blind("a", "anew")}})
				if err != nil {
					t.Errorf("commit of attempt %d of %q: %v", attempt, key(n), err)
				}
				continue
			}
			_, _, err = w.catalog.CommitOnce(w.ctx(), coordinator.OnceRequest{Key: key(n), Attempt: attempt, Tables: []coordinator.OnceTable{blind("a", "anew")}})
			wantReason(t, fmt.Sprintf("commit of attempt %d of %q", attempt, key(n)), err, coordinator.KeyCommitted)
		}
	}
}

// What a decision was refused for may be forgotten when the call is answered: the answer is
// that of the decision.
func TestRefusalsOfWhatIsForgottenSince(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	id := func(attempt uint32) twophase.TxnID { return twophase.DeriveTxnID(w.status().CatalogID, "k", attempt) }
	done := &twophase.Outcome{Commit: &twophase.Committed{Txn: id(1), Key: "k", Attempt: 1}}
	err := w.catalog.Refusal("k", 2, &twophase.Refused{Reason: twophase.ReasonEarlierAttempt, Txn: id(1), Detail: "attempt 1 is committed", Outcome: done})
	wantReason(t, "an attempt below", err, coordinator.KeyCommitted)
	lost := &twophase.Outcome{Abort: &twophase.Aborted{Txn: id(1), Key: "k", Attempt: 1}}
	for _, o := range []*twophase.Outcome{nil, lost} {
		err = w.catalog.Refusal("k", 2, &twophase.Refused{Reason: twophase.ReasonEarlierAttempt, Txn: id(1), Outcome: o})
		wantReason(t, "an attempt below that is not committed", err, coordinator.AttemptUndecided)
	}
	err = w.catalog.Refusal("k", 1, &twophase.Refused{Reason: twophase.ReasonOtherDigests, Txn: id(1), Outcome: done})
	wantReason(t, "other digests", err, coordinator.OtherDigests)
	if e, ok := errors.AsType[*coordinator.Error](err); !ok || e.Txn == nil || e.Txn.Txn != id(1) || e.Txn.Key != "k" {
		t.Errorf("it names %+v", err)
	}
}
