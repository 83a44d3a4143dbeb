package twophase

// Record is one fact in the journal. DESIGN.md in this folder lists every kind
// with its fields and the rule it serves.
type Record interface {
	// kind is the field of the record in the codec's oneof, and its name.
	kind() string
}

// Part is what a transaction does to one table.
type Part struct {
	Table TableID
	// MetaDataID is the table's metaData.id when the part was staged.
	MetaDataID string
	// Digests name the staged pieces, in the client's order; together they are
	// the part (R8).
	Digests []Digest
	// Read is the read point that the part was checked at.
	Read ReadPoint
	// Facts are the part's conflict facts; empty when FactsRef names them.
	Facts Facts
	// FactsRef names an object that holds the facts, durable before the append,
	// when they are past the size that an entry takes.
	FactsRef ObjectRef
	// Shape is what coalescing needs to know (R19).
	Shape Shape
	// Create brings the table into the catalog: the part is its first change, and
	// version 0. Nil for a table that is there.
	Create *Creation
	// Fence says what the part's protocol action does to the table's fence (R11).
	Fence Fencing
	// Bundle says in which bundle of the commit the part's piece lies, counted from 1; 0:
	// each of its pieces lies by itself.
	Bundle uint32
}

// Creation is a table that begins with a transaction. From the decision on its name
// and place are taken, and later transactions may write it; it is in a log, and in
// snapshots, once the round of its transaction is closed.
type Creation struct {
	Name             string
	URI              string
	Mode             Mode
	OneTxnPerVersion bool
}

// Fencing is what a part does to a table's fence. Only the catalog's own
// transactions do anything to it.
type Fencing uint8

// What a part does to a fence. Numbers stand in journals.
const (
	FenceKept Fencing = iota
	// FenceRaised: the table is fenced once the version with the change is recorded.
	FenceRaised
	// FenceLifted: the table is open from the decision on; the change is published
	// after everything that was decided before.
	FenceLifted
)

// Shape says whether a part may share a version with its neighbours (R19).
type Shape struct {
	// Appends: every file action is an add, and there is no cdc, domainMetadata,
	// metaData or protocol. A part of txn actions alone counts as well.
	Appends bool
	// DataChange is the one value that all its adds carry.
	DataChange bool
	// Bytes is the size of the payload lines.
	Bytes uint64
	// Apps are its txn actions, sorted by app.
	Apps []AppVersion
}

// ObjectRef names an immutable object. The zero value names none.
type ObjectRef struct {
	Name string
	Size uint64
	Hash Hash
}

// ReadPart is a table that a transaction read and does not write.
type ReadPart struct {
	Table TableID
	Read  ReadPoint
	Facts Facts
}

// Committed decides a transaction (R5, R8).
type Committed struct {
	Txn TxnID
	// Key is the client's key and Attempt its attempt; empty and 0 without a key.
	Key     string
	Attempt uint32
	// Begun is the journal position of the transaction's Begin (R6).
	Begun Position
	Parts []Part
	Reads []ReadPart
	// Releases are tables that leave the catalog with the snapshot that shows the
	// transaction. Nothing is written to them for it.
	Releases []TableID
	// Bundles are the items of the store that hold pieces of this transaction, and maybe
	// of others (R20).
	Bundles []BundleID
}

// BundleOf is the bundle in which a part of the commit lies; zero if it lies by itself.
func (c *Committed) BundleOf(p *Part) BundleID {
	if p.Bundle == 0 {
		return BundleID{}
	}
	return c.Bundles[p.Bundle-1]
}

// Aborted ends a transaction without effect (R5).
type Aborted struct {
	Txn     TxnID
	Key     string
	Attempt uint32
	Begun   Position
	Rule    Rule
	// Table, Version, Path and Winner say what it lost to, as far as that applies.
	Table   TableID
	Version Version
	Path    string
	Winner  TxnID
	Detail  string
}

// FoundVersion is a version of ours that a walk found in a log: its identity
// and its transactions in order.
type FoundVersion struct {
	Version  Version
	Identity Hash
	Txns     []TxnID
}

// PublishedTable says which versions delivered a round on one table, in order.
type PublishedTable struct {
	Table    TableID
	Versions []FoundVersion
}

// Published closes a round and makes a snapshot (R2).
type Published struct {
	Round  RoundID
	Tables []PublishedTable
}

// Verdict fixes whether a pending change is still possible after a foreign
// version (R4). A zero Conflict.Rule means that it is.
type Verdict struct {
	Change   ChangeNumber
	Conflict Conflict
}

