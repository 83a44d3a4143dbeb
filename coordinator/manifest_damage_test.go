package coordinator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock/memstore"
	"github.com/txcoord/txcoord/twophase"
)

// gathered is a catalog whose files hold the snapshots 1, 2, 3-7 and 8.
func gathered(t *testing.T) *world {
	w := &world{}
	g, _ := gather(t, w, 5)
	g.open()
	w.settle()
	w.commit("last", blind("t", "last"))
	w.settle()
	if diff := cmp.Diff([]string{"0001.json", "0002.json", "0003.json", "0008.json"}, w.manifests()); diff != "" {
		t.Fatal(diff)
	}
	return w
}

// TestFsckNamesWhatARangeLacks: a file of several snapshots that is gone, torn, altered in
// the middle, there twice, or not the end of what a full map lists.
func TestFsckNamesWhatARangeLacks(t *testing.T) {
	t.Parallel()
	w := gathered(t)
	w.stop()
	third := w.object(manifestKey(3))
	seventh := third[strings.Index(third, `{"snapshot":7`):]
	fullMap := strings.Replace(strings.Replace(w.object(manifestKey(2)), `"snapshots"`, `"full":true,"snapshots"`, 1), `"snapshot":2`, `"snapshot":5`, 1)
	for name, c := range map[string]struct {
		key, content string
		want         []string
	}{
		"gone":                   {manifestKey(3), "", []string{"MANIFEST_MISSING snapshot 3"}},
		"the newest":             {manifestKey(8), "", []string{"MANIFEST_PENDING snapshot 8"}},
		"torn":                   {manifestKey(3), third[:300], []string{"MANIFEST_ALTERED snapshot 3"}},
		"one of them is another": {manifestKey(3), strings.Replace(third, `"version":4`, `"version":3`, 1), []string{"MANIFEST_ALTERED snapshot 5"}},
		"one of them is left out": {manifestKey(3), third[:strings.Index(third, ",\n{\"snapshot\":7")] + "\n]}\n", []string{
			"MANIFEST_MISSING snapshot 7",
		}},
		"there twice": {manifestKey(7), third[:strings.Index(third, `{"snapshot":3`)] + seventh, []string{"MANIFEST_ALTERED snapshot 7"}},
		"a full map within": {
			strings.Replace(manifestKey(5), ".json", ".checkpoint.json", 1), strings.Replace(fullMap, `"version":1`, `"version":4`, 1),
			[]string{"MANIFEST_ALTERED snapshot 5"},
		},
		"beyond the journal": {manifestKey(8), beyond(w.object(manifestKey(8))), []string{"MANIFEST_AHEAD snapshot 9"}},
	} {
		before := w.object(c.key)
		if c.content == "" {
			w.drop(c.key)
		} else {
			w.put(c.key, c.content)
		}
		w.wantFindings(name, w.fsck(""), c.want...)
		if before == "" {
			w.drop(c.key)
		} else {
			w.put(c.key, before)
		}
	}
	w.wantFindings("whole again", w.fsck(""))
}

// beyond is manifest 8 with snapshot 9 in it, too.
func beyond(newest string) string {
	lines := strings.SplitAfter(newest, "\n")
	ninth := strings.NewReplacer(`"snapshot":8`, `"snapshot":9`, `"version":7`, `"version":8`).Replace(lines[1])
	return lines[0] + strings.TrimSuffix(lines[1], "\n") + ",\n" + ninth + lines[2]
}

// TestANewerRangeStopsTheStart: R7. The newest manifest begins at or below what the journal
// knows, and ends above it: the journal went back.
func TestANewerRangeStopsTheStart(t *testing.T) {
	t.Parallel()
	w := gathered(t)
	w.stop()
	w.put(manifestKey(8), beyond(w.object(manifestKey(8))))
	if e := wantReason(t, "a start", w.tryStart(), coordinator.JournalContradiction); !strings.Contains(e.Message, "manifest 9") {
		t.Error(e)
	}
}

