package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// checkpoints learns which objects the newest checkpoint and the one before it need: a
// start counts on both. While that cannot be read, objects of checkpoints stay.
func (g *collector) checkpoints(ctx context.Context) error {
	newest, err := g.c.newestCheckpoint(ctx)
	if err != nil {
		return g.c.storeError(err)
	}
	if newest.Object.Name == "" {
		return nil // the first one may be on its way
	}
	needed := map[string]bool{}
	at, ok := newest, true
	for range 2 {
		if !ok {
			break
		}
		refs, err := g.c.checkpointRefs(ctx, at.Object)
		switch {
		case errors.Is(err, objstore.ErrNotFound), errors.Is(err, errBadCheckpoint):
			g.skip("objects of checkpoints: the checkpoint %s %s", at.Object.Name, wrongWith(err))
			return nil
		case err != nil:
			return g.c.objectsError("", err)
		}
		for _, ref := range append(refs, at.Object) {
			needed[ref.Name] = true
		}
		if at, ok, err = g.c.checkpointBefore(ctx, at); err != nil {
			return g.c.storeError(err)
		}
		ok = ok && at.Object.Name != ""
	}
	g.needed = needed
	return nil
}

// checkpointRefs are the segments of a checkpoint.
func (c *Catalog) checkpointRefs(ctx context.Context, index twophase.ObjectRef) ([]twophase.ObjectRef, error) {
	b, err := c.readCheckpoint(ctx, index)
	if err != nil {
		return nil, err
	}
	return twophase.CheckpointSegments(b)
}

// findInStore goes through the keys of the catalog's store, but for the journal's own.
func (g *collector) findInStore(ctx context.Context) error {
	looks := []struct {
		prefix string
		look   func(lock.Item)
	}{{payKeys, g.storedPart}, {openKeys, g.openRecord}}
	for _, l := range looks {
		if err := scanKeys(ctx, g.c.cfg.Store, l.prefix, l.look); err != nil {
			return g.c.storeError(err)
		}
	}
	if !g.q.FormerJournals {
		return nil
	}
	return g.formerJournals(ctx)
}

func (g *collector) storedPart(it lock.Item) {
	id, in, ok := parseItem(it.Key)
	parts := []located{{payloadID: id}}
	if ok && !in.IsZero() {
		pieces, err := unpack(it.Value)
		parts, ok = nil, err == nil // what cannot be read is left to the sweeper
		for _, u := range pieces {
			parts = append(parts, located{u.id, in})
		}
	}
	if !ok {
		g.unknown(it.Key, int64(len(it.Value)))
		return
	}
	g.weigh(garbage{Garbage: Garbage{Kind: GarbagePart, Key: it.Key, InStore: true, Bytes: int64(len(it.Value))}, key: it.Key, parts: parts})
}

func (g *collector) openRecord(it lock.Item) {
	var rec openRecord
	id, err := twophase.ParseTxnID(strings.TrimPrefix(it.Key, openKeys))
	if err != nil || json.Unmarshal(it.Value, &rec) != nil {
		g.unknown(it.Key, int64(len(it.Value)))
		return
	}
	g.weigh(garbage{
		Garbage: Garbage{Kind: GarbageOpen, Key: it.Key, InStore: true, Bytes: int64(len(it.Value))}, key: it.Key,
		txn: id, begun: twophase.Position(rec.Position),
	})
}

// entryOf is the entry in a value of a ring.
func entryOf(value []byte) (*twophase.Entry, error) {
	raw, err := lock.Unpack(value)
	if err != nil {
		return nil, err
	}
	return twophase.DecodeEntry(raw)
}

// ringKeys are those of the journals of all incarnations.
const ringKeys = "ring/"

// formerJournals finds the rings of other incarnations, by the age of their newest entry.
func (g *collector) formerJournals(ctx context.Context) error {
	newest, odd := map[string]twophase.Time{}, map[string]bool{}
	var all []garbage
	err := scanKeys(ctx, g.c.cfg.Store, ringKeys, func(it lock.Item) {
		life := ringLife(it.Key)
		if strings.HasPrefix(it.Key, g.c.journal.Prefix()) {
			return
		}
		e, err := entryOf(it.Value)
		if err != nil || life == "" || e.Incarnation != life {
			odd[life] = true
			return
		}
		newest[life] = max(newest[life], e.Time)
		all = append(all, garbage{Garbage: Garbage{Kind: GarbageJournal, Key: it.Key, InStore: true, Bytes: int64(len(it.Value))}, key: it.Key})
	})
	if err != nil {
		return g.c.storeError(err)
	}
	for _, it := range all {
		life := ringLife(it.Key)
		if odd[life] {
			g.unknown(it.Key, it.Bytes)
			continue
		}
		it.modified = newest[life].Std()
		g.weigh(it)
	}
	return nil
}

