package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/txcoord/txcoord/twophase"
)

// ledger is the fold that all actors of a catalog share. One goroutine, the
// sequencer, folds; everybody reads.
type ledger struct {
	mu      sync.RWMutex
	state   *twophase.State
	changed chan struct{} // closed at the next fold
	waiters map[twophase.TxnID][]chan struct{}
	// broken is why the catalog takes no writes any more (R7, R17).
	broken error
	// closing ends all waiting: nobody folds any more.
	closing <-chan struct{}
	// onFold is called with the lock held, after each entry; what it returns, if anything,
	// without the lock.
	onFold func(before *foldMarks, e *twophase.Entry) (then func())
}

// foldMarks is what onFold has to know of the state before the entry.
type foldMarks struct {
	recorded map[twophase.TableID]twophase.Version
	// diverged counts the changes of a table that wait for an operator.
	diverged map[twophase.TableID]int
	// closing are the open rounds that the entry may close.
	closing []*twophase.Round
}

func newLedger(s *twophase.State, closing <-chan struct{}) *ledger {
	return &ledger{state: s, changed: make(chan struct{}), waiters: map[twophase.TxnID][]chan struct{}{}, closing: closing}
}

// read runs f on the fold. f must not keep what it finds there unless it is
// immutable: records, snapshots, facts.
func (l *ledger) read(f func(*twophase.State)) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	f(l.state)
}

// readEntry is an entry as it was read: decoded, or why it cannot be.
type readEntry struct {
	entry *twophase.Entry
	hash  twophase.Hash
	err   error
}

// decode is what of folding an entry needs no fold.
func decode(raw []byte) readEntry {
	e, err := twophase.DecodeEntry(raw)
	if err != nil {
		at, _ := twophase.EntryPosition(raw)
		return readEntry{err: fmt.Errorf("entry %d: %w", at, err)}
	}
	return readEntry{entry: e, hash: twophase.HashOf(raw)}
}

// fold applies the entry that stands at the next position.
func (l *ledger) fold(r readEntry) error {
	if r.err != nil {
		return l.fail(r.err)
	}
	then, err := l.apply(r.entry, r.hash)
	if then != nil {
		then()
	}
	return err
}

func (l *ledger) apply(e *twophase.Entry, hash twophase.Hash) (then func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Position < l.state.Next() {
		return nil, nil // somebody else of this process folded it
	}
	marks := l.marks(e)
	wake := l.touched(e)
	if err := l.state.Apply(e, hash); err != nil {
		return nil, l.failLocked(err)
	}
	if l.onFold != nil {
		then = l.onFold(marks, e)
	}
	l.wakeLocked(wake)
	return then, nil
}

// fail stops the catalog for writes. The first reason stays. Everybody who waits is
// woken: what they wait for will not come.
func (l *ledger) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failLocked(err)
}

func (l *ledger) failLocked(err error) error {
	if l.broken == nil {
		l.broken = err
	}
	l.wakeLocked(nil)
	return err
}

// wakeLocked wakes those who wait on the fold, and on these transactions; nil means
// on any.
func (l *ledger) wakeLocked(txns []twophase.TxnID) {
	close(l.changed)
	l.changed = make(chan struct{})
	if txns == nil {
		for id := range l.waiters {
			l.wake(id)
		}
	}
	for _, id := range txns {
		l.wake(id)
	}
}

// stopped is why the catalog takes no writes; nil while it does.
func (l *ledger) stopped() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.broken
}

func (l *ledger) marks(e *twophase.Entry) *foldMarks {
	m := &foldMarks{recorded: map[twophase.TableID]twophase.Version{}, diverged: map[twophase.TableID]int{}}
	for _, r := range e.Records {
		id := recordTable(r)
		if t, ok := l.state.Table(id); ok {
			m.recorded[id], m.diverged[id] = t.Recorded, len(t.Diverged)
		}
		if p, ok := r.(*twophase.Published); ok {
			if round, open := l.state.Round(p.Round); open {
				m.closing = append(m.closing, round)
			}
		}
	}
	return m
}

func recordTable(r twophase.Record) twophase.TableID {
	switch r := r.(type) {
	case *twophase.Foreign:
		return r.Table
	case *twophase.Barrier:
		return r.Table
	case *twophase.Range:
		return r.Table
	}
	return ""
}

// touched lists the transactions of which the entry may say something new; nil
// means all of them.
func (l *ledger) touched(e *twophase.Entry) []twophase.TxnID {
	out := []twophase.TxnID{}
	for _, r := range e.Records {
		switch r := r.(type) {
		case *twophase.Committed:
			out = append(out, r.Txn)
		case *twophase.Aborted:
			out = append(out, r.Txn)
		case *twophase.Reserved, *twophase.ReservationEnded: // about nothing that is decided
		case *twophase.Published:
			if round, ok := l.state.Round(r.Round); ok {
				out = append(out, round.Txns...)
			}
		default:
			return nil
		}
	}
	return out
}

func (l *ledger) wake(id twophase.TxnID) {
	for _, ch := range l.waiters[id] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// errClosing ends waits of a catalog that is being closed.
var errClosing = errors.New("the catalog is closing")

// waitTxn waits until done says so of the transaction. done is called with the
// lock held, first at once and then after each entry that may matter to it.
func (l *ledger) waitTxn(ctx context.Context, id twophase.TxnID, done func(*twophase.State) bool) error {
	ch := make(chan struct{}, 1)
	l.mu.Lock()
	if done(l.state) {
		l.mu.Unlock()
		return nil
	}
	if l.broken != nil {
		defer l.mu.Unlock()
		return l.broken
	}
	l.waiters[id] = append(l.waiters[id], ch)
	l.mu.Unlock()
	defer l.unwait(id, ch)
	for {
		select {
		case <-ch:
		case <-ctx.Done():
			return ctx.Err()
		case <-l.closing:
			return errClosing
		}
		l.mu.RLock()
		ok, broken := done(l.state), l.broken
		l.mu.RUnlock()
		if ok {
			return nil
		}
		if broken != nil {
			return broken
		}
	}
}

func (l *ledger) unwait(id twophase.TxnID, ch chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := l.waiters[id][:0]
	for _, c := range l.waiters[id] {
		if c != ch {
			rest = append(rest, c)
		}
	}
	if len(rest) == 0 {
		delete(l.waiters, id)
		return
	}
	l.waiters[id] = rest
}

// wait waits until done says so of the fold.
func (l *ledger) wait(ctx context.Context, done func(*twophase.State) bool) error {
	for {
		l.mu.RLock()
		ok, broken, changed := done(l.state), l.broken, l.changed
		l.mu.RUnlock()
		switch {
		case ok:
			return nil
		case broken != nil:
			return fmt.Errorf("catalog stopped: %w", broken)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-l.closing:
			return errClosing
		}
	}
}
