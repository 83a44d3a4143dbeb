// Package coordinator is the service without its wire: it stages, decides,
// publishes and answers for one catalog. DESIGN.md in this folder says how its
// actors work together.
package coordinator

import (
	"time"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// BeginRequest starts a transaction, or extends the one of Token.
type BeginRequest struct {
	Key     string
	Attempt uint32 // 0 means 1 with a key
	TTL     time.Duration
	Token   string
	// Client is who asks, for lists.
	Client string
}

// Begun is a transaction that may be staged to.
type Begun struct {
	Token           string
	Txn             twophase.TxnID
	Key             string
	Attempt         uint32
	CatalogID       string
	Incarnation     string
	Position        twophase.Position
	Deadline        time.Time
	RememberedSince time.Time
	// Known are the decided attempts of the key.
	Known []Outcome
}

// StageRequest is one piece of a transaction.
type StageRequest struct {
	Token   string
	Table   string
	Read    tables.ReadDeclaration
	Actions []byte
	Client  string
	// Create: the transaction creates the table, under this name. Read is left empty.
	Create *NewTable
	// Alter changes what the table is, beside what the actions do. Without a read point
	// the part was made at the version that the alteration was made from.
	Alter *tables.Alteration
}

// Staged is what Stage knows of a piece.
type Staged struct {
	Digest     twophase.Digest
	Table      twophase.TableID
	MetaDataID string
	Bytes      int64
	Lines      int
	// Hint is why a commit would fail as things stand; nil if nothing speaks against it.
	Hint *ConflictDetail
}

// Wait says when Commit answers.
type Wait uint8

// The waits.
const (
	WaitPublished Wait = iota
	WaitDecided
)

// TableParts lists the pieces of one table, in order.
type TableParts struct {
	Table   string
	Digests []twophase.Digest
}

// ReadOnly is a table that was read and is not written.
type ReadOnly struct {
	Table string
	Read  tables.ReadDeclaration
	// Bystander: the caller may not write the table. However often it loses there, it
	// does not hold up those who may.
	Bystander bool
}

// CommitRequest lists what a transaction consists of.
type CommitRequest struct {
	Token  string
	Tables []TableParts
	Reads  []ReadOnly
	// Releases are tables that leave the catalog with the transaction.
	Releases []string
	Wait     Wait
	// WaitLimit bounds the wait for PUBLISHED after the decision; 0 is the context's life.
	WaitLimit   time.Duration
	VerifyFiles bool
	Client      string
}

// OnceTable is one table's change in CommitOnce.
type OnceTable struct {
	Table   string
	Read    tables.ReadDeclaration
	Actions []byte
	// Create: the transaction creates the table, under this name. Read is left empty.
	Create *NewTable
	// Alter changes what the table is, beside what the actions do. Without a read point
	// the part was made at the version that the alteration was made from.
	Alter *tables.Alteration
}

// OnceRequest is a whole transaction.
type OnceRequest struct {
	Key         string
	Attempt     uint32
	Tables      []OnceTable
	Reads       []ReadOnly
	Releases    []string
	Wait        Wait
	WaitLimit   time.Duration
	VerifyFiles bool
	Client      string
}

// OutcomeRef names a transaction: by exactly one of Token, Key and Txn.
type OutcomeRef struct {
	Token   string
	Key     string
	Attempt uint32
	Txn     twophase.TxnID
}

// OutcomeRequest asks what became of a transaction.
type OutcomeRequest struct {
	OutcomeRef
	BegunAfter time.Time
	Resolve    bool
}

// Outcome is what is known of a transaction. At most one of Aborted and
// Committed is set; neither means open.
type Outcome struct {
	Txn       twophase.TxnID
	Key       string
	Attempt   uint32
	Deadline  time.Time // of an open one, if known here
	DecidedAt time.Time
	Position  twophase.Position
	Aborted   *ConflictDetail
	Committed *Committed
}

// Committed says how far a committed transaction has come.
type Committed struct {
	Tables   []Delivery
	Snapshot twophase.SnapshotVersion
	// PendingReason says why the answer did not wait for PUBLISHED.
	PendingReason string
	// Warnings say who loses a table by its new protocol, and who does not find a new one;
	// only the call that decided has them.
	Warnings []string
}

// Delivery is what a transaction did to one table.
type Delivery struct {
	Table    twophase.TableID
	Name     string
	Status   twophase.Status
	Version  twophase.Version
	Place    uint32
	Conflict *ConflictDetail
}

// ListRequest selects transactions.
type ListRequest struct {
	Table          string
	IncludeDecided bool
	PageSize       int
	PageToken      string
	// Shows are the open ones that the caller may see: a page is full of these. All if nil.
	Shows func(OpenTxn) bool
}

// Listed is a page of transactions.
type Listed struct {
	Open     []OpenTxn // oldest first
	Decided  []Outcome // newest first
	NextPage string
}

// OpenTxn is a transaction that is not decided.
type OpenTxn struct {
	Txn      twophase.TxnID
	Key      string
	Attempt  uint32
	Client   string
	Begun    time.Time
	Deadline time.Time
	Tables   []StagedTable
}

// StagedTable is what an open transaction holds for a table.
type StagedTable struct {
	Table twophase.TableID
	Name  string
	Bytes int64
	Parts int
}

// RegisterRequest brings a table in.
type RegisterRequest struct {
	Name             string
	URI              string
	Mode             twophase.Mode
	TakeOver         bool
	OneTxnPerVersion bool
	// Shows says which other tables the warnings may name; all if nil.
	Shows func(table string) bool
}

// CreateRequest makes a table and brings it in.
type CreateRequest struct {
	Name             string
	URI              string
	Schema           string
	PartitionColumns []string
	Properties       map[string]string
	Description      string
	Mode             twophase.Mode
	OneTxnPerVersion bool
}

// TableInfo is a table of the catalog.
type TableInfo struct {
	ID               twophase.TableID
	Name             string
	URI              string
	MetaDataID       string
	Mode             twophase.Mode
	Version          twophase.Version
	Marker           twophase.ChangeNumber
	OneTxnPerVersion bool
	Frozen           *FrozenDetail
	Pending          int
	// Watched: others may be writing it for all that is known. Fence is set while the
	// mode is fenced; OffersDecided says that it counts. ModeReason is why the mode is
	// not what somebody set it to.
	Watched       bool
	Fence         *FenceInfo
	OffersDecided bool
	ModeReason    string
	// Stopped is why this replica does not write the table: its log cannot be
	// read, or contradicts the journal. Empty if nothing is wrong. Torn: that is a commit
	// file above the recorded version which is not whole.
	Stopped string
	Torn    bool
	// Trouble is what does not work at the table's place, or which commit below the recorded
	// version was altered, as far as this replica has seen.
	// Unseen: it has asked nothing of the place since it started.
	Trouble string
	Unseen  bool
}

// TableDescription is all that is known of a table.
type TableDescription struct {
	TableInfo
	Changes []PendingChange
	Round   *RoundInfo
	// State is the log's side at the recorded version; nil if it cannot be read.
	State    *TableState
	Warnings []string
}

// PendingChange is a decided change that is not published.
type PendingChange struct {
	Number  twophase.ChangeNumber
	Txn     twophase.TxnID
	GivenUp twophase.Rule
}

// RoundInfo is an open round.
type RoundInfo struct {
	ID     twophase.RoundID
	Opened time.Time
	Txns   int
	Tables []string
}

// TableState is what a table's log says.
type TableState struct {
	Version              twophase.Version
	Profile              *tables.Profile
	Files, Bytes         int64
	LogRetention         time.Duration
	DeletedFileRetention time.Duration
}

// SnapshotRef names a snapshot: the latest, or by at most one field.
type SnapshotRef struct {
	Version twophase.SnapshotVersion
	Time    time.Time
	Tag     string
}

// Snapshot is a set of table versions that belong together.
type Snapshot struct {
	Version twophase.SnapshotVersion
	Time    time.Time
	Tables  []SnapshotTable // by name
	Tags    []string
	// Added is how many later snapshots are in it, too: a snapshot by time may lie
	// between those that were published.
	Added int
}

// SnapshotTable is one table of a snapshot.
type SnapshotTable struct {
	ID      twophase.TableID
	Name    string
	URI     string
	Version twophase.Version
	Frozen  bool
}

// SnapshotChange is what one snapshot changed.
type SnapshotChange struct {
	Version twophase.SnapshotVersion
	Time    time.Time
	Kind    string
	Tables  []TableChange // by name
	Txns    []SnapshotTxn
}

// TableChange is a table that differs between snapshots; NoVersion where it is not in one.
type TableChange struct {
	ID       twophase.TableID
	Name     string
	URI      string
	From, To twophase.Version
}

// SnapshotTxn is a transaction that a snapshot made visible.
type SnapshotTxn struct {
	Txn      twophase.TxnID
	Key      string
	Snapshot twophase.SnapshotVersion
	Tables   []twophase.TableID
}

// SnapshotPage is a page of snapshots, newest first.
type SnapshotPage struct {
	Snapshots []SnapshotChange
	NextPage  string
}

// Diff is the difference between two snapshots.
type Diff struct {
	From, To twophase.SnapshotVersion
	Tables   []TableChange
	Txns     []SnapshotTxn
}

// Status is the catalog as this replica sees it.
type Status struct {
	CatalogID        string
	Incarnation      string
	Position         twophase.Position
	Codec            uint32    // that is switched on
	LastEntry        time.Time // zero while there is none
	Checkpoint       twophase.Position
	Shown            twophase.SnapshotVersion
	ManifestSnapshot twophase.SnapshotVersion
	RememberedSince  time.Time
	Tables           int
	OpenTransactions int
	Rounds           []RoundInfo
	Frozen           []FrozenDetail
	Troubles         []Trouble
	// Replicas are the processes that serve the catalog, this one first.
	Replicas []ReplicaInfo
	// Now is this replica's clock, and AheadOfStore how far it is at least ahead of the
	// store's; nil where that does not tell the time.
	Now          time.Time
	AheadOfStore *time.Duration
	Slots        twophase.Position
	// Backlog are the bytes that wait to be published, Waiting the transactions in no round.
	Backlog, BacklogLimit int64
	Waiting               int
	Counts                Counts
	// Opened are the tables that were fenced or exclusive until somebody else wrote them.
	Opened []OpenedTable
	// Reserved are the keys that go first, in their order, and HeldBack the commits that
	// this replica holds back behind them.
	Reserved []ReservedTables
	HeldBack int
}

// ReservedTables are tables on which a key goes first that has lost many attempts.
type ReservedTables struct {
	Key     string
	Attempt uint32 // that lost last
	Tables  []string
	Since   time.Time
	Until   twophase.Position
}

// Counts are of all that was folded since the start of the process, whoever decided it.
// Conflicts are those of the aborted that lost by a rule.
type Counts struct{ Committed, Aborted, Conflicts uint64 }

// OpenedTable is a table whose mode became open by itself, and why.
type OpenedTable struct {
	ID     twophase.TableID
	Name   string
	Reason string
}

// ReplicaInfo is a process that serves the catalog, as it last announced itself.
type ReplicaInfo struct {
	ID       string
	Address  string // empty: others cannot reach it
	Build    string
	Codec    int
	Position twophase.Position
	Snapshot twophase.SnapshotVersion
	Started  time.Time
	// Silent is how long nothing was heard of it; 0 for this one.
	Silent time.Duration
	// ClockAhead is how far its clock is at least ahead of ours; negative if behind.
	ClockAhead time.Duration
	// Alive: it was heard of within the last heartbeats.
	Alive bool
	Self  bool
}
