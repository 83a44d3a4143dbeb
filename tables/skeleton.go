package tables

// Exported API, to be moved into files of its own as it is filled in.

import (
	"context"
	"io"
	"iter"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// ---- places and paths

// CanonicalURI turns a table's place as a user writes it into the one form that
// the catalog stores (R21): with scheme, decoded once, without trailing or double
// slashes and dot segments, s3a and s3n as s3, /x and file:/x as file:///x.
// Characters that only an escape can write in a URI (% ? #) stay escaped, so that
// the result can go through CanonicalURI again. A path without scheme is taken
// literally, not decoded. Symbolic links are the caller's to resolve before.
func CanonicalURI(raw string) (string, error) { panic("skeleton") }

// CanonicalPath turns the path of a file action into the one form that names the
// file: relative to the table's root and decoded once if it lies below it, else an
// absolute decoded URI. tableURI is canonical.
func CanonicalPath(tableURI, logPath string) (string, error) { panic("skeleton") }

// PathHash is the first 8 bytes of SHA-256 of a canonical path, big-endian.
type PathHash uint64

// HashPath hashes a canonical path.
func HashPath(canonical string) PathHash { panic("skeleton") }

// DVHash is the same of a deletion vector's unique id; 0 means none.
type DVHash uint64

// ---- actions from a client

// Limits bound one part. A zero field has the default.
type Limits struct {
	LineBytes int // 32 MiB
	PartBytes int // 1 GiB
	Actions   int // 1,000,000
}

// File is an add or a remove.
type File struct {
	Line       int
	Path       string // canonical
	Hash       PathHash
	DV         DVHash
	Size       int64
	DataChange bool
	NumRecords bool // stats.numRecords is there
	// Partition is an index into Actions.Partitions; -1 if the action has no values.
	Partition int
}

// Actions are the parsed lines of one part.
type Actions struct {
	Adds, Removes []File
	CDCs          int
	Txns          []twophase.AppVersion
	Domains       []Domain
	Protocol      *Protocol
	MetaData      *MetaData
	// Info is the client's commitInfo object as it came; nil if there is none.
	Info  []byte
	Lines int
	Bytes int
}

// Domain is a domainMetadata action.
type Domain struct {
	Name          string
	Configuration string
	Removed       bool
}

// ParseActions reads the staged pieces of a part and checks all that needs no
// table: syntax, required fields, what one commit may not hold (duplicate paths,
// add and remove of one file, two metaData, …), unknown actions, reserved app ids,
// paths that leave the root. *InputError or *LimitError.
func ParseActions(tableURI string, l Limits, pieces ...[]byte) (*Actions, error) { panic("skeleton") }

// Validate checks a part against the table: features by the allow-list, partition
// keys, append-only, what a new protocol or metaData may say. *InputError or
// *FeatureError. What changes from commit to commit (live files, app versions) is
// View's to check.
func Validate(a *Actions, p *Profile) error { panic("skeleton") }

// Shape is what coalescing has to know (R19).
func (a *Actions) Shape() twophase.Shape { panic("skeleton") }

// PathOf returns the canonical path of a hash that the part names.
func (a *Actions) PathOf(h PathHash) (string, bool) { panic("skeleton") }

// Explain puts the part's own path into a conflict that Rules or View found: they
// know hashes only, and write "sha256:<16 hex digits>".
func (a *Actions) Explain(c *twophase.Conflict) *twophase.Conflict { panic("skeleton") }

// ---- the table

// Protocol is a protocol action.
type Protocol struct {
	MinReader, MinWriter           int
	ReaderFeatures, WriterFeatures []string
	Raw                            []byte
}

// MetaData is a metaData action.
type MetaData struct {
	ID               string
	Name             string
	Schema           string
	PartitionColumns []string
	Configuration    map[string]string
	Raw              []byte
}

// Profile is what one has to know of a table besides its files and apps. Immutable.
type Profile struct {
	URI      string
	Version  twophase.Version
	Protocol Protocol
	MetaData MetaData
}

// CheckWritable refuses a table with a feature that we may not write beside, by
// name. *FeatureError.
func (p *Profile) CheckWritable() error { panic("skeleton") }

// Property returns a table property.
func (p *Profile) Property(key string) string { panic("skeleton") }

// PartitionKeys are the keys that partitionValues must have: the partition
// columns by their physical names, sorted.
func (p *Profile) PartitionKeys() []string { panic("skeleton") }

// State is a table at one version: profile, apps, domains, live files by hash.
type State struct{}

func (s *State) Version() twophase.Version                { panic("skeleton") }
func (s *State) Profile() *Profile                        { panic("skeleton") }
func (s *State) Txn(app string) (int64, bool)             { panic("skeleton") }
func (s *State) Txns() map[string]int64                   { panic("skeleton") }
func (s *State) Domains() map[string]string               { panic("skeleton") }
func (s *State) NumFiles() int                            { panic("skeleton") }
func (s *State) TotalSize() int64                         { panic("skeleton") }
func (s *State) Live() iter.Seq2[PathHash, DVHash]        { panic("skeleton") }
func (s *State) InCommitTimestamp() (twophase.Time, bool) { panic("skeleton") }

// Marker is how far the catalog's changes were delivered (R3); 0 if never.
func (s *State) Marker(catalog string) twophase.ChangeNumber { panic("skeleton") }

// ---- the log

// CheckpointReader yields the actions of a Parquet checkpoint as JSON lines:
// checkpoint.Read.
type CheckpointReader func(ctx context.Context, r io.ReaderAt, size int64, yield func(line []byte) error) error

// LogConfig says where a table's log lies.
type LogConfig struct {
	Store objstore.Store
	// Key is the key of the table's root in the store, without a slash at the end.
	Key string
	// URI is canonical.
	URI            string
	ReadCheckpoint CheckpointReader
}

// Log reads and writes one table's log. Safe for concurrent use.
type Log struct{}

// NewLog opens nothing yet.
func NewLog(c LogConfig) *Log { panic("skeleton") }

// Commit is one version as it stands in the log.
type Commit struct {
	Version  twophase.Version
	Identity twophase.Hash // of Raw
	Raw      []byte
	ETag     string
	Modified twophase.Time
	Actions  *Actions
	// From commitInfo.
	Engine            string // cut to 200 bytes
	Operation         string
	Timestamp         int64
	InCommitTimestamp int64
	BlindAppend       bool // isBlindAppend is there and true
}

// TxnRef is a transaction in the tags, with the digest of one of its staged pieces.
type TxnRef struct {
	ID     twophase.TxnID
	Digest twophase.Digest
}

// Tags are those of a version that a catalog wrote (CONTRACT.md section 5).
type Tags struct {
	Catalog, Incarnation, Round string
	Transactions, NotApplied    []TxnRef
}

// Tags returns the version's tags if it names the catalog, nil if it does not.
// LogError BadTags if it does and they make no sense.
func (c *Commit) Tags(catalog string) (*Tags, error) { panic("skeleton") }

// Marker is the version's marker of the catalog (R3).
func (c *Commit) Marker(catalog string) (twophase.ChangeNumber, bool) { panic("skeleton") }

// ReadCommit reads a version. objstore.ErrNotFound if there is none; *LogError if
// it is empty, torn or malformed: it is never returned in part.
func (l *Log) ReadCommit(ctx context.Context, v twophase.Version) (*Commit, error) { panic("skeleton") }

// PutCommit puts a version: nil, objstore.ErrExists or objstore.ErrUnknown, or
// certainly not written.
func (l *Log) PutCommit(ctx context.Context, v twophase.Version, data []byte) error {
	panic("skeleton")
}

// ListedCommit is a commit in a listing.
type ListedCommit struct {
	Version twophase.Version
	objstore.Info
}

// ListedCheckpoint is a checkpoint in a listing, with all its files.
type ListedCheckpoint struct {
	Version  twophase.Version
	Complete bool
	Files    []objstore.Info
}

// Listing is one listing of a log, from a version on.
type Listing struct {
	From        twophase.Version
	Commits     []ListedCommit     // ascending
	Checkpoints []ListedCheckpoint // ascending
	// Owner: the owner object's folder is there (R9, R21).
	Owner bool
}

// Commit returns a listed commit. Last is the newest version of a commit or a
// complete checkpoint, NoVersion if there is none. NewestCheckpoint is the newest
// complete one not above a version.
func (l *Listing) Commit(v twophase.Version) (ListedCommit, bool)                  { panic("skeleton") }
func (l *Listing) Last() twophase.Version                                          { panic("skeleton") }
func (l *Listing) NewestCheckpoint(upTo twophase.Version) (ListedCheckpoint, bool) { panic("skeleton") }

// List lists the log from a version on, sub-folders as one line each (R9).
func (l *Log) List(ctx context.Context, from twophase.Version) (*Listing, error) { panic("skeleton") }

// Latest asks State for the newest version.
const Latest twophase.Version = -2

// State replays the table up to a version. *LogError.
func (l *Log) State(ctx context.Context, at twophase.Version) (*State, error) { panic("skeleton") }

// LiveFile is a live file with its path.
type LiveFile struct {
	Path      string // canonical
	DV        string // unique id, empty if none
	Size      int64
	Partition map[string]*string
	Raw       []byte // the add action's object
}

// LiveFiles is the whole live set at a version, by path. Memory grows with the table.
func (l *Log) LiveFiles(ctx context.Context, at twophase.Version) ([]LiveFile, error) {
	panic("skeleton")
}

// ---- reads, facts, rules

// Isolation of a participant (CONTRACT.md section 2).
type Isolation uint8

const (
	// IsolationDefault is the table's property, else Serializable.
	IsolationDefault Isolation = iota
	Serializable
	WriteSerializable
)

// ReadKind says what a client read of a table.
type ReadKind uint8

const (
	ReadNothing ReadKind = iota
	ReadFiles
	ReadPartitions
	ReadWholeTable
)

// ColumnValue is an equality on a partition column; nil means null.
type ColumnValue struct {
	Column string
	Value  *string
}

// ReadDeclaration is what a client says of its reading of one table.
type ReadDeclaration struct {
	// Blind: nothing was read. Else exactly one of Version and Snapshot is the read point.
	Blind    bool
	Version  *twophase.Version
	Snapshot *twophase.SnapshotVersion
	Kind     ReadKind
	// Files are log paths. Partitions is an or of ands.
	Files      []string
	Partitions [][]ColumnValue
	// Apps whose version the client has read.
	Apps      []string
	Isolation Isolation
}

// DigestInput is what a staged piece's digest covers.
type DigestInput struct {
	Table      twophase.TableID
	MetaDataID string
	Read       ReadDeclaration
	Options    map[string]string
	Actions    []byte
}

// Digest names a staged piece (CONTRACT.md section 2; vectors in testdata).
func Digest(in DigestInput) twophase.Digest { panic("skeleton") }

// PartFacts are the facts of a part that was validated against the profile.
func PartFacts(a *Actions, p *Profile, r ReadDeclaration) (twophase.Facts, error) { panic("skeleton") }

// ReadFacts are those of a read-only participant.
func ReadFacts(p *Profile, r ReadDeclaration) (twophase.Facts, error) { panic("skeleton") }

// CommitFacts are those of a version in the log. prev is the table below it, nil
// if unknown: then more counts as changed.
func CommitFacts(c *Commit, prev *Profile) twophase.Facts { panic("skeleton") }

// Rules implements twophase.Rules. Base is a *State.
type Rules struct{}

// View implements twophase.View: a State, and all that was decided or recorded since.
type View struct{}

// NewView takes the state over: the caller must not use it any more.
func NewView(s *State) *View { panic("skeleton") }

// Apply advances the view by a decided change (with its number) or by a foreign
// version (number 0). rebuild: the change touched protocol or metaData, so the
// Profile that clients are validated against has to be read from the log again
// once the change is there; Fits itself goes on being right.
func (v *View) Apply(n twophase.ChangeNumber, f twophase.Facts) (rebuild bool, err error) {
	panic("skeleton")
}

// Delivered says that changes up to n are in the log. Until then a path that a
// change adds may not be added again, not even as the same pair.
func (v *View) Delivered(upTo twophase.ChangeNumber) { panic("skeleton") }

// ---- render

// RenderTxn is a transaction in a version, with its staged pieces in order.
type RenderTxn struct {
	ID      twophase.TxnID
	Digests []twophase.Digest
	Pieces  [][]byte
	// Blind: its read declaration says so.
	Blind bool
}

// RenderInput is all that a version of ours is made of.
type RenderInput struct {
	Catalog, Incarnation string
	Round                string
	EngineVersion        string
	Time                 twophase.Time
	// InCommitTimestamp is left out if 0.
	InCommitTimestamp twophase.Time
	Marker            twophase.ChangeNumber
	Txns              []RenderTxn
	// NotApplied makes the version a barrier (R4); Txns is empty then and Marker
	// repeats the one below.
	NotApplied []TxnRef
}

// RenderCommit makes the version's bytes. Pure: equal input, equal bytes.
func RenderCommit(in RenderInput) ([]byte, error) { panic("skeleton") }

// ---- registration

// CheckRegister refuses a table by R21 and by its features, and returns warnings.
func CheckRegister(s *State, longestTransaction int64) (warnings []string, err error) {
	panic("skeleton")
}

// CheckSettings is the part of it that is checked again when metaData changes.
func CheckSettings(p *Profile) error { panic("skeleton") }

// Owner is the content of _delta_log/_txcoord/owner.json (R21).
type Owner struct {
	Catalog     string
	Incarnation string
	Table       twophase.TableID
}

// Owner reads it; objstore.ErrNotFound if there is none.
func (l *Log) Owner(ctx context.Context) (*Owner, error) { panic("skeleton") }

// PutOwner puts it if absent; objstore.ErrExists if another stands there. takeOver replaces it.
func (l *Log) PutOwner(ctx context.Context, o Owner, takeOver bool) error { panic("skeleton") }

// CreateInput describes a new table.
type CreateInput struct {
	ID               string // metaData.id
	Name             string
	Description      string
	Schema           string // Spark's JSON
	PartitionColumns []string
	Properties       map[string]string
	Time             twophase.Time
	EngineVersion    string
}

// RenderCreate makes version 0 of a new table. *InputError.
func RenderCreate(in CreateInput) ([]byte, error) { panic("skeleton") }
