package twophase

import (
	"fmt"
	"slices"
)

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
}

// Older are facts that the fold has forgotten: of every version after From, up to
// the table's PastFloor.
type Older struct {
	From  Version
	Facts []Facts
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
	ReasonOtherDigests             // the id is decided with other digests (R8)
	ReasonDecided                  // the id is decided: look at the fold
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
)

var reasonNames = [...]string{"", "unknown table", "table is frozen", "decided with other digests", "already decided",
	"outcome expired", "token is ahead of the journal", "an earlier attempt is not aborted", "read point is ahead of the journal",
	"read point is too old to be checked", "facts must be fetched", "table view is not loaded", "finding is stale",
	"changes are pending", "already registered", "request is too large for an entry", "nothing to commit"}

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
	// Refused, otherwise.
	Refused *Refused
}

// Decision is the content of the next entry and an answer per request.
type Decision struct {
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
}

// Decide turns waiting requests into the records of the next entry (R15: valid at
// that position only). Findings come first, then aborts and commits in their order;
// a commit on a table with a finding in the group waits for the next entry, since
// the finding's verdicts cover the state as it is. The state is not changed.
func Decide(s *State, requests []Request, in DecideInput) Decision {
	d := &decision{
		State: s, in: in,
		answers: make([]Answer, len(requests)),
		seen:    map[TxnID]bool{}, touched: map[TableID]bool{}, found: map[TableID]bool{}, names: map[string]bool{},
		group: map[TableID][]Facts{}, trials: map[TableID]Trial{},
	}
	for i := range requests {
		if requests[i].Record != nil {
			d.answers[i] = d.finding(&requests[i])
		}
	}
	full := false
	for i := range requests {
		if requests[i].Record != nil {
			continue
		}
		if full {
			d.answers[i] = Answer{Deferred: true}
			continue
		}
		d.answers[i] = d.transaction(&requests[i])
		full = d.answers[i].Deferred && d.overflow
	}
	return Decision{Records: d.records, Answers: d.answers}
}

type decision struct {
	*State
	in       DecideInput
	records  []Record
	answers  []Answer
	bytes    int
	overflow bool
	seen     map[TxnID]bool      // transactions decided in this group
	found    map[TableID]bool    // tables with a finding in this group
	touched  map[TableID]bool    // those whose finding may decide what commits there meet
	names    map[string]bool     // names and URIs registered in this group
	group    map[TableID][]Facts // facts of the commits in this group
	trials   map[TableID]Trial
}

func refuse(r Refused) Answer { return Answer{Refused: &r} }

// add puts a record into the entry unless it is full.
func (d *decision) add(r Record) Answer {
	size := recordSize(r)
	if d.in.Limit > 0 && size > d.in.Limit {
		return refuse(Refused{Reason: ReasonTooLarge, Detail: fmt.Sprintf("record of %d bytes, limit %d", size, d.in.Limit)})
	}
	if d.in.MaxBytes > 0 && len(d.records) > 0 && d.bytes+size > d.in.MaxBytes {
		d.overflow = true
		return Answer{Deferred: true}
	}
	d.bytes += size
	d.records = append(d.records, r)
	return Answer{Recorded: true}
}

func (d *decision) transaction(r *Request) Answer {
	if r.Abort != nil {
		return d.abort(r.Abort)
	}
	return d.commit(r.Commit)
}

func (d *decision) abort(a *Aborted) Answer {
	if d.outcomes[a.Txn] != nil || d.seen[a.Txn] {
		return Answer{Recorded: true} // the fold has, or will have, the answer
	}
	if a.Begun < d.floor {
		return refuse(Refused{Reason: ReasonExpiredOutcome, Txn: a.Txn})
	}
	if a.Begun > d.next {
		return refuse(Refused{Reason: ReasonAheadOfJournal, Txn: a.Txn})
	}
	ans := d.add(a)
	d.seen[a.Txn] = d.seen[a.Txn] || ans.Recorded
	return ans
}

func (d *decision) commit(req *CommitRequest) Answer {
	c := req.Record
	if d.outcomes[c.Txn] != nil || d.seen[c.Txn] {
		return Answer{Recorded: true}
	}
	if bad := d.admissible(c); bad != nil {
		return refuse(*bad)
	}
	for i := range c.Parts {
		if d.touched[c.Parts[i].Table] {
			return Answer{Deferred: true}
		}
	}
	for i := range c.Reads {
		if d.touched[c.Reads[i].Table] {
			return Answer{Deferred: true}
		}
	}
	lost, bad := d.check(req)
	if bad != nil {
		return refuse(*bad)
	}
	if lost != nil {
		ans := d.add(lost)
		d.seen[c.Txn] = d.seen[c.Txn] || ans.Recorded
		return ans
	}
	return d.take(c)
}

func (d *decision) take(c *Committed) Answer {
	stored := *c
	stored.Parts = slices.Clone(c.Parts)
	for i := range stored.Parts {
		if stored.Parts[i].FactsRef.Name != "" {
			stored.Parts[i].Facts = nil
		}
	}
	ans := d.add(&stored)
	if !ans.Recorded {
		return ans
	}
	d.seen[c.Txn] = true
	for i := range c.Parts {
		p := &c.Parts[i]
		d.group[p.Table] = append(d.group[p.Table], p.Facts)
		d.trials[p.Table].Take(p.Facts)
	}
	return ans
}

// admissible checks what needs no look at any table (R6, R8).
func (d *decision) admissible(c *Committed) *Refused {
	switch {
	case len(c.Parts) == 0 && len(c.Reads) == 0:
		return &Refused{Reason: ReasonNothingWritten, Txn: c.Txn}
	case c.Begun < d.floor:
		return &Refused{Reason: ReasonExpiredOutcome, Txn: c.Txn}
	case c.Begun > d.next:
		return &Refused{Reason: ReasonAheadOfJournal, Txn: c.Txn}
	}
	return d.earlierAttempts(c)
}

