package twophase

import "strings"

// A freeze refuses commits (R12). Each frozen table names the table at which it
// began, its origin; an operator thaws that one.

// grave orders causes: what is frozen for a graver one stays so.
func (c Cause) grave() int {
	switch c {
	case CauseStalled:
		return 1
	case CauseLost:
		return 2
	case CauseDiverged:
		return 3
	case CauseContradiction:
		return 4
	case CauseReplaced:
		return 5
	case CauseOperator: // is a hold, which is beside these
	}
	return 0
}

// Passes reports whether a freeze of this cause ends by itself, when its round closes.
func (c Cause) Passes() bool { return c == CauseStalled || c == CauseLost }

// Text is what was found, and what to do about it.
func (f *Freeze) Text() string {
	if f.Remedy == "" {
		return f.Detail
	}
	return f.Detail + "; " + f.Remedy
}

// blocks reports whether a round with the frozen table may not close.
func (f *Freeze) blocks() bool {
	return f != nil && !f.Resolved && f.Cause.grave() >= CauseDiverged.grave()
}

// covers reports whether a freeze that a table has stays when another one comes: what is
// graver, and, of equal weight, the table's own before one that it shares with its round.
func (f *Freeze) covers(id TableID, cause Cause, origin TableID) bool {
	return f != nil && cause.grave() <= f.Cause.grave() &&
		(cause.grave() < f.Cause.grave() || f.Origin == id || origin != id)
}

// MayFreeze reports whether a finding of that cause at a table would change anything.
func (t *Table) MayFreeze(cause Cause) bool { return !t.Frozen.covers(t.Table, cause, t.Table) }

// Freezing is why the table takes no commits: the freeze that the journal's findings
// gave it, else the operator's; nil if it takes them.
func (t *Table) Freezing() *Freeze {
	if t.Frozen != nil || t.Held == nil {
		return t.Frozen
	}
	return &Freeze{Cause: CauseOperator, Origin: t.Table, Detail: t.Held.Detail, Since: t.Held.Since}
}

// hold is an operator's word on one table.
func (f *fold) hold(r *Held) {
	t := f.live(r.Table)
	switch {
	case t == nil || !t.holds(r):
	case r.Off:
		t.Held = nil
	default:
		t.Held = &Hold{Detail: r.Detail, Since: f.entry.Time}
	}
}

// holds reports whether the record changes anything.
func (t *Table) holds(r *Held) bool { return r.Off == (t.Held != nil) }

// freeze refuses commits on tables.
func (f *fold) freeze(tables []TableID, ice Freeze) {
	f.stale(tableSegments)
	for _, id := range tables {
		t := f.tables[id]
		if t.Frozen.covers(id, ice.Cause, ice.Origin) {
			continue
		}
		own := ice
		own.Since = f.entry.Time
		t.Frozen = &own
	}
}

// chill freezes a round with the first of its tables that is frozen (R12).
func (f *fold) chill(r *Round) {
	for _, id := range r.tables {
		if ice := f.tables[id].Frozen; ice.blocks() {
			f.freeze(r.tables, *ice)
			return
		}
	}
}

// giveUp notes that a version in the log made a change impossible (R13), and
// freezes its round, or its transaction's tables while it is in none (R12).
func (f *fold) giveUp(t *Table, c *Change, why Conflict) {
	if c.Part.Fence != FenceKept { // nothing of anybody's is torn: the catalog tries again
		f.mark(t, c, PartOutcome{Change: c.Number, Status: StatusNotApplied, Version: NoVersion, Conflict: why})
		return
	}
	f.mark(t, c, PartOutcome{Change: c.Number, Status: StatusDiverged, Version: NoVersion, Conflict: why})
	t.Diverged = append(t.Diverged, c)
	f.freezeFor(t, c, why)
}

func (f *fold) freezeFor(t *Table, c *Change, why Conflict) {
	ice := Freeze{Cause: CauseDiverged, Origin: t.Table, Txn: c.Txn, Detail: strings.TrimSpace(why.Rule.String() + " " + why.Path)}
	if r := f.busy[t.Table]; r != nil && c.Round == r {
		ice.Round = r.ID
	}
	scope := f.scope(t, c)
	f.freeze(scope, ice)
	for _, id := range scope {
		if r := f.busy[id]; r != nil {
			f.chill(r) // it is held from here on
		}
	}
}

