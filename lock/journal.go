package lock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// DefaultSlots is the size of the ring.
const DefaultSlots = 8192

// MetaKey is the store's one write-once key (R1).
const MetaKey = "meta"

// Errors of a journal, besides those of the store.
var (
	// ErrBehind: the ring holds a later entry where this one was. The reader has
	// fallen behind and starts again from a checkpoint (R1).
	ErrBehind = errors.New("the journal has gone on past this position")
	// ErrNotFilled: nothing has been appended at the position yet. It concludes
	// nothing: an append may be in flight.
	ErrNotFilled = errors.New("position not filled")
	// ErrShort: the journal ends below what the caller has folded. It was put back to
	// an older state (R7); nothing may be appended.
	ErrShort = errors.New("the journal is shorter than the history that was folded")
	// ErrOtherCodec: the journal was written by a build with another encoding.
	ErrOtherCodec = errors.New("journal of another codec version")
)

// Meta is what the write-once key holds.
type Meta struct {
	Format      int    `json:"format"`
	Catalog     string `json:"catalog"`
	Incarnation string `json:"incarnation"`
	Slots       int    `json:"slots"`
	Codec       int    `json:"codec"`
	// Secret signs tokens; it never leaves the store.
	Secret string `json:"secret"`
}

// Journal is the ring of entries in a store (R1): entry n lives in slot n mod M,
// and replaces it only if the slot still holds entry n-M of this incarnation. Safe
// for concurrent use; appends to one position race through the store.
type Journal struct {
	store Store
	meta  Meta

	// tried is told of every try of an append; may be nil.
	tried func(error)

	mu        sync.Mutex
	revisions map[twophase.Position]Revision // of entries seen, by position
}

// An append that ran into an error of the store, or that saw its position empty
// after an unknown answer, waits this long before the next try; twice as long each
// time, up to maxRetry.
const (
	minRetry = 5 * time.Millisecond
	maxRetry = time.Second
)

// OpenJournal opens the journal in a store, and makes it where there is none.
// slots is used for a new one only; 0 means DefaultSlots.
func OpenJournal(ctx context.Context, store Store, slots int) (*Journal, error) {
	meta, err := readMeta(ctx, store)
	if errors.Is(err, ErrNotFound) {
		meta, err = createMeta(ctx, store, slots)
	}
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return journalOf(store, meta)
}

// ExistingJournal opens the journal in a store, and makes none: ErrNotFound if there is
// none. It writes nothing.
func ExistingJournal(ctx context.Context, store Store) (*Journal, error) {
	meta, err := readMeta(ctx, store)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return journalOf(store, meta)
}

func journalOf(store Store, meta Meta) (*Journal, error) {
	if meta.Codec < twophase.FirstCodec || meta.Codec > twophase.CodecVersion {
		return nil, fmt.Errorf("%w: %d, this build knows those up to %d", ErrOtherCodec, meta.Codec, twophase.CodecVersion)
	}
	return &Journal{store: store, meta: meta, revisions: map[twophase.Position]Revision{}}, nil
}

func readMeta(ctx context.Context, store Store) (Meta, error) {
	m, _, err := presentMeta(ctx, store)
	return m, err
}

func parseMeta(value []byte) (Meta, error) {
	var m Meta
	if err := json.Unmarshal(value, &m); err != nil {
		return Meta{}, fmt.Errorf("key %q is not a txcoord journal: %w", MetaKey, err)
	}
	if m.Catalog == "" || m.Slots <= 0 {
		return Meta{}, fmt.Errorf("key %q is not a txcoord journal", MetaKey)
	}
	return m, nil
}

// createMeta writes the key if it is absent, and then reads what is there: another
// process may have been first.
func createMeta(ctx context.Context, store Store, slots int) (Meta, error) {
	if err := Unfinished(ctx, store); err != nil {
		return Meta{}, err
	}
	b, err := json.Marshal(NewMeta(randomID(), slots))
	if err != nil {
		return Meta{}, err
	}
	if _, err := store.Put(ctx, MetaKey, b, IfAbsent()); err != nil && !errors.Is(err, ErrConflict) {
		return Meta{}, err
	}
	return readMeta(ctx, store)
}

