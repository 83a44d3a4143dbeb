package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// payloadID names a staged piece. Two transactions with equal bytes share nothing (R20).
type payloadID struct {
	Begun  twophase.Position
	Txn    twophase.TxnID
	Table  twophase.TableID
	Digest twophase.Digest
}

// key of a payload in the store. Begin position first, so that a sweep can go by
// age; the shard in front of it spreads the keys over partitions (C1).
func (p payloadID) key() string {
	return fmt.Sprintf("pay/%02d/%020d/%s/%s/%s", p.Digest[0]%64, p.Begun, p.Txn, p.Table, p.Digest)
}

// object name of a payload that is too large for the store.
func (p payloadID) object() string {
	return fmt.Sprintf("staged/%020d/%s/%s/%s", p.Begun, p.Txn, p.Table, p.Digest)
}

// payload is a staged piece: what it was staged for, and the client's lines byte
// for byte.
type payload struct {
	head    payloadHead
	actions []byte
	// parsed is set where this process parsed the piece already.
	parsed *tables.Actions
	place  place
	// durable: it was written, or read, by this process.
	durable bool
}

// place says where a payload is durable, or will be.
type place uint8

const (
	placeUnknown place = iota
	inStore
	inObject
)

// payloadHead stands in front of the lines, as one line of JSON.
type payloadHead struct {
	Format     int              `json:"format"`
	Table      twophase.TableID `json:"table"`
	MetaDataID string           `json:"metaDataId"`
	// Staged stands for the schema and properties that the piece was checked against.
	Staged tables.Fingerprint     `json:"staged"`
	Read   tables.ReadDeclaration `json:"read"`
	// Create describes the table that the piece belongs to, if its transaction creates it.
	Create *tables.NewTableSpec `json:"create,omitempty"`
}

const payloadFormat = 1

func (p *payload) encode() ([]byte, error) {
	head, err := json.Marshal(p.head)
	if err != nil {
		return nil, err
	}
	return append(append(head, '\n'), p.actions...), nil
}

// decodePayload answers errDamaged for what no build has written, and another error for
// what a newer one may have.
func decodePayload(b []byte) (*payload, error) {
	line, rest, ok := bytes.Cut(b, []byte{'\n'})
	p := &payload{actions: rest}
	if !ok {
		return nil, fmt.Errorf("%w: it has no header", errDamaged)
	}
	if err := json.Unmarshal(line, &p.head); err != nil {
		return nil, fmt.Errorf("%w: its header: %w", errDamaged, err)
	}
	if p.head.Format != payloadFormat {
		return nil, fmt.Errorf("staged payload of format %d, this build knows %d", p.head.Format, payloadFormat)
	}
	return p, nil
}

func (p *payload) digest() twophase.Digest {
	in := tables.DigestInput{Table: p.head.Table, MetaDataID: p.head.MetaDataID, Read: p.head.Read, Actions: p.actions}
	if p.head.Create != nil {
		in.Options = p.head.Create.Options()
	}
	return tables.Digest(in)
}

// payloads keeps staged pieces: durable in the store or as objects, and in memory
// as far as there is room.
type payloads struct {
	store  lock.Store
	own    *ownObjects
	inline int
	room   int64

	mu    sync.Mutex
	m     map[payloadID]*payload
	order []payloadID
	bytes int64

	// holding says what is in bundles that this process wrote or read, so that they need
	// not be read to be removed, and nil of those that it removed; loading has those that are being read.
	holding map[twophase.BundleID][]payloadID
	loading map[twophase.BundleID]chan struct{}
}

func newPayloads(store lock.Store, own *ownObjects, l Limits) *payloads {
	return &payloads{
		store: store, own: own, inline: l.InlineBytes, room: l.QueueBytes, m: map[payloadID]*payload{},
		holding: map[twophase.BundleID][]payloadID{}, loading: map[twophase.BundleID]chan struct{}{},
	}
}

// prepare makes a large payload durable; a small one it returns as what has to be
// durable before the decision, or together with it.
func (ps *payloads) prepare(ctx context.Context, id payloadID, p *payload) (*packed, error) {
	b, err := p.encode()
	if err != nil {
		return nil, err
	}
	if p.place = inStore; len(b) > ps.inline {
		p.place = inObject
	}
	ps.keep(id, p)
	if p.place == inStore {
		return &packed{id, b}, nil
	}
	return nil, ps.own.putOnce(ctx, id.object(), b)
}

// stage makes a payload durable. The same bytes again write nothing.
func (ps *payloads) stage(ctx context.Context, id payloadID, p *payload) error {
	if ps.isDurable(id) {
		return nil
	}
	small, err := ps.prepare(ctx, id, p)
	if err == nil && small != nil {
		err = ps.putOnce(ctx, &lock.Write{Key: id.key(), Value: small.bytes})
	}
	if err == nil {
		ps.mu.Lock()
		p.durable = true
		ps.mu.Unlock()
	}
	return err
}

func (ps *payloads) isDurable(id payloadID) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p, ok := ps.m[id]
	return ok && p.durable
}