// replaced freezes a table whose place holds another one, unless it has moved meanwhile (R22 c).
func (f *fold) replaced(r *Replaced) {
	t := f.live(r.Table)
	if t == nil || r.Recorded != t.Recorded || t.isReplaced() {
		return
	}
	ice := Freeze{Cause: CauseReplaced, Origin: t.Table, Detail: r.Detail}
	if r.GivenUp {
		ice.Ground = GroundGivenUp
	}
	f.freezeWithRound(t, ice)
}

func (t *Table) isReplaced() bool {
	return t.Frozen != nil && t.Frozen.Cause == CauseReplaced && t.Frozen.Origin == t.Table
}

func (f *fold) frozen(r *Frozen) {
	if r.Cause == CauseOperator {
		return // nobody writes that: an operator holds
	}
	ice := Freeze{Cause: r.Cause, Ground: r.Ground, Origin: r.Table, Round: r.Round, Txn: r.Txn, Detail: r.Detail, Remedy: r.Remedy}
	if r.Round == (RoundID{}) {
		if t := f.present(r.Table); t != nil { // a log that is none of ours contradicts nothing
			f.freezeWithRound(t, ice)
		}
		return
	}
	if round, ok := f.Round(r.Round); ok {
		if r.Cause == CauseLost && !f.Needs(r.Table, r.Txn) {
			return // it came back, or was given up, meanwhile
		}
		if ice.Origin == "" {
			ice.Origin = round.tables[0]
		}
		f.freeze(round.tables, ice)
	}
}

func (f *fold) freezeWithRound(t *Table, ice Freeze) {
	tables := []TableID{t.Table}
	if r := f.busy[t.Table]; r != nil {
		ice.Round = r.ID
		tables = r.tables
	}
	f.freeze(tables, ice)
}

// thawed is the operator's word (R12). What was given up on the table stays so;
// on a replaced table everything pending is given up, and the table stays closed.
// Other tables that froze with it are free again, unless a change of their own, or
// of their round, waits for an operator as well.
//
// Of a replaced table whose own log is back it settles nothing, only lifts the freeze.
func (f *fold) thawed(r *Thawed) {
	t := f.live(r.Table)
	if t == nil || !t.thaws(r) {
		return
	}
	replaced := t.isReplaced() && !r.Mended
	if !r.Mended {
		f.settle(t)
	}
	if replaced {
		f.abandon(t)
	}
	for _, id := range sortedKeys(f.tables) {
		if o := f.tables[id]; o.Frozen != nil && o.Frozen.Origin == t.Table && (o != t || !replaced) {
			o.Frozen = nil
		}
	}
	f.refreeze()
}

// thaws reports whether an operator's word fits the table: its freeze began there, and
// only a table that counts as replaced, and was not settled, can be mended.
func (t *Table) thaws(r *Thawed) bool {
	if t.Frozen == nil || t.Frozen.Origin != t.Table {
		return false
	}
	return !r.Mended || t.isReplaced() && !t.Frozen.Resolved
}

// settle makes what was given up on a table stay so.
func (f *fold) settle(t *Table) {
	for _, c := range t.Diverged {
		f.touched(f.unsettled[c.Txn]).Parts[c.place].Status = StatusNotApplied
		f.changed = append(f.changed, c.Txn)
	}
	t.Diverged = nil
}

// abandon gives up what is pending on a replaced table (R4, last sentence). It is
// never written again, and holds up no round any more.
func (f *fold) abandon(t *Table) {
	for _, c := range t.Pending {
		f.mark(t, c, PartOutcome{
			Change: c.Number, Status: StatusNotApplied, Version: NoVersion,
			Conflict: Conflict{Rule: RuleTableReplaced},
		})
	}
	t.Pending = nil
	f.sweep(t)
	t.Frozen.Resolved = true
}

// refreeze freezes again what an operator has not settled yet.
func (f *fold) refreeze() {
	for _, id := range sortedKeys(f.tables) {
		for _, c := range f.tables[id].Diverged {
			f.freezeFor(f.tables[id], c, f.unsettled[c.Txn].Parts[c.place].Conflict)
		}
	}
	for _, r := range f.rounds {
		f.chill(r)
	}
}