// NewMeta is that of a journal which nobody had before: a new incarnation of a catalog,
// with a secret of its own. slots 0 means DefaultSlots.
func NewMeta(catalog string, slots int) Meta {
	if slots == 0 {
		slots = DefaultSlots
	}
	return Meta{Format: 1, Catalog: catalog, Incarnation: randomID(), Slots: slots, Codec: twophase.FirstCodec, Secret: randomID() + randomID()}
}

func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// Meta is the journal's write-once data.
func (j *Journal) Meta() Meta { return j.meta }

// Slots is M, the size of the ring.
func (j *Journal) Slots() twophase.Position { return twophase.Position(j.meta.Slots) }

func (j *Journal) key(pos twophase.Position) string {
	return fmt.Sprintf("%s%08d", j.Prefix(), j.Ring().Slot(pos))
}

// Prefix is that of the keys of the ring, to be watched.
func (j *Journal) Prefix() string { return "ring/" + j.meta.Incarnation + "/" }

// slot is what stands in the slot of a position; without an entry, nothing.
type slot struct {
	entry    []byte // as it is stored
	position twophase.Position
	revision Revision
}

// read reads the slot of a position: ErrDamaged if it holds no entry, or another than the
// wanted one, whose checksum does not fit. Where that one would be taken for an entry to
// be replaced, it may be the wanted one with a damaged header. Of the wanted one the
// checksum is its decoder's to look at.
func (j *Journal) read(ctx context.Context, pos twophase.Position) (slot, error) {
	item, err := j.store.Get(ctx, j.key(pos))
	if errors.Is(err, ErrNotFound) {
		return slot{}, nil
	}
	if err != nil {
		return slot{}, err
	}
	at, err := twophase.EntryPosition(item.Value)
	if err == nil && at != pos {
		err = twophase.CheckEntry(item.Value)
	}
	if err != nil {
		return slot{}, fmt.Errorf("journal key %s: %w", item.Key, err)
	}
	j.note(at, item.Revision)
	return slot{entry: item.Value, position: at, revision: item.Revision}, nil
}

// Ring is the layout of the journal in the store.
func (j *Journal) Ring() twophase.Ring { return twophase.Ring{Slots: j.Slots()} }

// state says what a slot means to whoever wants a position there.
func (j *Journal) state(pos twophase.Position, s slot) twophase.SlotState {
	return j.Ring().State(pos, s.position, s.entry != nil)
}

func (j *Journal) note(pos twophase.Position, rev Revision) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.revisions[pos] = rev
	if pos >= j.Slots() {
		delete(j.revisions, pos-j.Slots())
	}
}

// Read returns the entry at a position: ErrNotFilled, ErrBehind, ErrShort or
// twophase.ErrDamaged otherwise.
func (j *Journal) Read(ctx context.Context, pos twophase.Position) ([]byte, error) {
	s, err := j.read(ctx, pos)
	if err != nil {
		return nil, fmt.Errorf("read journal entry %d: %w", pos, err)
	}
	switch j.state(pos, s) {
	case twophase.SlotFilled:
		entry, err := Unpack(s.entry)
		if err != nil {
			return nil, fmt.Errorf("read journal entry %d: key %s: %w", pos, j.key(pos), err)
		}
		return entry, nil
	case twophase.SlotFree:
		return nil, ErrNotFilled
	case twophase.SlotPassed:
		return nil, fmt.Errorf("%w: its slot holds entry %d, wanted was %d", ErrBehind, s.position, pos)
	default: // SlotShort
		return nil, fmt.Errorf("%w: the slot of %d holds %d", ErrShort, pos, s.position)
	}
}