// TestADamagedNewestManifestStopsTheStart: torn, empty, or not what the journal says, whose
// snapshots the fold still knows.
func TestADamagedNewestManifestStopsTheStart(t *testing.T) {
	t.Parallel()
	w := gathered(t)
	w.stop()
	good := w.object(manifestKey(8))
	for bad, says := range map[string]string{
		good[:len(good)/2]: "cannot be read",
		"":                 "cannot be read",
		strings.Replace(good, `"version":7`, `"version":8`, 1): "snapshot 8 is not what the journal says",
	} {
		w.put(manifestKey(8), bad)
		if e := wantReason(t, "a start over "+bad, w.tryStart(), coordinator.JournalContradiction); !strings.Contains(e.Message, says) {
			t.Error(e)
		}
	}
	w.put(manifestKey(8), good)
	w.start()
}

// TestAnotherJournalsManifest: a copy of the journal went on by itself, so that a manifest
// stands there that is not what this one's record makes. The catalog stops (R7).
func TestAnotherJournalsManifest(t *testing.T) {
	t.Parallel()
	w := gathered(t)
	newest := w.object(manifestKey(8))
	w.put(manifestKey(9), strings.NewReplacer(`"snapshot":8`, `"snapshot":9`, `"version":7`, `"version":8`).Replace(newest))
	w.commit("x", blind("t", "x"))
	n := 0
	w.eventually("it stops", func() bool {
		n++ // what was committed before is answered for ever
		_, err := w.try(fmt.Sprint("y", n), blind("t", fmt.Sprint("y", n)))
		return err != nil && strings.Contains(err.Error(), "not what the journal says")
	})
}

// TestRebuildAboveARange: the tail of snapshots is in no manifest, or the newest range says
// where the life before ended; the new one goes on behind it, and its fillers share files.
func TestRebuildAboveARange(t *testing.T) {
	t.Parallel()
	for _, lost := range []int{0, 1, 2} { // of the newest files
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			t.Parallel()
			w := gathered(t)
			w.stop()
			all := w.manifests()
			for _, name := range all[len(all)-lost:] {
				w.drop("_txcoord/default/manifests/0000000000000000" + name)
			}
			newest := map[int]twophase.SnapshotVersion{0: 8, 1: 7, 2: 2}[lost]
			r := w.rebuilt(coordinator.RebuildOptions{Look: []string{"file://" + w.dir}})
			if r.Manifest != newest || r.Snapshot != newest+1+8-newest {
				t.Errorf("above %d, to %d", r.Manifest, r.Snapshot)
			}
			w.commit("after", blind("t", "after"))
			w.settle()
			if got := w.fsck(""); !got.Proven() {
				t.Error(findings(got))
			}
			w.check(closedRun{})
			for v := range newest {
				if diff := cmp.Diff(map[string]twophase.Version{"t": twophase.Version(v)}, w.snapshot(v+1)); diff != "" {
					t.Errorf("snapshot %d of the life before:\n%s", v+1, diff)
				}
			}
		})
	}
}

// TestRebuildNamesAMissingRange: a file of the middle is gone.
func TestRebuildNamesAMissingRange(t *testing.T) {
	t.Parallel()
	w := gathered(t)
	w.stop()
	w.drop(manifestKey(3))
	plan, err := w.rebuild(memstore.New(memstore.Config{}), coordinator.RebuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	broken := 0
	for _, f := range plan.Findings {
		if f.Code == coordinator.RebuildManifests {
			broken++
			if !strings.Contains(f.What, "manifest 3") {
				t.Error(f.What)
			}
		}
	}
	if broken != 1 || plan.Manifest != 8 {
		t.Errorf("%d findings, above %d: %v", broken, plan.Manifest, rebuildFindings(plan))
	}
}

// TestAServerOfTheLifeBeforeFindsItsNameTaken: it has a range of snapshots that are in no
// manifest when the catalog is rebuilt. Its put is of the name that the rebuild has taken,
// so nothing of it gets into the folder, and it stops (R7).
func TestAServerOfTheLifeBeforeFindsItsNameTaken(t *testing.T) {
	t.Parallel()
	old := &world{}
	g, _ := gather(t, old, 3)
	w := &world{objects: old.objects, t: t, dir: old.dir}
	r := w.rebuilt(coordinator.RebuildOptions{Look: []string{"file://" + w.dir}})
	t.Cleanup(w.stop)
	w.settle()
	before := w.manifests()
	g.open()
	old.eventually("the old one has stopped", func() bool {
		err := old.tag(old.catalog.Tag(old.ctx(), "x", 0))
		return err != nil && strings.Contains(err.Error(), r.Incarnation)
	})
	if diff := cmp.Diff(before, w.manifests()); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
	w.commit("b", blind("t", "b"))
	w.check(closedRun{})
}