// ringLife is the incarnation that a key of a ring is of.
func ringLife(key string) string {
	life, _, _ := strings.Cut(strings.TrimPrefix(key, ringKeys), "/")
	return life
}

// findObjects goes through the catalog's folder. Manifests stay: they are its history.
func (g *collector) findObjects(ctx context.Context) error {
	root := g.c.own.key("")
	linked := func(key string) {
		g.skip("%s: it is a symbolic link, which is not followed: put what it stands for in its place, if that is the catalog's, or else remove it", strings.TrimPrefix(key, root))
	}
	for e, err := range g.c.own.store.List(ctx, objstore.ListOptions{Prefix: root, Linked: linked}) {
		if err != nil {
			return g.c.objectsError("", err)
		}
		it := garbage{Garbage: Garbage{Key: strings.TrimPrefix(e.Key, root), Bytes: e.Size}, key: e.Key, etag: e.ETag, modified: e.Modified}
		if strings.HasPrefix(it.Key, manifestsFolder) {
			continue
		}
		var part payloadID
		var known bool
		if it.Kind, part, known = objectKind(it.Key); it.Kind == GarbagePart {
			it.parts = []located{{payloadID: part}}
		}
		if !known {
			g.unknown(e.Key, e.Size)
			continue
		}
		g.weigh(it)
	}
	return nil
}

// unlinked leaves symbolic links alone; gc has named them.
func unlinked(string) {}

// findDrafts looks below the catalog's folder and below the logs of its tables. Only
// folders have any.
func (g *collector) findDrafts(ctx context.Context) error {
	if err := g.draftsBelow(ctx, g.c.own.store, g.c.own.prefix); err != nil {
		return g.c.objectsError("", err)
	}
	for _, row := range g.c.logFolders() {
		store, key, err := g.c.cfg.Objects.Open(row.URI)
		if err != nil {
			g.skip("drafts of table %s: its place is not open to this server", row.Name)
			continue
		}
		if err := g.draftsBelow(ctx, store, logFolder(key)); err != nil {
			return g.c.objectsError(row.URI, err)
		}
	}
	return nil
}

func (g *collector) draftsBelow(ctx context.Context, store objstore.Store, folder string) error {
	found, err := objstore.Drafts(ctx, store, folder, g.minAge)
	for _, e := range found {
		g.note(garbage{
			Garbage: Garbage{Kind: GarbageDraft, Key: e.Key, Bytes: e.Size, Age: g.age(e.Modified), Why: "left of a put whose process died"},
			store:   store, key: e.Key,
		})
	}
	return err
}

// logFolders are the tables whose logs this catalog writes.
func (c *Catalog) logFolders() (rows []TableInfo) {
	c.ledger.read(func(s *twophase.State) {
		for _, t := range s.Tables() {
			rows = append(rows, infoOf(t))
		}
	})
	return rows
}

func logFolder(table string) string {
	if table == "" {
		return "_delta_log"
	}
	return table + "/_delta_log"
}

func (g *collector) age(at time.Time) time.Duration { return g.c.cfg.Now().Sub(at) }

// weigh judges something for the first time.
func (g *collector) weigh(it garbage) {
	why, age, verdict := g.judge(&it)
	switch verdict {
	case goes:
		it.Why, it.Age = why, age
		// What stays for its size takes no place from what is behind it.
		if limit := g.c.cfg.Limits.GarbageObjectBytes; it.Bytes > limit && it.Kind != GarbageQuarantined {
			g.skip("%s of %d bytes: limit gc_object_bytes is %d", it.Key, it.Bytes, limit)
			return
		}
		g.note(it)
	case tooYoung:
		g.young(it.Bytes)
	case stays:
	}
}

// verdict on something that was found.
type verdict uint8

const (
	stays verdict = iota
	tooYoung
	goes
)

// judge is the fold's word on something, as it stands now, and that of its age.
func (g *collector) judge(it *garbage) (why string, age time.Duration, v verdict) {
	limit := g.minAge
	switch it.Kind {
	case GarbagePart:
		why, age = g.judgePart(it)
	case GarbageOpen:
		why, age = g.c.settledFor(it.txn, it.begun)
	case GarbageFacts:
		if !g.named.of(g.c)[strings.TrimPrefix(it.Key, "facts/")] {
			why = "no record names it"
		}
		age = g.age(it.modified)
	case GarbageCheckpoint:
		if g.judgeCheckpoint(strings.TrimPrefix(it.Key, "checkpoints/")) {
			why = "neither the newest checkpoint of the journal needs it nor the one before"
		}
		age = g.age(it.modified)
	case GarbageExtract:
		if id := strings.TrimPrefix(it.Key, extractsFolder); !(extracts{g.c, twophase.TableID(id)}).wanted() {
			why = "its table is not in the catalog"
		}
		age = g.age(it.modified)
	case GarbageJournal:
		why, age = fmt.Sprintf("incarnation %s was given up", ringLife(it.Key)), g.age(it.modified)
	case GarbageDraft: // by its age alone, where it lies
	case GarbageQuarantined:
		why, age, limit = "its time in quarantine is over", g.age(it.modified), g.keepFor
		if isMark(it.Key) {
			limit = max(limit, g.minAge) // whoever put it may be at work
		}
		if age < limit {
			return "", age, stays // not garbage yet: it is listed as a quarantine
		}
	}
	switch {
	case why == "":
		return "", age, stays
	case age < limit:
		return why, age, tooYoung
	}
	return why, age, goes
}

