package twophase

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/txcoord/txcoord/twophase/recordpb"
)

// Stored says that objects of the last checkpoint that was encoded are durable. As long as
// they stay part of later ones of its series, those have them without their bytes. Like
// Apply, a call excludes others.
func (s *State) Stored(segments []CheckpointObject) {
	stored := make(map[ObjectRef]bool, len(segments))
	for _, o := range segments {
		stored[o.Ref] = true
	}
	for at, o := range s.encoded {
		if stored[o.Ref] {
			s.encoded[at] = CheckpointObject{Ref: o.Ref}
		}
	}
}

// checkpointNameLength is how much of its hash an object's name holds.
const checkpointNameLength = 32

// CheckpointObject is one object of a checkpoint: immutable, named by its content and
// the series that it belongs to.
type CheckpointObject struct {
	Ref   ObjectRef
	Bytes []byte
}

// EncodeCheckpoint writes the fold as an index and segments (R1). Every replica
// at the same position writes the same bytes. All objects must be durable before
// the Checkpointed record that names the index is appended.
//
// What has not changed since the last call, or since the checkpoint that the fold was
// loaded from, is not encoded again, and keeps its name within a series, so the cost is
// that of the changes. A series ends where another replica's checkpoint becomes the
// newest: its writer removes what that one does not need, so the next checkpoint from
// here counts on no object that is there. Like Apply, a call excludes other calls of it.
func (s *State) EncodeCheckpoint(series string) (index CheckpointObject, segments []CheckpointObject) {
	s.begin(series)
	segments = s.segments()
	m := &recordpb.CheckpointIndex{Codec: s.codec, Head: s.headToPB()}
	for i := range segments {
		m.Segments = append(m.Segments, refToPB(segments[i].Ref))
	}
	return s.object("index", m), segments
}

// begin goes on in a series. What is encoded already gets its name there, and has to be
// stored again; of what is stored the bytes are gone.
func (s *State) begin(series string) {
	if series == s.series {
		return
	}
	s.series = series
	for at, o := range s.encoded {
		if o.Bytes == nil {
			delete(s.encoded, at)
			continue
		}
		s.encoded[at] = s.named("segment", o.Bytes, o.Ref.Hash)
	}
}

func (s *State) object(kind string, m proto.Message) CheckpointObject {
	b := mustMarshal(m)
	return s.named(kind, b, HashOf(b))
}

func (s *State) named(kind string, b []byte, h Hash) CheckpointObject {
	name := kind + "-" + h.String()[:checkpointNameLength]
	if s.series != "" {
		name += "-" + s.series
	}
	return CheckpointObject{Bytes: b, Ref: ObjectRef{Name: name, Size: uint64(len(b)), Hash: h}}
}

// Check reports whether the bytes are the object's.
func (r ObjectRef) Check(b []byte) error {
	if h := HashOf(b); h != r.Hash {
		return fmt.Errorf("object %s: content has hash %.8s, want %.8s", r.Name, h, r.Hash)
	}
	return nil
}

func (s *State) headToPB() *recordpb.CheckpointHead {
	h := &recordpb.CheckpointHead{
		Catalog: s.catalog, Incarnation: s.incarnation, Position: uint64(s.next), Previous: hashToPB(s.previous),
		TimeMs: int64(s.time), Floor: uint64(s.floor), FloorTimeMs: int64(s.floorTime), Snapshot: uint64(s.shown),
		Caps: capsToPB(&s.caps), CodecEnabled: s.codec, Writer: s.writer, Checkpoint: checkpointedToPB(&s.checkpoint),
		CheckpointAt: uint64(s.checkpointAt), MovedTo: s.movedTo, Rebuilt: uint64(s.rebuilt), Rebuilding: s.rebuilding,
		Names: s.names.list,
	}
	for _, c := range s.waiting {
		h.Waiting = append(h.Waiting, &recordpb.Waiting{Sealed: c.sealed, Gathered: c.gathered, Txns: mapTo(c.txns, txnToPB)})
	}
	for _, r := range s.rounds {
		h.Rounds = append(h.Rounds, &recordpb.Round{Id: roundIDToPB(r.ID), TimeMs: int64(r.Time), Txns: mapTo(r.Txns, txnToPB), Caps: capsToPB(&r.Caps)})
	}
	for _, name := range sortedKeys(s.tags) {
		h.Tags = append(h.Tags, &recordpb.Tag{Name: name, Snapshot: uint64(s.tags[name].snapshot), At: uint64(s.tags[name].at)})
	}
	for _, l := range s.Leases() {
		h.Leases = append(h.Leases, &recordpb.Lease{Id: l.ID, Snapshot: uint64(l.Snapshot), Note: l.Note, SinceMs: int64(l.Since), UntilMs: int64(l.Until), TtlMs: l.TTL.Milliseconds(), At: uint64(l.At)})
	}
	h.Reservations, h.Turns = s.reservationsToPB()
	return h
}

