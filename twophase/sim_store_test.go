package twophase

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// simRing is the journal's store: slots, and nothing else.
type simRing struct {
	Ring
	slots   [][]byte
	at      []Position
	decoded map[Hash]*Entry // what DecodeEntry said of bytes
}

func newSimRing(slots Position, weak weakness) *simRing {
	return &simRing{
		Ring: Ring{Slots: slots, weak: weak}, slots: make([][]byte, slots), at: make([]Position, slots),
		decoded: map[Hash]*Entry{},
	}
}

func (r *simRing) state(n Position) SlotState {
	i := r.Slot(n)
	return r.State(n, r.at[i], r.slots[i] != nil)
}

// put replaces a slot's content if the ring's condition holds.
func (r *simRing) put(n Position, b []byte) bool {
	if r.state(n) != SlotFree {
		return false
	}
	r.slots[r.Slot(n)], r.at[r.Slot(n)] = b, n
	return true
}

func (r *simRing) get(n Position) AppendResult {
	switch r.state(n) {
	case SlotFilled:
		return AppendResult{Entry: r.slots[r.Slot(n)]}
	case SlotPassed:
		return AppendResult{Behind: true}
	case SlotFree, SlotShort:
	default:
	}
	return AppendResult{}
}

// head is the newest entry; nil in an empty ring.
func (r *simRing) head() []byte {
	var best []byte
	highest := Position(0)
	for i, b := range r.slots {
		if b != nil && (best == nil || r.at[i] > highest) {
			best, highest = b, r.at[i]
		}
	}
	return best
}

// decode is DecodeEntry with a memory: entries are immutable.
func (r *simRing) decode(b []byte, build int) (*Entry, Hash, error) {
	h := HashOf(b)
	key := h
	key[0] ^= byte(build)
	if e, ok := r.decoded[key]; ok {
		return e, h, nil
	}
	if len(r.decoded) > 4*len(r.slots) {
		clear(r.decoded)
	}
	e, err := decodeAs(b, build, r.weak)
	if err == nil {
		r.decoded[key] = e
	}
	return e, h, err
}

// put deadline and grace of the object store (R10).
const (
	putDeadline = 30 * time.Second
	storeGrace  = 10 * time.Minute
	retention   = 24 * time.Hour
)

// simCommit is a version in a log.
type simCommit struct {
	version    Version
	txns       []TxnDigest // ours
	notApplied []TxnDigest
	ours       bool
	marker     ChangeNumber
	ict        Time
	changes    []*toyChange
	identity   Hash
	landed     time.Duration
	state      *toyState // of the table with it
	table      TableID   // for which we made it

	// The recorded version that its writer went by.
	from         Version
	fromIdentity Hash
}

// simPlace is a folder with a _delta_log.
type simPlace struct {
	*toyTable
	uri   string
	epoch int // counts tables that stood here, and copies put back

	owner      bool
	commits    map[Version]*simCommit // files that are there
	ckpts      map[Version]*toyState  // complete checkpoints
	incomplete map[Version]bool
	latest     Version
	state      *toyState

	past      map[Version]*simCommit // of this epoch, whether there or not
	delivered map[TxnID]Version      // of this epoch
	backup    *simPlace
	own       *simPlace       // what stood there before it was replaced
	outage    time.Duration   // until then its requests are refused
	writers   []time.Duration // when other engines read the table that have not committed yet
	registers int
}

func (w *world) newPlace(t *toyTable) *simPlace {
	p := &simPlace{toyTable: t, uri: "mem:/" + t.name}
	if t.vacant {
		p.empty()
		return p
	}
	w.newTable(p)
	return p
}

// newTable puts a table with one empty version at the place.
func (w *world) newTable(p *simPlace) {
	w.nextMeta++
	p.empty()
	p.state = &toyState{meta: w.nextMeta, schema: 1}
	w.nextPath++
	first := w.newChange(&toyChange{meta: w.nextMeta, adds: []toyPair{{w.nextPath, 0}}, dataChange: true})
	w.land(p, &simCommit{version: 0, changes: []*toyChange{first}, identity: w.nonce()})
}

// empty takes all files away.
func (p *simPlace) empty() {
	p.epoch++
	p.state = &toyState{}
	p.commits, p.ckpts, p.incomplete = map[Version]*simCommit{}, map[Version]*toyState{}, map[Version]bool{}
	p.past, p.delivered = map[Version]*simCommit{}, map[TxnID]Version{}
	p.latest, p.backup, p.owner = NoVersion, nil, false
}

// newChange gives a change its number.
func (w *world) newChange(c *toyChange) *toyChange {
	c.id = len(w.changes)
	w.changes = append(w.changes, c)
	return c
}

func (w *world) nonce() Hash {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], w.rng.Uint64())
	binary.BigEndian.PutUint64(b[8:], w.rng.Uint64())
	return HashOf(b[:])
}

// there reports whether the version's file is there.
func (p *simPlace) there(v Version) bool { return p.commits[v] != nil }

