package twophase

import (
	"fmt"
	"slices"
	"time"
)

// SightLimit is how long the sight of version N-1 stands for its still being
// there, and of the log's end for its still being the end (R9): older, and the log
// is listed before anything is put or concluded.
const SightLimit = 10 * time.Second

// FoldLimit is how old a fold may be when something is put from it (R10).
const FoldLimit = 10 * time.Second

// NoSight says that this process has not seen what is asked for.
const NoSight time.Duration = -1

// Walk goes through a table's log from the recorded version on, and never jumps
// (R3, R4, R9, R22): what it finds is ours, or wants a record; where the log ends
// it puts the next version of the round. A step function: Next is what to do,
// Feed takes what came of it. Dying between any two steps loses nothing, since
// the next walk finds what this one put.
//
// Times are of a boot-time clock, which goes on while the machine sleeps. An
// effect is carried out after the time at which it was handed out, so that time
// is when something was seen; what was seen may be used until the time that is
// fed. A process that was paused anywhere in between looks again.
type Walk struct {
	in     WalkInput
	found  []FoundVersion
	rest   []*Change // of in.Changes, those that no found version holds
	effect WalkEffect
	issued time.Duration // when the effect was handed out
	marker ChangeNumber  // of the last version of ours at or below N-1
	seen   time.Duration // when N-1 was seen
	ended  time.Duration // when the log was seen to end with N-1
	above  Version       // a commit at or above N that a listing showed; NoVersion if none
	last   Hash          // identity of N-1; zero if its commit was gone
	owned  bool          // the place of a table that begins with this round is claimed
	lack   lack          // what the last look did not show; the whole log is listed for that
	anew   bool          // the walk has begun anew since the whole log did show it
}

// NewWalk begins a walk.
func NewWalk(in WalkInput, now time.Duration) *Walk {
	w := &Walk{in: in}
	w.begin(in.Ended, now)
	return w
}

func (w *Walk) begin(seen, now time.Duration) {
	w.found, w.rest, w.marker, w.last = nil, w.in.Changes, w.in.Marker, w.in.Identity
	w.seen, w.ended, w.above, w.issued, w.owned, w.lack = seen, seen, NoVersion, now, false, lacksNothing
	w.advance(now)
}

// Next is the effect to carry out, or the end of the walk.
func (w *Walk) Next() WalkEffect { return w.effect }

// Sight is what a process saw of the end of a log: a version, its content, and when
// nothing was above it.
type Sight struct {
	Version  Version
	Identity Hash
	At       time.Duration
}

// Ended is WalkInput.Ended for a table: the time of the sight, if what it saw is the
// recorded version, in this content.
func (s Sight) Ended(t *Table) time.Duration {
	if s.Version != t.Recorded || s.Identity != t.Identity {
		return NoSight
	}
	return s.At
}

// Sight is what the walk has seen of the log's end by now; At is NoSight if it has
// not. The process keeps the newest one of a table for its next walk.
func (w *Walk) Sight() Sight { return Sight{Version: w.at() - 1, Identity: w.last, At: w.ended} }

// MayPut says whether a put of this walk may still be sent (R9, R10). folded is
// when the fold was last known to hold the whole journal. If it says no, fold to
// the head and begin a new walk: the round may be closed, the log another one.
func (w *Walk) MayPut(now, folded time.Duration) bool {
	if w.in.weak.has(weakOldFold) {
		return true
	}
	return now-folded <= FoldLimit && w.fresh(w.ended, now)
}

// at is the version that the walk looks at.
func (w *Walk) at() Version { return w.in.Recorded + 1 + Version(len(w.found)) }

func (w *Walk) fresh(sight, now time.Duration) bool {
	return sight != NoSight && (now-sight <= SightLimit || w.in.weak.has(weakSightForever))
}

// advance chooses the step at the present version, of which nothing is known yet.
// A put may come unread, since what is there refuses it; a look-up has to read.
func (w *Walk) advance(now time.Duration) {
	switch {
	case !w.in.LookUp && len(w.rest) == 0:
		w.effect = WalkDone{Found: w.found, Free: w.at()}
	case w.at() == 0 && !w.in.LookUp && w.in.weak.has(weakClaimsNothing):
		w.effect = w.put()
	case w.at() == 0 && !w.in.LookUp && !w.owned:
		w.effect = ClaimPlace{}
	case w.above >= w.at():
		w.effect = ReadVersion{w.at()}
	case !w.fresh(w.ended, now):
		w.effect = ListFrom{w.at() - 1}
	case w.in.LookUp:
		w.effect = ReadVersion{w.at()}
	default:
		w.effect = w.put()
	}
}

