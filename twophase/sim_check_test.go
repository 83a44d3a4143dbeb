package twophase

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/txcoord/txcoord/twophase/recordpb"
)

// invariant is what must hold in every world; a must-fail variant names the one
// that it breaks.
type invariant string

const (
	oneHistory       invariant = "every replica folds one history"
	foldsEqual       invariant = "all folds are equal"
	oneAnswer        invariant = "answers never contradict"
	committedContent invariant = "what is answered as committed is what was committed"
	acknowledged     invariant = "the journal calls delivered what is in the log, and nothing else"
	decidedOnce      invariant = "a transaction is decided once"
	jobOnce          invariant = "each job is committed once at most"
	exactlyOnce      invariant = "each transaction is once in a log"
	inOrder          invariant = "a table's changes are delivered in their order"
	ofItsRound       invariant = "a version holds changes of an open round"
	contiguous       invariant = "versions are contiguous"
	staysCleaned     invariant = "nothing is put under a checkpoint"
	ownTable         invariant = "nothing is put into another table, or taken from it"
	onePlace         invariant = "a place belongs to one table"
	sameContent      invariant = "every publisher renders the same content"
	logReplays       invariant = "every version of ours replays"
	possible         invariant = "a change is given up if and only if it is impossible"
	noConflict       invariant = "no commit overlooks a conflict"
	frozenRefuses    invariant = "a frozen table takes no commit"
	thawsAsSaid      invariant = "a thaw does what its preview said"
	snapshotComplete invariant = "a snapshot shows a transaction in all its tables"
	snapshotForward  invariant = "snapshots never go back"
	snapshotCurrent  invariant = "a snapshot shows every recorded version of an idle table"
	manifestOrder    invariant = "manifests are written in order, and never differ"
	payloadThere     invariant = "the payload of a pending change is there"
	noFalseReplaced  invariant = "no healthy table counts as replaced"
	noFalseLost      invariant = "no payload counts as lost that was not"
	noFalseLoss      invariant = "no healthy log contradicts the journal"
	reservedFirst    invariant = "who goes first is not overtaken"
	reservedHalf     invariant = "a table is reserved for half of its positions at most"
	keepsDecided     invariant = "what is answered as decided is delivered as decided"
	resolves         invariant = "everything resolves when the faults stop"
)

// answer is what a client was told.
type answer uint8

const (
	answerNone answer = iota
	answerAborted
	answerCommitted
)

// sampled is how often, in positions, folds are compared as a whole.
const sampled = 16

// checker knows what happened. It folds the true history, entry by entry as they
// land, and asks after each what the rules promise.
type checker struct {
	w       *world
	ref     *State
	stopped bool // the catalog stopped for good (R7)

	before   map[Position]Hash    // the hash before a position
	sums     map[Position]foldSum // whole folds, sampled
	answers  map[TxnID]answer
	outcomes map[TxnID]bool // decided, whether remembered or not
	digests  map[TxnID]*Committed
	byKey    map[string]TxnID
	items    map[TableID][]*item
	byTxn    map[TableID]map[TxnID]*item
	epochs   map[TableID]int // of the place, when the table was registered
	content  map[string]Hash
	archives map[string]map[TxnID]Version // delivered to tables that stood at a place
	shown    map[TableID]Version
	lastTime Time
	promises map[TxnID]bool   // answered as decided, and not settled
	exposed  map[TableID]bool // somebody did to the table what no fence keeps out
	counts   map[string]int   // what happened
	looks    map[string]bool  // by the detail of a walk's finding: the table's own log stood there when it was looked at
	reserves reserves
}

// item is something that commits on a table may conflict with.
type item struct {
	change  *toyChange
	txn     TxnID   // zero: a foreign version
	version Version // of a foreign version
}

func newChecker(w *world) *checker {
	c := &checker{
		w: w, before: map[Position]Hash{}, sums: map[Position]foldSum{}, answers: map[TxnID]answer{}, outcomes: map[TxnID]bool{},
		digests: map[TxnID]*Committed{}, byKey: map[string]TxnID{}, items: map[TableID][]*item{},
		byTxn: map[TableID]map[TxnID]*item{}, epochs: map[TableID]int{}, content: map[string]Hash{},
		archives: map[string]map[TxnID]Version{}, shown: map[TableID]Version{}, counts: map[string]int{},
		promises: map[TxnID]bool{}, exposed: map[TableID]bool{}, looks: map[string]bool{},
	}
	c.ref = w.emptyState()
	return c
}

