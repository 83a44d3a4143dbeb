package twophase

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// What a transcript shows.

func (s *script) record1(r Record) string {
	switch r := r.(type) {
	case *Committed:
		out := fmt.Sprintf("commit %s %v", s.name(r.Txn), tablesOf(r))
		if len(r.Releases) > 0 {
			out += fmt.Sprintf(" releases %v", r.Releases)
		}
		return out
	case *FenceCounted:
		return fmt.Sprintf("fence %s@%d counts", r.Table, r.Version)
	case *Aborted:
		out := fmt.Sprintf("abort %s (%s", s.name(r.Txn), r.Rule)
		if !r.Winner.IsZero() {
			out += ", lost to " + s.name(r.Winner)
		}
		if r.Version >= 0 && r.Table != "" {
			out += fmt.Sprintf(", %s@%d", r.Table, r.Version)
		}
		if r.Rule == RuleTableExists {
			out += ": " + r.Detail
		}
		return out + ")"
	case *Published:
		out := "publication of " + r.Round.String()
		for _, t := range r.Tables {
			out += " " + string(t.Table) + s.found(t.Versions)
		}
		return out
	case *Foreign:
		return fmt.Sprintf("foreign %s@%d%s%s", r.Table, r.Version, s.found(r.Found), verdictsOf(r.Verdicts))
	case *Barrier:
		return fmt.Sprintf("barrier %s@%d%s not applied %v%s", r.Table, r.Version, s.found(r.Found), s.all(r.NotApplied), verdictsOf(r.Verdicts))
	case *Range:
		return fmt.Sprintf("range %s@%d-%d marker %d%s", r.Table, r.From, r.To, r.Marker, verdictsOf(r.Verdicts))
	case *Replaced:
		return fmt.Sprintf("replaced %s@%d (%s)", r.Table, r.Recorded, r.Detail)
	case *Checkpointed:
		return fmt.Sprintf("checkpoint of %d", r.Position)
	case *Frozen:
		return fmt.Sprintf("freeze %s %s %s", r.Round, r.Table, r.Cause)
	case *Reserved:
		return fmt.Sprintf("%s goes first on %v until %d", strings.TrimPrefix(r.Key, "key-"), tablesReserved(r), r.Until)
	case *ReservationEnded:
		return fmt.Sprintf("%s goes first no longer", strings.TrimPrefix(r.Key, "key-"))
	case *Registered:
		return fmt.Sprintf("register %s@%d marker %d", r.Table, r.Version, r.Marker)
	}
	return fmt.Sprintf("%s %+v", r.kind(), r)
}

func verdictsOf(vs []Verdict) string {
	out := ""
	for _, v := range vs {
		if out += fmt.Sprintf(", change %d possible", v.Change); v.Conflict.Rule != RuleNone {
			out = strings.TrimSuffix(out, "possible") + "lost: " + v.Conflict.Rule.String()
		}
	}
	return out
}

func (s *script) found(vs []FoundVersion) string {
	out := ""
	for _, v := range vs {
		out += fmt.Sprintf(" @%d=%v", v.Version, s.all(v.Txns))
	}
	return out
}

func (s *script) all(ids []TxnID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = s.name(id)
	}
	return out
}

func (s *script) answer1(a Answer) string {
	switch {
	case a.Behind != nil:
		return "deferred, behind " + strings.TrimPrefix(a.Behind.Key, "key-")
	case a.Deferred:
		return "deferred"
	case a.Refused != nil:
		out := a.Refused.Error()
		for id, name := range s.names {
			out = strings.ReplaceAll(out, id.String(), name)
		}
		return "refused: " + out
	}
	return "recorded"
}

// effect is what a walk wants next, or ended with.
func (s *script) effect(wk *scriptWalk) string {
	switch e := wk.Next().(type) {
	case ClaimPlace:
		return "claim the place"
	case ReadVersion:
		return fmt.Sprintf("read %d", e.Version)
	case ListFrom:
		return fmt.Sprintf("list from %d", e.Version)
	case ReadCleaned:
		return "read the cleaned log"
	case PutVersion:
		return fmt.Sprintf("put %d=%v", e.Version, s.changes(e.Changes))
	case PutBarrier:
		return fmt.Sprintf("put %d, a barrier for %v, marker %d", e.Version, s.changes(e.GiveUp), e.Marker)
	case AppendRecord:
		wk.end = e
		return "append " + s.record1(e.Record)
	case WalkDone:
		wk.end = e
		return fmt.Sprintf("done%s, free is %d", s.found(e.Found), e.Free)
	case WalkUnfit:
		wk.end = e
		out := e.Reason
		for id, name := range s.names {
			out = strings.ReplaceAll(out, id.String(), name)
		}
		return "unfit: " + out
	}
	return "?"
}

func (s *script) changes(cs []*Change) []string {
	out := make([]string, len(cs))
	for i, c := range cs {
		out[i] = s.name(c.Txn)
	}
	return out
}

