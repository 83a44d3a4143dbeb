package contend

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/txcoord/txcoord/bench/measure"
	"github.com/txcoord/txcoord/lock"
)

// OpenKeys opens the key-value store of a folder.
type OpenKeys func(dir string) (lock.Store, error)

// Bare is no way to commit but the floor under one: two appends to the store, one
// after the other, and one put per table, all at once; before them the payloads, where
// the store writes one key at a time. It is what a transaction
// that answers PUBLISHED cannot do without, and nothing else.
type Bare struct {
	Objects OpenObjects
	Keys    OpenKeys
}

// Name is "bare".
func (Bare) Name() string { return "bare" }

// Open makes fresh tables and a fresh store.
func (c Bare) Open(ctx context.Context, dir string, tables int) (Session, error) {
	s, err := c.OpenBare(ctx, dir, tables)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// OpenBare is Open, for callers that want the times of the two halves.
func (c Bare) OpenBare(ctx context.Context, dir string, tables int) (*BareSession, error) {
	b, err := openBaseline(ctx, c.Objects, dir, tables)
	if err != nil {
		return nil, err
	}
	keys, err := c.Keys(dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &BareSession{
		seqSession: newSeqSession(b),
		keys:       CountKeys(keys, b.counter),
		revisions:  make([]lock.Revision, ringSlots),
	}
	return s, s.fillRing(ctx)
}

// ringSlots is the number of keys that appends go round. The journal's ring is
// larger; what an append costs does not depend on it once all slots are filled.
const ringSlots = 64

// BareSession is Bare with its tables.
type BareSession struct {
	*seqSession
	turn      sync.Mutex
	keys      lock.Store
	revisions []lock.Revision
	next      int
	timesMu   sync.Mutex
	// appends are the times of two appends, puts those of all puts of a transaction.
	appends, puts measure.Samples
}

// fillRing fills the slots, so that every later append replaces one, as in a
// journal that has been running for a while.
func (s *BareSession) fillRing(ctx context.Context) error {
	for i := range s.revisions {
		r, err := s.keys.Put(ctx, slotKey(i), make([]byte, 256), lock.IfAbsent())
		if err != nil {
			return fmt.Errorf("fill ring: %w", err)
		}
		s.revisions[i] = r
	}
	return nil
}

func slotKey(i int) string { return fmt.Sprintf("ring/1/%08d", i) }

// Commit appends, puts, and appends again: the order of a transaction's decision,
// publication and closing.
func (s *BareSession) Commit(ctx context.Context, w Work) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	start := time.Now()
	if err := s.stage(ctx, w); err != nil {
		return err
	}
	if err := s.append(ctx, len(w.Tables)); err != nil {
		return err
	}
	decided := time.Now()
	versions, err := s.putAll(ctx, w)
	if err != nil {
		return err
	}
	published := time.Now()
	if err := s.append(ctx, len(w.Tables)); err != nil {
		return err
	}
	s.record(decided.Sub(start)+time.Since(published), published.Sub(decided))
	s.note(&s.committed, w.transaction(versions))
	return nil
}

// stage puts the payloads, all at once, where the store cannot take them along with
// the append.
func (s *BareSession) stage(ctx context.Context, w Work) error {
	if _, ok := s.keys.(lock.Batcher); ok {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, t := range w.Tables {
		g.Go(func() error {
			_, err := s.keys.Put(ctx, fmt.Sprintf("pay/%s/%d", w.ID(), t), w.AddLine(), lock.Always())
			return err
		})
	}
	return g.Wait()
}

// append replaces the next slot with an entry of about the size that a commit or
// a publication of so many tables has.
func (s *BareSession) append(ctx context.Context, tables int) error {
	i := s.next % ringSlots
	s.next++
	r, err := s.keys.Put(ctx, slotKey(i), make([]byte, 300+200*tables), lock.IfRevision(s.revisions[i]))
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	s.revisions[i] = r
	return nil
}

func (s *BareSession) putAll(ctx context.Context, w Work) ([]int64, error) {
	versions := make([]int64, len(w.Tables))
	g, ctx := errgroup.WithContext(ctx)
	for i, t := range w.Tables {
		s.latest[t]++
		versions[i] = s.latest[t]
		g.Go(func() error {
			return s.objects.PutIfAbsent(ctx, commitKey(t, versions[i]), w.commitFile(versions[i]))
		})
	}
	return versions, g.Wait()
}

func (s *BareSession) record(appends, puts time.Duration) {
	s.timesMu.Lock()
	defer s.timesMu.Unlock()
	s.appends, s.puts = append(s.appends, appends), append(s.puts, puts)
}

// Halves are the times of the two appends and of the puts, per transaction.
func (s *BareSession) Halves() (appends, puts measure.Samples) {
	s.timesMu.Lock()
	defer s.timesMu.Unlock()
	return s.appends, s.puts
}

// Close closes the store.
func (s *BareSession) Close() error { return s.keys.Close() }