// put is the next version of the round, or a barrier for what an operator gives up.
func (w *Walk) put() WalkEffect {
	var lost []*Change
	if len(w.in.GiveUp) > 0 && w.at() > 0 { // a log does not begin with a barrier
		for _, c := range w.rest {
			if w.in.GiveUp[c.Txn] {
				lost = append(lost, c)
			}
		}
	}
	if len(lost) > 0 {
		marker := w.marker
		if w.in.weak.has(weakBarrierMarks) {
			marker = lost[len(lost)-1].Number
		}
		return PutBarrier{Version: w.at(), GiveUp: lost, Marker: marker}
	}
	n := share(w.rest, w.in.Caps, w.in.OneTxnPerVersion, w.in.weak)
	return PutVersion{Version: w.at(), Changes: w.rest[:n:n]}
}

// free: the present version may be taken.
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
	case PlaceClaimed:
		w.claimed(r, now)
	case Listing:
		w.listed(r)
	case SeenVersion:
		w.read(&r.Seen, now)
	case AbsentVersion:
		w.absent(now)
	case Cleaned:
		w.cleaned(r, now)
	case PutResult:
		w.putResult(r, now)
	}
	w.issued = now
}

func (w *Walk) listed(l Listing) {
	switch {
	case w.at() == 0:
		w.listedEmpty(l)
	case !l.Owner || !l.FromThere:
		w.lack, w.effect = lacksBelow, ReadCleaned{}
	case l.Identity != w.last && !w.in.weak.has(weakAnyIdentity): // a commit that was absent does not come back
		w.effect = w.replaced(fmt.Sprintf("version %d has other content than was recorded", w.at()-1))
	case l.Commit >= w.at():
		w.seen, w.above = w.issued, l.Commit
		w.effect = ReadVersion{w.at()}
	case l.Checkpoint >= w.at() && !w.in.weak.has(weakUnderCheckpoint):
		w.lack, w.effect = lacksNothing, ReadCleaned{} // nothing is ever put under a checkpoint (R22)
	default:
		w.end()
	}
}

// end: the log ends before the present version (R9).
func (w *Walk) end() {
	w.seen, w.ended = w.issued, w.issued
	w.free()
}

func (w *Walk) read(v *Seen, now time.Duration) {
	if !w.fresh(w.seen, now) { // N-1 may have gone meanwhile (A18): the walk begins anew
		w.begin(NoSight, now)
		return
	}
	finding, why := Judge(w.in.Catalog, w.in.Incarnation, w.rest, v)
	if v.Version == 0 && finding != FoundOurs {
		w.effect = w.notBorn(finding, why)
		return
	}
	switch finding {
	case FoundOurs:
		w.step(FoundVersion{Version: v.Version, Identity: v.Identity, Txns: txnsOf(v.Txns)}, NoSight, now)
	case FoundBarrier:
		w.effect = AppendRecord{Record: &Barrier{
			Table: w.in.Table, Version: v.Version, Identity: v.Identity,
			Found: w.found, NotApplied: txnsOf(v.NotApplied),
		}}
	case FoundForeign:
		w.effect = AppendRecord{Record: &Foreign{
			Table: w.in.Table, Version: v.Version, Identity: v.Identity,
			Facts: v.Facts, FactsRef: v.FactsRef, MetaDataID: v.MetaDataID, Apps: v.Apps, Engine: v.Engine, InCommit: v.InCommit, Found: w.found,
		}}
	default:
		w.effect = WalkUnfit{Reason: why}
	}
}

// step takes a version of ours, which holds the next changes of the round, and goes
// on to the one above. A version that was just put is the end of the log; of one
// that was read nobody knows: the versions above it may be there, or cleaned.
func (w *Walk) step(f FoundVersion, ended, now time.Duration) {
	w.found = append(w.found, f)
	w.last, w.seen, w.ended = f.Identity, w.issued, ended
	w.marker = w.rest[len(f.Txns)-1].Number
	w.rest = w.rest[len(f.Txns):]
	w.advance(now)
}

func txnsOf(tds []TxnDigest) []TxnID {
	out := make([]TxnID, len(tds))
	for i, td := range tds {
		out[i] = td.Txn
	}
	return out
}

// absent: the version that was read is not there. It is free if the log was seen to
// end below it; otherwise a listing has to say so. If a listing showed a version
// above it, it was cleaned.
func (w *Walk) absent(now time.Duration) {
	switch {
	case w.above > w.at():
		w.above = NoVersion
		w.lack, w.effect = lacksThis, ReadCleaned{}
	case w.fresh(w.ended, now):
		w.free()
	default:
		w.above = NoVersion
		w.effect = ListFrom{w.at() - 1}
	}
}