// Foreign makes a version that somebody else wrote part of the history (R4).
type Foreign struct {
	Table    TableID
	Version  Version
	Identity Hash
	// Facts, or FactsRef when they are large.
	Facts    Facts
	FactsRef ObjectRef
	// MetaDataID is the table's metaData.id after the version.
	MetaDataID string
	// Apps are its txn actions.
	Apps []AppVersion
	// Engine is the commitInfo's engineInfo, cut to 200 bytes.
	Engine string
	// InCommit is its in-commit timestamp; 0 where the table has none. Display only.
	InCommit Time
	// Found are the versions of the open round below this one that are not recorded.
	Found []FoundVersion
	// Verdicts, one for each other pending change, by change number.
	Verdicts []Verdict
}

// Barrier makes an empty version of ours, which gives changes up, part of the history (R4).
type Barrier struct {
	Table      TableID
	Version    Version
	Identity   Hash
	Found      []FoundVersion
	NotApplied []TxnID
	// Verdicts, one for each other pending change: some cannot stand without what
	// was given up.
	Verdicts []Verdict
}

// Range takes over what a cleaned log no longer shows version by version (R22).
type Range struct {
	Table TableID
	From  Version
	To    Version
	// Identity is that of To's commit, zero when the commit is gone.
	Identity   Hash
	Marker     ChangeNumber
	MetaDataID string
	Verdicts   []Verdict
}

// Replaced says that the log at a table's place is not the table's any more (R12, R22).
type Replaced struct {
	Table    TableID
	Recorded Version
	Detail   string
	// GivenUp: nobody has seen that. An operator gives the table up, and it counts as such.
	GivenUp bool
}

// Registered brings an existing table into the catalog (R21).
type Registered struct {
	Table      TableID
	Name       string
	URI        string
	MetaDataID string
	Mode       Mode
	Version    Version
	Identity   Hash
	Marker     ChangeNumber
	// OneTxnPerVersion turns coalescing off for this table (R19).
	OneTxnPerVersion bool
}

// Created is Registered for a table whose version 0 we wrote ourselves.
type Created struct{ Registered }

// Released takes a table out of the catalog. Refused while changes are pending.
type Released struct{ Table TableID }

// ModeSet changes a table's mode. It neither raises a fence nor lifts one.
type ModeSet struct {
	Table TableID
	Mode  Mode
}

// FenceCounted says that a table's fence counts from here on (R11): the grace time
// has passed, or an operator vouches that no writer is at work that read the
// protocol below Version; and the log, looked at after that, held nothing of theirs
// that is not recorded. Ignored unless the table still has that very fence.
type FenceCounted struct {
	Table   TableID
	Version Version
	// Operator: a word was given, no time counted.
	Operator bool
}

// Cause says why tables are frozen (R12).
type Cause uint8

// The causes. STALLED and LOST thaw by themselves when the round closes; the others need
// an operator. Numbers stand in journals.
const (
	CauseStalled Cause = iota + 1
	CauseDiverged
	CauseReplaced
	CauseContradiction
	// CauseOperator stands in no freeze of the fold: see Held.
	CauseOperator
	// CauseLost: the payload of a decided change is gone or damaged (R20). Whoever puts it
	// back has the round go on; who cannot gives the change up by a barrier (R4).
	CauseLost

	causeLast = CauseLost
)

var causeNames = [...]string{"none", "stalled", "diverged", "replaced", "contradiction", "operator", "lost"}

func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return "unknown"
}

// Ground says more closely than its cause why a table is frozen, where something else is to be
// done about it than about others of the cause. Nothing that the fold does depends on it.
type Ground uint8

// The grounds. Numbers stand in journals.
const (
	GroundNone Ground = iota
	// GroundTorn, of STALLED: a commit above the recorded version is not whole.
	GroundTorn
	// GroundUnwritable, of LOST: the payload is there, and no version can be made of it.
	GroundUnwritable
	// GroundGivenUp, of REPLACED: an operator gave the table up.
	GroundGivenUp

	groundLast = GroundGivenUp
)

// Frozen refuses commits that write the unfinished tables of a round (R12), or
// one table when Round is zero. Remedy, if there is one, is what to do about that very case.
type Frozen struct {
	Round  RoundID
	Table  TableID
	Cause  Cause
	Ground Ground
	Txn    TxnID
	Detail string
	Remedy string
}

// Thawed is the operator's word that a table's changes that were given up stay
// so, and that the table may be written again. On a REPLACED table it gives up
// what is pending there (R4, last sentence).
type Thawed struct {
	Table  TableID
	Detail string
	// Mended: a REPLACED table's own log stands at its place again. Nothing is given up,
	// and the table goes on; the next walk sees for itself.
	Mended bool
}

// Held is an operator's freeze of one table (cause OPERATOR), or with Off its end. It
// refuses commits and does nothing else: rounds go on, no other table shares it, and
// freezes of other causes come and go beside it.
type Held struct {
	Table  TableID
	Off    bool
	Detail string
}

// FloorRaised lets outcomes decided below a position be forgotten (R6).
type FloorRaised struct{ Floor Position }

// SettingChanged sets the caps (R17).
type SettingChanged struct{ Caps Caps }