// nextProbes is how many slots are read at once to find the head: four round trips for
// 8,192 slots, where halves take thirteen.
const nextProbes = 12

// Next finds the first position that is not filled, by a search over the rotated sequence
// in the ring.
func (j *Journal) Next(ctx context.Context) (twophase.Position, error) {
	first, err := j.read(ctx, 0)
	if err != nil {
		return 0, fmt.Errorf("find the journal's head: %w", err)
	}
	if first.entry == nil {
		return 0, nil
	}
	filled, free := first.position, first.position+j.Slots() // whose slot is that of the first
	for free-filled > 1 {
		probes := between(filled, free, nextProbes)
		there, err := j.areFilled(ctx, probes)
		if err != nil {
			return 0, fmt.Errorf("find the journal's head: %w", err)
		}
		for i, p := range probes {
			if !there[i] {
				free = p
				break
			}
			filled = p
		}
	}
	return free, nil
}

// between are positions between two, at most n, that divide what lies there evenly.
func between(low, high twophase.Position, n int) (out []twophase.Position) {
	parts := min(twophase.Position(n)+1, high-low)
	for i := twophase.Position(1); i < parts; i++ {
		out = append(out, low+(high-low)*i/parts)
	}
	return out
}

// areFilled reads slots at once, and says which hold the entry of their position.
func (j *Journal) areFilled(ctx context.Context, at []twophase.Position) ([]bool, error) {
	there, errs := make([]bool, len(at)), make([]error, len(at))
	var reading sync.WaitGroup
	for i, pos := range at {
		reading.Go(func() {
			var s slot
			s, errs[i] = j.read(ctx, pos)
			there[i] = s.entry != nil && s.position == pos
		})
	}
	reading.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return there, nil
}

// Append puts an entry at its position and returns what stands there afterwards:
// the same bytes if it won, the winner's otherwise. It carries out twophase.Append's
// effects until the position is seen filled, through errors of the store, for as
// long as ctx lives: when ctx ends the outcome is unknown. ErrBehind if the journal
// went on past the position, ErrShort if it went back, ErrTooLarge if the store
// cannot take the entry at all, twophase.ErrDamaged if the slot holds what nobody
// appended, also where that is what the entry would have replaced.
//
// The writes in with are durable before the entry, or together with it; also where
// the position is lost.
func (j *Journal) Append(ctx context.Context, pos twophase.Position, entry []byte, with ...Write) ([]byte, error) {
	batcher, ok := j.store.(Batcher)
	if !ok && len(with) > 0 {
		if err := j.putAll(ctx, with); err != nil {
			return nil, err
		}
	}
	if len(with) == 0 {
		batcher = nil
	}
	a := twophase.NewAppend(pos, entry)
	wait := minRetry
	for {
		effect, _, _ := a.Next()
		if effect == twophase.AppendDone {
			break
		}
		result, err := j.carryOut(ctx, a, batcher, with)
		if err == nil {
			a.Feed(result)
			if next, _, _ := a.Next(); effect != twophase.AppendGet || next != twophase.AppendPut {
				continue
			}
		}
		if errors.Is(err, ErrTooLarge) || errors.Is(err, ErrShort) || errors.Is(err, twophase.ErrDamaged) {
			return nil, fmt.Errorf("append entry %d: %w", pos, err)
		}
		// The store answered an error, or unknown and then nothing: once more, later.
		if !sleep(ctx, wait) {
			return nil, fmt.Errorf("append entry %d: %w: %w", pos, ErrUnknown, errors.Join(err, ctx.Err()))
		}
		wait = min(2*wait, maxRetry)
	}
	if a.Filled() == nil {
		return nil, ErrBehind
	}
	return a.Filled(), nil
}

// OnTry has f told how every write of an append ended: with nil, or with the store's
// error, which Append repeats for as long as its context lives. Call it before the first
// Append; f must not block.
func (j *Journal) OnTry(f func(error)) { j.tried = f }

func (j *Journal) tell(err error) {
	if j.tried != nil {
		j.tried(err)
	}
}

