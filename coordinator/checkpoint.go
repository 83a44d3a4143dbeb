package coordinator

import (
	"context"
	"strings"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// checkpoints writes the fold as objects now and then, and names them in the
// journal (R1), so that a start reads a bounded number of entries and the ring
// never fills.
type checkpoints struct {
	c     *Catalog
	ready chan struct{}
	// known are segments that are durable already.
	known map[string]bool
}

func newCheckpoints(c *Catalog) *checkpoints {
	return &checkpoints{c: c, ready: make(chan struct{}, 1), known: map[string]bool{}}
}

// look says that an entry was folded. The ledger's lock is held.
func (k *checkpoints) look(at twophase.Position) {
	if at-k.c.ledger.state.Checkpoint().Position < k.every() {
		return
	}
	select {
	case k.ready <- struct{}{}:
	default:
	}
}

// every is the distance at which a checkpoint is due: by configuration, and early
// enough that it can be written before half the ring is used and appends slow down.
func (k *checkpoints) every() twophase.Position {
	return min(twophase.Position(k.c.cfg.Limits.CheckpointEvery), max(k.c.journal.Slots()/4, 1))
}

func (k *checkpoints) run(ctx context.Context) {
	for {
		select {
		case <-k.ready:
		case <-ctx.Done():
			return
		}
		if err := k.write(ctx); err != nil && ctx.Err() == nil {
			k.c.log.Warn("write a checkpoint of the fold", "error", err)
		}
	}
}

func (k *checkpoints) write(ctx context.Context) error {
	var index twophase.CheckpointObject
	var segments []twophase.CheckpointObject
	var at twophase.Position
	k.c.ledger.read(func(s *twophase.State) {
		index, segments = s.EncodeCheckpoint()
		at = s.Next()
	})
	var missing []twophase.CheckpointObject
	for _, o := range segments {
		if !k.known[o.Ref.Name] {
			missing = append(missing, o)
		}
	}
	put := func(o twophase.CheckpointObject) error {
		return k.c.own.putOnce(ctx, "checkpoints/"+o.Ref.Name, o.Bytes)
	}
	if err := parallel(missing, 8, put); err != nil {
		return err
	}
	if err := put(index); err != nil {
		return err
	}
	before := k.known
	k.known = map[string]bool{index.Ref.Name: true}
	for _, o := range segments {
		k.known[o.Ref.Name] = true
	}
	if err := k.c.adminRecord(ctx, &twophase.Checkpointed{Position: at, Object: index.Ref}); err != nil {
		return err
	}
	return k.tidy(ctx, before)
}

// checkpointGrace is how long an object of a checkpoint stays that the newest one
// does not need: somebody who read the name before may still be loading it.
const checkpointGrace = 10 * time.Minute

// tidy removes objects of older checkpoints.
func (k *checkpoints) tidy(ctx context.Context, before map[string]bool) error {
	prefix := k.c.own.key("checkpoints/")
	for e, err := range k.c.own.store.List(ctx, objstore.ListOptions{Prefix: prefix}) {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(e.Key, prefix)
		if k.known[name] || before[name] || k.c.cfg.Now().Sub(e.Modified) < checkpointGrace {
			continue
		}
		if err := k.c.own.store.Delete(ctx, e.Key); err != nil {
			return err
		}
	}
	return nil
}

// distance is how many entries the newest checkpoint is behind.
func (k *checkpoints) distance() (d twophase.Position) {
	k.c.ledger.read(func(s *twophase.State) { d = s.Next() - s.Checkpoint().Position })
	return d
}

// full reports whether only a checkpoint record may be appended: no entry is put
// at distance M, and the last eighth of the ring is kept for it (R1).
func (k *checkpoints) full() bool {
	may := false
	k.c.ledger.read(func(s *twophase.State) {
		may = k.c.journal.Ring().MayAppend(s.Next(), s.Checkpoint().Position, false)
	})
	if !may {
		k.hurry()
	}
	return !may
}

func (k *checkpoints) hurry() {
	select {
	case k.ready <- struct{}{}:
	default:
	}
}

// pace makes the appender wait longer as the distance to the newest checkpoint
// grows (R1): larger groups, so that a stalled object store slows commits before it
// can block them.
func (k *checkpoints) pace(ctx context.Context) {
	half := k.c.journal.Slots() / 2
	distance := k.distance()
	if distance <= half {
		return
	}
	k.hurry()
	over := float64(distance-half) / float64(half)
	pause(ctx, time.Duration(over*over*float64(100*time.Millisecond)))
}