// appended folds an entry that has just landed.
func (c *checker) appended(pos Position, b []byte) {
	if pos != c.ref.Next() {
		c.w.fail(oneHistory, "position %d was filled when the history was at %d", pos, c.ref.Next())
	}
	e, h, err := c.w.ring.decode(b, 2)
	if err != nil {
		panic(err)
	}
	was := c.mark(e)
	thawed := c.foretell(e)
	if err := c.ref.Apply(e, h); err != nil {
		c.w.fail(oneHistory, "%v", err)
	}
	thawed()
	c.before[c.ref.Next()] = h
	if c.ref.Next()%sampled == 0 {
		c.sums[c.ref.Next()] = c.sum(c.ref)
	}
	c.describe(e)
	c.compare(was, e)
}

// foldSum is a whole fold, as its checkpoint has it.
type foldSum struct {
	hash    Hash
	objects []CheckpointObject // the index last
}

func (c *checker) sum(s *State) foldSum {
	index, segments := s.EncodeCheckpoint("")
	return foldSum{index.Ref.Hash, append(segments, index)}
}

func (f foldSum) text() []string {
	var out []string
	for i, o := range f.objects {
		var m proto.Message = &recordpb.Segment{}
		if i == len(f.objects)-1 {
			m = &recordpb.CheckpointIndex{}
		}
		if err := proto.Unmarshal(o.Bytes, m); err != nil {
			return []string{err.Error()}
		}
		out = append(out, strings.Split(prototext.Format(m), "\n")...)
	}
	return out
}

// sameFold compares a fold with what it has to be.
func (c *checker) sameFold(s *State, want foldSum, what string) {
	if got := c.sum(s); got.hash != want.hash {
		c.w.fail(foldsEqual, "%s differs at position %d (-want +got):\n%s", what, s.Next(), cmp.Diff(want.text(), got.text()))
	}
}

// folded is called after each entry that a replica folds.
func (c *checker) folded(s *State) {
	if c.before[s.Next()] != s.Previous() {
		c.w.fail(oneHistory, "entry %d is another one", s.Next()-1)
	}
	if sum, ok := c.sums[s.Next()]; ok {
		c.sameFold(s, sum, "a fold")
	}
}

// restarted is called with what a checkpoint says.
func (c *checker) restarted(s *State) {
	if sum, ok := c.sums[s.Next()]; ok {
		c.sameFold(s, sum, "a checkpoint")
	}
}

// marks are what the checker has to know of the state before an entry.
type marks struct {
	frozen    map[TableID]bool
	pending   map[TableID][]*Change
	recorded  map[TableID]Version
	identity  map[TableID]Hash
	snapshots SnapshotVersion
}

func (c *checker) mark(e *Entry) marks {
	m := marks{
		frozen: map[TableID]bool{}, pending: map[TableID][]*Change{}, recorded: map[TableID]Version{}, identity: map[TableID]Hash{}, snapshots: c.ref.Shown(),
	}
	for _, r := range e.Records {
		switch r := r.(type) {
		case *Committed:
			for i := range r.Parts {
				if t := c.ref.tables[r.Parts[i].Table]; t != nil {
					m.frozen[t.Table] = t.Freezing() != nil
				}
			}
		case *Foreign:
			c.markTable(&m, r.Table)
		case *Barrier:
			c.markTable(&m, r.Table)
		case *Range:
			c.markTable(&m, r.Table)
		}
	}
	return m
}

func (c *checker) markTable(m *marks, id TableID) {
	if t := c.ref.tables[id]; t != nil {
		m.pending[id] = slices.Clone(t.Pending)
		m.recorded[id], m.identity[id] = t.Recorded, t.Identity
	}
}