// carryOut does what an append needs next. An error means that nothing was learned,
// and certainly nothing was written.
func (j *Journal) carryOut(ctx context.Context, a *twophase.Append, batcher Batcher, with []Write) (twophase.AppendResult, error) {
	effect, pos, entry := a.Next()
	if effect == twophase.AppendPut {
		return j.put(ctx, pos, entry, batcher, with)
	}
	return j.get(ctx, pos)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// put tries the conditional write of the ring.
func (j *Journal) put(ctx context.Context, pos twophase.Position, entry []byte, batcher Batcher, with []Write) (twophase.AppendResult, error) {
	cond := IfAbsent()
	if pos >= j.Slots() {
		rev, free, err := j.replaces(ctx, pos)
		if err != nil {
			return twophase.AppendResult{}, err
		}
		if !free {
			return twophase.AppendResult{Refused: true}, nil
		}
		cond = IfRevision(rev)
	}
	cond = j.after(cond, pos)
	value := pack(entry)
	var rev Revision
	var err error
	if batcher != nil {
		rev, err = batcher.PutBatch(ctx, j.key(pos), value, cond, with)
	} else {
		rev, err = j.store.Put(ctx, j.key(pos), value, cond)
	}
	switch {
	case err == nil:
		j.tell(nil)
		j.note(pos, rev)
		return twophase.AppendResult{Done: true}, nil
	case errors.Is(err, ErrConflict):
		j.tell(nil)
		return twophase.AppendResult{Refused: true}, nil
	case errors.Is(err, ErrUnknown):
		j.tell(err)
		return twophase.AppendResult{Unknown: true}, nil
	}
	j.tell(err)
	return twophase.AppendResult{}, err
}

// after adds the entry before a position, which was folded, to the condition of its put.
func (j *Journal) after(cond Condition, pos twophase.Position) Condition {
	if pos == 0 {
		return cond
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if rev, ok := j.revisions[pos-1]; ok {
		return cond.After(j.key(pos-1), rev)
	}
	return cond
}

// putAll makes write-once values durable before the entry. An unknown put is
// repeated: the bytes are the same.
func (j *Journal) putAll(ctx context.Context, writes []Write) error {
	var group sync.WaitGroup
	errs := make([]error, len(writes))
	for i, w := range writes {
		group.Go(func() {
			wait := minRetry
			for {
				if _, errs[i] = j.store.Put(ctx, w.Key, w.Value, Always()); errs[i] != nil {
					j.tell(errs[i])
				}
				if !errors.Is(errs[i], ErrUnknown) || !sleep(ctx, wait) {
					return
				}
				wait = min(2*wait, maxRetry)
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("write payloads: %w", err)
	}
	return nil
}

// replaces is the revision of entry pos-M, which the entry at pos replaces; free is
// false if the slot does not hold it any more.
func (j *Journal) replaces(ctx context.Context, pos twophase.Position) (rev Revision, free bool, err error) {
	old := pos - j.Slots()
	j.mu.Lock()
	rev, free = j.revisions[old]
	j.mu.Unlock()
	if free {
		return rev, true, nil
	}
	s, err := j.read(ctx, pos)
	if err != nil {
		return "", false, err
	}
	switch j.state(pos, s) {
	case twophase.SlotFree:
		return s.revision, true, nil
	case twophase.SlotShort:
		return "", false, ErrShort
	default: // filled, or passed
		return "", false, nil
	}
}

func (j *Journal) get(ctx context.Context, pos twophase.Position) (twophase.AppendResult, error) {
	entry, err := j.Read(ctx, pos)
	switch {
	case err == nil:
		return twophase.AppendResult{Entry: entry}, nil
	case errors.Is(err, ErrNotFilled):
		return twophase.AppendResult{}, nil
	case errors.Is(err, ErrBehind):
		return twophase.AppendResult{Behind: true}, nil
	}
	return twophase.AppendResult{}, err
}