func tableToPB(t *Table) *recordpb.Table {
	m := &recordpb.Table{
		Registered: registeredToPB(&t.Registered), Recorded: int64(t.Recorded), Identity: hashToPB(t.Identity), Marker: int64(t.Marker),
		NextChange: int64(t.Next), SnapshotVersion: int64(t.Shown), Released: t.Released, ReleasedMs: int64(t.ReleasedAt), HistoryFloor: int64(t.PastFloor), Created: t.Created, Cut: int64(t.Cut),
		Pending: mapTo(t.Pending, changeToPB), Diverged: mapTo(t.Diverged, changeToPB),
	}
	m.Past = mapTo(t.past.blocks, func(b pastBlock) []byte { return b.packed })
	for _, p := range t.past.tail {
		m.History = append(m.History, &recordpb.History{
			Version: int64(p.Version), Change: int64(p.Change), Txn: txnToPB(p.Txn),
			Facts: p.Facts, FactsRef: refToPB(p.FactsRef),
		})
	}
	m.Guests = mapTo(t.Guests, func(g Guest) *recordpb.Guest {
		return &recordpb.Guest{Engine: g.Engine, Version: int64(g.Version), TimeMs: int64(g.Time), Count: g.Count}
	})
	if f := t.Frozen; f != nil {
		m.Frozen = frozenToPB(&Frozen{Round: f.Round, Table: f.Origin, Cause: f.Cause, Ground: f.Ground, Txn: f.Txn, Detail: f.Detail, Remedy: f.Remedy})
		m.Resolved, m.FrozenSinceMs = f.Resolved, int64(f.Since)
	}
	if h := t.Held; h != nil {
		m.Held = &recordpb.Hold{Detail: h.Detail, SinceMs: int64(h.Since)}
	}
	m.Fence, m.Opened = fenceToPB(t.Fence), openedToPB(t.Opened)
	return m
}

func changeToPB(c *Change) *recordpb.Change {
	return &recordpb.Change{Number: int64(c.Number), Txn: txnToPB(c.Txn)}
}

func outcomeToPB(o *Outcome) *recordpb.Outcome {
	m := &recordpb.Outcome{Position: uint64(o.Position), Index: o.Index, TimeMs: int64(o.Time), Snapshot: uint64(o.Snapshot)}
	if o.Abort != nil {
		m.Abort = abortedToPB(o.Abort)
		return m
	}
	m.Commit = committedToPB(o.Commit)
	m.Parts = mapTo(o.Parts, func(p PartOutcome) *recordpb.PartOutcome {
		return &recordpb.PartOutcome{Change: int64(p.Change), Status: uint32(p.Status), Version: int64(p.Version), Place: p.Place, Conflict: conflictToPB(p.Conflict)}
	})
	return m
}

func freezeFromPB(m *recordpb.Table) (*Freeze, error) {
	if m.GetFrozen() == nil {
		return nil, nil
	}
	f, err := frozenFromPB(m.GetFrozen())
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", m.GetRegistered().GetTable(), err)
	}
	return &Freeze{
		Cause: f.Cause, Ground: f.Ground, Origin: f.Table, Round: f.Round, Txn: f.Txn, Detail: f.Detail, Remedy: f.Remedy,
		Resolved: m.GetResolved(), Since: Time(m.GetFrozenSinceMs()),
	}, nil
}

