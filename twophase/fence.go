package twophase

// Fences (R11). A fence is an ordinary decided change, made by a transaction of the
// catalog's own, that puts a writer feature into the table's protocol. Three moments
// matter, and each is a record: decided, which promises nothing; recorded as
// published, from which on new writers stay out; and counted, from which on no writer
// can still be at work that read the protocol before. Only then may DECIDED be
// answered.

// Fence is that of a table whose fence version is recorded.
type Fence struct {
	// Version holds the protocol change; Since is the time of the entry that recorded it.
	Version Version
	Since   Time
	// Counts says that DECIDED may be answered, since Counted.
	Counts  bool
	Counted Time
	// Operator: somebody vouched, and no time was counted.
	Operator bool
}

// Opened says why a table's mode became open by itself.
type Opened struct {
	// From is the mode before.
	From Mode
	// Version is the foreign one, Engine what it says of its writer. After a range
	// (R22) it is the range's end: who wrote in it is not known.
	Version Version
	Engine  string
	At      Time
}

// Watched reports whether others may be writing the table for all that the fold
// knows: its log is looked at before each decision, and now and then (R9, R18). That
// goes on until a fence counts.
func (t *Table) Watched() bool {
	return t.Mode.Shared() || t.Mode == ModeFenced && !t.Fence.Counts
}

// Fencing is what a decided change that is not published yet will do to the fence,
// and its transaction.
func (t *Table) Fencing() (Fencing, TxnID) {
	for i := len(t.Pending) - 1; i >= 0; i-- {
		if c := t.Pending[i]; c.Part.Fence != FenceKept {
			return c.Part.Fence, c.Txn
		}
	}
	return FenceKept, TxnID{}
}

// DecidedSuffices reports whether a committed transaction may be answered as such
// before it is published: every table that it writes has a fence that counts now, at
// the moment of the answer, and nothing of it was given up (R11). A mode that changed
// since the request was checked, or since the decision, means waiting for PUBLISHED.
func (s *State) DecidedSuffices(id TxnID) bool {
	o := s.Outcome(id)
	if o == nil || o.Commit == nil {
		return false
	}
	if s.weak.has(weakAnswerUnchecked) {
		return true
	}
	for i := range o.Parts {
		lost := o.Parts[i].Status == StatusDiverged || o.Parts[i].Status == StatusNotApplied
		t := s.tables[o.Commit.Parts[i].Table]
		if lost || t == nil || !t.OffersDecided() {
			return false
		}
	}
	return len(o.Parts) > 0
}

// OffersDecided reports whether the table's fence counts, and nothing that an
// operator has to look at says that its log is not what it was. A table that is
// created by a transaction offers it once version 0 is recorded: until then its place
// may turn out to be somebody else's.
func (t *Table) OffersDecided() bool {
	return t.Mode == ModeFenced && t.Fence.Counts && !t.Released && t.Recorded != NoVersion &&
		(t.Frozen == nil || t.Frozen.Cause.grave() < CauseDiverged.grave())
}

// setsMode reports whether the record may set the mode: only fence changes raise a
// fence or lift one, since the table's log has to follow.
func (t *Table) setsMode(r *ModeSet) bool {
	return t.Mode != ModeFenced && r.Mode != ModeFenced
}

// fenceDecided: the right to answer DECIDED ends, and the mode is open, as soon as the
// fence is to be lifted. Raising it means nothing yet.
func (f *fold) fenceDecided(t *Table, what Fencing) {
	switch {
	case what == FenceLifted && !f.weak.has(weakLiftPublished):
		t.Mode, t.Fence, t.Opened = ModeOpen, nil, nil
	case what == FenceRaised && f.weak.has(weakFenceDecided):
		f.fence(t, t.Recorded)
	}
}

// fencePublished: a version with the fence is recorded. One that is to be lifted again
// already is not minded.
func (f *fold) fencePublished(t *Table, v Version) {
	if next, _ := t.Fencing(); v == NoVersion || next == FenceLifted || t.Mode == ModeFenced {
		return
	}
	f.fence(t, v)
}

func (f *fold) fence(t *Table, v Version) {
	t.Mode, t.Opened = ModeFenced, nil
	t.Fence = &Fence{Version: v, Since: f.entry.Time, Counts: f.weak.has(weakFenceUncounted)}
}

// fenceFromStart: a table whose version 0 has the fence was never anything else. One
// that others wrote before is registered as open, and fenced by a change.
func (f *fold) fenceFromStart(t *Table, created bool) {
	if t.Mode != ModeFenced {
		return
	}
	if !created {
		t.Mode = ModeOpen
		return
	}
	f.fence(t, 0)
	t.Fence.Counts, t.Fence.Counted = true, t.Fence.Since
}

func (t *Table) mayCount(r *FenceCounted) bool {
	return t.Mode == ModeFenced && t.Fence.Version == r.Version && !t.Fence.Counts
}

func (f *fold) fenceCounted(r *FenceCounted) {
	t := f.present(r.Table)
	if t == nil || !t.mayCount(r) {
		return
	}
	t.Fence.Counts, t.Fence.Counted, t.Fence.Operator = true, f.entry.Time, r.Operator
}

// openUp: somebody else wrote a table that others were said not to write.
func (f *fold) openUp(t *Table, engine string) {
	if t.Mode != ModeExclusive && t.Mode != ModeFenced {
		return
	}
	t.Opened = &Opened{From: t.Mode, Version: t.Recorded, Engine: engine, At: f.entry.Time}
	t.Mode, t.Fence = ModeOpen, nil
}
