package contend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/txcoord/txcoord/e2e/checker"
	"github.com/txcoord/txcoord/tables/objstore"
)

// OpenObjects opens the object store that holds a folder's tables.
type OpenObjects func(dir string) (objstore.Store, error)

// baseline is a session of a contender that puts commit files by itself.
type baseline struct {
	books
	objects objstore.Store // whose requests are counted
	counter *Counter
	dir     string
	tables  int
}

func openBaseline(ctx context.Context, open OpenObjects, dir string, tables int) (*baseline, error) {
	s, err := open(dir)
	if err != nil {
		return nil, err
	}
	if err := createTables(ctx, s, tables); err != nil {
		return nil, err
	}
	counter := &Counter{}
	return &baseline{objects: CountObjects(s, counter), counter: counter, dir: dir, tables: tables}, nil
}

func (b *baseline) Requests() Requests           { return b.counter.Requests() }
func (b *baseline) Settle(context.Context) error { return nil }
func (b *baseline) Books() checker.Run           { return b.run(b.dir, b.tables) }
func (b *baseline) Close() error                 { return nil }

// Seq commits the tables of a transaction one after the other, each with one put,
// and those that share a table one after the other: a lock of each table around plain
// Delta commits. Nobody retries, and nothing is atomic over tables.
type Seq struct{ Objects OpenObjects }

// Name is "seq".
func (Seq) Name() string { return "seq" }

// Open makes fresh tables.
func (c Seq) Open(ctx context.Context, dir string, tables int) (Session, error) {
	b, err := openBaseline(ctx, c.Objects, dir, tables)
	if err != nil {
		return nil, err
	}
	return newSeqSession(b), nil
}

// Replaces says that sessions take such work.
func (Seq) Replaces() {}

type seqSession struct {
	*baseline
	// turns are the locks of the tables, and latest their newest versions.
	turns  []sync.Mutex
	latest []int64
	// replaced are the paths that were removed, under mu.
	mu       sync.Mutex
	replaced map[string]bool
}

func newSeqSession(b *baseline) *seqSession {
	return &seqSession{baseline: b, turns: make([]sync.Mutex, b.tables), latest: make([]int64, b.tables), replaced: map[string]bool{}}
}

// lock takes the locks of tables, in an order that all have in common, and returns what
// gives them back.
func (s *seqSession) lock(tables []int) (unlock func()) {
	order := slices.Sorted(slices.Values(tables))
	for _, t := range order {
		s.turns[t].Lock()
	}
	return func() {
		for _, t := range order {
			s.turns[t].Unlock()
		}
	}
}

// taken reports whether somebody replaced the same before.
func (s *seqSession) taken(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := path != "" && s.replaced[path]
	s.replaced[path] = true
	return was
}

func (s *seqSession) Commit(ctx context.Context, w Work) error {
	defer s.lock(w.Tables)()
	if s.taken(w.Replaces) {
		s.note(&s.refused, w.transaction(nil))
		return ErrAborted
	}
	var versions []int64
	for _, t := range w.Tables {
		version := s.latest[t] + 1
		if err := s.objects.PutIfAbsent(ctx, commitKey(t, version), w.commitFile(version)); err != nil {
			return fmt.Errorf("commit %s version %d: %w", TableName(t), version, err)
		}
		s.latest[t] = version
		versions = append(versions, version)
	}
	s.note(&s.committed, w.transaction(versions))
	return nil
}

// OCC commits the tables one after the other, each with optimistic retries, as
// writers do that know nothing of each other. The rule is delta-rs': after a
// refused put read every version that was missed, check it for conflicts, and try
// the next one, at once, 15 times at most
// (delta-rs crates/core/src/kernel/transaction/mod.rs).
type OCC struct{ Objects OpenObjects }

// retries is delta-rs' default.
const retries = 15

// Name is "occ".
func (OCC) Name() string { return "occ" }

// Open makes fresh tables.
func (c OCC) Open(ctx context.Context, dir string, tables int) (Session, error) {
	b, err := openBaseline(ctx, c.Objects, dir, tables)
	if err != nil {
		return nil, err
	}
	return &occSession{baseline: b, latest: map[[2]int]int64{}}, nil
}

// Replaces says that sessions take such work.
func (OCC) Replaces() {}

type occSession struct {
	*baseline
	mu sync.Mutex
	// latest is the newest version that each writer knows of each table.
	latest map[[2]int]int64
}

func (s *occSession) Commit(ctx context.Context, w Work) error {
	var versions []int64
	for _, t := range w.Tables {
		version, err := s.commitTable(ctx, t, w)
		if errors.Is(err, ErrAborted) {
			s.giveUp(w, versions)
			return ErrAborted
		}
		if err != nil {
			return fmt.Errorf("commit %s: %w", TableName(t), err)
		}
		versions = append(versions, version)
	}
	s.note(&s.committed, w.transaction(versions))
	return nil
}

// giveUp books a transaction that got no further. What it committed before stays:
// that is the tear that this way of writing has, and it is booked as what it is,
// a transaction over the tables that it reached.
func (s *occSession) giveUp(w Work, versions []int64) {
	if len(versions) == 0 {
		s.note(&s.refused, w.transaction(nil))
		return
	}
	w.Tables = w.Tables[:len(versions)]
	s.note(&s.committed, w.transaction(versions))
}

func (s *occSession) commitTable(ctx context.Context, table int, w Work) (int64, error) {
	me := [2]int{w.Writer, table}
	s.mu.Lock()
	version := s.latest[me] + 1
	s.mu.Unlock()
	for try := 0; ; try++ {
		err := s.objects.PutIfAbsent(ctx, commitKey(table, version), w.commitFile(version))
		if err == nil {
			break
		}
		if !errors.Is(err, objstore.ErrExists) {
			return 0, err
		}
		if version, err = s.readMissed(ctx, table, version, w); err != nil {
			return 0, err
		}
		if try == retries {
			s.remember(me, version-1)
			return 0, ErrAborted
		}
	}
	s.remember(me, version)
	return version, nil
}

func (s *occSession) remember(me [2]int, version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest[me] = version
}

// readMissed reads versions from one that is taken on, and returns the next free
// one. ErrAborted if one of them removed what the work replaces; appends do not
// conflict with each other, so there is nothing more to check.
func (s *occSession) readMissed(ctx context.Context, table int, version int64, w Work) (int64, error) {
	for {
		raw, _, err := s.objects.Get(ctx, commitKey(table, version), objstore.Range{})
		if errors.Is(err, objstore.ErrNotFound) {
			return version, nil
		}
		if err != nil {
			return 0, err
		}
		if w.Replaces != "" && bytes.Contains(raw, w.removal()) {
			s.remember([2]int{w.Writer, table}, version)
			return 0, ErrAborted
		}
		version++
	}
}
