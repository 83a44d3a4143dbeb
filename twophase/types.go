package twophase

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Position is the place of an entry in the journal, counted from 0.
type Position uint64

// Version is a version of one Delta table, counted from 0. NoVersion stands
// for "before version 0".
type Version int64

// NoVersion is the version of a table that has no commit yet.
const NoVersion Version = -1

// ChangeNumber orders the decided changes of one table (R2). The fold gives
// them out, from one above the marker that the table's log held at
// registration. 0 means none.
type ChangeNumber int64

// SnapshotVersion counts the snapshots of a catalog, from 1. 0 means none yet.
type SnapshotVersion uint64

// RoundID names a round: the position of the entry that opened it and the
// round's place among those opened there.
type RoundID struct {
	Opened Position
	Index  uint32
}

func (r RoundID) String() string { return fmt.Sprintf("%d.%d", r.Opened, r.Index) }

// ParseRoundID reads what String writes.
func ParseRoundID(s string) (RoundID, error) {
	opened, index, ok := strings.Cut(s, ".")
	at, err := strconv.ParseUint(opened, 10, 64)
	n, err2 := strconv.ParseUint(index, 10, 32)
	if !ok || err != nil || err2 != nil {
		return RoundID{}, fmt.Errorf("round %q: want POSITION.INDEX", s)
	}
	return RoundID{Opened: Position(at), Index: uint32(n)}, nil
}

// Compare orders rounds by opening.
func (r RoundID) Compare(o RoundID) int {
	if r.Opened != o.Opened {
		return cmpUint(uint64(r.Opened), uint64(o.Opened))
	}
	return cmpUint(uint64(r.Index), uint64(o.Index))
}