// putOnce writes what a key names by its digest: an existing value is the same.
func (ps *payloads) putOnce(ctx context.Context, w *lock.Write) error {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		_, err := ps.store.Put(ctx, w.Key, w.Value, lock.IfAbsent())
		switch {
		case errors.Is(err, lock.ErrConflict):
			return nil
		case !errors.Is(err, lock.ErrUnknown):
			return err
		}
		if pause(ctx, wait); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// keep holds a payload in memory; the oldest make room. Everything here is, or
// will be before it is decided, durable elsewhere.
func (ps *payloads) keep(id payloadID, p *payload) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if old, ok := ps.m[id]; ok && (old.durable || !p.durable) {
		return
	}
	ps.dropLocked(id)
	ps.m[id] = p
	ps.order = append(ps.order, id)
	ps.bytes += p.cost()
	for ps.bytes > ps.room && len(ps.order) > 1 {
		ps.dropLocked(ps.order[0])
		ps.order = ps.order[1:]
	}
}

// cost is what a payload holds of memory; parsed actions are about twice their lines.
func (p *payload) cost() int64 {
	n := int64(len(p.actions)) + 512
	if p.parsed != nil {
		n += 2 * int64(len(p.actions))
	}
	return n
}

func (ps *payloads) dropLocked(id payloadID) {
	if p, ok := ps.m[id]; ok {
		ps.bytes -= p.cost()
		delete(ps.m, id)
	}
}

// forget drops payloads from memory.
func (ps *payloads) forget(ids []payloadID) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, id := range ids {
		ps.dropLocked(id)
	}
	if len(ps.order) > 2*len(ps.m)+64 {
		kept := ps.order[:0]
		for _, id := range ps.order {
			if _, ok := ps.m[id]; ok {
				kept = append(kept, id)
			}
		}
		ps.order = kept
	}
}

var (
	// errNoPayload: nothing is stored under the digest.
	errNoPayload = errors.New("no such staged part")
	// errDamaged: what is stored under the digest is not what was staged.
	errDamaged = errors.New("the staged part is damaged")
)

// get returns a piece of a decided transaction, from memory or from where it is durable.
// Its digest is checked: what was changed or cut is an error, never published.
func (ps *payloads) get(ctx context.Context, l located) (*payload, error) {
	if p := ps.inMemory(l.payloadID); p != nil {
		return p, nil
	}
	if l.in.IsZero() {
		return ps.single(ctx, l.payloadID)
	}
	return ps.bundled(ctx, l)
}

// staged returns a piece of a transaction that is not decided, which has to be durable by
// itself: what a one-call commit brought and nobody recorded is in memory only.
func (ps *payloads) staged(ctx context.Context, id payloadID) (*payload, error) {
	if ps.isDurable(id) {
		if p := ps.inMemory(id); p != nil {
			return p, nil
		}
	}
	return ps.single(ctx, id)
}

func (ps *payloads) inMemory(id payloadID) *payload {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.m[id]
}

// single reads a piece that lies by itself.
func (ps *payloads) single(ctx context.Context, id payloadID) (*payload, error) {
	b, place, err := ps.read(ctx, id)
	if err != nil {
		return nil, err
	}
	p, err := decodePayload(b)
	if err != nil {
		return nil, err
	}
	if got := p.digest(); got != id.Digest {
		return nil, fmt.Errorf("%w: its digest is %s, and has to be %s", errDamaged, got, id.Digest)
	}
	p.place, p.durable = place, true
	ps.keep(id, p)
	return p, nil
}

func (ps *payloads) read(ctx context.Context, id payloadID) ([]byte, place, error) {
	item, err := ps.store.Get(ctx, id.key())
	if err == nil {
		return item.Value, inStore, nil
	}
	if !errors.Is(err, lock.ErrNotFound) {
		return nil, placeUnknown, away(ctx, StoreUnavailable, "the catalog's store", err)
	}
	b, err := ps.own.get(ctx, id.object())
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, placeUnknown, errNoPayload
	}
	return b, inObject, away(ctx, ObjectsUnavailable, "the warehouse", err)
}

// away is the error of a place that did not answer: it says nothing of what is there.
func away(ctx context.Context, reason Reason, place string, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return &Error{Reason: reason, Message: place + " cannot be used now; repeat the call", Cause: err}
}

// removeAtOnce is how many payloads are deleted at a time: stores that commit what
// waits together pay one commit for all of them.
const removeAtOnce = 256

// remove deletes payloads that lie by themselves for good, where they are: in that place, or, if it is not
// known, where memory has them from. Only ever called on the fold's word (R20).
func (ps *payloads) remove(ctx context.Context, at place, pieces []located) error {
	places, ids := make([]place, len(pieces)), make([]payloadID, len(pieces))
	ps.mu.Lock()
	for i := range pieces {
		ids[i] = pieces[i].payloadID
		if places[i] = at; at != placeUnknown {
			continue
		}
		if p, ok := ps.m[ids[i]]; ok {
			places[i] = p.place
		}
	}
	ps.mu.Unlock()
	ps.forget(ids)
	return parallelIndex(len(ids), removeAtOnce, func(i int) error {
		var err error
		if places[i] != inObject {
			err = ps.store.Delete(ctx, ids[i].key())
		}
		if places[i] != inStore {
			err = errors.Join(err, ps.own.store.Delete(ctx, ps.own.key(ids[i].object())))
		}
		return err
	})
}
