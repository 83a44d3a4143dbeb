package twophase

import (
	"slices"
	"time"
)

// Bounds that are part of the codec: two builds must forget and cut alike.
const (
	// historyBytes bounds the conflict facts that the fold keeps for one table (R14).
	historyBytes = 1 << 20
	// roundParts is how many parts a waiting component gathers before it is sealed,
	// so that the publication of its round fits an entry.
	roundParts = 8192
	// guestsKept is how many engines a table remembers.
	guestsKept = 8
)

// Status says what became of a decided change on its table.
type Status uint8

// The states of a decided change.
const (
	// StatusPending: decided, in no recorded version yet.
	StatusPending Status = iota
	// StatusDelivered: in a recorded version of a round that is still open.
	StatusDelivered
	// StatusPublished: in a version of a closed round.
	StatusPublished
	// StatusDiverged: given up by a version in the log, waiting for an operator (R13).
	StatusDiverged
	// StatusNotApplied: given up for good.
	StatusNotApplied
)

// PartOutcome is what became of one part of a committed transaction.
type PartOutcome struct {
	Change ChangeNumber
	Status Status
	// Version that delivered the change and the change's place in it, from 0.
	// After a range (R22) the version is the range's end.
	Version  Version
	Place    uint32
	Conflict Conflict
}

// Outcome is what the journal says of a transaction. Exactly one of Commit and
// Abort is set.
type Outcome struct {
	Commit   *Committed
	Abort    *Aborted
	Position Position
	// Index is the place of the deciding record in its entry.
	Index uint32
	Time  Time
	// Parts follow Commit.Parts.
	Parts []PartOutcome
	// Snapshot is the first snapshot that shows the transaction; 0 before.
	Snapshot SnapshotVersion
}

// By reports whether the record at a place of an entry decided the transaction.
func (o *Outcome) By(e *Entry, index int) bool {
	return o != nil && o.Position == e.Position && o.Index == uint32(index)
}

// settled reports whether nothing can happen to the transaction any more: its round
// is closed (until then the round names it), and nothing waits for an operator.
func (o *Outcome) settled() bool {
	if o.Abort != nil {
		return true
	}
	if o.Commit.writes() && o.Snapshot == 0 {
		return false
	}
	for _, p := range o.Parts {
		if p.Status != StatusPublished && p.Status != StatusNotApplied {
			return false
		}
	}
	return true
}

// Change is a decided change of one table that is in no recorded version and
// not given up.
type Change struct {
	Number ChangeNumber
	Txn    TxnID
	Part   *Part
	// Round is the open round that the change is in; nil while it waits.
	Round *Round
	place int // of the part in its commit record
	past  *Past
}

// Freeze says why commits on a table are refused (R12).
type Freeze struct {
	Cause Cause
	// Origin is the table at which it began: an operator thaws that one.
	Origin TableID
	Round  RoundID
	Txn    TxnID
	// Ground says it more closely than Cause, and Remedy what to do about it; both may be
	// missing.
	Ground Ground
	Detail string
	Remedy string
	// Since is the time of the entry that froze the table.
	Since Time
	// Resolved: an operator gave up what was pending on a replaced table. It is
	// never written again, and holds up no round any more.
	Resolved bool
}

// Hold says why, and since when, an operator has a table take no commits.
type Hold struct {
	Detail string
	Since  Time
}

// Table is the fold's knowledge of one table.
type Table struct {
	Registered
	// Created says that version 0 was ours.
	Created bool
	// Recorded is the last version that the journal knows, NoVersion before that of a
	// transaction that creates the table; Identity is its content,
	// Marker the change number that the last recorded version of ours or range holds.
	Recorded Version
	Identity Hash
	Marker   ChangeNumber
	// Next is the change number that the next decided change gets.
	Next ChangeNumber
	// Shown is the version that the newest snapshot names.
	Shown    Version
	Released bool
	// Leaving is the decided transaction that releases the table; zero if there is
	// none. It takes no commits any more, and leaves when the round closes.
	Leaving TxnID
	// ReleasedAt is the time of the entry by which the table left; no rule of the fold
	// depends on it (R16).
	ReleasedAt Time
	// Pending changes in order of their numbers.
	Pending []*Change
	// past is its history, and PastFloor the version below which read points cannot be
	// checked.
	past      history
	PastFloor Version
	Frozen    *Freeze
	// Held is an operator's freeze; nil without one. See Freezing.
	Held *Hold
	// Diverged changes wait for an operator (R13).
	Diverged []*Change
	// Fence is set while the mode is ModeFenced.
	Fence *Fence
	// Opened says why the mode became open by itself; nil if it did not.
	Opened *Opened
	// Guests are the engines whose commits were recorded, the latest last.
	Guests []Guest
	// Cut is the oldest version of the log that is there for certain: what lies below it
	// may have been removed by a clean-up of ours; 0 where there was none.
	Cut Version
}