// judgePart: a bundle goes with the last part in it, and is as old as the youngest.
func (g *collector) judgePart(it *garbage) (why string, age time.Duration) {
	for i, part := range it.parts {
		one, since := g.judgeOne(part, it)
		if one == "" {
			return "", 0
		}
		if i == 0 || since < age {
			why, age = one, since
		}
	}
	return why, age
}

func (g *collector) judgeOne(part located, it *garbage) (why string, age time.Duration) {
	if g.c.sweeper.mayGo(part) {
		return g.c.settledFor(part.Txn, part.Begun)
	}
	if part.Begun > g.c.next() && !it.InStore {
		// See sweeper.outlived; the object's age says how long it is there at least.
		return "it is of the life before a rebuild", g.age(it.modified)
	}
	if g.c.openTxns.orphaned(part.Txn) {
		// It expires when a transaction would that began when its first part was found.
		return fmt.Sprintf("nobody knows transaction %s, and it has not expired", part.Txn), 0
	}
	return "", 0
}

// settledFor says since when nothing can happen to a transaction any more, as far as the
// fold remembers it, and why; empty if something can.
func (c *Catalog) settledFor(txn twophase.TxnID, begun twophase.Position) (why string, age time.Duration) {
	var since twophase.Time
	c.ledger.read(func(s *twophase.State) {
		o := s.Outcome(txn)
		floor, at := s.Floor()
		switch {
		case o != nil && o.Abort != nil:
			why, since = fmt.Sprintf("transaction %s is aborted", txn), o.Time
		case o != nil && s.MaySweep(txn, begun):
			why, since = fmt.Sprintf("transaction %s is published", txn), o.Time
		case o != nil:
			why, since = fmt.Sprintf("transaction %s is committed, and does not name it", txn), o.Time
		case begun < floor:
			why, since = fmt.Sprintf("transaction %s is forgotten", txn), at
		}
	})
	return why, c.cfg.Now().Sub(since.Std())
}

// judgeCheckpoint: a series whose objects the newest checkpoint has belongs to a replica
// that may name one of its older objects again, and removes them itself (checkpoints.tidy).
func (g *collector) judgeCheckpoint(name string) bool {
	if g.needed == nil || g.needed[name] {
		return false
	}
	series := func(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }
	for of := range g.needed {
		if series(of) == series(name) {
			return false
		}
	}
	return true
}

// namedFacts are the objects with facts that the fold names, as of a position.
type namedFacts struct {
	at    twophase.Position
	names map[string]bool
}

func (n *namedFacts) of(c *Catalog) map[string]bool {
	if next := c.next(); n.names == nil || n.at != next {
		n.at, n.names = next, c.namedFacts()
	}
	return n.names
}

// namedFacts are the objects with conflict facts that the fold names.
func (c *Catalog) namedFacts() map[string]bool {
	named := map[string]bool{}
	c.ledger.read(func(s *twophase.State) {
		for _, t := range s.Tables() {
			for p := range t.Past {
				named[p.FactsRef.Name] = true
			}
		}
	})
	return named
}

// quarantines are what earlier calls have put aside, the oldest first.
func (c *Catalog) quarantines(ctx context.Context) (out []Quarantine, err error) {
	prefix := c.own.key(quarantineFolder + "/")
	for e, err := range c.own.store.List(ctx, objstore.ListOptions{Prefix: prefix, Linked: unlinked}) {
		if err != nil {
			return nil, c.objectsError("", err)
		}
		run, name, _ := strings.Cut(strings.TrimPrefix(e.Key, prefix), "/")
		if name == quarantineMark {
			continue
		}
		i := slices.IndexFunc(out, func(q Quarantine) bool { return q.Run == run })
		if i < 0 {
			i, out = len(out), append(out, Quarantine{Run: run})
		}
		out[i].Count, out[i].Bytes = out[i].Count+1, out[i].Bytes+e.Size
		if e.Modified.After(out[i].Since) {
			out[i].Since = e.Modified
		}
	}
	return out, nil
}
