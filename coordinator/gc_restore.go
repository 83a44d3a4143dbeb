package coordinator

import (
	"bytes"
	"context"
	"strings"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// RestoreRequest names a quarantine.
type RestoreRequest struct {
	Run string
	// DryRun says what would be put back, and writes nothing.
	DryRun bool
}

// RestoreReport says what was put back, or would be.
type RestoreReport struct {
	DryRun bool
	Count  int
	Bytes  int64
	// Taken are keys that hold something else by now: they and their copies stay as they
	// are. At most garbageListed.
	Taken []string
	// Refused are keys of nothing that CollectGarbage takes away: somebody else has put
	// them into the quarantine, and there they stay. At most garbageListed.
	Refused []string
	// Kept is set if the copies stay beside what was put back: the call that filled this
	// quarantine is at work, or did not end well, and may remove once more what is back.
	Kept bool
}

// RestoreGarbage puts back what one call of CollectGarbage has put aside. Nothing is
// overwritten. A copy goes when its original is back, unless the run may still be filled
// (quarantineMark). It may break off anywhere and be called again.
func (c *Catalog) RestoreGarbage(ctx context.Context, q RestoreRequest) (r RestoreReport, err error) {
	if q.Run == "" || strings.ContainsAny(q.Run, "/\x00") || q.Run == "." || q.Run == ".." {
		return r, fieldError("run", q.Run, "is no name of a quarantine", "take one that the gc command lists")
	}
	if err := c.collecting.take(ctx); err != nil {
		return r, err
	}
	defer c.collecting.give()
	if err := c.mayCollect(ctx); err != nil {
		return r, err
	}
	r.DryRun = q.DryRun
	prefix := c.own.key(quarantineFolder+"/"+q.Run) + "/"
	var all []objstore.Entry
	linked := func(key string) { r.Refused = listed(r.Refused, strings.TrimPrefix(key, prefix)) }
	for e, err := range c.own.store.List(ctx, objstore.ListOptions{Prefix: prefix, Linked: linked}) {
		if err != nil {
			return r, c.objectsError("", err)
		}
		if e.Key != prefix+quarantineMark {
			all = append(all, e)
		}
	}
	if len(all)+len(r.Refused) == 0 {
		return r, fieldError("run", q.Run, "is no quarantine of this catalog, or was put back whole", "take one that the gc command lists")
	}
	if r.Kept, err = c.filling(ctx, q.Run); err != nil {
		return r, err
	}
	for _, e := range all {
		if err := c.restore(ctx, e, strings.TrimPrefix(e.Key, prefix), &r); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (c *Catalog) restore(ctx context.Context, e objstore.Entry, name string, r *RestoreReport) (err error) {
	if !c.collectable(name) {
		r.Refused = listed(r.Refused, name)
		return nil
	}
	back := true
	if !r.DryRun {
		if back, err = c.putBack(ctx, e.Key, name, r.Kept); err != nil {
			return err
		}
	}
	if back {
		r.Count, r.Bytes = r.Count+1, r.Bytes+e.Size
	} else {
		r.Taken = listed(r.Taken, name)
	}
	return nil
}

func listed(names []string, name string) []string {
	if len(names) < garbageListed {
		names = append(names, name)
	}
	return names
}

// collectable reports whether a thing in quarantine lay where CollectGarbage takes from.
// Whoever may write to the warehouse may put anything into a quarantine, and its names
// choose where it goes: never into this life's journal, nor among the manifests.
func (c *Catalog) collectable(name string) bool {
	if key, ok := strings.CutPrefix(name, quarantineStore); ok {
		switch folder, _, _ := strings.Cut(key, "/"); folder + "/" {
		case payKeys:
			_, _, ok = parseItem(key)
		case openKeys:
			_, err := twophase.ParseTxnID(strings.TrimPrefix(key, openKeys))
			ok = err == nil
		case ringKeys:
			life := ringLife(key)
			ok = life != "" && key != ringKeys+life && !strings.HasPrefix(key, c.journal.Prefix())
		default:
			ok = false
		}
		return ok
	}
	key, ok := strings.CutPrefix(name, quarantineObjects)
	kind, _, known := objectKind(key)
	return ok && known && kind != GarbageQuarantined
}

// putBack puts one thing where it was, and then takes its copy away if it may.
func (c *Catalog) putBack(ctx context.Context, copied, name string, keep bool) (bool, error) {
	b, _, err := c.own.store.Get(ctx, copied, objstore.Range{})
	if err != nil {
		return false, c.objectsError("", err)
	}
	var have []byte
	if key, ok := strings.CutPrefix(name, quarantineStore); ok {
		have, err = c.keyBack(ctx, key, b)
	} else if key, ok := strings.CutPrefix(name, quarantineObjects); ok {
		if err = c.own.putOnce(ctx, key, b); err == nil {
			have, err = c.own.get(ctx, key)
		}
		err = c.objectsError("", err)
	}
	if err != nil || !bytes.Equal(have, b) {
		return false, err
	}
	if keep {
		return true, nil
	}
	return true, c.objectsError("", c.own.store.Delete(ctx, copied))
}

// keyBack makes sure that a key of the store is there, and says what it holds.
func (c *Catalog) keyBack(ctx context.Context, key string, b []byte) ([]byte, error) {
	if err := c.payloads.putOnce(ctx, &lock.Write{Key: key, Value: b}); err != nil {
		return nil, c.storeError(err)
	}
	item, err := c.cfg.Store.Get(ctx, key)
	return item.Value, c.storeError(err)
}

// manifestsFolder is where the manifests lie, below the catalog's folder.
const manifestsFolder = "manifests/"

// objectKind says of what kind an object of the catalog's folder may be, by its key there;
// and of a part, whose.
func objectKind(key string) (kind GarbageKind, part payloadID, known bool) {
	folder, name, _ := strings.Cut(key, "/")
	switch folder {
	case "staged":
		part, known = parsePayload(name)
		return GarbagePart, part, known
	case "facts":
		return GarbageFacts, part, true
	case "checkpoints":
		return GarbageCheckpoint, part, true
	case strings.TrimSuffix(extractsFolder, "/"):
		return GarbageExtract, part, tableIDForm.MatchString(name)
	case quarantineFolder:
		return GarbageQuarantined, part, true
	}
	return "", part, false
}