// earlierAttempts: attempt n commits only if the fold holds an abort of every
// attempt below (R6, A21).
func (d *decision) earlierAttempts(c *Committed) *Refused {
	if c.Key == "" {
		return nil
	}
	for n := uint32(1); n < c.Attempt; n++ {
		id := DeriveTxnID(d.catalog, c.Key, n)
		o := d.outcomes[id]
		switch {
		case o == nil:
			return &Refused{Reason: ReasonEarlierAttempt, Txn: id, Detail: fmt.Sprintf("attempt %d is undecided or forgotten", n)}
		case o.Commit != nil:
			return &Refused{Reason: ReasonEarlierAttempt, Txn: id, Detail: fmt.Sprintf("attempt %d is committed", n)}
		}
	}
	return nil
}

// check compares a commit with everything decided since its read points. It
// returns an abort record when it lost, or a refusal.
func (d *decision) check(req *CommitRequest) (*Aborted, *Refused) {
	c := req.Record
	for i := range c.Parts {
		p := &c.Parts[i]
		t, bad := d.writable(p.Table)
		if bad != nil {
			return nil, bad
		}
		if p.MetaDataID != t.MetaDataID {
			return d.lose(req, t, &Conflict{Rule: RuleTableReplaced, Detail: "staged against metaData.id " + p.MetaDataID}, nil), nil
		}
		lost, bad := d.since(req, t, p.Read, p.Facts)
		if lost != nil || bad != nil {
			return lost, bad
		}
		trial, bad := d.trial(p.Table)
		if bad != nil {
			return nil, bad
		}
		if why := trial.Fits(p.Facts); why != nil {
			return d.lose(req, t, why, nil), nil
		}
	}
	for i := range c.Reads {
		r := &c.Reads[i]
		t, ok := d.tables[r.Table]
		if !ok || t.Released {
			return nil, &Refused{Reason: ReasonUnknownTable, Table: r.Table}
		}
		if lost, bad := d.since(req, t, r.Read, r.Facts); lost != nil || bad != nil {
			return lost, bad
		}
	}
	return nil, nil
}

func (d *decision) writable(id TableID) (*Table, *Refused) {
	t, ok := d.tables[id]
	if !ok || t.Released {
		return nil, &Refused{Reason: ReasonUnknownTable, Table: id}
	}
	if t.Frozen != nil {
		return nil, &Refused{Reason: ReasonFrozen, Table: id, Txn: t.Frozen.Txn,
			Detail: fmt.Sprintf("%s: %s", t.Frozen.Cause, t.Frozen.Detail)}
	}
	return t, nil
}

func (d *decision) trial(id TableID) (Trial, *Refused) {
	if t, ok := d.trials[id]; ok {
		return t, nil
	}
	v, ok := d.in.Views[id]
	if !ok || v == nil {
		return nil, &Refused{Reason: ReasonNeedView, Table: id}
	}
	t := v.Try()
	d.trials[id] = t
	return t, nil
}

// since compares facts with all that their read point does not cover (R14).
func (d *decision) since(req *CommitRequest, t *Table, read ReadPoint, facts Facts) (*Aborted, *Refused) {
	if read.Blind {
		return nil, nil
	}
	if read.Version > t.Recorded {
		return nil, &Refused{Reason: ReasonReadPointAhead, Table: t.Table,
			Detail: fmt.Sprintf("read version %d, recorded %d", read.Version, t.Recorded)}
	}
	if read.Version < t.PastFloor {
		older, ok := req.Older[t.Table]
		if !ok || older.From > read.Version {
			return nil, &Refused{Reason: ReasonReadPointTooOld, Table: t.Table,
				Detail: fmt.Sprintf("read version %d, facts are kept from %d", read.Version, t.PastFloor)}
		}
		for _, f := range older.Facts {
			if why := d.in.Rules.Conflict(facts, f); why != nil {
				return d.lose(req, t, why, nil), nil
			}
		}
	}
	for _, p := range t.Past {
		if p.Version != NoVersion && p.Version <= read.Version {
			continue
		}
		f, bad := d.facts(p.Facts, p.FactsRef)
		if bad != nil {
			return nil, bad
		}
		if why := d.in.Rules.Conflict(facts, f); why != nil {
			return d.lose(req, t, why, p), nil
		}
	}
	for _, f := range d.group[t.Table] {
		if why := d.in.Rules.Conflict(facts, f); why != nil {
			return d.lose(req, t, why, nil), nil
		}
	}
	return nil, nil
}

func (d *decision) facts(f Facts, ref ObjectRef) (Facts, *Refused) {
	if len(f) > 0 || ref.Name == "" {
		return f, nil
	}
	if got, ok := d.in.Fetched[ref.Hash]; ok {
		return got, nil
	}
	return nil, &Refused{Reason: ReasonNeedFacts, Refs: []ObjectRef{ref}}
}

func (d *decision) lose(req *CommitRequest, t *Table, why *Conflict, to *Past) *Aborted {
	c := req.Record
	if req.Name != nil {
		req.Name(t.Table, why)
	}
	a := &Aborted{Txn: c.Txn, Key: c.Key, Attempt: c.Attempt, Begun: c.Begun, Rule: why.Rule,
		Table: t.Table, Version: NoVersion, Path: why.Path, Detail: why.Detail}
	if to != nil {
		a.Version, a.Winner = to.Version, to.Txn
	}
	return a
}
