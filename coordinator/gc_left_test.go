package coordinator_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
)

// TestGarbageNamesLinks: symbolic links below the catalog's folder are named and left alone,
// wherever they lead, and everything else goes.
func TestGarbageNamesLinks(t *testing.T) {
	t.Parallel()
	w := newLittered(t, func(w *world) { w.files = true })
	w.later.Store(int64(day))
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "facts"), []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(w.dir, "_txcoord", w.name())
	links := map[string]string{
		"facts/link": outside, "facts/file": filepath.Join(outside, "facts"), "facts/inside": filepath.Join(folder, "staged"),
		"staged/nowhere": filepath.Join(outside, "nowhere"), "quarantine/run/objects/facts/link": outside,
	}
	for name, target := range links {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	for _, remove := range []bool{false, true} {
		r := w.gc(coordinator.GarbageRequest{Remove: remove, FormerJournals: true})
		want := w.rubbish
		for name := range links {
			if !slices.ContainsFunc(r.Skipped, func(s string) bool {
				return strings.HasPrefix(s, name+": it is a symbolic link, which is not followed: put")
			}) {
				t.Errorf("%s is not named: %v", name, r.Skipped)
			}
		}
		if diff := cmp.Diff(want, w.found(r)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	for name, target := range links {
		if got, err := os.Readlink(filepath.Join(folder, name)); err != nil || got != target {
			t.Errorf("%s leads to %q: %v", name, got, err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(outside, "facts")); err != nil || string(b) != "theirs" {
		t.Errorf("%s, %v", b, err)
	}
	back, err := w.catalog.RestoreGarbage(w.ctx(), coordinator.RestoreRequest{Run: "run"})
	if err != nil || !slices.Equal(back.Refused, []string{"objects/facts/link"}) || back.Count != 0 {
		t.Errorf("%+v, %v", back, err)
	}
}

// TestGarbageBehindWhatIsTooLarge: what stays for its size takes no place in a call, however
// much of it there is.
func TestGarbageBehindWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	w := newLittered(t, func(w *world) { w.cfg.Limits.GarbageObjectBytes = 4 })
	w.later.Store(int64(day))
	folder := "_txcoord/" + w.name() + "/facts/"
	const many = 10_001
	for i := range many {
		w.put(fmt.Sprintf("%sa%05d", folder, i), "larger")
	}
	w.put(folder+"z", "z")
	for _, remove := range []bool{false, true} {
		r := w.gc(coordinator.GarbageRequest{Remove: remove, FormerJournals: true})
		if len(r.Found) != 1 || r.Found[0].Key != "facts/z" || r.More {
			t.Errorf("remove %t: %+v", remove, r)
		}
		n := len(r.Skipped)
		if n != 21 || r.Skipped[n-1] != fmt.Sprintf("and %d more", many+len(w.rubbish)-20) || !strings.Contains(r.Skipped[0], "limit gc_object_bytes is 4") {
			t.Errorf("remove %t: left %v", remove, r.Skipped)
		}
	}
}
