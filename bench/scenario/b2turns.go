package scenario

import (
	"fmt"
	"math"
	"slices"

	"github.com/txcoord/txcoord/bench/measure"
)

// b2Turns notes what servers take of the processor for a transaction, beside what the judged
// one took in the same round. What else the machine does changes from round to round, and
// changes this less than the sums of all rounds.
func b2Turns(judged string, entries []*entry, bursts [][]burst, r *measure.Result) {
	at := slices.IndexFunc(entries, func(e *entry) bool { return e.name == judged })
	for i, e := range entries {
		if i == at {
			continue
		}
		if x := turnByTurn(bursts[i], bursts[at]); len(x) > 1 {
			r.Note("%s, the server's processor, x that of %s in the same round: %s.", e.name, judged, about(x))
		}
	}
}

// turnByTurn is what a transaction took by what it took elsewhere, where that can be seen.
func turnByTurn(of, to []burst) (out []float64) {
	for n := range min(len(of), len(to)) {
		if of[n].spent > 0 && to[n].spent > 0 {
			out = append(out, float64(of[n].each())/float64(to[n].each()))
		}
	}
	return out
}

// about says what at least two numbers are about.
func about(x []float64) string {
	sum, squares := 0.0, 0.0
	for _, v := range x {
		sum += v
	}
	mean := sum / float64(len(x))
	for _, v := range x {
		squares += (v - mean) * (v - mean)
	}
	n := float64(len(x))
	x = slices.Sorted(slices.Values(x))
	median := (x[(len(x)-1)/2] + x[len(x)/2]) / 2
	return fmt.Sprintf("mean %.3f, standard error %.3f, median %.3f", mean, math.Sqrt(squares/(n-1)/n), median)
}
