package twophase

import (
	"fmt"
	"strings"
	"time"
)

// trace is what happened in a run, for people. It is kept only where a run is
// replayed: a seed replays exactly.
type trace struct {
	on    bool
	lines []string
}

// traceLines is how much of the end of a run is shown.
const traceLines = 400

func (w *world) logf(format string, args ...any) {
	if w.trace.on {
		w.trace.lines = append(w.trace.lines, fmt.Sprintf("%5d %11s ", w.step, w.now.Round(time.Millisecond))+fmt.Sprintf(format, args...))
	}
}

// replay runs a world again and shows how it ended.
func replay(p profile, seed uint64) string {
	w := newWorld(p, seed)
	w.trace.on = true
	w.run()
	return strings.Join(w.trace.lines[max(0, len(w.trace.lines)-traceLines):], "\n")
}

// describe logs an entry that has just been folded, and the rounds after it.
func (c *checker) describe(e *Entry) {
	if !c.w.trace.on {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "ENTRY %d:", e.Position)
	for _, r := range e.Records {
		b.WriteString(" " + describeRecord(r))
	}
	for _, r := range c.ref.rounds {
		fmt.Fprintf(&b, " | round %s %v %v", r.ID, r.tables, shorts(r.Txns))
	}
	for _, r := range c.ref.waiting {
		fmt.Fprintf(&b, " | waits %v %v sealed %v", sortedKeys(r.tables), shorts(r.txns), r.sealed)
	}
	c.w.logf("%s", b.String())
}

func describeRecord(r Record) string {
	switch r := r.(type) {
	case *Committed:
		return fmt.Sprintf("commit %s %v", short(r.Txn), tablesOf(r))
	case *Aborted:
		return fmt.Sprintf("abort %s (%s)", short(r.Txn), r.Rule)
	case *Published:
		out := "publication " + r.Round.String()
		for _, t := range r.Tables {
			out += " " + string(t.Table) + describeFound(t.Versions)
		}
		return out
	case *Foreign:
		return fmt.Sprintf("foreign %s@%d%s %v", r.Table, r.Version, describeFound(r.Found), r.Verdicts)
	case *Barrier:
		return fmt.Sprintf("barrier %s@%d%s %v %v", r.Table, r.Version, describeFound(r.Found), shorts(r.NotApplied), r.Verdicts)
	case *Range:
		return fmt.Sprintf("range %s@%d-%d marker %d %v", r.Table, r.From, r.To, r.Marker, r.Verdicts)
	case *Reserved:
		return fmt.Sprintf("%s/%d goes first on %v until %d", r.Key, r.Attempt, tablesReserved(r), r.Until)
	case *Checkpointed:
		return fmt.Sprintf("checkpoint of %d", r.Position)
	}
	return fmt.Sprintf("%s %+v", r.kind(), r)
}

func describeFound(found []FoundVersion) string {
	out := ""
	for _, v := range found {
		out += fmt.Sprintf(" %d=%v", v.Version, shorts(v.Txns))
	}
	return out
}

func short(id TxnID) string { return id.String()[:6] }

func shorts(ids []TxnID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = short(id)
	}
	return out
}
