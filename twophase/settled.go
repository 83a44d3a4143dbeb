package twophase

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/txcoord/txcoord/twophase/recordpb"
)

// Outcomes of transactions to which nothing can happen any more are kept as compact
// bytes, as they stand in checkpoints: there may be hundreds of thousands. Whoever asks
// for one gets a copy.

// settled is such an outcome. It begins with its place in the journal and its time.
type settled []byte

// place is where the outcome was decided, and when.
func (b settled) place() (at Position, index uint32, t Time) {
	u := unpacker{b: b}
	return Position(u.uint()), uint32(u.uint()), Time(u.int())
}

// isDecided reports whether the fold says anything of a transaction.
func (s *State) isDecided(id TxnID) bool {
	if s.unsettled[id] != nil {
		return true
	}
	return s.settled.has(id)
}

// Outcome is what the journal says of a transaction; nil if nothing, or if it
// was forgotten (R6). Never a final negative (R5). It is not to be changed.
func (s *State) Outcome(id TxnID) *Outcome {
	if o := s.unsettled[id]; o != nil {
		return o
	}
	b := s.settled.get(id)
	if b == nil {
		return nil
	}
	var o Outcome
	if err := s.unpack(id, b, &o); err != nil {
		// This build made the bytes, or their hash said that another made them: half an
		// outcome would be answered, and decided by.
		panic(fmt.Sprintf("twophase: outcome of %s: %v", id, err))
	}
	return &o
}

// Outcomes calls yield for each remembered transaction, in no particular order.
func (s *State) Outcomes(yield func(TxnID, *Outcome) bool) {
	for id, o := range s.unsettled {
		if !yield(id, o) {
			return
		}
	}
	for id := range s.settled.all {
		if !yield(id, s.Outcome(id)) {
			return
		}
	}
}

// OutcomesBefore calls yield for each remembered transaction that was decided before a
// place in the journal, the newest first.
func (s *State) OutcomesBefore(at Position, index uint32, yield func(TxnID, *Outcome) bool) {
	for _, r := range slices.Backward(slices.Sorted(maps.Keys(s.ranges))) {
		if r > uint64(at)/positionsPerSegment {
			continue
		}
		for _, id := range slices.Backward(slices.SortedFunc(slices.Values(s.ranges[r]), s.byDecision)) {
			p, i, _ := s.decidedAt(id)
			if (p < at || p == at && i < index) && !yield(id, s.Outcome(id)) {
				return
			}
		}
	}
}

// Remembered calls yield with place and time of each remembered transaction's decision,
// in no particular order: much less work than Outcomes.
func (s *State) Remembered(yield func(Position, Time) bool) {
	for _, o := range s.unsettled {
		if !yield(o.Position, o.Time) {
			return
		}
	}
	for _, b := range s.settled.all {
		if at, _, t := b.place(); !yield(at, t) {
			return
		}
	}
}

// Holds is how many transactions are remembered.
func (s *State) Holds() int { return len(s.unsettled) + s.settled.len() }

// decidedAt is where a remembered transaction was decided, and when.
func (s *State) decidedAt(id TxnID) (Position, uint32, Time) {
	if o := s.unsettled[id]; o != nil {
		return o.Position, o.Index, o.Time
	}
	return s.settled.get(id).place()
}

func (s *State) byDecision(a, b TxnID) int {
	x, i, _ := s.decidedAt(a)
	y, j, _ := s.decidedAt(b)
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(i, j))
}

// compact makes those of the outcomes compact to which nothing can happen any more.
func (s *State) compact(ids ...TxnID) {
	for _, id := range ids {
		o := s.unsettled[id]
		if o == nil || !o.settled() || o.Commit != nil && len(o.Parts) != len(o.Commit.Parts) {
			continue
		}
		p := packer{b: s.scratch[:0], names: s.names}
		p.outcome(o)
		s.settled.put(id, p.b)
		s.scratch = p.b
		delete(s.unsettled, id)
	}
}

