package coordinator_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// A client whose answer was lost makes the same call again.
func TestCreateRepeatedAnswersTheTable(t *testing.T) {
	w := newWorld(t)
	first := w.create("a", twophase.ModeOpen)
	if d := cmp.Diff(first, w.create("a", twophase.ModeOpen)); d != "" {
		t.Errorf("the same call answers otherwise: %s", d)
	}
	_, _, err := w.catalog.Create(w.ctx(), coordinator.CreateRequest{
		Name: "a", URI: first.URI,
		Schema: `{"type":"struct","fields":[{"name":"other","type":"long","nullable":true,"metadata":{}}]}`,
	})
	if !errors.Is(err, &coordinator.Error{Reason: coordinator.TableExists}) {
		t.Errorf("another schema at the same place: got %v, want %s", err, coordinator.TableExists)
	}
}