// putResult: what exists is read; an unknown put is read too, and absent means
// the same bytes again (R3).
func (w *Walk) putResult(r PutResult, now time.Duration) {
	put, ok := w.effect.(PutVersion)
	switch {
	case ok && r.Done:
		txns := make([]TxnID, len(put.Changes))
		for i, c := range put.Changes {
			txns[i] = c.Txn
		}
		w.step(FoundVersion{Version: put.Version, Identity: r.Identity, Txns: txns}, w.issued, now)
	case ok && r.Exists && w.in.weak.has(weakNextFree):
		w.in.Recorded++
		w.effect = w.put()
	default:
		w.effect = ReadVersion{w.at()}
	}
}

// cleaned settles a log that does not show version by version what happened (R22).
func (w *Walk) cleaned(c Cleaned, now time.Duration) {
	n := w.at()
	highest := NoVersion
	if len(c.Commits) > 0 {
		highest = c.Commits[len(c.Commits)-1]
	}
	switch {
	case !c.Owner:
		w.effect = w.replaced("the owner object is gone")
	case w.reappears(c, n, highest) && w.anew:
		w.effect = WalkUnfit{Reason: fmt.Sprintf("one look at the log does not show version %d and what is around it, the next one does, time and again", n-1)}
	case w.reappears(c, n, highest):
		w.anew = true
		w.begin(NoSight, now)
	case n == 0 && c.Marker == 0:
		w.effect = w.replaced("another table stands at its place")
	case w.gap(c, n, highest):
		w.effect = WalkUnfit{Reason: fmt.Sprintf("the log has a gap: version %d is missing between %d and %d, and no checkpoint covers it", n, n-1, highest)}
	case c.Checkpoint == NoVersion:
		w.effect = w.replaced(fmt.Sprintf("version %d is gone and no checkpoint covers it", n-1))
	case c.Checkpoint < w.in.Recorded:
		w.effect = w.replaced(fmt.Sprintf("the newest checkpoint, %d, is older than the recorded version %d", c.Checkpoint, w.in.Recorded))
	case c.MetaDataID != w.in.MetaDataID:
		w.effect = w.replaced("the checkpoint is of metaData.id " + c.MetaDataID)
	case c.Marker < w.in.Marker:
		w.effect = w.replaced(fmt.Sprintf("the checkpoint has marker %d, recorded was %d", c.Marker, w.in.Marker))
	case c.Marker > w.in.Deliverable: // nobody can have put that: another history (R7), or a fold that lags
		w.effect = WalkUnfit{Reason: fmt.Sprintf("the checkpoint has marker %d, at most %d is decided and in a round", c.Marker, w.in.Deliverable)}
	case slices.Contains(c.Commits, n):
		w.seen, w.above = w.issued, highest
		w.effect = ReadVersion{n}
	case c.Checkpoint == n-1 && highest < n:
		w.end()
	case c.Checkpoint >= n:
		w.effect = AppendRecord{
			Record: &Range{
				Table: w.in.Table, From: w.in.Recorded + 1, To: c.Checkpoint, Identity: c.Identity,
				Marker: c.Marker, MetaDataID: c.MetaDataID,
			},
			Base: c.Base,
		}
	default:
		w.effect = WalkUnfit{Reason: fmt.Sprintf("the log has no version %d, and a higher one", n)}
	}
}

// lack is what a look at a log did not show, so that the whole of it is listed.
type lack uint8

const (
	lacksNothing lack = iota
	lacksBelow        // N-1, or the owner object
	lacksThis         // N, under a higher commit
)

// reappears reports whether the whole log shows what the look before it did not. Then the
// log has changed in between, and what follows from a half of each look is true of neither:
// a version that was put back counts as gone, since no checkpoint covers it. The walk begins
// anew; a store that goes on saying both fits nothing.
func (w *Walk) reappears(c Cleaned, n, highest Version) bool {
	below := n == 0 || slices.Contains(c.Commits, n-1)
	switch w.lack {
	case lacksBelow:
		return below
	case lacksThis:
		return below && c.Checkpoint < n && (highest < n || slices.Contains(c.Commits, n))
	default:
		return false
	}
}

// gap reports whether the table's own log lacks a version in its middle. No clean-up
// leaves that: it removes what a checkpoint covers. An operator can put the file back.
func (w *Walk) gap(c Cleaned, n, highest Version) bool {
	return n > 0 && c.Checkpoint < n && highest > n && slices.Contains(c.Commits, n-1) && !slices.Contains(c.Commits, n)
}

func (w *Walk) replaced(why string) WalkEffect {
	return AppendRecord{Record: &Replaced{Table: w.in.Table, Recorded: w.in.Recorded, Detail: why}}
}
