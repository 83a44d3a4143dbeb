package coordinator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// A version is missing in the middle of an open table's log: that is said, the table is
// not taken for another one, and goes on when the file is put back.
func TestGapInAnOpenTable(t *testing.T) {
	t.Parallel()
	clock := &clock{}
	w := &world{}
	w.cfg.Boot = clock.now
	w.open(t)
	w.create("t", twophase.ModeOpen)
	w.create("beside", twophase.ModeOpen)
	w.commit("1", blind("t", "1"))
	w.foreign("t", 2, add("x"))
	w.foreign("t", 3, add("y"))
	lost := w.read("t", 2)
	if err := w.objects.Delete(w.ctx(), fmt.Sprintf("t/_delta_log/%020d.json", 2)); err != nil {
		t.Fatal(err)
	}
	clock.advance(time.Minute) // the sight of version 1 is too old
	own := wantReason(t, "a commit on it", second(w.try("2", blind("t", "2"))), coordinator.LogContradiction)
	if !strings.Contains(own.Message, "gap: version 2 is missing between 1 and 3") {
		t.Errorf("%s", own.Message)
	}
	frozen := w.info("t").Frozen
	if frozen == nil || frozen.Cause != twophase.CauseContradiction || !strings.Contains(frozen.Detail, "gap") {
		t.Errorf("%+v", frozen)
	}
	if f := found(t, w.explain("t"), coordinator.FoundFrozen); !strings.Contains(f.Text, "version 2 is missing") || !strings.Contains(f.Remedy, "put the file back") {
		t.Errorf("%+v", f)
	}
	w.commit("others go on", blind("beside", "1"))
	w.rawCommit("t", 2, lost)
	if err := w.resolve("t"); err != nil {
		t.Fatal(err)
	}
	w.commit("3", blind("t", "3"))
	if n := w.versions("t"); n != 5 || w.info("t").Version != 4 {
		t.Errorf("%d versions, recorded %d", n, w.info("t").Version)
	}
}
