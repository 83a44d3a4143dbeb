package coordinator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// The newest checkpoint is bad, which shows at its beginning or only in its files. Commits go on,
// and maintenance makes the next one of the older one and the commits since. It says so, in its
// answer and in the log, and the bad file stays.
func TestMaintainPassesOverABadCheckpoint(t *testing.T) {
	t.Parallel()
	const metadata = `{"checkpointMetadata":{"version":5}}`
	for name, spoil := range map[string]func(w *tended){
		"unreadable": func(w *tended) { w.put(w.key(5, "checkpoint.parquet"), "PAR1") },
		"contradicts itself": func(w *tended) {
			first, file := w.get(w.key(0, "json")), ""
			for line := range strings.Lines(w.get(w.key(2, "json"))) {
				if strings.HasPrefix(line, `{"add"`) {
					file = line
				}
			}
			w.put(w.key(5, "checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"), metadata+"\n"+first+file+file)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log logged
			w := newTended(t)
			w.cfg.Log = log.logger()
			w.restart()
			w.create("a", twophase.ModeExclusive)
			w.grow("a", 3)
			m := w.maintainer(coordinator.MaintainConfig{})
			w.maintain(m, "a", false)
			w.grow("a", 2)
			spoil(w)
			w.put("a/_delta_log/_last_checkpoint", `{"version":5,"size":4}`)
			w.restart()
			w.grow("a", 1)
			m = w.maintainer(coordinator.MaintainConfig{})
			before := len(w.files("a"))
			r := w.maintain(m, "a", false)
			if c := r.Checkpoint; !c.Written || c.Before != 3 || c.Adds != 6 || len(c.PassedOver) != 1 || !strings.Contains(c.PassedOver[0], "_delta_log/00000000000000000005.checkpoint.") {
				t.Errorf("%+v", c)
			}
			if after := len(w.files("a")); after != before+1 {
				t.Errorf("%d files became %d", before, after)
			}
			if !log.has("a checkpoint of the table is bad, and was not used", "00000000000000000005.checkpoint.") {
				t.Errorf("not said:\n%v", log.lines)
			}
			if got := w.get("a/_delta_log/_last_checkpoint"); !strings.HasPrefix(got, `{"version":6,`) {
				t.Errorf("_last_checkpoint is %s", got)
			}
			w.drop("a", 4)
			if got := w.state("a"); got.NumFiles() != 6 {
				t.Errorf("%d files", got.NumFiles())
			}
		})
	}
}

func (w *tended) key(v int, rest string) string { return fmt.Sprintf("a/_delta_log/%020d.%s", v, rest) }

// Nothing makes up for a bad checkpoint whose files alone are wrong: commits are refused, and who
// asks why is told so, until the file is put right.
func TestBadCheckpointThatCommitsMeetIsTold(t *testing.T) {
	t.Parallel()
	w := newTended(t)
	w.create("a", twophase.ModeExclusive)
	w.grow("a", 2)
	first, second := w.get(w.key(0, "json")), w.get(w.key(2, "json"))
	file := ""
	for line := range strings.Lines(second) {
		if strings.HasPrefix(line, `{"add"`) {
			file = line
		} else if strings.HasPrefix(line, `{"txn"`) {
			first += line
		}
	}
	w.drop("a", 2)
	name := w.key(2, "checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json")
	good := `{"checkpointMetadata":{"version":2}}` + "\n" + first + file
	w.put(name, good+file)
	w.restart()
	_, _, err := w.catalog.CommitOnce(w.ctx(), once("k", blind("a", "k")))
	wantReason(t, "commit", err, coordinator.LogContradiction)
	const says = "is in the checkpoint twice"
	if f := found(t, w.explain("a"), coordinator.FoundLogUnreadable); !f.Blocks || !strings.Contains(f.Text, says) {
		t.Errorf("%+v", f)
	}
	if st := w.status(); len(st.Troubles) != 1 || st.Troubles[0].Place != w.uri("a") || !strings.Contains(st.Troubles[0].Text, says) {
		t.Errorf("%+v", st.Troubles)
	}
	if in := w.listed()["a"]; !strings.Contains(in.Trouble, says) {
		t.Errorf("%+v", in)
	}
	w.put(name, good)
	if all := w.explain("a").Findings; len(all) != 0 {
		t.Errorf("%+v", all)
	}
	if st := w.status(); len(st.Troubles) != 0 || w.listed()["a"].Trouble != "" {
		t.Errorf("%+v", st.Troubles)
	}
	w.commit("k", blind("a", "k"))
}
