package twophase

import "fmt"

// Request is something that wants to be in the journal. One of the fields is set.
type Request struct {
	// Commit asks to decide a transaction.
	Commit *CommitRequest
	// Abort asks to end one: by its client, by expiry, by resolve (R5, R16).
	Abort *Aborted
	// Record is a finding about a log, or an administrator's record. Verdicts in a
	// Foreign or Range are filled in by Decide, against the state they are valid at (R4).
	Record Record
	// Base is the table's state at a Range's end.
	Base Base
}

// Size is about what the request takes in an entry if it gets the record that it asks
// for: a commit that loses takes less.
func (r *Request) Size() int {
	switch {
	case r.Record != nil:
		return recordSize(r.Record)
	case r.Abort != nil:
		return recordSize(r.Abort)
	}
	size := recordSize(r.Commit.Record)
	for i := range r.Commit.Record.Parts {
		if p := &r.Commit.Record.Parts[i]; p.FactsRef.Name != "" {
			size -= len(p.Facts) // stand elsewhere
		}
	}
	return size
}

// CommitRequest asks to decide a transaction.
type CommitRequest struct {
	// Record is what will stand in the journal. Facts of each part are set, even
	// where FactsRef is: then the record carries the name alone.
	Record *Committed
	// Name gives the decoded path behind a hash in the facts, for messages; may be nil.
	Name func(table TableID, conflict *Conflict)
	// Older are the facts of versions between a part's read point and what the
	// fold still holds, rebuilt from the table's log (R14).
	Older map[TableID]Older
	// Walked are the versions of ours above the recorded one, up to a part's read
	// point, as a look-up found them: the transactions in them were read (R14).
	Walked map[TableID][]FoundVersion
	// Bystander are tables that its caller may read and not write. Its key does not go
	// first there: who may not write a table does not hold its writers up.
	Bystander map[TableID]bool
}

// Older are facts that the fold has forgotten: of every version after From, up to
// To. They count while To is not below the table's PastFloor. For a part without a
// read set the difference between the states at From and To may stand for them (R22).
type Older struct {
	From, To Version
	Facts    []Facts
}

// Refused answers a request without a record: not final, or a request that can
// never be right (R5).
type Refused struct {
	Reason Reason
	Table  TableID
	Txn    TxnID
	Detail string
	// Refs are objects with facts that must be fetched first (ReasonNeedFacts).
	Refs []ObjectRef
	// Outcome is what the fold said of Txn, where the refusal rests on that: it may be
	// forgotten when somebody asks again. Nil if nothing. It is the fold's, not to be changed.
	Outcome *Outcome
}

func (r *Refused) Error() string {
	msg := r.Reason.String()
	if r.Table != "" {
		msg += ": table " + string(r.Table)
	}
	if !r.Txn.IsZero() {
		msg += ": transaction " + r.Txn.String()
	}
	if r.Detail != "" {
		msg += ": " + r.Detail
	}
	return msg
}

// Reason says why a request got no record.
type Reason uint8

// The reasons of a refusal.
const (
	ReasonUnknownTable      Reason = iota + 1
	ReasonFrozen                   // a table is frozen (R12)
	ReasonOtherDigests             // the id is committed with other digests (R8)
	ReasonExpiredOutcome           // the token is below the floor (R6)
	ReasonAheadOfJournal           // the token is above the head: another history, or a lagging replica (R6)
	ReasonEarlierAttempt           // an attempt below is undecided, forgotten or committed (R6)
	ReasonReadPointAhead           // the log has to be walked up to the read point first (R14)
	ReasonReadPointTooOld          // newer facts were forgotten (R14)
	ReasonNeedFacts                // facts are in objects that must be fetched
	ReasonNeedView                 // the driver has no view of the table yet
	ReasonStale                    // a finding that the fold would ignore
	ReasonPendingChanges           // release while changes are pending
	ReasonAlreadyRegistered        // table id, name or URI are taken
	ReasonTooLarge                 // the request alone does not fit an entry
	ReasonNothingWritten           // a commit that names no part and no read
	ReasonMoved                    // the catalog lives in another store
)

var reasonNames = [...]string{
	"", "unknown table", "table is frozen", "decided with other digests",
	"outcome expired", "token is ahead of the journal", "an earlier attempt is not aborted", "read point is ahead of the journal",
	"read point is too old to be checked", "facts must be fetched", "table view is not loaded", "finding is stale",
	"changes are pending", "already registered", "request is too large for an entry", "nothing to commit",
	"the catalog has moved to another store",
}

func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// Answer says what Decide did with a request.
type Answer struct {
	// Recorded: a record about it is in the entry. What it means is known only when
	// the entry is folded: look at the state then (R5).
	Recorded bool
	// Deferred: ask again with the next entry.
	Deferred bool
	// Behind is the reservation that a deferred commit stands behind: asked again before
	// that has ended, it gets the same answer. Nil for other reasons.
	Behind *Reservation
	// Refused, otherwise.
	Refused *Refused
}

// Decision is the content of the next entry and an answer per request.
type Decision struct {
	// At is the position at which the decision is valid, and at no other (R15).
	At      Position
	Records []Record
	Answers []Answer
}

// DecideInput is what Decide may look at besides the state.
type DecideInput struct {
	Rules Rules
	// Views, one per table that a commit request writes.
	Views map[TableID]View
	// Fetched facts by the hash of their object (R8).
	Fetched map[Hash]Facts
	// MaxBytes bounds the entry; what does not fit is deferred in order (C1). The
	// first request is never deferred for its size.
	MaxBytes int
	// Limit is what the store can take at all.
	Limit int
	// Reserve says when a key that loses gets a reservation. Replicas may differ in it.
	Reserve Reserve
}

// Reserve is how the rule against starvation is set: after so many lost attempts of a
// key its tables are reserved for so many positions.
type Reserve struct {
	After     int // 0: never
	Positions Position
}
