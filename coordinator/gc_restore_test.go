package coordinator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// TestRestoreOfWhatWasPlanted: whoever may write to the warehouse may put anything into a
// quarantine. Only what gc takes away comes back from there; nothing gets into this life's
// journal, among the manifests, or elsewhere.
func TestRestoreOfWhatWasPlanted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("1", blind("t", "1"))
	w.settle()
	ring := w.journalKeys()
	before := w.keys()
	last := ring[len(ring)-1]
	life := last[:strings.LastIndexByte(last, '/')+1]
	position := len(ring)
	theirs := twophase.Entry{Header: twophase.Header{Catalog: "c", Incarnation: "former"}}
	id := twophase.TxnID{1}
	refused := []string{
		"elsewhere/x",
		"objects/manifests/00000000000000099999.json",
		"objects/notes.txt",
		"objects/quarantine/other/objects/facts/x",
		"objects/staged/odd",
		"store/catalog",
		"store/head",
		"store/open/odd",
		"store/pay/00/odd",
		fmt.Sprintf("store/%s%08d", life, position),
		"store/ring/odd",
		"store/tag/x",
	}
	taken := []string{"objects/checkpoints/x", "objects/facts/x", "store/open/" + id.String(), "store/ring/former/00000000"}
	for _, name := range slices.Concat(refused, taken) {
		content := "planted"
		if strings.HasPrefix(name, "store/ring/") {
			content = string(theirs.Encode())
		}
		w.put("_txcoord/"+w.catalog.Name()+"/quarantine/run/"+name, content)
	}
	slices.Sort(refused)
	for _, dry := range []bool{true, false} {
		r, err := w.catalog.RestoreGarbage(w.ctx(), coordinator.RestoreRequest{Run: "run", DryRun: dry})
		if err != nil || r.Count != len(taken) || len(r.Taken) != 0 {
			t.Errorf("dry %t: %+v, %v", dry, r, err)
		}
		if diff := cmp.Diff(refused, r.Refused); diff != "" {
			t.Errorf("dry %t: refused (-want +got):\n%s", dry, diff)
		}
	}
	after := w.keys()
	for key := range after {
		back := slices.ContainsFunc(taken, func(name string) bool {
			_, name, _ = strings.Cut(name, "/")
			return strings.HasSuffix(key, name)
		})
		if _, was := before[key]; !was && !back && !strings.Contains(key, "/quarantine/") {
			t.Errorf("%s came", key)
		}
	}
	for _, name := range refused {
		if after["object: _txcoord/"+w.catalog.Name()+"/quarantine/run/"+name] == "" {
			t.Errorf("%s is not in quarantine any more", name)
		}
	}
	w.commit("2", blind("t", "2"))
	w.restart()
	if r := w.fsck(""); !r.Proven() {
		t.Errorf("%v", findings(r))
	}
}

// journalKeys are the keys of this life's journal, in order.
func (w *world) journalKeys() (out []string) {
	w.t.Helper()
	for after := ""; ; {
		items, err := w.store.Scan(w.ctx(), "ring/", after, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(items) == 0 {
			return out
		}
		for _, it := range items {
			after = it.Key
			out = append(out, it.Key)
		}
	}
}
