package coordinator_test

import (
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// The counts are of the fold: also of what another replica decided.
func TestStatusCounts(t *testing.T) {
	t.Parallel()
	w := sharedWorld("", time.Second)
	w.open(t)
	w.create("t", twophase.ModeOpen)
	other := w.replica(t, nil)
	w.commit("seed", blind("t", "1"))
	other.commit("first", change("t", readAt(1), remove("1")))
	_, err := w.try("second", change("t", readAt(1), remove("1")))
	wantReason(t, "both remove it", err, coordinator.Conflicted)
	if _, err := w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Token: w.begin("third").Token}, ""); err != nil {
		t.Fatal(err)
	}
	st := w.status()
	if want := (coordinator.Counts{Committed: 2, Aborted: 2, Conflicts: 1}); st.Counts != want {
		t.Errorf("%+v, want %+v", st.Counts, want)
	}
	if st.Slots == 0 || st.Now.IsZero() || st.BacklogLimit == 0 || st.AheadOfStore != nil {
		t.Errorf("%+v", st)
	}
}

// A replica whose clock is wrong is seen by the others, in both directions.
func TestStatusShowsWrongClocks(t *testing.T) {
	t.Parallel()
	w := sharedWorld("", time.Second)
	w.open(t)
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		wrong := w.replica(t, func(r *world) { r.cfg.Now = func() time.Time { return time.Now().Add(by) } })
		w.eventually("its clock is seen to be wrong", func() bool {
			for _, r := range w.status().Replicas {
				if d := r.ClockAhead; !r.Self && (by > 0 && d > by-time.Minute && d <= by || by < 0 && d < by+time.Minute && d > by-time.Minute) {
					return true
				}
			}
			return false
		})
		wrong.stop()
	}
}
