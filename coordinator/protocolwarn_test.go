package coordinator_test

import (
	"strings"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// Who loses a table by a change of its protocol is told in the answer that commits it.
func TestProtocolChangeWarns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("t", twophase.ModeOpen)
	set := func(property, value string) coordinator.OnceTable {
		return coordinator.OnceTable{Table: "t", Alter: &tables.Alteration{SetProperties: map[string]string{property: value}}}
	}
	warned := func(o coordinator.Outcome, all ...string) {
		t.Helper()
		got := strings.Join(o.Committed.Warnings, "\n")
		for _, s := range all {
			if !strings.Contains(got, s) {
				t.Errorf("warnings %q, want %q", got, s)
			}
		}
		if len(all) == 0 && got != "" {
			t.Errorf("warnings %q", got)
		}
	}
	warned(w.commit("none", set("owner", "me")))
	o := w.commit("writers", set("delta.enableInCommitTimestamps", "true"))
	warned(o, "table t: the table's protocol becomes reader 1, writer 7 (it was 1, 2)", "could read it still can", "writer features inCommitTimestamp cannot")
	warned(w.commit("readers", set("delta.enableTypeWidening", "true")), "becomes reader 3, writer 7 (it was 1, 7)", "reader features typeWidening cannot read it any more")

	begun := w.begin("staged")
	change := set("delta.enableDeletionVectors", "true")
	part, err := w.catalog.Stage(w.ctx(), coordinator.StageRequest{Token: begun.Token, Table: "t", Alter: change.Alter})
	if err != nil {
		t.Fatal(err)
	}
	o, err = w.catalog.Commit(w.ctx(), coordinator.CommitRequest{
		Token: begun.Token, Tables: []coordinator.TableParts{{Table: "t", Digests: []twophase.Digest{part.Digest}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	warned(o, "reader features deletionVectors cannot read")
	warned(w.commit("after that", set("owner", "you")))
}