func cmpUint(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// TableID names a table of a catalog. We issue it, and never use one twice (R21).
type TableID string

// TxnID names one attempt at one transaction.
type TxnID [16]byte

func (id TxnID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether the id is unset.
func (id TxnID) IsZero() bool { return id == TxnID{} }

// ParseTxnID reads the 32 hex digits that String writes.
func ParseTxnID(s string) (TxnID, error) {
	var id TxnID
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return TxnID{}, fmt.Errorf("transaction id %q: want 32 hex digits", s)
	}
	copy(id[:], b)
	return id, nil
}

// BundleID names an item of the store that holds staged pieces, of one transaction or of
// several. Zero names none.
type BundleID [16]byte

func (id BundleID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether the id names nothing.
func (id BundleID) IsZero() bool { return id == BundleID{} }

// ParseBundleID reads the 32 hex digits that String writes.
func ParseBundleID(s string) (BundleID, error) {
	var id BundleID
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return BundleID{}, fmt.Errorf("bundle id %q: want 32 hex digits", s)
	}
	copy(id[:], b)
	return id, nil
}

// DeriveTxnID is the id of an attempt of a client's key (CONTRACT.md section 1):
// the first 16 bytes of SHA-256 over catalog id, key and attempt, each with its
// length in front. So the same Begin on any replica gives the same id.
func DeriveTxnID(catalog, key string, attempt uint32) TxnID {
	h := sha256.New()
	var n [8]byte
	for _, s := range []string{catalog, key} {
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	binary.BigEndian.PutUint64(n[:], uint64(attempt))
	h.Write(n[:])
	var id TxnID
	copy(id[:], h.Sum(nil))
	return id
}

// Hash is a SHA-256: of an entry, of an object, of the content of a version.
type Hash [32]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// IsZero reports whether the hash is unset. As the identity of a version it
// means that nobody saw the commit itself ("absent", R22).
func (h Hash) IsZero() bool { return h == Hash{} }

// HashOf is the SHA-256 of b.
func HashOf(b []byte) Hash { return sha256.Sum256(b) }

// ParseHash reads the 64 hex digits that String writes.
func ParseHash(s string) (Hash, error) {
	var h Hash
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(h) {
		return Hash{}, fmt.Errorf("hash %q: want 64 hex digits", s)
	}
	copy(h[:], b)
	return h, nil
}

// Digest names staged bytes (CONTRACT.md section 2).
type Digest = Hash

// Mode says who else may write a table (DESIGN.md section 6).
type Mode uint8

// The modes of a table. Numbers stand in journals.
const (
	// ModeOpen: others may write; the next version is looked at before a decision.
	ModeOpen Mode = iota + 1
	// ModeExclusive: the operator vouches that nobody else writes; no look-up.
	ModeExclusive
	// ModeFenced: a writer feature in the table's protocol keeps out whoever does not
	// know it (R11). A table comes to it, and leaves it, by fence changes alone.
	ModeFenced
	// ModeDeltaStorage is ModeOpen with puts by the protocol of Spark's
	// S3DynamoDBLogStore, so that writers with that log store and we exclude each other.
	ModeDeltaStorage
)

// Shared reports whether others may write a table of this mode: the next version is
// looked at before a decision.
func (m Mode) Shared() bool { return m == ModeOpen || m == ModeDeltaStorage }

func (m Mode) String() string {
	switch m {
	case ModeOpen:
		return "open"
	case ModeExclusive:
		return "exclusive"
	case ModeFenced:
		return "fenced"
	case ModeDeltaStorage:
		return "delta-storage"
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// Rule says which rule an outcome or a verdict rests on. Closed and append-only:
// numbers stand in journals.
type Rule uint8

// The rules that refuse, abort or give up a change.
const (
	RuleNone          Rule = iota
	RuleProtocol           // a protocol change, or a protocol we do not support
	RuleMetadata           // a metadata change
	RuleDeleteDelete       // both remove one path
	RuleDeleteRead         // a file that was read is removed
	RuleAppendRead         // a file was added to what was read
	RuleAppVersion         // an application version that is not newer
	RuleDomain             // both write one metadata domain
	RuleSchema             // partition columns or schema do not fit the table's present ones
	RuleAppendOnly         // removes rows of an append-only table
	RulePathExists         // adds a path that is there, or that another undelivered change adds
	RulePathMissing        // removes a (path, deletion vector) that is not live
	RuleTableReplaced      // the table's metaData.id is another one
	RuleExpired            // the deadline passed
	RuleClient             // aborted by the client
	RuleOperator           // aborted by the operator
	RuleResolved           // aborted by GetOutcome(resolve)
	RuleTableReleased      // a table left the catalog, or a decided transaction releases it
	RuleTableExists        // the name or the place of a table to be created is another one's
)

var ruleNames = [...]string{
	"none", "protocol", "metadata", "delete/delete", "delete/read", "append/read", "app version", "domain",
	"schema", "append-only", "path exists", "path missing", "table replaced", "expired", "by client",
	"by operator", "by resolve", "table released", "table exists",
}

func (r Rule) String() string {
	if int(r) < len(ruleNames) {
		return ruleNames[r]
	}
	return fmt.Sprintf("rule(%d)", uint8(r))
}

// lost reports whether it is what others had done that an attempt was aborted for, so
// that another attempt may fare better if they wait.
func (r Rule) lost() bool {
	switch r {
	case RuleProtocol, RuleMetadata, RuleDeleteDelete, RuleDeleteRead, RuleAppendRead, RuleDomain,
		RuleSchema, RulePathExists, RulePathMissing, RuleTableReplaced:
		return true
	case RuleNone, RuleAppVersion, RuleAppendOnly, RuleExpired, RuleClient, RuleOperator, RuleResolved, RuleTableReleased, RuleTableExists:
	}
	return false
}

// Conflict says why a change cannot follow, or no longer fits, another one.
// Path is the decoded path where the candidate knows it, and empty otherwise.
type Conflict struct {
	Rule   Rule
	Path   string
	Detail string
}

// AppVersion is a `txn` action: the version that an application has reached.
type AppVersion struct {
	App     string
	Version int64
}

// ReadPoint is what a client had read of a table when it made its change (R14).
type ReadPoint struct {
	// Blind: nothing was read; adds and txn only. The other fields are unset.
	Blind bool
	// Version is the Delta version that was read. A read point given as a
	// snapshot version is turned into one before it comes here.
	Version Version
}

// Caps bound what a version may hold (R17, R19). They stand in the journal; a
// round uses those in force at the entry that opened it.
type Caps struct {
	// MaxVersionBytes bounds the payload bytes that share a version. One
	// transaction alone may exceed it.
	MaxVersionBytes uint64
	// MaxVersionTxns bounds the transactions that share a version.
	MaxVersionTxns uint32
	// Coalesce lets blind appends share a version.
	Coalesce bool
	// Renderer is the version of the function that renders a commit file.
	Renderer uint32
	// Gather has what waits for a table gather for one entry more, behind the one that
	// closed a round on it, before its own round opens, once: those who were answered by
	// that entry, and come again, are in it then, and writers of one table share each
	// version instead of taking turns.
	Gather bool
}

// DefaultCaps are in force until a setting record says otherwise.
var DefaultCaps = Caps{MaxVersionBytes: 8 << 20, MaxVersionTxns: 4096, Coalesce: true, Renderer: 1}

// Time is milliseconds since 1970 UTC, as Delta counts. It steers nothing in the fold
// (R16) but how long a table rests from reservations (endReservations).
type Time int64

// TimeOf turns a clock's time into a journal's.
func TimeOf(t time.Time) Time { return Time(t.UnixMilli()) }

// Std turns a journal's time into Go's, in UTC.
func (t Time) Std() time.Time { return time.UnixMilli(int64(t)).UTC() }