// DecodeCheckpoint reads a fold back, and looks at each outcome in it. load fetches a
// segment's bytes by its reference; their hashes are checked here.
func DecodeCheckpoint(index []byte, load func(ObjectRef) ([]byte, error)) (*State, error) {
	refs, err := CheckpointSegments(index)
	if err != nil {
		return nil, err
	}
	segments := make([]*Segment, len(refs))
	for i, ref := range refs {
		b, err := load(ref)
		if err == nil {
			err = ref.Check(b)
		}
		if err == nil {
			segments[i], err = DecodeSegment(b)
		}
		if err != nil {
			return nil, fmt.Errorf("checkpoint segment %s: %w", ref.Name, err)
		}
	}
	s, err := LoadCheckpoint(index, segments)
	if err != nil {
		return nil, err
	}
	return s, s.fit()
}

// LoadCheckpoint makes a fold of an index and the segments that CheckpointSegments says it
// has, in that order. The hashes of all were checked. Nothing that is over is looked at
// more closely than to know where it was decided: a start has hundreds of thousands of
// outcomes, and few are ever asked for.
func LoadCheckpoint(index []byte, segments []*Segment) (*State, error) {
	var m recordpb.CheckpointIndex
	if err := proto.Unmarshal(index, &m); err != nil {
		return nil, fmt.Errorf("decode checkpoint index: %w", err)
	}
	if f := unknownField(&m, index); f != "" {
		return nil, fmt.Errorf("%w: unknown field in %s of a checkpoint", ErrUnknownRecord, f)
	}
	h := m.GetHead()
	if err := errors.Join(knownCodec(m.GetCodec()), knownCodec(h.GetCodecEnabled())); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	s := NewState(h.GetCatalog(), h.GetIncarnation())
	s.next, s.previous, s.time, s.writer = Position(h.GetPosition()), hashFromPB(h.GetPrevious()), Time(h.GetTimeMs()), h.GetWriter()
	s.floor, s.floorTime, s.shown = Position(h.GetFloor()), Time(h.GetFloorTimeMs()), SnapshotVersion(h.GetSnapshot())
	s.caps, s.codec, s.checkpoint = capsFromPB(h.GetCaps()), h.GetCodecEnabled(), checkpointedFromPB(h.GetCheckpoint())
	s.checkpointAt, s.movedTo = Position(h.GetCheckpointAt()), h.GetMovedTo()
	s.rebuilt, s.rebuilding, s.names = SnapshotVersion(h.GetRebuilt()), h.GetRebuilding(), newNames(h.GetNames())
	for _, t := range h.GetTags() {
		s.tags[t.GetName()] = tag{SnapshotVersion(t.GetSnapshot()), Position(t.GetAt())}
	}
	for _, l := range h.GetLeases() {
		s.leases[l.GetId()] = &Lease{
			ID: l.GetId(), Snapshot: SnapshotVersion(l.GetSnapshot()), Note: l.GetNote(), Since: Time(l.GetSinceMs()), Until: Time(l.GetUntilMs()),
			TTL: time.Duration(l.GetTtlMs()) * time.Millisecond, At: Position(l.GetAt()),
		}
	}
	s.loadReservations(h)
	var tables []*recordpb.Table
	outcomes := 0
	for _, seg := range segments {
		outcomes += seg.outcomes()
	}
	s.settled = newKept(outcomes)
	for i, seg := range segments {
		tables = append(tables, seg.pb.GetTables()...)
		ref := refFromPB(m.GetSegments()[i])
		if err := s.loadPast(seg, ref); err != nil {
			return nil, fmt.Errorf("checkpoint segment %s: %w", ref.Name, err)
		}
	}
	for id := range s.unsettled {
		if s.settled.has(id) {
			return nil, fmt.Errorf("transaction %s is there twice", id)
		}
	}
	slices.SortFunc(s.snapshots, func(a, b *Snapshot) int { return cmp.Compare(a.Version, b.Version) })
	if err := s.loadTables(tables); err != nil {
		return nil, err
	}
	return s, s.loadRounds(h)
}