// highest is the highest commit and checkpoint at or above from.
func (p *simPlace) highest(from Version) (commit, ckpt Version) {
	commit, ckpt = NoVersion, NoVersion
	for v := range p.commits {
		if v >= from {
			commit = max(commit, v)
		}
	}
	for v := range p.ckpts {
		if v >= from {
			ckpt = max(ckpt, v)
		}
	}
	return commit, ckpt
}

// put is put-if-absent of a commit file.
func (w *world) put(p *simPlace, c *simCommit) bool {
	if p.there(c.version) {
		return false
	}
	w.land(p, c)
	return true
}

// land makes a commit part of the log, and checks what it does to the table.
func (w *world) land(p *simPlace, c *simCommit) {
	c.landed = w.now
	if c.ours {
		w.check.landing(p, c)
	}
	state := p.state
	for _, ch := range c.changes {
		if why := state.fits(ch); why != nil && c.ours {
			w.fail(logReplays, "%s@%d: %+v does not fit: %v", p.name, c.version, ch, why)
		}
		state = state.after(ch)
	}
	next := *state
	next.ict = max(next.ict, c.ict)
	if c.ours {
		next.marker = c.marker
	}
	c.state, p.state = &next, &next
	p.latest = c.version
	p.commits[c.version], p.past[c.version] = c, c
	if c.ours && c.version == 0 {
		w.check.epochs[c.table] = p.epoch
	}
	for _, td := range c.txns {
		p.delivered[td.Txn] = c.version
	}
}

// listing is what a walk sees of the log from a version on.
func (p *simPlace) listing(from Version) Listing {
	l := Listing{Owner: p.owner}
	l.Commit, l.Checkpoint = p.highest(from)
	if c := p.commits[from]; c != nil {
		l.FromThere, l.Identity = true, c.identity
	}
	return l
}

// cleanedLog is the whole log and the newest complete checkpoint.
func (p *simPlace) cleanedLog(recorded Version) Cleaned {
	out := Cleaned{Owner: p.owner, Checkpoint: NoVersion}
	for v := range p.commits {
		if v >= recorded {
			out.Commits = append(out.Commits, v)
		}
	}
	slices.Sort(out.Commits)
	for v, s := range p.ckpts {
		if v > out.Checkpoint {
			out.Checkpoint, out.Marker, out.MetaDataID, out.Base = v, s.marker, metaName(s.meta), s
		}
	}
	if c := p.commits[out.Checkpoint]; c != nil {
		out.Identity = c.identity
	}
	return out
}

func metaName(id int) string { return fmt.Sprint("meta-", id) }

// seen is a version as a walk reads it.
func (w *world) seen(c *simCommit) SeenVersion {
	s := Seen{Version: c.version, Identity: c.identity}
	if c.ours {
		s.Catalog, s.Incarnation, s.Marker = simCatalog, simIncarnation, c.marker
		s.Txns, s.NotApplied = c.txns, c.notApplied
		return SeenVersion{s}
	}
	s.Facts, s.Engine = c.changes[0].facts(), "foreign"
	if c.changes[0].id%4 == 0 {
		s.FactsRef = w.factsObject(c.changes[0])
	}
	if c.changes[0].setsMeta > 0 {
		s.MetaDataID = metaName(c.changes[0].setsMeta)
	}
	return SeenVersion{s}
}

// factsObject stores facts as an object of their own (R8).
func (w *world) factsObject(c *toyChange) ObjectRef {
	name := fmt.Sprint("facts-", c.id)
	w.objects[name] = c.facts()
	return ObjectRef{Name: name, Size: uint64(len(c.facts())), Hash: HashOf(c.facts())}
}

// payloadKey names staged bytes (R20).
type payloadKey struct {
	txn   TxnID
	table TableID
	dig   Digest
}

// digestOf is the digest of the staged bytes of a change.
func digestOf(table TableID, c *toyChange) Digest {
	return sha256.Sum256(c.appendTo([]byte(table)))
}

// rendering is a version of ours before it is put: a pure function of its arguments.
func rendering(v Version, round *Round, table TableID, changes []*Change, toy []*toyChange, prev Time) *simCommit {
	c := &simCommit{version: v, ours: true, table: table, marker: changes[len(changes)-1].Number, ict: max(round.Time, prev+1), changes: toy}
	b := fmt.Appendf(nil, "%s %d %s %d %d", table, v, round.ID, c.marker, c.ict)
	for i, ch := range changes {
		d := ch.Part.Digest()
		c.txns = append(c.txns, TxnDigest{ch.Txn, d})
		b = toy[i].appendTo(append(append(b, ch.Txn[:]...), d[:]...))
	}
	c.identity = HashOf(b)
	return c
}

// renderBarrier is an empty version that gives changes up (R4).
func renderBarrier(p PutBarrier, table TableID) *simCommit {
	c := &simCommit{version: p.Version, ours: true, marker: p.Marker}
	b := fmt.Appendf(nil, "%s %d barrier %d", table, p.Version, p.Marker)
	for _, ch := range p.GiveUp {
		c.notApplied = append(c.notApplied, TxnDigest{ch.Txn, ch.Part.Digest()})
		b = append(b, ch.Txn[:]...)
	}
	c.identity = HashOf(b)
	return c
}
