package coordinator_test

import (
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// A release whose answer was lost is repeated: by name, id and place it finds the table
// released, and the owner object that a crash left goes with it. Another table that has
// the name by then is released like any other, by id the old one stays meant.
func TestReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	row := w.create("t", twophase.ModeExclusive)
	w.must(w.catalog.Release(w.ctx(), "t", false))
	owner := "t/_delta_log/_txcoord/owner.json"
	left := `{"format":1,"catalog":"` + w.meta().Catalog + `","incarnation":"` + w.meta().Incarnation + `","table":"` + string(row.ID) + `"}`
	w.must(w.objects.Put(w.ctx(), owner, []byte(left))) // as if it had died before
	for _, ref := range []string{"t", string(row.ID), row.URI, w.path("t")} {
		if err := w.catalog.Release(w.ctx(), ref, false); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if got := w.object(owner); got != "" {
		t.Errorf("the owner object: %s", got)
	}
	w.restart()
	if err := w.catalog.Release(w.ctx(), "t", false); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	for _, ref := range []string{"never", "t-0000000000000000", w.uri("never")} {
		wantReason(t, ref, w.catalog.Release(w.ctx(), ref, false), coordinator.TableNotFound)
	}
	_, _, err := w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: "t", URI: w.uri("t"), Mode: twophase.ModeExclusive})
	w.must(err, w.catalog.Release(w.ctx(), string(row.ID), false))
	if now := w.info("t"); now.ID == row.ID || w.object(owner) == "" {
		t.Errorf("the table that is there now was touched: %+v, %q", now, w.object(owner))
	}
	w.must(w.catalog.Release(w.ctx(), "t", false))
	wantReason(t, "a commit", second(w.try("k", blind("t", "1"))), coordinator.TableNotFound)
}
