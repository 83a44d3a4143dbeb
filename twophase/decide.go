package twophase

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Decide turns waiting requests into the records of the next entry (R15: valid at
// that position only). Findings come first, then aborts and commits in their order;
// a commit on a table with a finding in the group waits for the next entry, since
// the finding's verdicts cover the state as it is. The state is not changed.
func Decide(s *State, requests []Request, in DecideInput) Decision {
	d := &decision{
		State: s, in: in,
		answers: make([]Answer, len(requests)),
		seen:    map[TxnID]*Committed{}, touched: map[TableID]bool{}, found: map[TableID]bool{}, names: map[string]bool{},
		leaving: map[TableID]TxnID{},
		group:   map[TableID][]Facts{}, trials: map[TableID]Trial{},
		first: s.reservations, stood: s.reservations,
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
		if ans, gone := d.gone(nil); gone {
			d.answers[i] = ans
			continue
		}
		d.answers[i] = d.transaction(&requests[i])
		full = d.answers[i].Deferred && d.overflow
	}
	return Decision{At: s.next, Records: d.records, Answers: d.answers}
}

type decision struct {
	*State
	in       DecideInput
	records  []Record
	answers  []Answer
	bytes    int
	overflow bool
	seen     map[TxnID]*Committed // transactions decided in this group; nil for an abort
	found    map[TableID]bool     // tables with a finding in this group
	touched  map[TableID]bool     // those whose finding may decide what commits there meet
	names    map[string]bool      // names and URIs registered or created in this group
	leaving  map[TableID]TxnID    // tables that commits of this group release
	moving   bool                 // a record of this group moves the catalog
	group    map[TableID][]Facts  // facts of the commits in this group
	first    []*Reservation       // that stand before the next request
	stood    []*Reservation       // all that stood in this entry: they end with it
	trials   map[TableID]Trial
	checker  Checker // of the commit that is decided, once something is compared
}

func refuse(r Refused) Answer { return Answer{Refused: &r} }

// add puts a record into the entry unless it is full; several of them together or not
// at all.
func (d *decision) add(rs ...Record) Answer {
	size := 0
	for _, r := range rs {
		size += recordSize(r)
	}
	if d.in.Limit > 0 && size > d.in.Limit {
		return refuse(Refused{Reason: ReasonTooLarge, Detail: fmt.Sprintf("record of %d bytes, limit %d", size, d.in.Limit)})
	}
	if d.in.MaxBytes > 0 && len(d.records) > 0 && d.bytes+size > d.in.MaxBytes {
		d.overflow = true
		return Answer{Deferred: true}
	}
	d.bytes += size
	d.records = append(d.records, rs...)
	return Answer{Recorded: true}
}

func (d *decision) transaction(r *Request) Answer {
	if r.Abort != nil {
		return d.abort(r.Abort)
	}
	return d.commit(r.Commit)
}

func (d *decision) abort(a *Aborted) Answer {
	if _, seen := d.seen[a.Txn]; seen || d.isDecided(a.Txn) {
		return Answer{Recorded: true} // the fold has, or will have, the answer
	}
	if bad := d.aged(a.Txn, a.Begun); bad != nil {
		return refuse(*bad)
	}
	return d.end(a, nil)
}

// end records that a transaction is aborted, and what its key gets for it, if anything.
func (d *decision) end(a *Aborted, r *Reserved) Answer {
	records := []Record{a}
	if r != nil {
		records = append(records, r)
	}
	ans := d.add(records...)
	if ans.Recorded {
		d.seen[a.Txn] = nil
		d.goesOn(a.Key, a.Attempt, a.Rule)
		d.reserved(r)
	}
	return ans
}

func (d *decision) commit(req *CommitRequest) Answer {
	c := req.Record
	if ans, ok := d.again(c); ok {
		return ans
	}
	if bad := d.admissible(c); bad != nil {
		return refuse(*bad)
	}
	for id := range c.written {
		if d.touched[id] {
			return Answer{Deferred: true}
		}
	}
	for i := range c.Reads {
		if d.touched[c.Reads[i].Table] {
			return Answer{Deferred: true}
		}
	}
	d.checker = nil
	lost, bad := d.check(req)
	if bad != nil {
		return refuse(*bad)
	}
	if lost != nil {
		return d.end(lost, d.reserve(req, lost))
	}
	if first := d.behind(c); first != nil {
		return Answer{Deferred: true, Behind: first}
	}
	return d.take(c)
}

// again answers a commit whose id is decided, by an entry or in this group. Only
// the same digests are the same commit (R8).
func (d *decision) again(c *Committed) (Answer, bool) {
	if o := d.Outcome(c.Txn); o != nil {
		if o.Commit != nil && !o.Commit.samePieces(c) && !d.weak.has(weakAnyDigest) {
			return refuse(Refused{Reason: ReasonOtherDigests, Txn: c.Txn, Outcome: o}), true
		}
		return Answer{Recorded: true}, true
	}
	first, ok := d.seen[c.Txn]
	if ok && first != nil && !first.samePieces(c) {
		return Answer{Deferred: true}, true // which one counts is known when the entry is folded
	}
	return Answer{Recorded: true}, ok
}

// samePieces reports whether two commits name the same pieces for the same tables.
func (c *Committed) samePieces(o *Committed) bool {
	if len(c.Parts) != len(o.Parts) || !slices.Equal(c.Releases, o.Releases) {
		return false
	}
	digests := make(map[TableID][]Digest, len(c.Parts))
	for i := range c.Parts {
		digests[c.Parts[i].Table] = c.Parts[i].Digests
	}
	for i := range o.Parts {
		if d, ok := digests[o.Parts[i].Table]; !ok || !slices.Equal(d, o.Parts[i].Digests) {
			return false
		}
	}
	return true
}

func (d *decision) take(c *Committed) Answer {
	stored := *c
	stored.Parts, stored.Bundles = slices.Clone(c.Parts), slices.Clone(c.Bundles)
	for i := range stored.Parts {
		if stored.Parts[i].FactsRef.Name != "" {
			stored.Parts[i].Facts = nil
		}
	}
	ans := d.add(&stored)
	if !ans.Recorded {
		return ans
	}
	d.seen[c.Txn] = &stored
	d.goesOn(c.Key, c.Attempt, RuleNone)
	for i := range c.Parts {
		p := &c.Parts[i]
		if p.Create != nil {
			d.names[p.Create.Name], d.names[p.Create.URI] = true, true
			continue // nobody can have staged to it
		}
		d.group[p.Table] = append(d.group[p.Table], p.Facts)
		d.trials[p.Table].Take(p.Facts)
	}
	for _, id := range c.Releases {
		d.leaving[id] = c.Txn
	}
	return ans
}

// admissible checks what needs no look at any table (R6, R8).
func (d *decision) admissible(c *Committed) *Refused {
	if !c.writes() && len(c.Reads) == 0 {
		return &Refused{Reason: ReasonNothingWritten, Txn: c.Txn}
	}
	if bad := d.aged(c.Txn, c.Begun); bad != nil {
		return bad
	}
	if id, n, ok := d.CommittedAbove(c.Key, c.Attempt); ok {
		return &Refused{Reason: ReasonEarlierAttempt, Txn: id, Detail: fmt.Sprintf("attempt %d is committed", n), Outcome: d.Outcome(id)}
	}
	return d.earlierAttempts(c)
}

// AttemptsAhead is how far above an attempt of a key a committed one is looked for. An
// attempt is known by the hash of its key and number, so each costs one; where nearly all
// commit at their first attempt, none is looked for.
const AttemptsAhead = 16

// CommittedAbove is a committed attempt of a key above that one, if the fold holds one that
// is at most AttemptsAhead higher. Below a committed attempt all are aborted (R6), but the
// aborts are forgotten first, and are lost with a journal (R7): a job that begins anew with
// its first attempt finds no record of it, and would run twice.
func (s *State) CommittedAbove(key string, attempt uint32) (id TxnID, n uint32, ok bool) {
	if key == "" {
		return TxnID{}, 0, false
	}
	highest := uint64(s.attempts)
	if s.recalls() {
		highest = math.MaxUint32
	}
	for n := uint64(attempt) + 1; n <= min(uint64(attempt)+AttemptsAhead, highest); n++ {
		id := DeriveTxnID(s.catalog, key, uint32(n))
		if o := s.Outcome(id); o != nil && o.Commit != nil {
			return id, uint32(n), true
		}
	}
	return TxnID{}, 0, false
}

// aged refuses a token whose outcome may be forgotten, or that this history did
// not give out (R6). The first is final, the second is to be asked again after
// folding to a head read now.
func (d *decision) aged(txn TxnID, begun Position) *Refused {
	switch {
	case begun < d.floor && !d.weak.has(weakForgottenIsNew):
		return &Refused{Reason: ReasonExpiredOutcome, Txn: txn}
	case begun > d.next:
		return &Refused{Reason: ReasonAheadOfJournal, Txn: txn}
	}
	return nil
}

// earlierAttempts: attempt n commits only if the fold holds an abort of every
// attempt below (R6, A21).
func (d *decision) earlierAttempts(c *Committed) *Refused {
	if c.Key == "" {
		return nil
	}
	first := uint32(1)
	if d.weak.has(weakOneAttemptBack) && c.Attempt > 1 {
		first = c.Attempt - 1
	}
	for n := first; n < c.Attempt; n++ {
		id := DeriveTxnID(d.catalog, c.Key, n)
		o := d.Outcome(id)
		switch {
		case o == nil:
			return &Refused{Reason: ReasonEarlierAttempt, Txn: id, Detail: fmt.Sprintf("attempt %d is undecided or forgotten", n)}
		case o.Commit != nil:
			return &Refused{Reason: ReasonEarlierAttempt, Txn: id, Detail: fmt.Sprintf("attempt %d is committed", n), Outcome: o}
		}
	}
	return nil
}

// ErrStaleDecision means that the fold has moved since the decision: decide again (R15).
var ErrStaleDecision = errors.New("the decision was made for another position")

// Entry is the entry that holds a decision. clock is the writer's own; the entry's
// time never goes back behind the one before it (R16).
func (s *State) Entry(d Decision, clock Time, writer string) (*Entry, error) {
	if d.At != s.next && !s.weak.has(weakDecisionKept) {
		return nil, fmt.Errorf("%w: %d, next is %d", ErrStaleDecision, d.At, s.next)
	}
	if !s.weak.has(weakOwnClock) {
		clock = max(s.time, clock)
	}
	return &Entry{
		Header: Header{
			Codec: s.codec, Catalog: s.catalog, Incarnation: s.incarnation, Position: s.next, Previous: s.previous,
			Time: clock, Writer: writer, Checkpoint: s.checkpoint,
		},
		Records: d.Records,
	}, nil
}
