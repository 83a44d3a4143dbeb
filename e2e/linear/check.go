package linear

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// Report counts what was judged.
type Report struct{ Keys, Operations, Decisions, Answers int }

func (r Report) String() string {
	return fmt.Sprintf("linearizable: %d operations on %d keys, %d decisions, %d answers with a snapshot", r.Operations, r.Keys, r.Decisions, r.Answers)
}

// ErrUndecided: the search took longer than it may.
var ErrUndecided = errors.New("the search for an order did not end in time")

// Check judges calls, in the order in which they ended. fresh: all were answered by one
// server, at a time, so that what it shows is the newest there is. An error names the
// key, or the two answers, that do not go together. The keys, the log of decisions and
// the snapshots are judged apart: linearizability is local, so all fits if each does.
func Check(calls []Call, fresh bool, limit time.Duration) (Report, error) {
	r := read(calls, fresh)
	report := Report{Operations: len(r.ops), Answers: len(r.snapshots)}
	var all []error
	for _, u := range r.unread {
		all = append(all, errors.New(u))
	}
	byKey := map[string][]operation{}
	for _, op := range r.ops {
		byKey[op.of.key] = append(byKey[op.of.key], op)
	}
	report.Keys = len(byKey)
	for key, ops := range byKey {
		if err := checkKey(ops, limit); err != nil {
			all = append(all, fmt.Errorf("key %q: %w", key, err))
		}
	}
	var decisions []stamp
	for _, d := range r.decisions {
		if d.value > 0 {
			decisions = append(decisions, *d)
		}
	}
	report.Decisions = len(decisions)
	return report, errors.Join(append(all, inOrder("position", decisions), inOrder("snapshot", r.snapshots))...)
}

// inOrder judges answers of something that only grows: none is below one that was
// there before its call began.
func inOrder(what string, stamps []stamp) error {
	ended := slices.Clone(stamps)
	slices.SortFunc(ended, func(a, b stamp) int { return cmp.Compare(a.ended, b.ended) })
	began := slices.Clone(stamps)
	slices.SortFunc(began, func(a, b stamp) int { return cmp.Compare(a.began, b.began) })
	var top stamp
	next := 0
	for _, s := range began {
		for ; next < len(ended) && ended[next].ended < s.began; next++ {
			if ended[next].value > top.value {
				top = ended[next]
			}
		}
		if !s.old && s.value < top.value {
			return fmt.Errorf("%s has %s %d, after %s had %d", s.what, what, s.value, top.what, top.value)
		}
	}
	return nil
}

func checkKey(ops []operation, limit time.Duration) error {
	history := make([]porcupine.Operation, len(ops))
	for i, op := range ops {
		history[i] = porcupine.Operation{ClientId: op.client, Input: op, Call: op.began, Return: op.ended}
	}
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{""} },
		Step: func(state, in, _ any) []any { return step(state.(string), in.(operation)) },
	}
	switch found := porcupine.CheckOperationsTimeout(model.ToModel(), history, limit); {
	case found == porcupine.Ok:
		return nil
	case found == porcupine.Unknown:
		return ErrUndecided
	}
	var b strings.Builder
	for _, op := range ops {
		fmt.Fprintf(&b, "\n\t%s", op)
	}
	return fmt.Errorf("no order of decisions gives these answers:%s", b.String())
}

func (op operation) String() string {
	end := fmt.Sprint(op.ended)
	if op.ended == forever {
		end = "…"
	}
	what := fmt.Sprintf("sees %v", op.sees)
	switch {
	case op.tries != nothing:
		what = fmt.Sprintf("may end as %s, told %s", op.tries, op.told)
	case op.sees == nil:
		what = fmt.Sprintf("refused with %s", op.refused)
	}
	return fmt.Sprintf("[%d, %s] client %d, attempt %d: %s", op.began, end, op.client, op.of.n, what)
}

// step is the contract for one key (docs/guarantees.md). The
// state is a verdict for each attempt, in order.
func step(state string, op operation) []any {
	switch {
	case op.tries == nothing && op.sees == nil:
		return only(state, mayRefuse(state, op))
	case op.sees != nil:
		for n, v := range op.sees {
			if at(state, n) != v {
				return nil
			}
		}
		return []any{state}
	case op.told == nothing:
		return anyEnd(state, op)
	case at(state, op.of.n) != undecided:
		return only(state, at(state, op.of.n) == op.told)
	case op.told == aborted, op.told == committed && op.tries == committed && mayCommit(state, op.of.n):
		return []any{set(state, op.of.n, op.told)}
	}
	return nil
}

// anyEnd is what a call may have done that nobody heard of again.
func anyEnd(state string, op operation) []any {
	ends := []any{state}
	if at(state, op.of.n) != undecided {
		return ends
	}
	if op.tries == committed && mayCommit(state, op.of.n) {
		ends = append(ends, set(state, op.of.n, committed))
	}
	return append(ends, set(state, op.of.n, aborted))
}

// mayCommit: all attempts before are aborted, and none after is committed.
func mayCommit(state string, n uint32) bool {
	for before := uint32(1); before < n; before++ {
		if at(state, before) != aborted {
			return false
		}
	}
	return !strings.ContainsRune(state, rune(committed))
}

func mayRefuse(state string, op operation) bool {
	n := op.of.n
	switch {
	case op.refused == txcoordv1.ErrorReason_ERROR_REASON_KEY_COMMITTED:
		return strings.ContainsRune(state, rune(committed)) && at(state, n) != committed
	case op.refused == txcoordv1.ErrorReason_ERROR_REASON_ATTEMPT_UNDECIDED:
		for before := uint32(1); before < n; before++ {
			if at(state, before) == undecided {
				return true
			}
		}
		return false
	}
	return true
}

func only(state string, ok bool) []any {
	if ok {
		return []any{state}
	}
	return nil
}

func at(state string, n uint32) verdict {
	if int(n) > len(state) {
		return undecided
	}
	return verdict(state[n-1])
}

func set(state string, n uint32, v verdict) string {
	b := []byte(state)
	for len(b) < int(n) {
		b = append(b, byte(undecided))
	}
	b[n-1] = byte(v)
	return string(b)
}