// commit1 is a version in a log.
func (s *script) commit1(c *simCommit) string {
	switch {
	case len(c.txns) > 0:
		out := "ours"
		for _, td := range c.txns {
			out += " " + s.name(td.Txn)
		}
		return fmt.Sprintf("%s, marker %d", out, c.marker)
	case c.ours:
		out := "barrier for"
		for _, td := range c.notApplied {
			out += " " + s.name(td.Txn)
		}
		return fmt.Sprintf("%s, marker %d", out, c.marker)
	}
	return "foreign"
}

func listed(l Listing) string {
	out := "there"
	if !l.FromThere {
		out = "not there"
	}
	if l.Commit != NoVersion {
		out += fmt.Sprintf(", commits up to %d", l.Commit)
	}
	if l.Checkpoint != NoVersion {
		out += fmt.Sprintf(", checkpoint %d", l.Checkpoint)
	}
	if !l.Owner {
		out += ", no owner object"
	}
	return out
}

func cleanedName(c Cleaned) string {
	out := fmt.Sprintf("commits %v", c.Commits)
	if c.Checkpoint != NoVersion {
		out += fmt.Sprintf(", checkpoint %d with marker %d", c.Checkpoint, c.Marker)
	}
	if !c.Owner {
		out += ", no owner object"
	}
	return out
}

// state shows a replica's fold.
func (s *script) state(args []string) string {
	r := s.rep(args[0])
	var b strings.Builder
	fmt.Fprintf(&b, "next %d, snapshot %d\n", r.state.Next(), r.state.Shown())
	for _, t := range r.state.Tables() {
		if len(args) > 1 && !slices.Contains(args[1:], string(t.Table)) {
			continue
		}
		fmt.Fprintf(&b, "%s: recorded %d, marker %d, shown %d", t.Table, t.Recorded, t.Marker, t.Shown)
		for _, c := range t.Pending {
			fmt.Fprintf(&b, ", pending %d=%s", c.Number, s.name(c.Txn))
		}
		for _, c := range t.Diverged {
			fmt.Fprintf(&b, ", diverged %d=%s", c.Number, s.name(c.Txn))
		}
		if t.Mode == ModeFenced || t.Opened != nil {
			b.WriteString(", " + fencing(t))
		}
		if f := t.Frozen; f != nil {
			fmt.Fprintf(&b, ", frozen: %s at %s", f.Cause, f.Origin)
		}
		if t.Held != nil {
			b.WriteString(", held")
		}
		if t.Cut > 0 {
			fmt.Fprintf(&b, ", cut at %d", t.Cut)
		}
		b.WriteByte('\n')
	}
	for _, l := range r.state.Leases() {
		fmt.Fprintf(&b, "lease %s of snapshot %d, %d to %d\n", l.ID, l.Snapshot, l.Since, l.Until)
	}
	for _, round := range r.state.rounds {
		fmt.Fprintf(&b, "round %s on %v: %v\n", round.ID, round.tables, s.all(round.Txns))
	}
	for _, c := range r.state.waiting {
		sealed := ""
		if c.sealed {
			sealed = ", sealed"
		}
		if c.gathered {
			sealed += ", gathered"
		}
		fmt.Fprintf(&b, "waits on %v: %v%s\n", sortedKeys(c.tables), s.all(c.txns), sealed)
	}
	return b.String()
}

// fencing is what a fence has come to.
func fencing(t *Table) string {
	switch {
	case t.Opened != nil:
		return fmt.Sprintf("open: it was %s until %d", t.Opened.From, t.Opened.Version)
	case t.Fence.Counts:
		return fmt.Sprintf("fenced since %d", t.Fence.Version)
	}
	return fmt.Sprintf("fenced since %d, does not count", t.Fence.Version)
}

// decided says whether a replica may answer a transaction before it is published.
func (s *script) decided(args []string) string {
	if s.rep(args[0]).state.DecidedSuffices(s.txn(args[1])) {
		return "DECIDED may be answered\n"
	}
	return "wait for PUBLISHED\n"
}

// log shows what is in a table's log.
func (s *script) log(args []string) string {
	p := s.place(args[0])
	var b strings.Builder
	commit, ckpt := p.highest(0)
	for v := Version(0); v <= max(commit, ckpt); v++ {
		if c := p.commits[v]; c != nil {
			fmt.Fprintf(&b, "%d: %s\n", v, s.commit1(c))
		}
		if c := p.ckpts[v]; c != nil {
			fmt.Fprintf(&b, "%d: checkpoint, marker %d\n", v, c.marker)
		}
	}
	return b.String()
}

