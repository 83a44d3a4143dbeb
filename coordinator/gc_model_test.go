package coordinator_test

import "testing"

// gcState is everything that there is of one piece of garbage, two runs of gc that take it
// away, and three restores: two of the first run, one of the second. A process that crashes
// makes no step any more, so a state that is reached is one in which anybody may have
// crashed.
type gcState struct {
	original   bool
	copies     [2]bool
	marks      [2]bool
	late       [2]bool // a run's removal of the original was never answered, and may yet land
	lateCopy   [2]bool // a restore's, of a run's copy
	collectors [2]collectorState
	restorers  [3]restorerState
}

type collectorState struct {
	at     int
	unsure bool
}

type restorerState struct {
	at   int
	keep bool
}

// gcProtocol is how the two sides keep out of each other's way.
type gcProtocol string

const (
	gcNothing   gcProtocol = "nothing"                                     // as it was
	gcLookAgain gcProtocol = "each looks at the other's place after"       // first proposed
	gcMarks     gcProtocol = "the run is marked while it is being filled"  // gc_mark.go
	gcMarkFirst gcProtocol = "marked, and the mark is asked for too early" // before the copy is seen
)

const gcOver = 9

// restores says of which run each restorer is.
var restores = [3]int{0, 0, 1}

// collect is what run i may do next: nothing, or one of several outcomes of its next step.
func (s gcState) collect(p gcProtocol, i int) (out []gcState) {
	marked := p == gcMarks || p == gcMarkFirst
	next := func(at int, change func(*gcState)) {
		n := s
		n.collectors[i].at = at
		if change != nil {
			change(&n)
		}
		out = append(out, n)
	}
	switch s.collectors[i].at {
	case 0: // the mark, which is put until the answer says that it is there
		next(1, func(n *gcState) { n.marks[i] = marked })
	case 1: // read the original
		next(map[bool]int{true: 2, false: 6}[s.original], nil)
	case 2: // copy it
		next(3, func(n *gcState) { n.copies[i] = true })
	case 3: // look at the copy
		next(map[bool]int{true: 4, false: 6}[s.copies[i]], nil)
	case 4: // judge, and look at the original once more
		next(map[bool]int{true: 5, false: 6}[s.original], nil)
	case 5: // remove it
		next(map[bool]int{true: 8, false: 6}[p == gcLookAgain], func(n *gcState) { n.original = false })
		next(6, func(n *gcState) { n.original, n.collectors[i].unsure = false, true })
		next(6, func(n *gcState) { n.late[i], n.collectors[i].unsure = true, true })
	case 6: // take the mark away
		if marked && !s.collectors[i].unsure {
			next(gcOver, func(n *gcState) { n.marks[i] = false })
		}
		next(gcOver, nil) // whether that was not asked for, or has failed
	case 8: // look at the copy again
		next(6, func(n *gcState) { n.original = n.original || !n.copies[i] })
	}
	return out
}

// restore is what restorer i may do next.
func (s gcState) restore(p gcProtocol, i int) (out []gcState) {
	run := restores[i]
	next := func(at int, change func(*gcState)) {
		n := s
		n.restorers[i].at = at
		if change != nil {
			change(&n)
		}
		out = append(out, n)
	}
	keep := func(n *gcState) { n.restorers[i].keep = s.marks[run] }
	steps := []int{0, 1, 2, 3, 4} // list copies, look for the mark, put back, compare, take the copy away
	if p == gcMarkFirst {
		steps[0], steps[1] = 1, 0
	}
	at := s.restorers[i].at
	if at >= len(steps) {
		return s.restoreAgain(i)
	}
	switch steps[at] {
	case 0:
		next(map[bool]int{true: at + 1, false: gcOver}[s.copies[run]], nil)
	case 1:
		next(at+1, keep)
	case 2:
		next(at+1, func(n *gcState) { n.original = true })
	case 3:
		next(map[bool]int{true: at + 1, false: gcOver}[s.original], nil)
	case 4:
		if s.restorers[i].keep {
			next(gcOver, nil)
			break
		}
		next(map[bool]int{true: 5, false: gcOver}[p == gcLookAgain], func(n *gcState) { n.copies[run] = false })
		next(gcOver, func(n *gcState) { n.lateCopy[run] = true })
	}
	return out
}

// restoreAgain looks at the original once more, after the copy went.
func (s gcState) restoreAgain(i int) []gcState {
	if s.restorers[i].at == gcOver {
		return nil
	}
	n := s
	n.restorers[i].at = gcOver
	n.copies[restores[i]] = n.copies[restores[i]] || !n.original
	return []gcState{n}
}

// land is what removals that were never answered do.
func (s gcState) land() (out []gcState) {
	for i := range 2 {
		if s.late[i] {
			n := s
			n.late[i], n.original = false, false
			out = append(out, n)
		}
		if s.lateCopy[i] {
			n := s
			n.lateCopy[i], n.copies[i] = false, false
			out = append(out, n)
		}
	}
	return out
}

// TestGarbageModel goes through every interleaving. As long as the run is marked while
// somebody may remove its originals, the piece lies somewhere at any moment; the other ways
// lose it, which also says that this test would see it.
func TestGarbageModel(t *testing.T) {
	t.Parallel()
	for p, loses := range map[gcProtocol]bool{gcNothing: true, gcLookAgain: true, gcMarkFirst: true, gcMarks: false} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			seen, lost, back := exploreGC(p)
			if lost != loses {
				t.Errorf("lost %t, within %d states", lost, seen)
			}
			if back == 0 && !lost {
				t.Error("in no state the piece is back, and in no quarantine")
			}
		})
	}
}

// exploreGC counts the states that can be reached, up to one in which the piece is nowhere,
// and those in which the first run and a restore of it are over, and the piece is where it was
// and nowhere else.
func exploreGC(p gcProtocol) (seen int, lost bool, back int) {
	first := gcState{original: true}
	known := map[gcState]bool{first: true}
	for todo := []gcState{first}; len(todo) > 0; {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		copies := s.copies[0] || s.copies[1]
		switch {
		case !s.original && !copies:
			return len(known), true, back
		case !copies && s.restorers[0].at == gcOver && s.collectors[0].at == gcOver:
			back++
		}
		next := s.land()
		for i := range s.collectors {
			next = append(next, s.collect(p, i)...)
		}
		for i := range s.restorers {
			next = append(next, s.restore(p, i)...)
		}
		for _, n := range next {
			if !known[n] {
				known[n] = true
				todo = append(todo, n)
			}
		}
	}
	return len(known), false, back
}
