package coordinator_test

import (
	"strings"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// What is told of a freeze goes by its ground, whatever its detail says. One that was written
// before there was a field for it is known by its detail.
func TestGroundOfAFreeze(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	for name, c := range map[string]struct {
		record       twophase.Frozen
		text, remedy string
	}{
		"torn": {
			twophase.Frozen{Cause: twophase.CauseStalled, Ground: twophase.GroundTorn, Detail: "found", Remedy: "do this"},
			"(stalled): its log cannot be gone on with: found", "do this",
		},
		"torn-before": {
			twophase.Frozen{Cause: twophase.CauseStalled, Detail: "version 1 of table x is no whole commit: 1.json is empty; once it is whole, the table goes on by itself"},
			"(stalled): its log cannot be gone on with: version 1", "once it is whole, the table goes on by itself; if its writer is gone for good, ",
		},
		"stalled": {
			twophase.Frozen{Cause: twophase.CauseStalled, Detail: "found"},
			"(stalled): requests on its location do not get through", "make its location reachable",
		},
		"unwritable": {
			twophase.Frozen{Cause: twophase.CauseLost, Ground: twophase.GroundUnwritable, Detail: "found"},
			"(lost): a decided transaction cannot be published here: found", "report it with the text above",
		},
		"unwritable-before": {
			twophase.Frozen{Cause: twophase.CauseLost, Detail: "decided transaction x cannot be made a version of the table by this build: why"},
			"(lost): a decided transaction cannot be published here: decided", "report it with the text above",
		},
		"lost": {
			twophase.Frozen{Cause: twophase.CauseLost, Detail: "found"},
			"(lost): the staged part of a decided transaction is lost", "put the part back",
		},
	} {
		c.record.Table = w.create(name, twophase.ModeExclusive).ID
		if err := w.catalog.Append(w.ctx(), &c.record); err != nil {
			t.Fatal(err)
		}
		f := found(t, w.explain(name), coordinator.FoundFrozen)
		if !strings.Contains(f.Text, c.text) || !strings.HasPrefix(f.Remedy, c.remedy) || strings.Contains(f.Text, "do this") {
			t.Errorf("%s: %s. %s", name, f.Text, f.Remedy)
		}
	}
}
