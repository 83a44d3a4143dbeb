package tables

import (
	"maps"
	"slices"
)

// pathSet is a set of paths that grows to millions: eight bytes each in order, and the
// latest changes beside them until they are an eighth.
type pathSet struct {
	sorted []PathHash
	// added are not in sorted, removed are.
	added, removed map[PathHash]struct{}
}

// pathChanges is how many changes are beside the paths at least, before they are merged.
const pathChanges = 64

func (s *pathSet) len() int { return len(s.sorted) + len(s.added) - len(s.removed) }

func (s *pathSet) has(p PathHash) bool {
	if _, ok := s.added[p]; ok {
		return true
	}
	if _, ok := s.removed[p]; ok {
		return false
	}
	_, ok := slices.BinarySearch(s.sorted, p)
	return ok
}

func (s *pathSet) add(p PathHash) {
	if s.has(p) {
		return
	}
	if _, ok := s.removed[p]; ok {
		delete(s.removed, p)
		return
	}
	s.added = s.with(s.added, p)
}

// remove reports whether the path was there.
func (s *pathSet) remove(p PathHash) bool {
	if !s.has(p) {
		return false
	}
	if _, ok := s.added[p]; ok {
		delete(s.added, p)
		return true
	}
	s.removed = s.with(s.removed, p)
	return true
}

// with adds to one of the changes, and merges them when there are many.
func (s *pathSet) with(changes map[PathHash]struct{}, p PathHash) map[PathHash]struct{} {
	if changes == nil {
		changes = map[PathHash]struct{}{}
	}
	changes[p] = struct{}{}
	if len(s.added)+len(s.removed) <= pathChanges+len(s.sorted)/8 {
		return changes
	}
	s.merge()
	return nil
}

func (s *pathSet) merge() {
	out := make([]PathHash, 0, s.len())
	added := slices.Sorted(maps.Keys(s.added))
	for _, p := range s.sorted {
		for len(added) > 0 && added[0] < p {
			out, added = append(out, added[0]), added[1:]
		}
		if _, gone := s.removed[p]; !gone {
			out = append(out, p)
		}
	}
	s.sorted, s.added, s.removed = append(out, added...), nil, nil
}

// viewFiles are the live files of a view: what a liveSet holds, without sizes. Nearly all
// files have no vector, and their paths alone are kept; rest has the others, and those
// whose path is there with a vector, too.
type viewFiles struct {
	plain pathSet
	rest  liveSet
}

// newViewFiles takes a set over.
func newViewFiles(from liveSet) viewFiles {
	out := viewFiles{rest: newLiveSet()}
	out.plain.sorted = make([]PathHash, 0, len(from.one))
	for p, f := range from.one {
		if f.dv == 0 {
			out.plain.sorted = append(out.plain.sorted, p)
		} else {
			out.rest.one[p] = f
		}
	}
	slices.Sort(out.plain.sorted)
	for p := range from.more {
		out.rest.add(p.path, live{dv: p.dv})
	}
	return out
}

func (s *viewFiles) len() int { return s.plain.len() + s.rest.len() }

// prefer returns a vector under which a path is live, the wanted one if it is among
// several.
func (s *viewFiles) prefer(p PathHash, want DVHash) (DVHash, bool) {
	if s.plain.has(p) && (want == 0 || !s.rest.has(p, want)) {
		return 0, true
	}
	return s.rest.prefer(p, want)
}

// note takes an add or a remove.
func (s *viewFiles) note(k kind, p PathHash, dv DVHash) {
	if k == kindRemove {
		s.remove(p, dv)
	} else {
		s.add(p, dv)
	}
}

func (s *viewFiles) add(p PathHash, dv DVHash) {
	if _, there := s.rest.get(p); dv == 0 && !there {
		s.plain.add(p)
		return
	}
	if dv != 0 || !s.plain.has(p) {
		s.rest.add(p, live{dv: dv})
	}
}

func (s *viewFiles) remove(p PathHash, dv DVHash) {
	if dv != 0 || !s.plain.remove(p) {
		s.rest.remove(p, dv)
	}
}
