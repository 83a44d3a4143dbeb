package coordinator_test

import (
	"math"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// An attempt far above all others is refused before anybody counts up to it: with the
// fold locked, counting to the highest there is would take a quarter of an hour.
func TestAttemptPastTheLimit(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeExclusive)
	for _, attempt := range []uint32{10_001, math.MaxUint32} {
		for name, do := range map[string]func() error{
			"begin": func() error {
				_, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Key: "huge", Attempt: attempt})
				return err
			},
			"one call": func() error {
				r := once("huge", blind("t", "1"))
				r.Attempt = attempt
				_, _, err := w.catalog.CommitOnce(w.ctx(), r)
				return err
			},
			"resolve": func() error {
				_, _, err := w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{
					OutcomeRef: coordinator.OutcomeRef{Key: "huge", Attempt: attempt}, Resolve: true, BegunAfter: time.Now(),
				})
				return err
			},
		} {
			w.unchanged(name, func() {
				own := wantReason(t, name, do(), coordinator.InvalidRequest)
				if own.Field == nil || own.Field.Field != "attempt" || own.Field.Remedy == "" {
					t.Errorf("%s: %+v", name, own.Field)
				}
			})
		}
	}
	if _, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Key: "huge", Attempt: 10_000}); err != nil {
		t.Error(err)
	}
}

// What was decided under a higher limit keeps its answer, and is counted up to no further
// than the limit.
func TestAttemptUnderAHigherLimit(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.KeyAttempts = math.MaxUint32
	w.open(t)
	resolve := coordinator.OutcomeRequest{
		OutcomeRef: coordinator.OutcomeRef{Key: "k", Attempt: math.MaxUint32}, Resolve: true, BegunAfter: time.Now(),
	}
	if o, _, err := w.catalog.Outcome(w.ctx(), resolve); err != nil || o.Aborted == nil {
		t.Fatalf("%+v, %v", o, err)
	}
	w.stop()
	w.cfg.Limits.KeyAttempts = 3
	w.start()
	b, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Key: "k", Attempt: math.MaxUint32})
	if err != nil || len(b.Known) != 1 || b.Known[0].Attempt != math.MaxUint32 || b.Known[0].Aborted == nil {
		t.Errorf("%+v, %v", b, err)
	}
	x := w.explainTxn(coordinator.OutcomeRef{Key: "k", Attempt: math.MaxUint32}, nil)
	if len(x.Attempts) != 1 {
		t.Errorf("%+v", x.Attempts)
	}
}
