package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// sighting is what an entry says of a version.
type sighting struct {
	// identity is zero where nobody saw the commit.
	identity twophase.Hash
}

// fold reads the journal up to its head: from the first entry if the ring still holds
// it, else from the newest checkpoint, and the entries in front of that for their chain
// and for what they saw. False: the journal is broken, and nothing rests on it.
func (f *fsck) fold(ctx context.Context) (bool, error) {
	head, err := f.c.journal.Next(ctx)
	if err != nil {
		return f.damaged(err)
	}
	from := twophase.Position(0)
	if slots := f.c.journal.Slots(); head > slots {
		from = head - slots
	}
	checkpoint, err := f.checkpoint(ctx)
	if err != nil {
		return f.damaged(err)
	}
	if from == 0 {
		meta := f.c.journal.Meta()
		f.state = twophase.NewState(meta.Catalog, meta.Incarnation)
	} else if f.state = checkpoint; checkpoint == nil {
		return false, nil
	}
	f.report.From = from
	if ok, err := f.chain(ctx, from, head, checkpoint); !ok || err != nil {
		return ok, err
	}
	return f.foldOn(ctx)
}

// checkpoint loads the newest one; nil if its objects are not what they should be.
func (f *fsck) checkpoint(ctx context.Context) (*twophase.State, error) {
	at, err := f.c.newestCheckpoint(ctx)
	for err == nil {
		state, bad, failed := f.load(ctx, at)
		if failed != nil || bad == nil {
			return state, failed
		}
		was := at
		if at, err = f.c.newestCheckpoint(ctx); err == nil && at == was {
			f.found(FsckFinding{Code: FsckCheckpoint, Version: twophase.NoVersion, What: fmt.Sprintf("checkpoint at %d: %v", at.Position, bad)})
			return nil, nil
		}
	}
	return nil, err
}

// load loads a checkpoint. bad says what is wrong with its objects; failed, that the
// warehouse did not answer.
func (f *fsck) load(ctx context.Context, at twophase.Checkpointed) (s *twophase.State, bad, failed error) {
	if at.Object.Name == "" {
		meta := f.c.journal.Meta()
		return twophase.NewState(meta.Catalog, meta.Incarnation), nil, nil
	}
	get := func(ref twophase.ObjectRef) ([]byte, error) {
		b, err := f.c.own.get(ctx, "checkpoints/"+ref.Name)
		if err != nil && !errors.Is(err, objstore.ErrNotFound) {
			failed = err
		}
		if err != nil {
			return nil, err
		}
		return b, ref.Check(b)
	}
	index, bad := get(at.Object)
	if bad == nil {
		s, bad = twophase.DecodeCheckpoint(index, get)
	}
	if errors.Is(bad, twophase.ErrUnknownRecord) {
		failed = fmt.Errorf("the checkpoint was written by a newer build; use that one: %w", bad)
	}
	return s, bad, failed
}

// chain reads entries, each of which has to name the one before it, and folds those
// that the state has not seen.
func (f *fsck) chain(ctx context.Context, from, head twophase.Position, checkpoint *twophase.State) (bool, error) {
	var previous twophase.Hash
	for ; from < head; from += fsckWindow {
		window := make([][]byte, min(fsckWindow, head-from))
		err := parallelIndex(len(window), fsckReads, func(i int) (err error) {
			window[i], err = f.c.journal.Read(ctx, from+twophase.Position(i))
			return err
		})
		if errors.Is(err, lock.ErrShort) || errors.Is(err, lock.ErrNotFilled) {
			return f.broken(fmt.Errorf("an entry from %d on is not there: %w", from, err)), nil
		}
		if err != nil {
			return f.damaged(err)
		}
		for i, raw := range window {
			at := from + twophase.Position(i)
			if checkpoint != nil && checkpoint.Next() == at && previous != (twophase.Hash{}) && checkpoint.Previous() != previous {
				return f.broken(fmt.Errorf("the checkpoint at %d is of another history than entry %d", at, at-1)), nil
			}
			ok, err := f.entry(at, raw, previous)
			if !ok || err != nil {
				return ok, err
			}
			previous = twophase.HashOf(raw)
		}
	}
	return true, nil
}

// fsckWindow is how many entries are held at once.
const fsckWindow = 256

// entry takes one entry, whose predecessor's hash is known unless it is zero.
func (f *fsck) entry(at twophase.Position, raw []byte, previous twophase.Hash) (bool, error) {
	e, err := twophase.DecodeEntry(raw)
	if errors.Is(err, twophase.ErrUnknownRecord) {
		return false, fmt.Errorf("entry %d of the journal was written by a newer build; use that one: %w", at, err)
	}
	meta := f.c.journal.Meta()
	switch {
	case err != nil:
		return f.broken(fmt.Errorf("entry %d: %w", at, err)), nil
	case e.Position != at, e.Catalog != meta.Catalog, e.Incarnation != meta.Incarnation:
		return f.broken(fmt.Errorf("in the place of entry %d stands entry %d of catalog %s, incarnation %s", at, e.Position, e.Catalog, e.Incarnation)), nil
	case !previous.IsZero() && e.Previous != previous:
		return f.broken(fmt.Errorf("entry %d names predecessor %.8s, and entry %d is %.8s", at, e.Previous, at-1, previous)), nil
	}
	f.note(e)
	if at < f.state.Next() {
		return true, nil
	}
	if err := f.state.Apply(e, twophase.HashOf(raw)); err != nil {
		return f.broken(err), nil
	}
	return true, nil
}

// damaged tells an entry that is none from a store that does not answer.
func (f *fsck) damaged(err error) (bool, error) {
	if errors.Is(err, twophase.ErrDamaged) {
		return f.broken(err), nil
	}
	return false, err
}

func (f *fsck) broken(err error) bool {
	f.found(FsckFinding{Code: FsckJournal, Version: twophase.NoVersion, What: err.Error()})
	return false
}

// foldOn folds what has been appended since.
func (f *fsck) foldOn(ctx context.Context) (bool, error) {
	for {
		at := f.state.Next()
		raw, err := f.c.journal.Read(ctx, at)
		switch {
		case errors.Is(err, lock.ErrNotFilled):
			return true, nil
		case errors.Is(err, lock.ErrShort):
			return f.broken(err), nil
		case err != nil:
			return f.damaged(err)
		}
		if ok, err := f.entry(at, raw, f.state.Previous()); !ok || err != nil {
			return ok, err
		}
	}
}

// note keeps what the records of an entry say of versions. Those that the fold ignores
// saw the same log.
func (f *fsck) note(e *twophase.Entry) {
	eachSeen(e, f.saw)
	for _, r := range e.Records {
		if r, ok := r.(*twophase.Range); ok {
			f.ranges[r.Table] = append(f.ranges[r.Table], versionSpan{r.From, r.To})
		}
	}
}

func (f *fsck) saw(id twophase.TableID, v twophase.Version, identity twophase.Hash) {
	if f.seen[id] == nil {
		f.seen[id] = map[twophase.Version][]sighting{}
	}
	f.seen[id][v] = append(f.seen[id][v], sighting{identity})
}