// CheckpointSegments are the segments that an index names, in order.
func CheckpointSegments(index []byte) ([]ObjectRef, error) {
	var m recordpb.CheckpointIndex
	if err := proto.Unmarshal(index, &m); err != nil {
		return nil, fmt.Errorf("decode checkpoint index: %w", err)
	}
	return mapTo(m.GetSegments(), refFromPB), nil
}

// loadPast takes outcomes and snapshots of a segment.
func (s *State) loadPast(seg *Segment, ref ObjectRef) error {
	for _, m := range seg.pb.GetOutcomes() {
		id, o, err := outcomeFromPB(m)
		if err != nil {
			return err
		}
		if s.isDecided(id) {
			return fmt.Errorf("transaction %s is there twice", id)
		}
		s.decide(id, o)
		s.compact(id)
	}
	if err := s.loadSettled(seg, ref); err != nil {
		return err
	}
	for _, m := range seg.pb.GetSnapshots() {
		sn := snapshotFromPB(m)
		s.nameSnapshot(sn)
		s.snapshots = append(s.snapshots, sn)
	}
	for _, run := range seg.pb.GetShown() {
		if err := s.loadSnapshots(run); err != nil {
			return err
		}
	}
	return nil
}

func outcomeFromPB(m *recordpb.Outcome) (TxnID, *Outcome, error) {
	o := &Outcome{Position: Position(m.GetPosition()), Index: m.GetIndex(), Time: Time(m.GetTimeMs()), Snapshot: SnapshotVersion(m.GetSnapshot())}
	if m.GetAbort() != nil {
		o.Abort = abortedFromPB(m.GetAbort())
		return o.Abort.Txn, o, nil
	}
	c, err := committedFromPB(m.GetCommit())
	if err != nil {
		return TxnID{}, nil, fmt.Errorf("outcome %d of entry %d: %w", o.Index, o.Position, err)
	}
	o.Commit = c
	o.Parts = mapTo(m.GetParts(), func(p *recordpb.PartOutcome) PartOutcome {
		return PartOutcome{
			Change: ChangeNumber(p.GetChange()), Status: Status(p.GetStatus()), Version: Version(p.GetVersion()),
			Place: p.GetPlace(), Conflict: conflictFromPB(p.GetConflict()),
		}
	})
	return c.Txn, o, nil
}

func snapshotFromPB(m *recordpb.Snapshot) *Snapshot {
	return &Snapshot{
		Version: SnapshotVersion(m.GetVersion()), Time: Time(m.GetTimeMs()), Position: Position(m.GetPosition()), Kind: m.GetCause(),
		Txns: mapTo(m.GetTxns(), txnFromPB),
		Tables: mapTo(m.GetTables(), func(t *recordpb.SnapshotTable) SnapshotTable {
			return SnapshotTable{TableID(t.GetTable()), Version(t.GetVersion())}
		}),
		Removed: mapTo(m.GetRemoved(), func(id string) TableID { return TableID(id) }), AsOf: Time(m.GetAsOfMs()),
	}
}