// compare asks what an entry did.
func (c *checker) compare(was marks, e *Entry) {
	for i, r := range e.Records {
		c.counts[r.kind()]++
		switch r := r.(type) {
		case *Committed:
			c.decided(was, r, c.ref.Outcome(r.Txn).By(e, i))
		case *Aborted:
			if c.ref.Outcome(r.Txn).By(e, i) {
				c.counts["abort: "+r.Rule.String()]++
				c.once(r.Txn)
			}
		case *Registered:
			c.alone(r)
		case *Foreign:
			c.recorded(was, r.Table, r)
		case *Barrier:
			c.recorded(was, r.Table, r)
		case *Range:
			c.recorded(was, r.Table, r)
		case *Thawed:
			c.abandoned(r.Table)
		case *Replaced:
			if t := c.ref.tables[r.Table]; t != nil && t.isReplaced() && r.Recorded == t.Recorded && c.looks[r.Detail] {
				c.w.fail(noFalseReplaced, "%s at %d: %s", r.Table, r.Recorded, r.Detail)
			}
		case *Frozen:
			c.losses(r)
			if t := c.ref.tables[r.Table]; r.Cause == CauseContradiction && t != nil && t.Frozen != nil && c.looks[r.Detail] {
				c.w.fail(noFalseLoss, "%s: %s", r.Table, r.Detail)
			}
		}
	}
	c.fencesHold(e)
	c.reservations(e)
	c.newSnapshots(was.snapshots)
	for _, t := range c.ref.Tables() {
		if c.ref.busy[t.Table] == nil && t.Shown != t.Recorded {
			c.w.fail(snapshotCurrent, "%s is at %d, the snapshot says %d", t.Table, t.Recorded, t.Shown)
		}
		for i, ch := range t.Pending {
			if i > 0 && ch.Round != nil && t.Pending[i-1].Round == nil {
				c.w.fail(inOrder, "change %d of %s is in a round, %d waits", ch.Number, t.Table, t.Pending[i-1].Number)
			}
		}
	}
	if c.ref.Time() < c.lastTime {
		c.w.fail(snapshotForward, "time went back from %d to %d", c.lastTime, c.ref.Time())
	}
	c.lastTime = c.ref.Time()
}

// once checks that a transaction was not decided before, and forgotten.
func (c *checker) once(txn TxnID) {
	if c.outcomes[txn] {
		c.w.fail(decidedOnce, "%s is decided again", short(txn))
	}
	c.outcomes[txn] = true
}

// alone checks that no two tables share a place.
func (c *checker) alone(r *Registered) {
	for _, t := range c.ref.Tables() {
		if (t.URI == r.URI || t.Name == r.Name) && t.Table != r.Table {
			c.w.fail(onePlace, "%s and %s are both %s at %s", r.Table, t.Table, r.Name, r.URI)
		}
	}
}

// healthy reports whether the table that was registered still stands at its place.
func (c *checker) healthy(t *Table) bool {
	p := c.w.placeOf(t)
	return p.epoch == c.epochs[t.Table] && metaName(p.state.meta) == t.MetaDataID && p.owner && c.whole(t, p)
}

// own reports whether a table's own log stands at its place now.
func (c *checker) own(id TableID) bool {
	t := c.ref.tables[id]
	return t != nil && c.healthy(t)
}

// looked notes what stood at a table's place when a walk was told what its finding says.
// A finding is true or false of that moment, not of the one at which it is recorded: what
// was dropped may be back by then. The detail that it answers names this look alone.
func (c *checker) looked(detail string, own bool) string {
	detail = fmt.Sprintf("%s (look %d)", detail, len(c.looks))
	c.looks[detail] = own
	return detail
}

