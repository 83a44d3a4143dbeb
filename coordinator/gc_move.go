package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
)

// quarantineFolder is where things lie that were put aside, below the catalog's folder:
// quarantine/<run>/objects/<key below the catalog's folder> and
// quarantine/<run>/store/<key of the store>. Beside them lies the mark of a run that is
// being filled (gc_mark.go).
const (
	quarantineFolder  = "quarantine"
	quarantineObjects = "objects/"
	quarantineStore   = "store/"
)

// remove puts something into quarantine, or removes what has been there long enough.
// Object stores know no rename, so it is copied, looked at, judged once more by a fold
// that is read anew, and only then removed where it was. A process that dies between
// leaves it in both places: the next call begins with it again, and the copy expires.
func (g *collector) remove(ctx context.Context, it *garbage) (gone bool, err error) {
	switch {
	case it.Kind == GarbageDraft:
		return g.removeDraft(ctx, it)
	case it.Kind == GarbageQuarantined:
		return g.removeObject(ctx, it)
	case it.InStore:
		return g.moveKey(ctx, it)
	}
	return g.moveObject(ctx, it)
}

// still judges something for the last time, by the newest fold.
func (g *collector) still(ctx context.Context, it *garbage) (bool, error) {
	if err := g.c.mayCollect(ctx); err != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _, v := g.judge(it)
	return v == goes, nil
}

// moveKey moves a key of the store. Its value is write-once, or advisory.
func (g *collector) moveKey(ctx context.Context, it *garbage) (bool, error) {
	item, err := g.c.cfg.Store.Get(ctx, it.key)
	if errors.Is(err, lock.ErrNotFound) {
		return false, nil // somebody else has removed it
	}
	if err != nil {
		return false, g.c.storeError(err)
	}
	if err := g.copyAside(ctx, quarantineStore+it.key, item.Value); err != nil {
		return false, err
	}
	if ok, err := g.still(ctx, it); err != nil || !ok {
		return false, err
	}
	return true, g.removed(g.c.storeError(g.c.cfg.Store.Delete(ctx, it.key)))
}

func (g *collector) moveObject(ctx context.Context, it *garbage) (bool, error) {
	b, info, err := g.c.own.store.Get(ctx, it.key, objstore.Range{})
	if errors.Is(err, objstore.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, g.c.objectsError("", err)
	}
	it.etag, it.modified = info.ETag, info.Modified // as it was read, and no other
	if err := g.copyAside(ctx, quarantineObjects+it.Key, b); err != nil {
		return false, err
	}
	return g.removeObject(ctx, it)
}

// removeObject removes an object that is still the one that was judged.
func (g *collector) removeObject(ctx context.Context, it *garbage) (bool, error) {
	if ok, err := g.still(ctx, it); err != nil || !ok {
		return false, err
	}
	info, err := g.c.own.store.Stat(ctx, it.key)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return false, nil
	case err != nil:
		return false, g.c.objectsError("", err)
	case info.ETag != it.etag || !info.Modified.Equal(it.modified):
		return false, nil // another one came under this name
	}
	return true, g.removed(g.c.objectsError("", g.c.own.store.Delete(ctx, it.key)))
}

// copyAside makes sure that a copy is in quarantine, whole.
func (g *collector) copyAside(ctx context.Context, name string, b []byte) error {
	name = quarantineFolder + "/" + g.run + "/" + name
	if err := g.c.own.putOnce(ctx, name, b); err != nil {
		return g.c.objectsError("", err)
	}
	have, err := g.c.own.get(ctx, name)
	if err == nil && !bytes.Equal(have, b) {
		err = fmt.Errorf("%s is not what was put there", name)
	}
	return g.c.objectsError("", err)
}

// removeDraft removes one that has not been written to since it was found. It was never
// an object, so no quarantine takes it.
func (g *collector) removeDraft(ctx context.Context, it *garbage) (bool, error) {
	gone, err := objstore.RemoveDraft(ctx, it.store, it.key, g.minAge)
	return gone, g.c.objectsError("", err)
}