func (s *State) loadTables(in []*recordpb.Table) error {
	for _, m := range in {
		t := &Table{
			Registered: *registeredFromPB(m.GetRegistered()), Created: m.GetCreated(), Recorded: Version(m.GetRecorded()),
			Identity: hashFromPB(m.GetIdentity()), Marker: ChangeNumber(m.GetMarker()), Next: ChangeNumber(m.GetNextChange()),
			Shown: Version(m.GetSnapshotVersion()), Released: m.GetReleased(), ReleasedAt: Time(m.GetReleasedMs()), PastFloor: Version(m.GetHistoryFloor()), Cut: Version(m.GetCut()),
		}
		for _, b := range m.GetPast() {
			if err := t.past.load(b); err != nil {
				return fmt.Errorf("checkpoint: history of table %s: %w", t.Table, err)
			}
		}
		byChange := map[ChangeNumber]*Past{}
		for _, h := range m.GetHistory() {
			p := &Past{
				Version: Version(h.GetVersion()), Change: ChangeNumber(h.GetChange()), Txn: txnFromPB(h.GetTxn()),
				Facts: h.GetFacts(), FactsRef: refFromPB(h.GetFactsRef()),
			}
			t.past.tail = append(t.past.tail, p)
			t.past.bytes += p.cost()
			byChange[p.Change] = p
		}
		var err error
		if t.Pending, err = s.loadChanges(t, m.GetPending(), byChange); err != nil {
			return err
		}
		if t.Diverged, err = s.loadChanges(t, m.GetDiverged(), byChange); err != nil {
			return err
		}
		t.Guests = mapTo(m.GetGuests(), func(g *recordpb.Guest) Guest {
			return Guest{Engine: g.GetEngine(), Version: Version(g.GetVersion()), Time: Time(g.GetTimeMs()), Count: g.GetCount()}
		})
		if t.Frozen, err = freezeFromPB(m); err != nil {
			return err
		}
		if h := m.GetHeld(); h != nil {
			t.Held = &Hold{Detail: h.GetDetail(), Since: Time(h.GetSinceMs())}
		}
		t.Fence, t.Opened = fenceFromPB(m.GetFence()), openedFromPB(m.GetOpened())
		s.tables[t.Table] = t
		if !t.Released {
			s.byName[t.Name], s.byURI[t.URI] = t.Table, t.Table
		}
	}
	return nil
}

func (s *State) loadChanges(t *Table, in []*recordpb.Change, past map[ChangeNumber]*Past) ([]*Change, error) {
	var out []*Change
	for _, m := range in {
		c := &Change{Number: ChangeNumber(m.GetNumber()), Txn: txnFromPB(m.GetTxn()), past: past[ChangeNumber(m.GetNumber())]}
		o := s.unsettled[c.Txn]
		if o == nil || o.Commit == nil {
			return nil, fmt.Errorf("checkpoint: change %d of table %s names transaction %s, which is not there", c.Number, t.Table, c.Txn)
		}
		for i := range o.Commit.Parts {
			if o.Commit.Parts[i].Table == t.Table {
				c.Part, c.place = &o.Commit.Parts[i], i
			}
		}
		out = append(out, c)
	}
	return out, nil
}

func (s *State) loadRounds(h *recordpb.CheckpointHead) error {
	for _, w := range h.GetWaiting() {
		c := &component{sealed: w.GetSealed(), gathered: w.GetGathered(), txns: mapTo(w.GetTxns(), txnFromPB), tables: map[TableID]bool{}}
		if err := s.eachWritten(c.txns, func(id TableID) { c.tables[id] = true; c.parts++ }); err != nil {
			return err
		}
		if !c.sealed {
			for id := range c.tables {
				s.joining[id] = c
			}
		}
		s.waiting = append(s.waiting, c)
	}
	for _, m := range h.GetRounds() {
		r := &Round{ID: roundIDFromPB(m.GetId()), Time: Time(m.GetTimeMs()), Txns: mapTo(m.GetTxns(), txnFromPB), Caps: capsFromPB(m.GetCaps())}
		tables := map[TableID]bool{}
		if err := s.eachWritten(r.Txns, func(id TableID) { tables[id] = true }); err != nil {
			return err
		}
		r.tables = sortedKeys(tables)
		s.rounds = append(s.rounds, r)
		s.enter(r)
	}
	return nil
}

// eachWritten names the tables of transactions that are not published, and marks
// those that leave with one.
func (s *State) eachWritten(txns []TxnID, do func(TableID)) error {
	for _, id := range txns {
		o := s.unsettled[id]
		if o == nil || o.Commit == nil {
			return fmt.Errorf("checkpoint: transaction %s is in a round and not decided", id)
		}
		for t := range o.Commit.written {
			do(t)
		}
		for _, t := range o.Commit.Releases {
			s.tables[t].Leaving = id
		}
	}
	return nil
}