func (p *packer) outcome(o *Outcome) {
	p.uint(uint64(o.Position))
	p.uint(uint64(o.Index))
	p.int(int64(o.Time))
	if o.Abort != nil {
		p.uint(0)
		p.aborted(o.Abort)
		return
	}
	c := o.Commit
	p.uint(1)
	p.uint(uint64(o.Snapshot))
	p.text(c.Key)
	p.uint(uint64(c.Attempt))
	p.uint(uint64(c.Begun))
	p.count(len(c.Parts))
	for i := range c.Parts {
		p.part(&c.Parts[i])
		p.partOutcome(&o.Parts[i])
	}
	p.count(len(c.Reads))
	for _, r := range c.Reads {
		p.name(string(r.Table))
		p.read(r.Read)
	}
	p.count(len(c.Releases))
	for _, id := range c.Releases {
		p.name(string(id))
	}
	p.count(len(c.Bundles)) // whoever settles the transaction removes what lies there
	for _, id := range c.Bundles {
		p.raw(id[:])
	}
}

// unpack reads what packer.outcome wrote. The room in o is used again.
func (s *State) unpack(id TxnID, b settled, o *Outcome) error {
	u := unpacker{b: b, names: s.names}
	o.Position, o.Index, o.Time = Position(u.uint()), uint32(u.uint()), Time(u.int())
	if u.uint() == 0 {
		o.Commit, o.Abort, o.Parts, o.Snapshot = nil, u.aborted(id), nil, 0
		return u.end()
	}
	c := o.Commit
	if c == nil {
		c = &Committed{}
	}
	o.Commit, o.Abort, o.Snapshot = c, nil, SnapshotVersion(u.uint())
	c.Txn, c.Key, c.Attempt, c.Begun = id, u.text(), uint32(u.uint()), Position(u.uint())
	n := u.count(minPart)
	c.Parts, o.Parts = slices.Grow(c.Parts[:0], n)[:n], slices.Grow(o.Parts[:0], n)[:n]
	for i := range n {
		u.part(&c.Parts[i])
		o.Parts[i] = u.partOutcome()
	}
	c.Reads, c.Releases = nil, nil
	for range u.count(1) {
		c.Reads = append(c.Reads, ReadPart{Table: TableID(u.name()), Read: u.read()})
	}
	for range u.count(1) {
		c.Releases = append(c.Releases, TableID(u.name()))
	}
	c.Bundles = nil
	for range u.count(len(BundleID{})) {
		c.Bundles = append(c.Bundles, BundleID(u.txn()))
	}
	for i := range c.Parts {
		if c.Parts[i].Bundle > uint32(len(c.Bundles)) {
			u.fail()
		}
	}
	return u.end()
}

// committedAttempt goes on behind the time, as far as to the attempt; 0 of an abort.
func (u *unpacker) committedAttempt() uint32 {
	if u.uint() == 0 {
		return 0
	}
	u.uint()          // the snapshot
	u.raw(u.count(1)) // the key
	return uint32(u.uint())
}

func (p *packer) aborted(a *Aborted) {
	p.text(a.Key)
	p.uint(uint64(a.Attempt))
	p.uint(uint64(a.Begun))
	p.uint(uint64(a.Rule))
	p.name(string(a.Table))
	p.int(int64(a.Version))
	p.text(a.Path)
	p.raw(a.Winner[:])
	p.text(a.Detail)
}

func (u *unpacker) aborted(id TxnID) *Aborted {
	return &Aborted{
		Txn: id, Key: u.text(), Attempt: uint32(u.uint()), Begun: Position(u.uint()), Rule: Rule(u.uint()),
		Table: TableID(u.name()), Version: Version(u.int()), Path: u.text(), Winner: u.txn(), Detail: u.text(),
	}
}

func (p *packer) read(r ReadPoint) {
	p.flags(r.Blind)
	p.int(int64(r.Version))
}

func (u *unpacker) read() ReadPoint {
	var r ReadPoint
	u.flags(&r.Blind)
	r.Version = Version(u.int())
	return r
}

// minPart is the least that a part takes, with its outcome.
const minPart = 15

func (p *packer) part(t *Part) {
	hasRef := t.FactsRef != ObjectRef{}
	p.flags(t.Shape.Appends, t.Shape.DataChange, t.Create != nil, hasRef)
	p.name(string(t.Table))
	p.name(t.MetaDataID)
	p.count(len(t.Digests))
	for i := range t.Digests {
		p.raw(t.Digests[i][:])
	}
	p.read(t.Read)
	p.uint(uint64(t.Fence))
	p.uint(uint64(t.Bundle))
	p.uint(t.Shape.Bytes)
	p.count(len(t.Shape.Apps))
	for _, a := range t.Shape.Apps {
		p.text(a.App)
		p.int(a.Version)
	}
	if hasRef {
		p.ref(&t.FactsRef)
	}
	if c := t.Create; c != nil {
		p.text(c.Name)
		p.text(c.URI)
		p.uint(uint64(c.Mode))
		p.flags(c.OneTxnPerVersion)
	}
}

