package twophase

import (
	"fmt"

	"github.com/txcoord/txcoord/twophase/recordpb"
)

func mapTo[A, B any](in []A, f func(A) B) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, len(in))
	for i, a := range in {
		out[i] = f(a)
	}
	return out
}

func hashToPB(h Hash) []byte {
	if h.IsZero() {
		return nil
	}
	return h[:]
}

func hashFromPB(b []byte) Hash {
	var h Hash
	copy(h[:], b)
	return h
}

func txnToPB(id TxnID) []byte {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

func txnFromPB(b []byte) TxnID {
	var id TxnID
	copy(id[:], b)
	return id
}

func refToPB(r ObjectRef) *recordpb.ObjectRef {
	if r == (ObjectRef{}) {
		return nil
	}
	return &recordpb.ObjectRef{Name: r.Name, Size: r.Size, Hash: hashToPB(r.Hash)}
}

func refFromPB(m *recordpb.ObjectRef) ObjectRef {
	return ObjectRef{Name: m.GetName(), Size: m.GetSize(), Hash: hashFromPB(m.GetHash())}
}

func checkpointedToPB(c *Checkpointed) *recordpb.Checkpointed {
	if *c == (Checkpointed{}) {
		return nil
	}
	return &recordpb.Checkpointed{Position: uint64(c.Position), Object: refToPB(c.Object)}
}

func checkpointedFromPB(m *recordpb.Checkpointed) Checkpointed {
	return Checkpointed{Position: Position(m.GetPosition()), Object: refFromPB(m.GetObject())}
}

func readToPB(r ReadPoint) *recordpb.ReadPoint {
	return &recordpb.ReadPoint{Blind: r.Blind, Version: int64(r.Version)}
}

func readFromPB(m *recordpb.ReadPoint) ReadPoint {
	return ReadPoint{Blind: m.GetBlind(), Version: Version(m.GetVersion())}
}

func appToPB(a AppVersion) *recordpb.AppVersion {
	return &recordpb.AppVersion{App: a.App, Version: a.Version}
}

func appFromPB(m *recordpb.AppVersion) AppVersion {
	return AppVersion{App: m.GetApp(), Version: m.GetVersion()}
}

func partToPB(p Part) *recordpb.Part {
	return &recordpb.Part{
		Table: string(p.Table), MetadataId: p.MetaDataID, Digests: mapTo(p.Digests, hashToPB), Read: readToPB(p.Read),
		Facts: p.Facts, FactsRef: refToPB(p.FactsRef),
		Shape:  &recordpb.Shape{Appends: p.Shape.Appends, DataChange: p.Shape.DataChange, Bytes: p.Shape.Bytes, Apps: mapTo(p.Shape.Apps, appToPB)},
		Create: creationToPB(p.Create),
		Fence:  uint32(p.Fence),
		Bundle: p.Bundle,
	}
}

func creationToPB(c *Creation) *recordpb.Creation {
	if c == nil {
		return nil
	}
	return &recordpb.Creation{Name: c.Name, Uri: c.URI, Mode: uint32(c.Mode), OneTxnPerVersion: c.OneTxnPerVersion}
}

func creationFromPB(m *recordpb.Creation) *Creation {
	if m == nil {
		return nil
	}
	return &Creation{Name: m.GetName(), URI: m.GetUri(), Mode: Mode(m.GetMode()), OneTxnPerVersion: m.GetOneTxnPerVersion()}
}

func partFromPB(m *recordpb.Part) Part {
	sh := m.GetShape()
	return Part{
		Table: TableID(m.GetTable()), MetaDataID: m.GetMetadataId(), Digests: mapTo(m.GetDigests(), hashFromPB), Read: readFromPB(m.GetRead()),
		Facts: m.GetFacts(), FactsRef: refFromPB(m.GetFactsRef()),
		Shape:  Shape{Appends: sh.GetAppends(), DataChange: sh.GetDataChange(), Bytes: sh.GetBytes(), Apps: mapTo(sh.GetApps(), appFromPB)},
		Create: creationFromPB(m.GetCreate()),
		Fence:  Fencing(m.GetFence()),
		Bundle: m.GetBundle(),
	}
}

func committedToPB(c *Committed) *recordpb.Committed {
	return &recordpb.Committed{
		Txn: txnToPB(c.Txn), Key: c.Key, Attempt: c.Attempt, Begun: uint64(c.Begun), Parts: mapTo(c.Parts, partToPB),
		Reads: mapTo(c.Reads, func(r ReadPart) *recordpb.ReadPart {
			return &recordpb.ReadPart{Table: string(r.Table), Read: readToPB(r.Read), Facts: r.Facts}
		}),
		Releases: mapTo(c.Releases, func(id TableID) string { return string(id) }),
		Bundles:  mapTo(c.Bundles, func(id BundleID) []byte { return id[:] }),
	}
}

// committedFromPB refuses a part in a bundle that the record does not name: its piece
// could not be found.
func committedFromPB(m *recordpb.Committed) (*Committed, error) {
	for _, b := range m.GetBundles() {
		if len(b) != len(BundleID{}) {
			return nil, fmt.Errorf("bundle id of %d bytes", len(b))
		}
	}
	for _, p := range m.GetParts() {
		if n := len(m.GetBundles()); uint64(p.GetBundle()) > uint64(n) {
			return nil, fmt.Errorf("part of table %s lies in bundle %d of %d", p.GetTable(), p.GetBundle(), n)
		}
	}
	return &Committed{
		Txn: txnFromPB(m.GetTxn()), Key: m.GetKey(), Attempt: m.GetAttempt(), Begun: Position(m.GetBegun()), Parts: mapTo(m.GetParts(), partFromPB),
		Reads: mapTo(m.GetReads(), func(r *recordpb.ReadPart) ReadPart {
			return ReadPart{Table: TableID(r.GetTable()), Read: readFromPB(r.GetRead()), Facts: r.GetFacts()}
		}),
		Releases: mapTo(m.GetReleases(), func(id string) TableID { return TableID(id) }),
		Bundles:  mapTo(m.GetBundles(), func(b []byte) BundleID { return BundleID(b) }),
	}, nil
}

func abortedToPB(a *Aborted) *recordpb.Aborted {
	return &recordpb.Aborted{
		Txn: txnToPB(a.Txn), Key: a.Key, Attempt: a.Attempt, Begun: uint64(a.Begun), Rule: uint32(a.Rule), Table: string(a.Table),
		Version: int64(a.Version), Path: a.Path, Winner: txnToPB(a.Winner), Detail: a.Detail,
	}
}

func abortedFromPB(m *recordpb.Aborted) *Aborted {
	return &Aborted{
		Txn: txnFromPB(m.GetTxn()), Key: m.GetKey(), Attempt: m.GetAttempt(), Begun: Position(m.GetBegun()), Rule: Rule(m.GetRule()),
		Table: TableID(m.GetTable()), Version: Version(m.GetVersion()), Path: m.GetPath(), Winner: txnFromPB(m.GetWinner()), Detail: m.GetDetail(),
	}
}

func foundToPB(f FoundVersion) *recordpb.FoundVersion {
	return &recordpb.FoundVersion{Version: int64(f.Version), Identity: hashToPB(f.Identity), Txns: mapTo(f.Txns, txnToPB)}
}

func foundFromPB(m *recordpb.FoundVersion) FoundVersion {
	return FoundVersion{Version: Version(m.GetVersion()), Identity: hashFromPB(m.GetIdentity()), Txns: mapTo(m.GetTxns(), txnFromPB)}
}

func roundIDToPB(r RoundID) *recordpb.RoundID {
	if r == (RoundID{}) {
		return nil
	}
	return &recordpb.RoundID{Opened: uint64(r.Opened), Index: r.Index}
}

func roundIDFromPB(m *recordpb.RoundID) RoundID {
	return RoundID{Opened: Position(m.GetOpened()), Index: m.GetIndex()}
}

func publishedToPB(p *Published) *recordpb.Published {
	return &recordpb.Published{Round: roundIDToPB(p.Round), Tables: mapTo(p.Tables, func(t PublishedTable) *recordpb.PublishedTable {
		return &recordpb.PublishedTable{Table: string(t.Table), Versions: mapTo(t.Versions, foundToPB)}
	})}
}

func publishedTableFromPB(m *recordpb.PublishedTable) PublishedTable {
	return PublishedTable{Table: TableID(m.GetTable()), Versions: mapTo(m.GetVersions(), foundFromPB)}
}

func conflictToPB(c Conflict) *recordpb.Conflict {
	if c == (Conflict{}) {
		return nil
	}
	return &recordpb.Conflict{Rule: uint32(c.Rule), Path: c.Path, Detail: c.Detail}
}

func conflictFromPB(m *recordpb.Conflict) Conflict {
	return Conflict{Rule: Rule(m.GetRule()), Path: m.GetPath(), Detail: m.GetDetail()}
}

func verdictToPB(v Verdict) *recordpb.Verdict {
	return &recordpb.Verdict{Change: int64(v.Change), Conflict: conflictToPB(v.Conflict)}
}

func verdictFromPB(m *recordpb.Verdict) Verdict {
	return Verdict{Change: ChangeNumber(m.GetChange()), Conflict: conflictFromPB(m.GetConflict())}
}

func foreignToPB(f *Foreign) *recordpb.Foreign {
	return &recordpb.Foreign{
		Table: string(f.Table), Version: int64(f.Version), Identity: hashToPB(f.Identity), Facts: f.Facts, FactsRef: refToPB(f.FactsRef),
		MetadataId: f.MetaDataID, Apps: mapTo(f.Apps, appToPB), Engine: f.Engine, InCommitMs: int64(f.InCommit), Found: mapTo(f.Found, foundToPB), Verdicts: mapTo(f.Verdicts, verdictToPB),
	}
}

func foreignFromPB(m *recordpb.Foreign) *Foreign {
	return &Foreign{
		Table: TableID(m.GetTable()), Version: Version(m.GetVersion()), Identity: hashFromPB(m.GetIdentity()), Facts: m.GetFacts(),
		FactsRef: refFromPB(m.GetFactsRef()), MetaDataID: m.GetMetadataId(), Apps: mapTo(m.GetApps(), appFromPB), Engine: m.GetEngine(), InCommit: Time(m.GetInCommitMs()),
		Found: mapTo(m.GetFound(), foundFromPB), Verdicts: mapTo(m.GetVerdicts(), verdictFromPB),
	}
}

func registeredToPB(r *Registered) *recordpb.Registered {
	return &recordpb.Registered{
		Table: string(r.Table), Name: r.Name, Uri: r.URI, MetadataId: r.MetaDataID, Mode: uint32(r.Mode), Version: int64(r.Version),
		Identity: hashToPB(r.Identity), Marker: int64(r.Marker), OneTxnPerVersion: r.OneTxnPerVersion,
	}
}

func registeredFromPB(m *recordpb.Registered) *Registered {
	return &Registered{
		Table: TableID(m.GetTable()), Name: m.GetName(), URI: m.GetUri(), MetaDataID: m.GetMetadataId(), Mode: Mode(m.GetMode()),
		Version: Version(m.GetVersion()), Identity: hashFromPB(m.GetIdentity()), Marker: ChangeNumber(m.GetMarker()),
		OneTxnPerVersion: m.GetOneTxnPerVersion(),
	}
}

func frozenToPB(f *Frozen) *recordpb.Frozen {
	return &recordpb.Frozen{
		Round: roundIDToPB(f.Round), Table: string(f.Table), Cause: uint32(f.Cause), Ground: uint32(f.Ground), Txn: txnToPB(f.Txn),
		Detail: f.Detail, Remedy: f.Remedy,
	}
}

// frozenFromPB refuses a cause that this build does not know: what a freeze of it holds up,
// and when it ends, would be guessed (R17); and a ground, whose remedy would be.
func frozenFromPB(m *recordpb.Frozen) (*Frozen, error) {
	if m.GetCause() > uint32(causeLast) {
		return nil, fmt.Errorf("%w: cause %d of a freeze", ErrUnknownRecord, m.GetCause())
	}
	if m.GetGround() > uint32(groundLast) {
		return nil, fmt.Errorf("%w: ground %d of a freeze", ErrUnknownRecord, m.GetGround())
	}
	return &Frozen{
		Round: roundIDFromPB(m.GetRound()), Table: TableID(m.GetTable()), Cause: Cause(m.GetCause()), Ground: Ground(m.GetGround()), Txn: txnFromPB(m.GetTxn()),
		Detail: m.GetDetail(), Remedy: m.GetRemedy(),
	}, nil
}

func capsToPB(c *Caps) *recordpb.SettingChanged {
	return &recordpb.SettingChanged{MaxVersionBytes: c.MaxVersionBytes, MaxVersionTxns: c.MaxVersionTxns, Coalesce: c.Coalesce, Renderer: c.Renderer, Gather: c.Gather}
}

func capsFromPB(m *recordpb.SettingChanged) Caps {
	return Caps{MaxVersionBytes: m.GetMaxVersionBytes(), MaxVersionTxns: m.GetMaxVersionTxns(), Coalesce: m.GetCoalesce(), Renderer: m.GetRenderer(), Gather: m.GetGather()}
}

func fenceToPB(f *Fence) *recordpb.Fence {
	if f == nil {
		return nil
	}
	return &recordpb.Fence{
		Version: int64(f.Version), SinceMs: int64(f.Since), Counts: f.Counts, CountedMs: int64(f.Counted), Operator: f.Operator,
	}
}

func fenceFromPB(m *recordpb.Fence) *Fence {
	if m == nil {
		return nil
	}
	return &Fence{
		Version: Version(m.GetVersion()), Since: Time(m.GetSinceMs()), Counts: m.GetCounts(),
		Counted: Time(m.GetCountedMs()), Operator: m.GetOperator(),
	}
}

func openedToPB(o *Opened) *recordpb.Opened {
	if o == nil {
		return nil
	}
	return &recordpb.Opened{From: uint32(o.From), Version: int64(o.Version), Engine: o.Engine, AtMs: int64(o.At)}
}

func openedFromPB(m *recordpb.Opened) *Opened {
	if m == nil {
		return nil
	}
	return &Opened{From: Mode(m.GetFrom()), Version: Version(m.GetVersion()), Engine: m.GetEngine(), At: Time(m.GetAtMs())}
}
