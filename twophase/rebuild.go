package twophase

import (
	"slices"

	"github.com/txcoord/txcoord/twophase/recordpb"
)

// kindRebuild is the kind of the snapshots that a rebuild makes.
const kindRebuild = "rebuild"

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
	for i := range r.Known {
		f.recall(&r.Known[i])
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

// recall remembers a committed transaction, so that its key is known, and the same call
// finds it done (R6, R8). What no log has of it is given up.
func (f *fold) recall(k *Known) {
	if f.outcomes[k.Txn] != nil || len(k.Parts) == 0 {
		return
	}
	snapshot := k.Snapshot
	if snapshot == 0 || snapshot > f.rebuilt {
		snapshot = f.rebuilt + 1
	}
	o := &Outcome{
		Commit:   &Committed{Txn: k.Txn, Parts: make([]Part, len(k.Parts))},
		Position: f.entry.Position, Index: f.index, Time: f.entry.Time,
		Parts: make([]PartOutcome, len(k.Parts)), Snapshot: snapshot,
	}
	for i, p := range k.Parts {
		o.Commit.Parts[i] = Part{Table: p.Table, Digests: p.Digests}
		o.Parts[i] = PartOutcome{Change: p.Change, Status: StatusPublished, Version: p.Version, Place: p.Place}
		if p.Version == NoVersion {
			o.Parts[i].Status = StatusNotApplied
			o.Parts[i].Conflict = Conflict{Rule: RuleOperator, Detail: "lost with the journal"}
		}
	}
	f.decide(k.Txn, o)
}

// resumed ends the rebuild: from here on the journal is like any other.
func (f *fold) resumed(r *Rebuilt) {
	f.rebuilding = false
	var all []SnapshotTable
	for _, t := range f.Tables() {
		all = append(all, SnapshotTable{t.Table, t.Recorded})
	}
	f.snapshot(kindRebuild, nil, all, slices.Clone(r.Removed))
	for f.shown < r.Shown {
		f.snapshot(kindRebuild, nil, nil, nil)
	}
}

func rebuiltToPB(r *Rebuilt) *recordpb.Rebuilt {
	return &recordpb.Rebuilt{
		From: r.From, Snapshot: uint64(r.Snapshot), SinceMs: int64(r.Since), Shown: uint64(r.Shown),
		Tables:  mapTo(r.Tables, func(t Registered) *recordpb.Registered { return registeredToPB(&t) }),
		Known:   mapTo(r.Known, knownToPB),
		Removed: mapTo(r.Removed, func(id TableID) string { return string(id) }),
	}
}

func rebuiltFromPB(m *recordpb.Rebuilt) *Rebuilt {
	return &Rebuilt{
		From: m.GetFrom(), Snapshot: SnapshotVersion(m.GetSnapshot()), Since: Time(m.GetSinceMs()), Shown: SnapshotVersion(m.GetShown()),
		Tables:  mapTo(m.GetTables(), func(t *recordpb.Registered) Registered { return *registeredFromPB(t) }),
		Known:   mapTo(m.GetKnown(), knownFromPB),
		Removed: mapTo(m.GetRemoved(), func(id string) TableID { return TableID(id) }),
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
