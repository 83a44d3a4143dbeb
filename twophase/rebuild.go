package twophase

import (
	"cmp"
	"slices"

	"github.com/txcoord/txcoord/twophase/recordpb"
)

// kindRebuild is the kind of the snapshots that a rebuild makes.
const kindRebuild = "rebuild"

// LostWithJournal is the detail of a part that was given up since no log had it.
const LostWithJournal = "lost with the journal"

// rebuild takes over what the logs and manifests of the life before say. Only the first
// record of a journal begins it, so a journal that has a history is never given another.
func (f *fold) rebuild(r *Rebuilt) {
	first := f.entry.Position == 0 && f.index == 0
	if !first && !f.rebuilding {
		return
	}
	if first {
		f.rebuilding, f.rebuilt, f.shown, f.floorTime = true, r.Snapshot, r.Snapshot, r.Since
	}
	for i := range r.Tables {
		f.resume(&r.Tables[i])
	}
	for i := range r.Removed {
		f.past(&r.Removed[i])
	}
	for i := range r.Known {
		f.recall(&r.Known[i], uint32(i))
	}
	if r.Shown > f.rebuilt {
		f.resumed(r)
	}
}

// resume takes a table over from its log. Its change numbers go on above the marker
// there (R2, A20). A fence that its protocol has keeps others out; when it counts is
// found out anew (R11).
func (f *fold) resume(t *Registered) {
	if f.taken(t) {
		return
	}
	f.enroll(t, false)
	if t.Mode == ModeFenced {
		f.fence(f.tables[t.Table], t.Version)
	}
}

// past keeps the row of a table that left, with the life before or before that.
func (f *fold) past(t *Registered) {
	if _, used := f.tables[t.Table]; used {
		return
	}
	f.tables[t.Table] = &Table{
		Registered: *t, Recorded: t.Version, Shown: t.Version, Next: t.Marker + 1, PastFloor: t.Version,
		Released: true, ReleasedAt: f.entry.Time,
	}
}

// recall remembers a committed transaction, so that its key is known, and the same call
// finds it done (R6, R8). What no log has of it is given up.
func (f *fold) recall(k *Known, place uint32) {
	if f.isDecided(k.Txn) || len(k.Parts) == 0 {
		return
	}
	snapshot := k.Snapshot
	if snapshot == 0 || snapshot > f.rebuilt {
		snapshot = f.rebuilt + 1
	}
	o := &Outcome{
		Commit:   &Committed{Txn: k.Txn, Parts: make([]Part, len(k.Parts))},
		Position: f.entry.Position, Index: f.index + place, Time: f.entry.Time,
		Parts: make([]PartOutcome, len(k.Parts)), Snapshot: snapshot,
	}
	for i, p := range k.Parts {
		o.Commit.Parts[i] = Part{Table: p.Table, Digests: p.Digests}
		if t := f.tables[p.Table]; t != nil {
			o.Commit.Parts[i].MetaDataID = t.MetaDataID // most likely: digests are made with it
		}
		o.Parts[i] = PartOutcome{Change: p.Change, Status: StatusPublished, Version: p.Version, Place: p.Place}
		if p.Version == NoVersion {
			o.Parts[i].Status = StatusNotApplied
			o.Parts[i].Conflict = Conflict{Rule: RuleOperator, Detail: LostWithJournal}
		}
	}
	f.decide(k.Txn, o)
	f.changed = append(f.changed, k.Txn)
}

// resumed ends the rebuild: from here on the journal is like any other.
func (f *fold) resumed(r *Rebuilt) {
	f.rebuilding = false
	var all []SnapshotTable
	for _, t := range f.Tables() {
		all = append(all, SnapshotTable{t.Table, t.Recorded})
	}
	var left []TableID
	for _, id := range sortedKeys(f.tables) {
		if t := f.tables[id]; t.Released && t.Shown != NoVersion {
			left = append(left, id)
		}
	}
	f.snapshot(kindRebuild, f.recalled(f.rebuilt+1), all, left)
	for f.shown < r.Shown {
		f.snapshot(kindRebuild, nil, nil, nil)
	}
}

// recalled are the transactions that a snapshot is the first to show, in their order.
func (f *fold) recalled(first SnapshotVersion) (out []TxnID) {
	for id, o := range f.Outcomes {
		if o.Snapshot == first {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b TxnID) int { return cmp.Or(f.byDecision(a, b), slices.Compare(a[:], b[:])) })
	return out
}

func rebuiltToPB(r *Rebuilt) *recordpb.Rebuilt {
	return &recordpb.Rebuilt{
		From: r.From, Snapshot: uint64(r.Snapshot), SinceMs: int64(r.Since), Shown: uint64(r.Shown),
		Tables:  mapTo(r.Tables, func(t Registered) *recordpb.Registered { return registeredToPB(&t) }),
		Known:   mapTo(r.Known, knownToPB),
		Removed: mapTo(r.Removed, func(t Registered) *recordpb.Registered { return registeredToPB(&t) }),
	}
}

func rebuiltFromPB(m *recordpb.Rebuilt) *Rebuilt {
	return &Rebuilt{
		From: m.GetFrom(), Snapshot: SnapshotVersion(m.GetSnapshot()), Since: Time(m.GetSinceMs()), Shown: SnapshotVersion(m.GetShown()),
		Tables:  mapTo(m.GetTables(), func(t *recordpb.Registered) Registered { return *registeredFromPB(t) }),
		Known:   mapTo(m.GetKnown(), knownFromPB),
		Removed: mapTo(m.GetRemoved(), func(t *recordpb.Registered) Registered { return *registeredFromPB(t) }),
	}
}

func knownToPB(k Known) *recordpb.Known {
	return &recordpb.Known{Txn: txnToPB(k.Txn), Snapshot: uint64(k.Snapshot), Parts: mapTo(k.Parts, func(p KnownPart) *recordpb.KnownPart {
		return &recordpb.KnownPart{
			Table: string(p.Table), Digests: mapTo(p.Digests, hashToPB), Version: int64(p.Version), Place: p.Place, Change: int64(p.Change),
		}
	})}
}

func knownFromPB(m *recordpb.Known) Known {
	return Known{Txn: txnFromPB(m.GetTxn()), Snapshot: SnapshotVersion(m.GetSnapshot()), Parts: mapTo(m.GetParts(), func(p *recordpb.KnownPart) KnownPart {
		return KnownPart{
			Table: TableID(p.GetTable()), Digests: mapTo(p.GetDigests(), hashFromPB), Version: Version(p.GetVersion()),
			Place: p.GetPlace(), Change: ChangeNumber(p.GetChange()),
		}
	})}
}
