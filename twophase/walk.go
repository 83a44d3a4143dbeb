package twophase

import (
	"fmt"
	"time"
)

// SightLimit is how long the sight of version N-1 stands for its still being
// there (R9): older, and the log is listed before anything is put or concluded.
const SightLimit = 10 * time.Second

// NoSight says that this process has not seen a version.
const NoSight time.Duration = -1

// WalkInput is what a walk starts from. It is a copy: the fold may move on.
type WalkInput struct {
	Catalog     string
	Incarnation string
	Table       TableID
	MetaDataID  string
	Recorded    Version
	Identity    Hash
	Marker      ChangeNumber
	// Changes of the open round on the table, in order; empty for a look-up.
	Changes          []*Change
	Caps             Caps
	OneTxnPerVersion bool
	// GiveUp names changes that an operator gives up by a barrier (R4).
	GiveUp map[TxnID]bool
	// LookUp: put nothing; end where the log ends.
	LookUp bool
	// Seen is when this process last put, listed or read the recorded version, on
	// its boot-time clock; NoSight if it never did.
	Seen time.Duration
}

// WalkInput of a table and its open round, if there is one.
func (s *State) WalkInput(id TableID, seen time.Duration) WalkInput {
	t := s.tables[id]
	in := WalkInput{Catalog: s.catalog, Incarnation: s.incarnation, Table: id, MetaDataID: t.MetaDataID,
		Recorded: t.Recorded, Identity: t.Identity, Marker: t.Marker, OneTxnPerVersion: t.OneTxnPerVersion, Seen: seen}
	if r := s.busy[id]; r != nil {
		in.Caps = r.Caps
		for _, c := range t.Pending {
			if c.Round == r {
				in.Changes = append(in.Changes, c)
			}
		}
	}
	return in
}

// WalkEffect is what a walk needs next; one of the types below.
type WalkEffect interface{ walkEffect() }

// The effects of a walk.
type (
	// ReadVersion: read a version. Result: SeenVersion or AbsentVersion.
	ReadVersion struct{ Version Version }
	// ListFrom: list the log from a version on. Result: Listing.
	ListFrom struct{ Version Version }
	// ReadCleaned: list the whole log and read the newest complete checkpoint (R22). Result: Cleaned.
	ReadCleaned struct{}
	// PutVersion: render these changes as a version, and put it if absent. Result: PutResult.
	PutVersion struct {
		Version Version
		Changes []*Change
	}
	// PutBarrier: put an empty version that gives the changes up (R4). Result: PutResult.
	PutBarrier struct {
		Version Version
		GiveUp  []*Change
		Marker  ChangeNumber
	}
	// AppendRecord: the walk found what must become history first. It ends here;
	// after the record, or whatever took its place, is folded, a new walk goes on.
	// For a Range the Base is the state at its end.
	AppendRecord struct {
		Record Record
		Base   Base
	}
	// WalkDone: every change of the round is in a version of the log, or, for a
	// look-up, the log ends at the version Free.
	WalkDone struct {
		Found []FoundVersion
		Free  Version
	}
	// WalkUnfit: journal and log do not fit. Fold to a head read from now on, and
	// walk again; the same reason twice is a contradiction (R3).
	WalkUnfit struct{ Reason string }
)

func (ReadVersion) walkEffect()  {}
func (ListFrom) walkEffect()     {}
func (ReadCleaned) walkEffect()  {}
func (PutVersion) walkEffect()   {}
func (PutBarrier) walkEffect()   {}
func (AppendRecord) walkEffect() {}
func (WalkDone) walkEffect()     {}
func (WalkUnfit) walkEffect()    {}

// WalkResult is what came of an effect; one of the types below.
type WalkResult interface{ walkResult() }

// The results of a walk's effects.
type (
	// SeenVersion: the version is there.
	SeenVersion struct{ Seen }
	// AbsentVersion: it is not.
	AbsentVersion struct{}
	// Listing of a log from version From on.
	Listing struct {
		// From is there, and Identity is its content's (an equal ETag may stand for it).
		FromThere bool
		Identity  Hash
		// Owner: the folder of the owner object is there (R21).
		Owner bool
		// Highest commit and Highest checkpoint at or above From; NoVersion if none.
		Commit     Version
		Checkpoint Version
	}
	// Cleaned is the whole log, and the state at its newest complete checkpoint.
	Cleaned struct {
		Owner bool
		// Commits that are there, from the recorded version on, ascending.
		Commits []Version
		// Checkpoint is the newest complete one; NoVersion if there is none.
		Checkpoint Version
		MetaDataID string
		Marker     ChangeNumber
		// Identity of the checkpoint version's commit; zero if that is gone.
		Identity Hash
		Base     Base
	}
	// PutResult: exactly one is set.
	PutResult struct {
		Done, Exists, Unknown bool
		// Identity of the bytes that were put.
		Identity Hash
	}
)