// Guest is another engine that wrote a table. For people only.
type Guest struct {
	// Engine as its commits name it.
	Engine string
	// Version and Time are those of its newest commit here, and of the entry that
	// recorded that.
	Version Version
	Time    Time
	// Count of its commits.
	Count int64
}

// Lease keeps the versions of a snapshot readable.
type Lease struct {
	ID       string
	Snapshot SnapshotVersion
	Note     string
	// Since is the time of the entry that made it; Until permits its end (R16), and is
	// another one after each renewal.
	Since, Until Time
	// TTL is how long it lasts from its newest renewal on.
	TTL time.Duration
	// At is the entry that made it.
	At Position
}

// tag names a snapshot, since an entry.
type tag struct {
	snapshot SnapshotVersion
	at       Position
}

// Round is a set of decided transactions that is published together (R2).
type Round struct {
	ID   RoundID
	Time Time
	Txns []TxnID
	Caps Caps
	// tables that its transactions write, sorted; also those on which every change
	// was given up.
	tables []TableID
}

// Tables is how many tables its transactions write.
func (r *Round) Tables() int { return len(r.tables) }

// component is a set of decided transactions, connected by written tables, that
// waits to become a round.
type component struct {
	sealed   bool
	gathered bool    // it could have opened once, and gathered for one entry more
	txns     []TxnID // in the order of their decision
	tables   map[TableID]bool
	parts    int
}

// SnapshotTable is a table in a snapshot.
type SnapshotTable struct {
	Table   TableID
	Version Version
}

// Snapshot is one version of the global manifest: what changed since the one before.
type Snapshot struct {
	Version  SnapshotVersion
	Time     Time
	Position Position
	// Kind is the kind of record that made it.
	Kind string
	Txns []TxnID
	// Tables that changed, by id; Removed are those that left the catalog.
	Tables  []SnapshotTable
	Removed []TableID
	// AsOf is the time that its versions are of: of the round's opening, or the
	// in-commit timestamp of a foreign commit. Not above Time but by another's clock.
	AsOf Time
}

// State is the fold of a catalog's journal. It is not safe for concurrent use.
type State struct {
	catalog     string
	incarnation string
	next        Position
	previous    Hash
	time        Time
	writer      string
	checkpoint  Checkpointed
	// checkpointAt is the entry in which the checkpoint's record stands.
	checkpointAt Position
	// movedTo: the catalog lives in another store now.
	movedTo string
	// rebuilt is the newest snapshot of the life before, 0 if this is the first;
	// rebuilding: more records of the rebuild follow.
	rebuilt    SnapshotVersion
	rebuilding bool

	caps      Caps
	codec     uint32
	floor     Position
	floorTime Time

	tables map[TableID]*Table
	byName map[string]TableID
	byURI  map[string]TableID
	// unsettled are the outcomes to which something can happen yet, settled the others, with
	// the names in them (settled.go). scratch is room to write one.
	unsettled map[TxnID]*Outcome
	settled   kept
	names     *names
	scratch   []byte
	// attempts is the highest attempt that any commit held here has, or one had that was
	// forgotten, but for recalled ones, of which it is not known.
	attempts uint32
	// ranges are all outcomes by range of positions, in the order of their decision;
	// encoded are the checkpoint segments that still are as they were, of one series
	// (segments.go).
	ranges  map[uint64][]TxnID
	encoded map[segment]CheckpointObject
	series  string

	waiting []*component           // in the order of R2: sealed ones first
	joining map[TableID]*component // the unsealed one that holds a table
	rounds  []*Round               // open, in order of opening
	busy    map[TableID]*Round

	shown     SnapshotVersion
	snapshots []*Snapshot
	tags      map[string]tag
	leases    map[string]*Lease

	reservations []*Reservation    // that stand, in order of their records
	turns        map[TableID]*turn // of tables that are reserved, or rest from it

	historyBytes int
	roundParts   int
	weak         weakness
}

// NewState is the fold of an empty journal.
func NewState(catalog, incarnation string) *State {
	return &State{
		catalog: catalog, incarnation: incarnation,
		caps: DefaultCaps, codec: FirstCodec,
		tables: map[TableID]*Table{}, byName: map[string]TableID{}, byURI: map[string]TableID{},
		unsettled: map[TxnID]*Outcome{}, settled: newKept(0), names: newNames(nil), tags: map[string]tag{}, leases: map[string]*Lease{},
		ranges: map[uint64][]TxnID{}, encoded: map[segment]CheckpointObject{},
		turns: map[TableID]*turn{},
		busy:  map[TableID]*Round{}, joining: map[TableID]*component{},
		historyBytes: historyBytes, roundParts: roundParts,
	}
}

// Catalog is the catalog's id.
func (s *State) Catalog() string { return s.catalog }

// Incarnation names the journal's life; rebuild begins a new one (R7).
func (s *State) Incarnation() string { return s.incarnation }

