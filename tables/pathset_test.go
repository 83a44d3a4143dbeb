package tables

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/txcoord/txcoord/internal/allocs"
)

// Inside the package: a view has no face that shows its files one by one.

// TestViewFiles: a view's files are those of the liveSet that it was made from and that
// was changed the same way.
func TestViewFiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const paths = 400
		was, copied := newLiveSet(), newLiveSet()
		change := func(s *liveSet, p PathHash, dv DVHash, add bool) {
			if add {
				s.add(p, live{dv: dv})
			} else {
				s.remove(p, dv)
			}
		}
		steps := rapid.SliceOfN(rapid.Uint32(), 300, 1500).Draw(t, "steps")
		begun := rapid.IntRange(0, len(steps)).Draw(t, "made after")
		var s viewFiles
		for i, step := range steps {
			if i == begun {
				s = newViewFiles(copied)
			}
			// Two vectors, one file in sixteen has the second, and more is added than removed.
			p, dv, add := PathHash(step%paths)<<40, DVHash(0), step>>28%4 != 0
			if step>>24%16 == 0 {
				dv = 1
			}
			change(&was, p, dv, add)
			switch {
			case i < begun:
				change(&copied, p, dv, add)
			case add:
				s.add(p, dv)
			default:
				s.remove(p, dv)
			}
		}
		if begun == len(steps) {
			s = newViewFiles(copied)
		}
		if s.len() != was.len() {
			t.Fatalf("%d files, want %d", s.len(), was.len())
		}
		for p := range PathHash(paths) {
			for _, want := range []DVHash{0, 1, 2} {
				dv, alive := s.prefer(p<<40, want)
				if dvWas, aliveWas := was.prefer(p<<40, want); dv != dvWas || alive != aliveWas {
					t.Fatalf("path %d, wanted %d: %d, %v, want %d, %v", p, want, dv, alive, dvWas, aliveWas)
				}
			}
		}
	})
}

// TestViewMemory holds what a view keeps of a file: eight bytes, and as many again for
// what is beside the order.
func TestViewMemory(t *testing.T) {
	const files, most = 200_000, 16
	held := allocs.Held(func() any {
		s := newViewFiles(newLiveSet())
		for i := range PathHash(files) {
			s.add(i*0x9e3779b97f4a7c15, 0)
		}
		return &s
	})
	if held > most*files {
		t.Errorf("%d files take %d bytes, want at most %d each", files, held, most)
	}
}
