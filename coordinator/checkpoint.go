package coordinator

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// checkpoints writes the fold as objects now and then, and names them in the
// journal (R1), so that a start reads a bounded number of entries and the ring
// never fills.
//
// Several replicas do so on one journal, and each removes what its newest checkpoint
// does not need. So one counts on the objects of an earlier checkpoint only while
// that is its own and the newest; after another's it writes all objects anew, under
// the names of a new series. A checkpoint that was begun before another's record is
// refused by the fold.
type checkpoints struct {
	c     *Catalog
	ready chan struct{}
	// last is the newest checkpoint of this replica's, and known are its objects.
	last  twophase.Checkpointed
	known map[string]bool
	// series goes into the names of objects.
	series string
	// records were folded since the newest checkpoint, under the ledger's lock.
	records int
	// heavy is how many there are to be at least: where one checkpoint writes much, as with
	// many tables of long histories, more entries share it.
	heavy atomic.Int64
}

// bytesPerRecord is how much a checkpoint may write for each record since the one before it,
// unless it is due by its distance.
const bytesPerRecord = 2048

func newCheckpoints(c *Catalog) *checkpoints {
	return &checkpoints{c: c, ready: make(chan struct{}, 1), known: map[string]bool{}}
}

// look says that an entry was folded. The ledger's lock is held. A start folds what came
// after the checkpoint record by record, and large groups make few entries of many: so
// both count.
func (k *checkpoints) look(e *twophase.Entry) {
	k.records += len(e.Records)
	for _, r := range e.Records {
		if _, ok := r.(*twophase.Checkpointed); ok {
			k.records = 0
		}
	}
	if k.due(k.c.ledger.state) {
		k.hurry()
	}
}

// due reports whether a checkpoint is to be written. The ledger's lock is held.
func (k *checkpoints) due(s *twophase.State) bool {
	entries, records := k.every(), max(k.c.cfg.Limits.CheckpointRecords, int(k.heavy.Load()))
	if !k.c.wrote.has(s.Next() - 1) {
		entries, records = entries+entries/2, records+records/2 // first those who append
	}
	return s.Next()-1-s.Checkpoint().Position >= entries || k.records >= records
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
		if err := k.write(ctx); err != nil {
			if ctx.Err() == nil {
				k.c.log.Warn("write a checkpoint of the fold", "error", err)
			}
			continue
		}
		k.settle()
	}
}

// settle forgets who asked for a checkpoint while one was written, unless another is due.
func (k *checkpoints) settle() {
	select {
	case <-k.ready:
	default:
	}
	again := false
	k.c.ledger.read(func(s *twophase.State) { again = k.due(s) })
	if again {
		k.hurry()
	}
}

func (k *checkpoints) write(ctx context.Context) error {
	rec, index, segments := k.encode()
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
	before, began := k.known, k.c.cfg.Now()
	var refused *twophase.Refused
	err := k.c.submitFetching(ctx, twophase.Request{Record: &rec})
	if errors.As(err, &refused) && refused.Reason == twophase.ReasonStale {
		return nil // another replica's is newer
	}
	if err != nil {
		return k.c.storeError(err)
	}
	if len(before) > 0 { // the first of a series writes what later ones find there
		k.heavy.Store(bytesOf(missing) / bytesPerRecord)
	}
	k.last, k.known = rec, map[string]bool{index.Ref.Name: true}
	for _, o := range segments {
		k.known[o.Ref.Name] = true
	}
	k.c.ledger.read(func(s *twophase.State) { s.Stored(segments) })
	if err := k.tidy(ctx, before, began); err != nil && ctx.Err() == nil {
		k.c.log.Warn("remove older checkpoints of the fold", "error", err) // the newest is there, and that is what counts
	}
	return nil
}

func bytesOf(objects []twophase.CheckpointObject) (n int64) {
	for _, o := range objects {
		n += int64(len(o.Bytes))
	}
	return n
}

// encode is the present fold as a checkpoint, and the record of it.
func (k *checkpoints) encode() (rec twophase.Checkpointed, index twophase.CheckpointObject, segments []twophase.CheckpointObject) {
	k.c.ledger.read(func(s *twophase.State) {
		if k.series == "" || s.Checkpoint() != k.last {
			k.series, k.known = uuid.NewString()[:8], map[string]bool{}
		}
		index, segments = s.EncodeCheckpoint(k.series)
		rec = twophase.Checkpointed{Position: s.Next(), Object: index.Ref}
	})
	return rec, index, segments
}

// checkpointGrace is how long an object of a checkpoint stays that the newest one
// does not need: somebody who read the name before may still be loading it. It is
// also how far the clocks of a replica and the object store may differ.
const checkpointGrace = 10 * time.Minute

// tidy removes objects that were older than the grace when the newest checkpoint was
// about to be recorded. Who has folded that record, and makes a newer checkpoint,
// writes its objects later than that.
func (k *checkpoints) tidy(ctx context.Context, before map[string]bool, began time.Time) error {
	prefix := k.c.own.key("checkpoints/")
	for e, err := range k.c.own.store.List(ctx, objstore.ListOptions{Prefix: prefix}) {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(e.Key, prefix)
		if k.known[name] || before[name] || began.Sub(e.Modified) < checkpointGrace {
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

// hurry asks for a checkpoint now.
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
