package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// recovered is what a start goes on from.
type recovered struct {
	state  *twophase.State
	behind *begunEntries
	// older: it had to be a checkpoint before the newest, which cannot be read.
	older bool
}

// recover loads the newest checkpoint that the journal names, while the entries behind it
// are being read. Another replica may record a newer one meanwhile, and remove objects of
// the one that is being loaded.
func (c *Catalog) recover(ctx context.Context) (recovered, error) {
	at, err := c.newestCheckpoint(ctx)
	for err == nil {
		behind := c.beginEntries(ctx, at.Position)
		state, failed := c.loadCheckpoint(ctx, at)
		if failed == nil {
			return recovered{state: state, behind: behind}, nil
		}
		behind.end()
		was := at
		if at, err = c.newestCheckpoint(ctx); err == nil && at == was {
			if state, err = c.recoverBefore(ctx, at, failed); err == nil {
				return recovered{state, c.beginEntries(ctx, state.Next()), true}, nil
			}
		}
	}
	return recovered{}, err
}

func (c *Catalog) loadCheckpoint(ctx context.Context, at twophase.Checkpointed) (*twophase.State, error) {
	if at.Object.Name == "" {
		meta := c.journal.Meta()
		return twophase.NewState(meta.Catalog, meta.Incarnation), nil
	}
	index, err := c.readCheckpoint(ctx, at.Object)
	if err != nil {
		return nil, err
	}
	refs, err := twophase.CheckpointSegments(index)
	if err != nil {
		return nil, err
	}
	segments := make([]*twophase.Segment, len(refs))
	err = parallelIndex(len(refs), segmentsAhead, func(i int) error {
		b, err := c.readCheckpoint(ctx, refs[i])
		if err == nil {
			segments[i], err = twophase.DecodeSegment(b)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return twophase.LoadCheckpoint(index, segments)
}

// segmentsAhead is how many segments are read and decoded at once: over a network reading
// them is what a start with a long history waits for.
const segmentsAhead = 64

// newestCheckpoint is the one that the journal's last entry knows of, in its header
// or among its records.
func (c *Catalog) newestCheckpoint(ctx context.Context) (at twophase.Checkpointed, err error) {
	next, err := c.journal.Next(ctx)
	c.startHead = next
	if err != nil || next == 0 {
		return at, damagedEntry(err)
	}
	raw, err := c.journal.Read(ctx, next-1)
	if err != nil {
		return at, damagedEntry(err)
	}
	last, err := twophase.DecodeEntry(raw)
	if err != nil {
		return at, damagedEntry(fmt.Errorf("entry %d: %w", next-1, err))
	}
	at = last.Checkpoint
	for _, r := range last.Records {
		if cp, ok := r.(*twophase.Checkpointed); ok && cp.Position >= at.Position {
			at = *cp
		}
	}
	return at, nil
}

// damagedEntry says what to do about an entry whose bytes are not those that were written.
func damagedEntry(err error) error {
	if !errors.Is(err, twophase.ErrDamaged) {
		return err
	}
	return &Error{Reason: JournalContradiction, Cause: err, Message: "the catalog takes no writes, since its journal is damaged" + because(err) +
		": " + damagedRemedy}
}

const damagedRemedy = "put the store's item back, from a version or a backup of it, and start the servers again; if there is none, stop all servers " +
	"and run txcoord rebuild (docs/operations.md, When the journal is lost)"

func (c *Catalog) readCheckpoint(ctx context.Context, ref twophase.ObjectRef) ([]byte, error) {
	b, err := c.own.get(ctx, "checkpoints/"+ref.Name)
	if err != nil {
		return nil, err
	}
	if err := ref.Check(b); err != nil {
		return nil, fmt.Errorf("%w: %w", errBadCheckpoint, err)
	}
	return b, nil
}

// errBadCheckpoint: the bytes of a checkpoint's object are not those that were written.
var errBadCheckpoint = errors.New("is damaged")

// recoverBefore recovers where objects of the newest checkpoint are gone or damaged:
// from the one before it, which stays until there is a newer one, or from the first
// entry, as far as the ring still holds the entries behind it. The fold that comes of
// that names the bad one still, until a checkpoint is written: at once (build).
func (c *Catalog) recoverBefore(ctx context.Context, newest twophase.Checkpointed, failed error) (*twophase.State, error) {
	for at, err := newest, failed; ; {
		if !errors.Is(err, objstore.ErrNotFound) && !errors.Is(err, errBadCheckpoint) {
			return nil, fmt.Errorf("checkpoint at %d: %w", at.Position, err) // it may be there
		}
		var ok bool
		if at, ok, err = c.checkpointBefore(ctx, at); err != nil {
			return nil, err
		}
		if !ok {
			return nil, &Error{
				Reason: JournalContradiction, Cause: failed,
				Message: fmt.Sprintf("the checkpoint %s of the journal %s, and the journal does not hold what was before it: put the object back, "+
					"from a version or a backup of the warehouse, or stop all servers and run txcoord rebuild (docs/operations.md, When the journal is lost)",
					c.own.key("checkpoints/"+newest.Object.Name), wrongWith(failed)),
			}
		}
		var state *twophase.State
		if state, err = c.loadCheckpoint(ctx, at); err == nil {
			c.log.Warn("the newest checkpoint of the journal cannot be read; an older one can, and a new one is written",
				"checkpoint", newest.Object.Name, "position", newest.Position, "older", at.Position, "error", failed)
			return state, nil
		}
	}
}

// checkpointBefore is the one that was the newest when a checkpoint was made; not ok if
// there was none, or if the ring has gone past the entries behind it.
func (c *Catalog) checkpointBefore(ctx context.Context, at twophase.Checkpointed) (before twophase.Checkpointed, ok bool, err error) {
	if at.Position == 0 {
		return before, false, nil
	}
	raw, err := c.journal.Read(ctx, at.Position-1)
	if errors.Is(err, lock.ErrBehind) {
		return before, false, nil
	}
	if err != nil {
		return before, false, damagedEntry(err)
	}
	e, err := twophase.DecodeEntry(raw)
	if err != nil {
		return before, false, damagedEntry(err)
	}
	_, err = c.journal.Read(ctx, e.Checkpoint.Position)
	if errors.Is(err, lock.ErrBehind) {
		return before, false, nil
	}
	return e.Checkpoint, err == nil, damagedEntry(err)
}

func wrongWith(err error) string {
	if errors.Is(err, errBadCheckpoint) {
		return errBadCheckpoint.Error()
	}
	return "is gone"
}
