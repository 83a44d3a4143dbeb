package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

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
}

// payloadHead stands in front of the lines, as one line of JSON.
type payloadHead struct {
	Format     int                    `json:"format"`
	Table      twophase.TableID       `json:"table"`
	MetaDataID string                 `json:"metaDataId"`
	Read       tables.ReadDeclaration `json:"read"`
}

const payloadFormat = 1

func (p *payload) encode() ([]byte, error) {
	head, err := json.Marshal(p.head)
	if err != nil {
		return nil, err
	}
	return append(append(head, '\n'), p.actions...), nil
}

func decodePayload(b []byte) (*payload, error) {
	line, rest, ok := bytes.Cut(b, []byte{'\n'})
	p := &payload{actions: rest}
	if !ok {
		return nil, errors.New("staged payload has no header")
	}
	if err := json.Unmarshal(line, &p.head); err != nil {
		return nil, fmt.Errorf("staged payload's header: %w", err)
	}
	if p.head.Format != payloadFormat {
		return nil, fmt.Errorf("staged payload of format %d, this build knows %d", p.head.Format, payloadFormat)
	}
	return p, nil
}

func (p *payload) digest() twophase.Digest {
	return tables.Digest(tables.DigestInput{Table: p.head.Table, MetaDataID: p.head.MetaDataID, Read: p.head.Read, Actions: p.actions})
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
}

func newPayloads(store lock.Store, own *ownObjects, l Limits) *payloads {
	return &payloads{store: store, own: own, inline: l.InlineBytes, room: l.QueueBytes, m: map[payloadID]*payload{}}
}

// prepare makes a large payload durable; for a small one it returns the write that
// has to be durable before the decision, or together with it.
func (ps *payloads) prepare(ctx context.Context, id payloadID, p *payload) (*lock.Write, error) {
	b, err := p.encode()
	if err != nil {
		return nil, err
	}
	ps.keep(id, p)
	if len(b) <= ps.inline {
		return &lock.Write{Key: id.key(), Value: b}, nil
	}
	return nil, ps.own.putOnce(ctx, id.object(), b)
}

// stage makes a payload durable. Repeating it writes the same bytes.
func (ps *payloads) stage(ctx context.Context, id payloadID, p *payload) error {
	w, err := ps.prepare(ctx, id, p)
	if err != nil || w == nil {
		return err
	}
	for {
		_, err := ps.store.Put(ctx, w.Key, w.Value, lock.Always())
		if !errors.Is(err, lock.ErrUnknown) || ctx.Err() != nil {
			return err
		}
	}
}

// keep holds a payload in memory; the oldest make room. Everything here is, or
// will be before it is decided, durable elsewhere.
func (ps *payloads) keep(id payloadID, p *payload) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if _, ok := ps.m[id]; ok {
		return
	}
	ps.m[id] = p
	ps.order = append(ps.order, id)
	ps.bytes += int64(len(p.actions))
	for ps.bytes > ps.room && len(ps.order) > 1 {
		ps.dropLocked(ps.order[0])
		ps.order = ps.order[1:]
	}
}

func (ps *payloads) dropLocked(id payloadID) {
	if p, ok := ps.m[id]; ok {
		ps.bytes -= int64(len(p.actions))
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

// errNoPayload: nothing is stored under the digest.
var errNoPayload = errors.New("no such staged part")

// get returns a staged piece, from memory or from where it is durable. Its digest
// is checked: what was changed or cut is an error, never published.
func (ps *payloads) get(ctx context.Context, id payloadID) (*payload, error) {
	ps.mu.Lock()
	p, ok := ps.m[id]
	ps.mu.Unlock()
	if ok {
		return p, nil
	}
	b, err := ps.read(ctx, id)
	if err != nil {
		return nil, err
	}
	if p, err = decodePayload(b); err != nil {
		return nil, err
	}
	if got := p.digest(); got != id.Digest {
		return nil, fmt.Errorf("staged part %s has changed: its digest is %s", id.Digest, got)
	}
	ps.keep(id, p)
	return p, nil
}

func (ps *payloads) read(ctx context.Context, id payloadID) ([]byte, error) {
	item, err := ps.store.Get(ctx, id.key())
	if err == nil {
		return item.Value, nil
	}
	if !errors.Is(err, lock.ErrNotFound) {
		return nil, err
	}
	b, err := ps.own.get(ctx, id.object())
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, errNoPayload
	}
	return b, err
}

// remove deletes payloads for good. Only ever called on the fold's word (R20).
func (ps *payloads) remove(ctx context.Context, ids []payloadID) error {
	ps.forget(ids)
	return parallel(ids, 64, func(id payloadID) error {
		return errors.Join(ps.store.Delete(ctx, id.key()), ps.own.store.Delete(ctx, ps.own.key(id.object())))
	})
}