// Codec is the encoding that is switched on: what needs a newer one may not be written
// yet (R17).
func (s *State) Codec() uint32 { return s.codec }

// Next is the position of the entry that is folded next.
func (s *State) Next() Position { return s.next }

// Previous is the hash of the last folded entry.
func (s *State) Previous() Hash { return s.previous }

// Time is the last entry's.
func (s *State) Time() Time { return s.time }

// Writer is the address in the last entry (R15).
func (s *State) Writer() string { return s.writer }

// MovedTo names the store in which the catalog lives now; empty if it is this one.
func (s *State) MovedTo() string { return s.movedTo }

// Rebuilt is the newest snapshot of the lives before this one, whose manifests name
// another incarnation (R7); 0 if this is the first.
func (s *State) Rebuilt() SnapshotVersion { return s.rebuilt }

// RebuiltAt is when this life began, out of the logs of the one before, which have no
// aborts; zero if it is the first, or once the floor is above that: then nothing of what was
// before is known at all.
func (s *State) RebuiltAt() Time {
	if !s.recalls() {
		return 0
	}
	return s.snapshots[0].Time
}

// recalls reports whether outcomes may be held that were recalled at a rebuild.
func (s *State) recalls() bool {
	return len(s.snapshots) > 0 && s.snapshots[0].Kind == kindRebuild && s.snapshots[0].Position >= s.floor
}

// Rebuilding reports whether the records that begin this life are not complete: nothing
// may be decided before.
func (s *State) Rebuilding() bool { return s.rebuilding }

// Checkpoint is the newest one that the journal names.
func (s *State) Checkpoint() Checkpointed { return s.checkpoint }

// Caps are those in force for rounds that open from here on.
func (s *State) Caps() Caps { return s.caps }

// Floor is the position below which outcomes may be forgotten, and the time
// since which keys are remembered (R6).
func (s *State) Floor() (Position, Time) { return s.floor, s.floorTime }

// Table returns a table by id, released ones included.
func (s *State) Table(id TableID) (*Table, bool) {
	t, ok := s.tables[id]
	return t, ok
}

// TableNamed returns the live table of a name or canonical URI, or of an id.
func (s *State) TableNamed(ref string) (*Table, bool) {
	if id, ok := s.byName[ref]; ok {
		return s.tables[id], true
	}
	if id, ok := s.byURI[ref]; ok {
		return s.tables[id], true
	}
	t, ok := s.tables[TableID(ref)]
	return t, ok && !t.Released
}

// Past calls yield for the table's history, oldest first: what was decided and what
// others wrote, with its facts. It is not to be kept.
func (t *Table) Past(yield func(*Past) bool) { t.past.each(NoVersion, yield) }

// Tables are the live tables, by id.
func (s *State) Tables() []*Table {
	out := make([]*Table, 0, len(s.tables))
	for _, t := range s.tables {
		if !t.Released {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *Table) int { return compareStrings(a.Table, b.Table) })
	return out
}

// Rounds are the open rounds, in order of opening.
func (s *State) Rounds() []*Round { return s.rounds }

// Round returns an open round.
func (s *State) Round(id RoundID) (*Round, bool) {
	i, ok := slices.BinarySearchFunc(s.rounds, id, func(r *Round, id RoundID) int { return r.ID.Compare(id) })
	if !ok {
		return nil, false
	}
	return s.rounds[i], true
}

// RoundOn returns the open round that writes a table.
func (s *State) RoundOn(id TableID) (*Round, bool) {
	r, ok := s.busy[id]
	return r, ok
}

// Waiting counts decided transactions that are in no round yet.
func (s *State) Waiting() int {
	n := 0
	for _, c := range s.waiting {
		n += len(c.txns)
	}
	return n
}

// Shown is the newest snapshot; 0 before the first.
func (s *State) Shown() SnapshotVersion { return s.shown }

// Snapshots are those that the fold still holds, oldest first; older ones are
// in the manifests.
func (s *State) Snapshots() []*Snapshot { return s.snapshots }

// Leases are those that have not ended, by id. They are not to be changed.
func (s *State) Leases() []*Lease {
	out := make([]*Lease, 0, len(s.leases))
	for _, id := range sortedKeys(s.leases) {
		out = append(out, s.leases[id])
	}
	return out
}

// Lease returns one that has not ended.
func (s *State) Lease(id string) (*Lease, bool) {
	l, ok := s.leases[id]
	return l, ok
}

// Tags maps names to snapshots.
func (s *State) Tags() map[string]SnapshotVersion {
	out := make(map[string]SnapshotVersion, len(s.tags))
	for name, t := range s.tags {
		out[name] = t.snapshot
	}
	return out
}

// Tag is the snapshot that a name stands for; 0 if it is none.
func (s *State) Tag(name string) SnapshotVersion { return s.tags[name].snapshot }

func compareStrings[T ~string](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