// outcome is what a replica would answer about a transaction.
func (s *script) outcome(args []string) string {
	r := s.rep(args[0])
	o := r.state.Outcome(s.txn(args[1]))
	switch {
	case o == nil:
		return "unknown here, and never final\n"
	case o.Abort != nil:
		return fmt.Sprintf("aborted: %s\n", o.Abort.Rule)
	}
	out := "committed"
	for i, p := range o.Parts {
		out += fmt.Sprintf(", %s %s", o.Commit.Parts[i].Table, statusNames[p.Status])
		if p.Version >= 0 {
			out += fmt.Sprintf(" at %d.%d", p.Version, p.Place)
		}
		if p.Conflict.Rule != RuleNone {
			out += " (" + p.Conflict.Rule.String() + ")"
		}
	}
	if o.Snapshot > 0 {
		out += fmt.Sprintf(", snapshot %d", o.Snapshot)
	}
	return out + "\n"
}

// engine puts a foreign version at the end of a log.
func (s *script) engine(args []string) string {
	p := s.place(args[0])
	spec := ""
	if len(args) > 1 {
		spec = args[1]
	}
	ch, _ := s.change(spec)
	ch.meta = p.state.meta
	s.w.put(p, &simCommit{version: p.latest + 1, changes: []*toyChange{ch}, identity: s.w.nonce()})
	return fmt.Sprintf("%s@%d\n", p.name, p.latest)
}

func (s *script) checkpoint(args []string) string {
	p := s.place(args[0])
	p.ckpts[p.latest] = p.state
	return fmt.Sprintf("%d, marker %d\n", p.latest, p.state.marker)
}

func (s *script) clean(args []string) string {
	p := s.place(args[0])
	for _, a := range args[1:] {
		v, _ := strconv.Atoi(a)
		delete(p.commits, Version(v))
	}
	return s.log(args[:1])
}

func (s *script) drop(args []string) string {
	p := s.place(args[0])
	s.w.check.archive(p)
	copied := p.backup
	s.w.newTable(p)
	p.backup = copied
	return s.log(args[:1])
}

// vacate takes all files of a table away, but for its owner object where that is said.
func (s *script) vacate(args []string) string {
	p := s.place(args[0])
	s.w.check.archive(p)
	owner := p.owner && len(args) > 1 && args[1] == "owner"
	p.empty()
	p.owner = owner
	return "nothing is there\n"
}

func (s *script) copy(args []string) string {
	p := s.place(args[0])
	p.backup = p.copied()
	return fmt.Sprintf("copied at %d\n", p.latest)
}

func (s *script) putback(args []string) string {
	p := s.place(args[0])
	s.w.check.archive(p)
	b := p.backup.copied()
	p.commits, p.ckpts, p.latest, p.state, p.past, p.delivered, p.owner = b.commits, b.ckpts, b.latest, b.state, b.past, b.delivered, b.owner
	p.epoch++
	return s.log(args[:1])
}

// sweep says whether a transaction's payloads may be deleted (R20).
func (s *script) sweep(args []string) string {
	begun, _ := strconv.Atoi(strings.TrimPrefix(args[2], "begun:"))
	return fmt.Sprintln(s.rep(args[0]).state.MaySweep(s.txn(args[1]), Position(begun)))
}

// manifest says what a replica may write after the manifest that is named (R18), and
// whether that one shows that the journal went back (R7).
func (s *script) manifest(args []string) string {
	r := s.rep(args[0])
	n, _ := strconv.Atoi(args[1])
	if r.state.HistoryLost(SnapshotVersion(n)) {
		return fmt.Sprintf("manifest %d is newer than the fold, which shows %d: the catalog stops\n", n, r.state.Shown())
	}
	some := r.state.NextManifests(SnapshotVersion(n), 1)
	if len(some) == 0 {
		return "nothing to write\n"
	}
	sn := some[0]
	return fmt.Sprintf("manifest %d, by a %s, tables %v, transactions %v\n", sn.Version, sn.Kind, sn.Tables, s.all(sn.Txns))
}

// share says how many changes of an open round make up the next version of a table.
func (s *script) share(args []string) string {
	r := s.rep(args[0])
	in := r.state.WalkInput(TableID(args[1]), NoSight)
	var out []string
	for rest := in.Changes; len(rest) > 0; {
		n := Share(rest, in.Caps, in.OneTxnPerVersion)
		out = append(out, fmt.Sprint(s.changes(rest[:n])))
		rest = rest[n:]
	}
	return strings.Join(out, " ") + "\n"
}

// slot says what a position's slot means that holds an entry, in a ring of the world's size.
func (s *script) slot(args []string) string {
	n, _ := strconv.Atoi(args[0])
	held, err := strconv.Atoi(strings.TrimPrefix(args[1], "holds:"))
	return map[SlotState]string{
		SlotFree: "free", SlotFilled: "filled", SlotPassed: "passed", SlotShort: "short: the journal went back",
	}[s.w.ring.State(Position(n), Position(held), err == nil)] + "\n"
}

// backup takes a copy of the journal, or puts it back.
func (s *script) backup(args []string) string {
	if args[0] == "take" {
		s.w.backup = &ringBackup{slots: slices.Clone(s.w.ring.slots), at: slices.Clone(s.w.ring.at)}
		return "ok\n"
	}
	s.w.ring.slots, s.w.ring.at = s.w.backup.slots, s.w.backup.at
	return "the journal is put back\n"
}