func (u *unpacker) part(t *Part) {
	digests := t.Digests[:0]
	*t = Part{}
	var creates, hasRef bool
	u.flags(&t.Shape.Appends, &t.Shape.DataChange, &creates, &hasRef)
	t.Table, t.MetaDataID = TableID(u.name()), u.name()
	n := u.count(len(Digest{}))
	digests = slices.Grow(digests, n)
	for range n {
		digests = append(digests, u.hash())
	}
	t.Digests, t.Read, t.Fence, t.Bundle, t.Shape.Bytes = digests, u.read(), Fencing(u.uint()), uint32(u.uint()), u.uint()
	for range u.count(2) {
		t.Shape.Apps = append(t.Shape.Apps, AppVersion{App: u.text(), Version: u.int()})
	}
	if hasRef {
		t.FactsRef = u.ref()
	}
	if creates {
		t.Create = &Creation{Name: u.text(), URI: u.text(), Mode: Mode(u.uint())}
		u.flags(&t.Create.OneTxnPerVersion)
	}
}

func (p *packer) partOutcome(o *PartOutcome) {
	lost := o.Conflict != Conflict{}
	p.flags(lost)
	p.int(int64(o.Change))
	p.uint(uint64(o.Status))
	p.int(int64(o.Version))
	p.uint(uint64(o.Place))
	if lost {
		p.uint(uint64(o.Conflict.Rule))
		p.text(o.Conflict.Path)
		p.text(o.Conflict.Detail)
	}
}

func (u *unpacker) partOutcome() (o PartOutcome) {
	var lost bool
	u.flags(&lost)
	o.Change, o.Status, o.Version, o.Place = ChangeNumber(u.int()), Status(u.uint()), Version(u.int()), uint32(u.uint())
	if lost {
		o.Conflict = Conflict{Rule: Rule(u.uint()), Path: u.text(), Detail: u.text()}
	}
	return o
}

// outcomesToPB is a range of outcomes: those that may change, and a run of the others.
func (s *State) outcomesToPB(at uint64) *recordpb.Segment {
	var seg recordpb.Segment
	var p packer
	for _, id := range slices.SortedFunc(slices.Values(s.ranges[at]), s.byDecision) {
		if o := s.unsettled[id]; o != nil {
			seg.Outcomes = append(seg.Outcomes, outcomeToPB(o))
			continue
		}
		b := s.settled.get(id)
		p.raw(id[:])
		p.count(len(b))
		p.raw(b)
	}
	if len(p.b) > 0 {
		seg.Settled = [][]byte{p.b}
	}
	return &seg
}

// loadSettled takes the outcomes of a segment. The state holds its bytes from then on, and
// makes the next checkpoint of them where they have not changed: to encode hundreds of
// thousands of outcomes, soon after a start, holds up everybody.
func (s *State) loadSettled(seg *Segment, ref ObjectRef) error {
	for _, run := range seg.runs {
		s.attempts = max(s.attempts, run.attempts)
		if id, ok := s.settled.load(run); !ok {
			return fmt.Errorf("transaction %s is there twice", id)
		}
		s.loadRanges(run, seg.raw, ref)
	}
	return nil
}

// loadRanges says which outcomes of a run are of which range, and that a range's segment is
// as it was where the bytes are those of one.
func (s *State) loadRanges(run *settledRun, raw []byte, ref ObjectRef) {
	for ids, ranges := run.ids, run.ranges; len(ids) > 0; {
		n := 1
		for n < len(ids) && ranges[n] == ranges[0] {
			n++
		}
		at := ranges[0]
		if s.ranges[at] == nil {
			s.ranges[at] = ids[:n:n]
			if raw != nil {
				s.encoded[segment{outcomeSegments, at}] = s.named("segment", raw, ref.Hash)
			}
		} else {
			s.ranges[at] = append(s.ranges[at], ids[:n]...)
			delete(s.encoded, segment{outcomeSegments, at})
		}
		ids, ranges = ids[n:], ranges[n:]
	}
}

// fit looks at all outcomes, so that none is found not to fit when somebody asks for it.
func (s *State) fit() error {
	var o Outcome
	for id, b := range s.settled.all {
		if err := s.unpack(id, b, &o); err != nil {
			return fmt.Errorf("outcome of %s: %w", id, err)
		}
	}
	return nil
}
