package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// eachSeen yields what the records of an entry say of versions; the identity is zero where
// nobody saw the commit. Records that the fold ignores saw the same log.
func eachSeen(e *twophase.Entry, saw func(twophase.TableID, twophase.Version, twophase.Hash)) {
	all := func(id twophase.TableID, found []twophase.FoundVersion) {
		for _, v := range found {
			saw(id, v.Version, v.Identity)
		}
	}
	for _, r := range e.Records {
		switch r := r.(type) {
		case *twophase.Published:
			for _, t := range r.Tables {
				all(t.Table, t.Versions)
			}
		case *twophase.Foreign:
			all(r.Table, r.Found)
			saw(r.Table, r.Version, r.Identity)
		case *twophase.Barrier:
			all(r.Table, r.Found)
			saw(r.Table, r.Version, r.Identity)
		case *twophase.Range:
			saw(r.Table, r.To, r.Identity)
		case *twophase.Rebuilt:
			for i := range r.Tables {
				saw(r.Tables[i].Table, r.Tables[i].Version, r.Tables[i].Identity)
			}
		case *twophase.Registered:
			saw(r.Table, r.Version, r.Identity)
		case *twophase.Created:
			saw(r.Table, r.Version, r.Identity)
		}
	}
}

// identities are those of the versions that entries in the ring name, as fsck reads them.
// The fold itself knows the newest one of each table only. Entries come as they are folded;
// those in front of the fold's checkpoint are read once, when somebody asks.
type identities struct {
	mu sync.Mutex
	// of has a zero identity where entries do not agree, or nobody saw the commit.
	of map[twophase.TableID]map[twophase.Version]recordedAs
	// from is the oldest entry that was noted, next the one after the newest.
	from, next twophase.Position
	any        bool
	filling    sync.Mutex
}

type recordedAs struct {
	identity twophase.Hash
	at       twophase.Position
}

func newIdentities() *identities {
	return &identities{of: map[twophase.TableID]map[twophase.Version]recordedAs{}}
}

// note takes an entry as it is folded, and forgets what the ring does not hold any more.
func (i *identities) note(e *twophase.Entry, slots twophase.Position) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.any {
		i.any, i.from = true, e.Position
	}
	i.next = e.Position + 1
	i.takeLocked(e)
	if i.next%max(slots/4, 1) == 0 && i.next > slots {
		i.forgetLocked(i.next - slots)
	}
}

func (i *identities) takeLocked(e *twophase.Entry) {
	eachSeen(e, func(id twophase.TableID, v twophase.Version, identity twophase.Hash) {
		of := i.of[id]
		if of == nil {
			of = map[twophase.Version]recordedAs{}
			i.of[id] = of
		}
		if was, ok := of[v]; ok && was.identity != identity {
			identity = twophase.Hash{}
		}
		of[v] = recordedAs{identity, e.Position}
	})
}

func (i *identities) forgetLocked(below twophase.Position) {
	for id, of := range i.of {
		for v, r := range of {
			if r.at < below {
				delete(of, v)
			}
		}
		if len(of) == 0 {
			delete(i.of, id)
		}
	}
	i.from = max(i.from, below)
}

// identitiesOf are what is known of a table's versions, once the ring was read as far back
// as it goes.
func (c *Catalog) identitiesOf(ctx context.Context, id twophase.TableID) (func(twophase.Version) (twophase.Hash, bool), error) {
	if err := c.fillIdentities(ctx); err != nil {
		return nil, err
	}
	return c.recorded.noted(id), nil
}

// noted are what is known of a table's versions by now.
func (i *identities) noted(id twophase.TableID) func(twophase.Version) (twophase.Hash, bool) {
	return func(v twophase.Version) (twophase.Hash, bool) {
		i.mu.Lock()
		defer i.mu.Unlock()
		r, ok := i.of[id][v]
		return r.identity, ok && !r.identity.IsZero()
	}
}

// fillIdentities reads the entries in front of those that were folded here, once. The ring
// may go past them meanwhile.
func (c *Catalog) fillIdentities(ctx context.Context) error {
	i := c.recorded
	i.filling.Lock()
	defer i.filling.Unlock()
	next := c.next()
	i.mu.Lock()
	to := i.from
	if !i.any {
		to = next
	}
	i.mu.Unlock()
	from := twophase.Position(0)
	if slots := c.journal.Slots(); next > slots {
		from = next - slots
	}
	for ; from < to; from += fsckWindow {
		window := make([]*twophase.Entry, min(fsckWindow, to-from))
		err := parallelIndex(len(window), fsckReads, func(n int) error {
			raw, err := c.journal.Read(ctx, from+twophase.Position(n))
			if errors.Is(err, lock.ErrBehind) {
				return nil
			}
			if err != nil {
				return c.storeError(err)
			}
			window[n], err = twophase.DecodeVersions(raw)
			return err
		})
		if err != nil {
			return fmt.Errorf("read what was recorded of versions: %w", err)
		}
		i.mu.Lock()
		for _, e := range window {
			if e != nil {
				i.takeLocked(e)
			}
		}
		i.mu.Unlock()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.from = 0; !i.any {
		i.any, i.next = true, to
	}
	return nil
}

// isAltered reports whether a log is not followed because a commit is not the recorded one.
func isAltered(err error) bool {
	fault, ok := errors.AsType[*tables.LogError](err)
	return ok && fault.Fault == tables.Altered
}
