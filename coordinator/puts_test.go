package coordinator_test

import (
	"context"
	"errors"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// Tables in local folders wait for one another, and hold up none in a bucket.
func TestPutPlaces(t *testing.T) {
	t.Parallel()
	take := coordinator.TakePlace(coordinator.Limits{FilePutParallel: 1, PutParallel: 2})
	taken := func(uri string) func() {
		t.Helper()
		leave, err := take(t.Context(), uri)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	over, end := context.WithCancel(t.Context())
	end()
	full := func(uri string) {
		t.Helper()
		if _, err := take(over, uri); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want to wait", uri, err)
		}
	}
	leave := taken("file:///lake/a")
	full("file:///lake/b")
	taken("s3://lake/a")
	taken("gs://lake/a")
	full("s3://lake/b")
	leave()
	taken("file:///lake/b")
}

// More tables than places: a transaction over all of them is published.
func TestMoreTablesThanPlaces(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.FilePutParallel = 1
	w.open(t)
	names := []string{"a", "b", "c", "d"}
	var parts []coordinator.OnceTable
	for _, name := range names {
		w.create(name, twophase.ModeExclusive)
		parts = append(parts, blind(name, "1"))
	}
	if o := w.commit("all", parts...); len(o.Committed.Tables) != len(names) {
		t.Errorf("%d tables of %d", len(o.Committed.Tables), len(names))
	}
}