func (SeenVersion) walkResult()   {}
func (AbsentVersion) walkResult() {}
func (Listing) walkResult()       {}
func (Cleaned) walkResult()       {}
func (PutResult) walkResult()     {}

// Walk goes through a table's log from the recorded version on, and never jumps
// (R3, R4, R9, R22): what it finds is ours, or wants a record; where the log ends
// it puts the next version of the round. A step function: Next is what to do,
// Feed takes what came of it. Dying between any two steps loses nothing, since
// the next walk finds what this one put.
type Walk struct {
	in     WalkInput
	found  []FoundVersion
	effect WalkEffect
	marker ChangeNumber  // of the last version of ours at or below N-1
	seen   time.Duration // when N-1 was seen
	last   Hash          // identity of N-1; zero if not known
}

// NewWalk begins a walk. now is the boot-time clock, which goes on while the
// machine sleeps.
func NewWalk(in WalkInput, now time.Duration) *Walk {
	w := &Walk{in: in}
	w.begin(in.Seen, now)
	return w
}

func (w *Walk) begin(seen, now time.Duration) {
	w.found, w.marker, w.last, w.seen = nil, w.in.Marker, w.in.Identity, seen
	w.advance(now)
}

// Next is the effect to carry out, or the end of the walk.
func (w *Walk) Next() WalkEffect { return w.effect }

// at is the version that the walk looks at.
func (w *Walk) at() Version { return w.in.Recorded + 1 + Version(len(w.found)) }

func (w *Walk) fresh(now time.Duration) bool {
	return w.seen != NoSight && now-w.seen <= SightLimit
}

// rest are the changes that no found version holds.
func (w *Walk) rest() []*Change {
	below := map[TxnID]bool{}
	for _, f := range w.found {
		for _, id := range f.Txns {
			below[id] = true
		}
	}
	var out []*Change
	for _, c := range w.in.Changes {
		if !below[c.Txn] {
			out = append(out, c)
		}
	}
	return out
}

// advance chooses the step at the present version, of which nothing is known yet.
// A put may come unread, since what is there refuses it; a look-up has to read.
func (w *Walk) advance(now time.Duration) {
	switch {
	case !w.in.LookUp && len(w.rest()) == 0:
		w.effect = WalkDone{Found: w.found, Free: w.at()}
	case !w.fresh(now):
		w.effect = ListFrom{w.at() - 1}
	case w.in.LookUp:
		w.effect = ReadVersion{w.at()}
	default:
		w.effect = w.put()
	}
}

// put is the next version of the round, or a barrier for what an operator gives up.
func (w *Walk) put() WalkEffect {
	rest := w.rest()
	var lost []*Change
	for _, c := range rest {
		if w.in.GiveUp[c.Txn] {
			lost = append(lost, c)
		}
	}
	if len(lost) > 0 {
		return PutBarrier{Version: w.at(), GiveUp: lost, Marker: w.marker}
	}
	n := Share(rest, w.in.Caps, w.in.OneTxnPerVersion)
	return PutVersion{Version: w.at(), Changes: rest[:n]}
}

// free: the log ends before the present version (R9).
func (w *Walk) free() {
	if w.in.LookUp {
		w.effect = WalkDone{Found: w.found, Free: w.at()}
		return
	}
	w.effect = w.put()
}

// Feed takes the result of the effect that Next named.
func (w *Walk) Feed(r WalkResult, now time.Duration) {
	switch r := r.(type) {
	case Listing:
		w.listed(r, now)
	case SeenVersion:
		w.read(&r.Seen, now)
	case AbsentVersion:
		w.absent(now)
	case Cleaned:
		w.cleaned(r, now)
	case PutResult:
		w.putResult(r, now)
	}
}

func (w *Walk) listed(l Listing, now time.Duration) {
	switch {
	case !l.Owner || !l.FromThere:
		w.effect = ReadCleaned{}
	case !w.last.IsZero() && l.Identity != w.last:
		w.effect = w.replaced(fmt.Sprintf("version %d has other content than was recorded", w.at()-1))
	case l.Commit >= w.at():
		w.seen = now
		w.effect = ReadVersion{w.at()}
	case l.Checkpoint >= w.at():
		w.effect = ReadCleaned{} // nothing is ever put under a checkpoint (R22)
	default:
		w.seen = now
		w.free()
	}
}

