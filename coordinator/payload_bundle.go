package coordinator

import (
	"context"
	"errors"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// bundled returns a piece out of a bundle. Who needs one piece of it most likely needs the
// others: all are kept, and the bundle is read once for all who ask meanwhile.
func (ps *payloads) bundled(ctx context.Context, l located) (*payload, error) {
	for {
		wait, mine := ps.load(l.in)
		if mine {
			return ps.loadBundle(ctx, l)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if p := ps.inMemory(l.payloadID); p != nil {
			return p, nil
		}
	}
}

// load says whether the caller is to read a bundle; if not, when to look again.
func (ps *payloads) load(id twophase.BundleID) (wait <-chan struct{}, mine bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ch, busy := ps.loading[id]; busy {
		return ch, false
	}
	ps.loading[id] = make(chan struct{})
	return nil, true
}

func (ps *payloads) loaded(id twophase.BundleID) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	close(ps.loading[id])
	delete(ps.loading, id)
}

func (ps *payloads) loadBundle(ctx context.Context, l located) (*payload, error) {
	defer ps.loaded(l.in)
	pieces, err := ps.readBundle(ctx, l.in)
	if err != nil {
		return nil, err
	}
	var found *payload
	for _, u := range pieces {
		u.piece.place = inStore
		ps.keep(u.id, u.piece)
		if u.id == l.payloadID {
			found = u.piece
		}
	}
	if found == nil {
		return nil, errNoPayload
	}
	return found, nil
}

func (ps *payloads) readBundle(ctx context.Context, id twophase.BundleID) ([]unpacked, error) {
	item, err := ps.store.Get(ctx, bundleKey(id))
	if errors.Is(err, lock.ErrNotFound) {
		return nil, errNoPayload
	}
	if err != nil {
		return nil, away(ctx, StoreUnavailable, "the catalog's store", err)
	}
	pieces, err := unpack(item.Value)
	if err != nil {
		return nil, err
	}
	ids := make([]payloadID, len(pieces))
	for i := range pieces {
		ids[i] = pieces[i].id
	}
	ps.holds(id, ids)
	return pieces, nil
}

// holdingAtMost bounds how many bundles' contents are in memory. Others are read again.
const holdingAtMost = 4096

// holds notes what is in a bundle.
func (ps *payloads) holds(id twophase.BundleID, ids []payloadID) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.holding[id] = ids
	for other := range ps.holding {
		if len(ps.holding) <= holdingAtMost {
			break
		}
		delete(ps.holding, other)
	}
}

// contents says what is in a bundle; errNoPayload if there is none. One that this process
// removed is not read to see that: its last piece may be settled while it goes.
func (ps *payloads) contents(ctx context.Context, id twophase.BundleID) ([]payloadID, error) {
	ps.mu.Lock()
	ids, ok := ps.holding[id]
	ps.mu.Unlock()
	switch {
	case ok && ids == nil:
		return nil, errNoPayload
	case ok:
		return ids, nil
	}
	pieces, err := ps.readBundle(ctx, id)
	for i := range pieces {
		ids = append(ids, pieces[i].id)
	}
	return ids, err
}

// removeBundle deletes a bundle for good, once nothing in it is needed (R20).
func (ps *payloads) removeBundle(ctx context.Context, id twophase.BundleID, ids []payloadID) error {
	ps.forget(ids)
	err := ps.store.Delete(ctx, bundleKey(id))
	if err == nil {
		ps.holds(id, nil)
	}
	return err
}