// decided checks a commit record, if it counts.
func (c *checker) decided(was marks, r *Committed, counts bool) {
	o := c.ref.Outcome(r.Txn)
	if !counts {
		return
	}
	c.once(r.Txn)
	c.reshapes(r)
	if first, ok := c.byKey[r.Key]; ok {
		c.w.fail(jobOnce, "job %s: %s after %s", r.Key, short(r.Txn), short(first))
	}
	if c.answers[r.Txn] == answerAborted {
		c.w.fail(oneAnswer, "%s was told aborted, and is committed", short(r.Txn))
	}
	c.byKey[r.Key], c.digests[r.Txn] = r.Txn, o.Commit
	for i := range r.Parts {
		p := &r.Parts[i]
		if was.frozen[p.Table] {
			c.w.fail(frozenRefuses, "%s takes %s", p.Table, short(r.Txn))
		}
		c.overlooks(r.Txn, p.Table, p.Read, c.w.changeOf(p))
		c.fits(r.Txn, p.Table)
	}
	for i := range r.Reads {
		c.overlooks(r.Txn, r.Reads[i].Table, r.Reads[i].Read, toyRules{&c.w.changes}.change(r.Reads[i].Facts))
	}
	for i := range r.Parts {
		p := &r.Parts[i]
		c.remember(p.Table, &item{change: c.w.changeOf(p), txn: r.Txn, version: NoVersion})
	}
}

// fits checks that a change can follow all that was decided and recorded before it.
func (c *checker) fits(txn TxnID, id TableID) {
	t := c.ref.tables[id]
	s := c.w.stateOf(t)
	if s == nil || !c.healthy(t) {
		return
	}
	for _, ch := range t.Pending {
		toy := c.w.changeOf(ch.Part)
		why := s.fits(toy)
		if why != nil && ch.Txn == txn {
			c.w.fail(noConflict, "%s on %s: %v", short(txn), id, why)
		}
		if why == nil {
			s = s.after(toy)
		}
	}
}

func (c *checker) remember(id TableID, it *item) {
	c.items[id] = append(c.items[id], it)
	if c.byTxn[id] == nil {
		c.byTxn[id] = map[TxnID]*item{}
	}
	c.byTxn[id][it.txn] = it
}

// overlooks compares a commit with all that its read point does not cover.
func (c *checker) overlooks(txn TxnID, id TableID, read ReadPoint, ch *toyChange) {
	t := c.ref.tables[id]
	if read.Blind || !c.healthy(t) {
		return
	}
	for _, it := range c.items[id] {
		if v, ok := c.w.placeOf(t).delivered[it.txn]; ok && v <= read.Version || it.txn.IsZero() && it.version <= read.Version {
			continue
		}
		if why := conflictBefore(ch, it.change); why != nil {
			c.w.fail(noConflict, "%s on %s, read at %d: %v with %s at %d", short(txn), id, read.Version, why.Rule, short(it.txn), it.version)
		}
	}
}

// delivered is where a transaction is in the log of the table that was registered,
// also if another one stands there now.
func (c *checker) delivered(t *Table, txn TxnID) (Version, bool) {
	p := c.w.placeOf(t)
	if v, ok := p.delivered[txn]; ok {
		return v, true
	}
	v, ok := c.archives[p.uri][txn]
	return v, ok
}

// archive keeps what was delivered to a table that is about to be replaced.
func (c *checker) archive(p *simPlace) {
	if c.archives[p.uri] == nil {
		c.archives[p.uri] = map[TxnID]Version{}
	}
	for txn, v := range p.delivered {
		c.archives[p.uri][txn] = v
	}
}

// answered checks what a client is told.
func (c *checker) answered(q *request, a answer) {
	txn := q.txn()
	c.w.logf("job %s/%d %s is told %v", q.from.key, q.from.attempt, short(txn), a)
	o := c.ref.Outcome(txn)
	switch {
	case o != nil && (o.Commit != nil) != (a == answerCommitted):
		c.w.fail(oneAnswer, "%s is told %v, the journal says otherwise", short(txn), a)
	case c.answers[txn] != answerNone && c.answers[txn] != a:
		c.w.fail(oneAnswer, "%s was told %v, and now %v", short(txn), c.answers[txn], a)
	case a == answerCommitted && q.Commit != nil && c.digests[txn] != nil && !c.digests[txn].samePieces(q.Commit.Record):
		c.w.fail(committedContent, "%s was committed with other digests", short(txn))
	}
	c.answers[txn] = a
	if q.from.txn == txn && c.w.chance(0.8) {
		q.from.known = a
	}
}

var statusNames = map[Status]string{
	StatusPending: "stays pending", StatusDelivered: "delivered", StatusPublished: "published",
	StatusDiverged: "diverged", StatusNotApplied: "not applied",
}