func (w *Walk) read(v *Seen, now time.Duration) {
	if !w.fresh(now) { // N-1 may have gone meanwhile (A18): the walk begins anew
		w.begin(NoSight, now)
		return
	}
	finding, why := Judge(w.in.Catalog, w.in.Incarnation, w.in.Changes, w.found, v)
	switch finding {
	case FoundOurs:
		w.ours(v, now)
	case FoundBarrier:
		w.effect = AppendRecord{Record: &Barrier{Table: w.in.Table, Version: v.Version, Identity: v.Identity,
			Found: w.found, NotApplied: txnsOf(v.NotApplied)}}
	case FoundForeign:
		w.effect = AppendRecord{Record: &Foreign{Table: w.in.Table, Version: v.Version, Identity: v.Identity,
			Facts: v.Facts, FactsRef: v.FactsRef, MetaDataID: v.MetaDataID, Apps: v.Apps, Engine: v.Engine, Found: w.found}}
	default:
		w.effect = WalkUnfit{Reason: why}
	}
}

func (w *Walk) ours(v *Seen, now time.Duration) {
	w.step(FoundVersion{Version: v.Version, Identity: v.Identity, Txns: txnsOf(v.Txns)}, now)
}

// step takes a version of ours and goes on to the next.
func (w *Walk) step(f FoundVersion, now time.Duration) {
	w.found = append(w.found, f)
	w.last, w.seen = f.Identity, now
	for _, c := range w.in.Changes {
		if c.Txn == f.Txns[len(f.Txns)-1] {
			w.marker = c.Number
		}
	}
	w.advance(now)
}

func txnsOf(tds []TxnDigest) []TxnID {
	out := make([]TxnID, len(tds))
	for i, td := range tds {
		out[i] = td.Txn
	}
	return out
}

// absent: the version that was read is not there. Fresh sight of N-1 makes it
// free; otherwise a listing has to say so.
func (w *Walk) absent(now time.Duration) {
	if w.fresh(now) {
		w.free()
		return
	}
	w.effect = ListFrom{w.at() - 1}
}

// putResult: what exists is read; an unknown put is read too, and absent means
// the same bytes again (R3).
func (w *Walk) putResult(r PutResult, now time.Duration) {
	put, ok := w.effect.(PutVersion)
	if r.Done && ok {
		txns := make([]TxnID, len(put.Changes))
		for i, c := range put.Changes {
			txns[i] = c.Txn
		}
		w.step(FoundVersion{Version: put.Version, Identity: r.Identity, Txns: txns}, now)
		return
	}
	w.effect = ReadVersion{w.at()}
}

// cleaned settles a log that does not show version by version what happened (R22).
func (w *Walk) cleaned(c Cleaned, now time.Duration) {
	there := func(v Version) bool {
		for _, x := range c.Commits {
			if x == v {
				return true
			}
		}
		return false
	}
	n := w.at()
	switch {
	case !c.Owner:
		w.effect = w.replaced("the owner object is gone")
	case c.Checkpoint == NoVersion:
		w.effect = w.replaced(fmt.Sprintf("version %d is gone and no checkpoint covers it", n-1))
	case c.Checkpoint < w.in.Recorded:
		w.effect = w.replaced(fmt.Sprintf("the newest checkpoint, %d, is older than the recorded version %d", c.Checkpoint, w.in.Recorded))
	case c.MetaDataID != w.in.MetaDataID:
		w.effect = w.replaced("the checkpoint is of metaData.id " + c.MetaDataID)
	case c.Marker < w.in.Marker:
		w.effect = w.replaced(fmt.Sprintf("the checkpoint has marker %d, recorded was %d", c.Marker, w.in.Marker))
	case there(n):
		w.seen = now
		w.effect = ReadVersion{n}
	case c.Checkpoint == n-1 && len(c.Commits) == 0, c.Checkpoint == n-1 && c.Commits[len(c.Commits)-1] < n:
		w.seen = now
		w.free()
	case c.Checkpoint >= n:
		w.effect = AppendRecord{
			Record: &Range{Table: w.in.Table, From: w.in.Recorded + 1, To: c.Checkpoint, Identity: c.Identity,
				Marker: c.Marker, MetaDataID: c.MetaDataID},
			Base: c.Base,
		}
	default:
		w.effect = WalkUnfit{Reason: fmt.Sprintf("the log has no version %d, and a higher one", n)}
	}
}

func (w *Walk) replaced(why string) WalkEffect {
	return AppendRecord{Record: &Replaced{Table: w.in.Table, Recorded: w.in.Recorded, Detail: why}}
}
