package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/txcoord/txcoord/coordinator/manifest"
	"github.com/txcoord/txcoord/internal/number"
	"github.com/txcoord/txcoord/twophase"
)

// manifests writes what each snapshot changed, in order, and reads what the fold no longer
// holds. While one file is put, what is closed meanwhile gathers for the next, so that the
// time of a put bounds how far they lag, and not how many snapshots there may be.
type manifests struct {
	c     *Catalog
	files manifest.Files
	ready chan struct{}

	mu   sync.Mutex
	done twophase.SnapshotVersion
	kept []*tableSet // full sets to look old snapshots up from, by version

	// set is that of done; only the writing goroutine uses it.
	set *tableSet
}

// setsKept bounds the full sets in memory.
const setsKept = 32

func newManifests(c *Catalog) *manifests {
	return &manifests{
		c: c, files: manifest.Files{Store: c.own.store, Folder: c.own.key(manifestsFolder)},
		ready: make(chan struct{}, 1), set: &tableSet{tables: map[twophase.TableID]twophase.Version{}},
	}
}

func (m *manifests) look() {
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// written is the newest snapshot whose manifest is durable.
func (m *manifests) written() twophase.SnapshotVersion {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.done
}

// start goes on after the newest manifest. One that is newer than the fold, or another
// catalog's, means that the journal went back or is not the one that belongs here:
// the catalog must not be written (R7).
func (m *manifests) start(ctx context.Context) error {
	for {
		shown := m.c.Shown()
		number, above, err := m.files.Newest(ctx, shown)
		if err != nil {
			return fmt.Errorf("look for the newest manifest: %w", err)
		}
		var last *manifest.File
		if number > 0 {
			if last, err = m.files.Read(ctx, manifest.Name{Snapshot: number}); err != nil {
				return damaged(err)
			}
			above = max(above, last.Last())
		}
		if above <= shown {
			return m.begin(ctx, last)
		}
		// Another replica may have made it since the head was read. Its record is in the
		// journal before, so a head that is read now shows it.
		if err := m.knows(ctx, above); err != nil {
			return err
		}
	}
}

// damaged says of a manifest that is none that an operator has to look.
func damaged(err error) error {
	if errors.Is(err, manifest.ErrDamaged) {
		return &Error{Reason: JournalContradiction, Message: err.Error()}
	}
	return err
}

// knows reads the journal to its head, and stops the catalog if that has not made a
// snapshot of which there is a manifest (R7). A journal that has ended knows none of those
// that were made where the catalog went on: nothing of it is lost.
func (m *manifests) knows(ctx context.Context, v twophase.SnapshotVersion) error {
	if v <= m.c.Shown() {
		return nil
	}
	if err := m.c.catchUp(ctx); err != nil {
		return err
	}
	var lost bool
	var shown twophase.SnapshotVersion
	m.c.ledger.read(func(s *twophase.State) { lost, shown = s.HistoryLost(v), s.Shown() })
	switch to := m.c.MovedTo(); {
	case !lost:
		return nil
	case to != "":
		return MovedError(m.c.cfg.Name, to)
	}
	return m.c.ledger.fail(contradicts(fmt.Sprintf("manifest %d exists and the journal knows %s only", v, number.Of(shown, "snapshot"))))
}

// begin goes on after a manifest; nil for none.
func (m *manifests) begin(ctx context.Context, last *manifest.File) error {
	if last == nil {
		return nil
	}
	if err := m.isOurs(last); err != nil {
		return err
	}
	if err := m.isSo(last); err != nil {
		return err
	}
	v := last.Last()
	m.mu.Lock()
	m.done = v
	m.mu.Unlock()
	set, err := m.c.at(ctx, v)
	if err != nil {
		return err
	}
	m.set = set.forward(nil, v)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept = append(m.kept, set)
	return nil
}

// isOurs stops the catalog if a manifest is neither of this life of it nor of one before.
func (m *manifests) isOurs(have *manifest.File) error {
	var rebuilt twophase.SnapshotVersion
	m.c.ledger.read(func(s *twophase.State) { rebuilt = s.Rebuilt() })
	meta := m.c.journal.Meta()
	switch {
	case have.Catalog != meta.Catalog:
		// Two catalogs of one name share the warehouse (R7, R18).
		return m.c.ledger.fail(contradicts(fmt.Sprintf("manifest %d is of catalog %s, the journal is of %s", have.First(), have.Catalog, meta.Catalog)))
	case have.Incarnation != meta.Incarnation && have.Last() > rebuilt:
		return m.c.ledger.fail(contradicts(fmt.Sprintf("manifest %d is of incarnation %s of the catalog, and the journal is of %s", have.First(), have.Incarnation, meta.Incarnation)))
	}
	return nil
}

// isSo stops the catalog if a manifest of this life is not what the journal says, as far as
// the fold still holds its snapshots.
func (m *manifests) isSo(have *manifest.File) (err error) {
	if have.Incarnation != m.c.journal.Meta().Incarnation {
		return nil
	}
	m.c.ledger.read(func(s *twophase.State) {
		for _, row := range s.Snapshots() {
			if row.Version >= have.First() && row.Version <= have.Last() && err == nil {
				err = agrees(row, &have.Deltas[row.Version-have.First()])
			}
		}
	})
	if err != nil {
		return m.c.ledger.fail(err)
	}
	return nil
}

func contradicts(what string) *Error {
	return &Error{
		Reason:  JournalContradiction,
		Message: what + ": the journal is lost, was restored from an older copy, or is another catalog's; give the right store. If it is gone: txcoord rebuild; see docs/operations.md, When the journal is lost",
	}
}

// run writes manifests as snapshots are made.
func (m *manifests) run(ctx context.Context) {
	wait := 50 * time.Millisecond
	m.look()
	for {
		select {
		case <-m.ready:
		case <-ctx.Done():
			return
		}
		for m.written() < m.c.Shown() && ctx.Err() == nil {
			err := m.forward(ctx)
			if ctx.Err() == nil && !errors.Is(err, errManifestsGone) && m.c.ledger.stopped() == nil {
				m.c.noteTrouble(m.c.cfg.Warehouse, written, err)
			}
			if err != nil && ctx.Err() == nil {
				m.c.log.Warn("write a manifest", "snapshot", m.written()+1, "error", err)
				pause(ctx, wait)
				wait = min(2*wait, 5*time.Second)
				continue
			}
			wait = 50 * time.Millisecond
		}
	}
}