// Turned says nothing: the entry that holds it opens what gathers (Caps.Gather), where no
// other entry comes.
type Turned struct{}

// Checkpointed says that a checkpoint of the fold before Position is durable (R1).
type Checkpointed struct {
	Position Position
	Object   ObjectRef
}

// Moved ends the catalog's life in the store that holds this journal: nothing is
// decided any more, by anybody who has folded it, and nobody can append behind it
// without having done so. The journal up to here is copied, and goes on in the other
// store with an Arrived.
type Moved struct {
	// To names the other store, for people; it holds no secret.
	To string
}

// Arrived lets the catalog go on, in the store that it was moved to.
type Arrived struct {
	// From names the store before.
	From string
}

// Rebuilt begins the life of a catalog whose journal is lost, from what the logs of its
// tables and its manifests say (R7). The first one is the first record of the journal;
// others follow while there is more to say, each in an entry of its own or not; the one
// with Shown ends that, and makes the snapshots. What stands in the journal elsewhere is
// ignored.
type Rebuilt struct {
	// From is the life before, as far as that is known; Snapshot the newest that any
	// manifest of it names; Since the time since which the logs show every transaction
	// that was published: what is older may be missing in Known. In the first record only.
	From     string
	Snapshot SnapshotVersion
	Since    Time
	// Tables are taken over as their logs show them. A fenced one has a fence that
	// does not count yet.
	Tables []Registered
	// Known are committed transactions that the logs name, in the order of their decision.
	Known []Known
	// Removed are tables that manifests name and that are not taken over: by them readers
	// of older snapshots are answered. Version is what the newest manifest names,
	// NoVersion if the table had left before.
	Removed []Registered
	// Shown is the snapshot that the catalog goes on from; 0 where more records follow.
	// The first above Snapshot names all tables, those behind it change nothing: they
	// stand for snapshots that readers may have seen before their manifests were written.
	Shown SnapshotVersion
}

// Known is a transaction of the life before, as the logs of its tables name it.
type Known struct {
	Txn   TxnID
	Parts []KnownPart
	// Snapshot is the first that shows it; 0 for the one that the rebuild makes.
	Snapshot SnapshotVersion
}

// KnownPart is one table of it. With NoVersion the table's log does not have it, and it
// is given up.
type KnownPart struct {
	Table   TableID
	Digests []Digest
	Version Version
	Place   uint32
	Change  ChangeNumber
}

// BuildEnabled switches a codec on, and with it the records and fields that came with
// it, after every live replica announced that it knows them: the entries behind this
// one are written in it (R17). It never goes back. A build that does not know the codec
// stops at this record.
type BuildEnabled struct{ Codec uint32 }

func (*Committed) kind() string      { return "commit" }
func (*Aborted) kind() string        { return "abort" }
func (*Published) kind() string      { return "publication" }
func (*Foreign) kind() string        { return "foreign" }
func (*Barrier) kind() string        { return "barrier" }
func (*Range) kind() string          { return "range" }
func (*Replaced) kind() string       { return "replaced" }
func (*Registered) kind() string     { return "register" }
func (*Created) kind() string        { return "create" }
func (*Released) kind() string       { return "release" }
func (*ModeSet) kind() string        { return "mode" }
func (*Frozen) kind() string         { return "freeze" }
func (*Thawed) kind() string         { return "thaw" }
func (*Held) kind() string           { return "hold" }
func (*FloorRaised) kind() string    { return "floor" }
func (*SettingChanged) kind() string { return "setting" }
func (*Checkpointed) kind() string   { return "checkpoint" }
func (*Tagged) kind() string         { return "tag" }
func (*Moved) kind() string          { return "moved" }
func (*Arrived) kind() string        { return "arrived" }
func (*Rebuilt) kind() string        { return "rebuilt" }
func (*BuildEnabled) kind() string   { return "build" }
func (*FenceCounted) kind() string   { return "fence" }
func (*Leased) kind() string         { return "lease" }
func (*LeaseEnded) kind() string     { return "lease_end" }
func (*LogCut) kind() string         { return "log_cut" }

func (*Reserved) kind() string         { return "reserve" }
func (*ReservationEnded) kind() string { return "reserve_end" }
func (*Turned) kind() string           { return "turn" }

// Header stands in front of every entry (R1, R7).
type Header struct {
	// Codec is the encoding that was switched on when the entry was made; 0 is the first.
	Codec       uint32
	Catalog     string
	Incarnation string
	Position    Position
	// Previous is the hash of the entry before; zero at position 0.
	Previous Hash
	Time     Time
	// Writer is the address at which the replica that appended can be reached (R15).
	Writer string
	// Checkpoint is the newest checkpoint that the writer had folded; zero if none.
	Checkpoint Checkpointed
}

// Entry is one position of the journal: a group of records in order.
type Entry struct {
	Header
	Records []Record
}
