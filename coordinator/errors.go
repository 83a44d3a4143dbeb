package coordinator

import (
	"fmt"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// Reason is the stable name of what went wrong, the same as on the wire
// (proto/txcoord/v1/errors.proto, CONTRACT.md section 4). The gRPC code follows
// from it.
type Reason string

// The reasons. errors.proto says what each means and which detail it carries.
const (
	InvalidRequest       Reason = "INVALID_REQUEST"
	InvalidAction        Reason = "INVALID_ACTION"
	LimitExceeded        Reason = "LIMIT_EXCEEDED"
	InvalidToken         Reason = "INVALID_TOKEN"
	CatalogNotFound      Reason = "CATALOG_NOT_FOUND"
	TableNotFound        Reason = "TABLE_NOT_FOUND"
	TransactionNotFound  Reason = "TRANSACTION_NOT_FOUND"
	SnapshotNotFound     Reason = "SNAPSHOT_NOT_FOUND"
	Conflicted           Reason = "CONFLICT"
	Expired              Reason = "EXPIRED"
	Aborted              Reason = "ABORTED"
	OtherDigests         Reason = "OTHER_DIGESTS"
	KeyCommitted         Reason = "KEY_COMMITTED"
	AppVersionApplied    Reason = "APP_VERSION_APPLIED"
	TableExists          Reason = "TABLE_EXISTS"
	PartNotStaged        Reason = "PART_NOT_STAGED"
	PartUnreadable       Reason = "PART_UNREADABLE"
	FeatureUnsupported   Reason = "FEATURE_UNSUPPORTED"
	DecidedNotOffered    Reason = "DECIDED_NOT_OFFERED"
	TableFrozen          Reason = "TABLE_FROZEN"
	OutcomeExpired       Reason = "OUTCOME_EXPIRED"
	WrongMode            Reason = "WRONG_MODE"
	AttemptUndecided     Reason = "ATTEMPT_UNDECIDED"
	TokenStale           Reason = "TOKEN_STALE"
	TableOwned           Reason = "TABLE_OWNED"
	TableProperty        Reason = "TABLE_PROPERTY"
	ChangesPending       Reason = "CHANGES_PENDING"
	NotATable            Reason = "NOT_A_TABLE"
	NothingToResolve     Reason = "NOTHING_TO_RESOLVE"
	TooEarly             Reason = "TOO_EARLY"
	PlanChanged          Reason = "PLAN_CHANGED"
	MaintenanceOff       Reason = "MAINTENANCE_OFF"
	ObjectsUnsuitable    Reason = "OBJECTS_UNSUITABLE"
	LeaseNotFound        Reason = "LEASE_NOT_FOUND"
	LeaseExists          Reason = "LEASE_EXISTS"
	ReadPointTooOld      Reason = "READ_POINT_TOO_OLD"
	SnapshotOutOfRange   Reason = "SNAPSHOT_OUT_OF_RANGE"
	QuotaExceeded        Reason = "QUOTA_EXCEEDED"
	StoreUnavailable     Reason = "STORE_UNAVAILABLE"
	ObjectsUnavailable   Reason = "OBJECTS_UNAVAILABLE"
	OutcomeUnknown       Reason = "OUTCOME_UNKNOWN"
	ReplicaBehind        Reason = "REPLICA_BEHIND"
	ShuttingDown         Reason = "SHUTTING_DOWN"
	TableReserved        Reason = "TABLE_RESERVED"
	LogContradiction     Reason = "LOG_CONTRADICTION"
	JournalContradiction Reason = "JOURNAL_CONTRADICTION"
	Unauthenticated      Reason = "UNAUTHENTICATED"
	PermissionDenied     Reason = "PERMISSION_DENIED"
	BrokenInvariant      Reason = "BROKEN_INVARIANT"
)

// Error is every error that a Catalog's methods return, except those of an ended
// context. Details that do not apply are nil. Cause is for logs and never
// crosses the wire.
type Error struct {
	Reason  Reason
	Message string

	Conflict *ConflictDetail
	Limit    *LimitDetail
	Field    *FieldDetail
	Frozen   *FrozenDetail
	Feature  *FeatureDetail
	Txn      *TxnDetail
	Table    *TableDetail
	Owner    *OwnerDetail
	// RetryAfter is advice for QUOTA_EXCEEDED and TOO_EARLY, and for what is unavailable.
	RetryAfter time.Duration

	Cause error
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Reason, e.Message, e.Cause)
	}
	return string(e.Reason) + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is makes errors.Is compare reasons.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Reason == e.Reason && t.Message == ""
}

// ConflictDetail says what a transaction lost to. Version is NoVersion if it has none.
type ConflictDetail struct {
	Txn     twophase.TxnID
	Attempt uint32 // of its key; 0 without one
	Table   string
	TableID twophase.TableID
	Version twophase.Version
	Rule    twophase.Rule
	Path    string
	Winner  twophase.TxnID
	Detail  string
}

// LimitDetail names a limit and what the request had.
type LimitDetail struct {
	Name         string
	Value, Limit int64
}

// FieldDetail names what in a request has to be mended.
type FieldDetail struct {
	Field  string
	Line   int
	Value  string
	Remedy string
	Table  string
}

// FrozenDetail says why a table takes no commits.
type FrozenDetail struct {
	Table   string
	TableID twophase.TableID
	Cause   twophase.Cause
	Txn     twophase.TxnID
	Detail  string
	Since   time.Time
	// Held: an operator froze it, whatever the cause says.
	Held bool
	// Origin is the table at which what froze it was found: itself, or one with which it
	// shares a transaction that is not published. Detail is about that one.
	Origin twophase.TableID

	ground twophase.Ground
}

// Without is what is left of it for who may not see the table that the detail is about.
func (f FrozenDetail) Without() FrozenDetail {
	f.Detail = "it shares a transaction that is not published with a table that you may not see"
	return f
}

// Message is that of a call that the freeze refuses.
func (f *FrozenDetail) Message() string {
	msg := fmt.Sprintf("table %s is frozen: %s", f.Table, f.Cause)
	if f.Detail != "" {
		msg += ": " + f.Detail
	}
	return msg
}

// found reports whether something in the table's log or round froze it: an operator's
// freeze alone refuses commits, and everything else goes on.
func (f *FrozenDetail) found() bool { return f != nil && f.Cause != twophase.CauseOperator }

// FeatureDetail names a table feature.
type FeatureDetail struct{ Table, Feature string }

// TxnDetail names another transaction.
type TxnDetail struct {
	Txn     twophase.TxnID
	Key     string
	Attempt uint32
}

// TableDetail names a table, and a file of it. Version is NoVersion if it is not about one.
type TableDetail struct {
	Table   string
	TableID twophase.TableID
	URI     string
	Version twophase.Version
	File    string
	Detail  string
	// OutOfReach: this replica was not given the table's place, and is asked in vain.
	OutOfReach bool
}

// OwnerDetail names the catalog that owns a table. Since is when the owner object was
// written, as the object store says.
type OwnerDetail struct {
	URI, Catalog, Incarnation string
	Since                     time.Time
}
