package boltstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/txcoord/txcoord/lock"
)

// write is a put, or a delete if stored is nil, or, without a key, the demand for
// any commit at all.
type write struct {
	key    string
	stored []byte
	cond   lock.Condition
	// done gets the answer; it has room for it.
	done chan answer
}

type answer struct {
	rev lock.Revision
	err error
}

// flight is a commit under way.
type flight struct {
	keys   map[string][]byte
	landed chan struct{}
}

// Put writes a key under a condition and returns its new revision.
func (s *Store) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	if len(value) > s.maxValue {
		return "", fmt.Errorf("put %s: %d bytes, limit %d: %w", key, len(value), s.maxValue, lock.ErrTooLarge)
	}
	err := check(ctx, key)
	var rev lock.Revision
	if err == nil {
		rev, err = s.do(ctx, &write{key: key, stored: encode(value), cond: c})
	}
	if err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	return rev, nil
}

// Delete removes a key; a missing one is no error.
func (s *Store) Delete(ctx context.Context, key string) error {
	err := check(ctx, key)
	if err == nil {
		_, err = s.do(ctx, &write{key: key, cond: lock.Always()})
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

// do queues a write and waits for its answer. A write whose context ends while it
// still waits is taken out of the queue, and certainly not carried out.
func (s *Store) do(ctx context.Context, w *write) (lock.Revision, error) {
	w.done = make(chan answer, 1)
	if err := s.enqueue(w); err != nil {
		return "", err
	}
	select {
	case a := <-w.done:
		return a.rev, a.err
	case <-ctx.Done():
	}
	if s.withdraw(w) {
		return "", ctx.Err()
	}
	return "", fmt.Errorf("%w: %w", lock.ErrUnknown, ctx.Err())
}

func (s *Store) enqueue(w ...*write) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.waiting = append(s.waiting, w...)
	select {
	case s.wake <- struct{}{}:
	default: // The committer has not yet looked since the last one.
	}
	return nil
}

func (s *Store) withdraw(w *write) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, w)
	if i < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return true
}

// commitAll is the one goroutine that writes. It ends when wake is closed, after
// the last of those that waited.
func (s *Store) commitAll() {
	defer close(s.stopped)
	for range s.wake {
		s.commit(s.takeAll())
	}
	s.commit(s.takeAll())
}

func (s *Store) takeAll() []*write {
	s.mu.Lock()
	defer s.mu.Unlock()
	group := s.waiting
	s.waiting = nil
	return group
}

// commit carries a group out and answers its writes, in order. A refusal is
// answered after the commit too: what it was refused for may be in the same group.
func (s *Store) commit(group []*write) {
	if len(group) == 0 {
		return
	}
	if err := s.inPlace(); err != nil { // before anything is written
		for _, w := range group {
			w.done <- answer{err: err}
		}
		return
	}
	p, err := s.plan(group)
	if err == nil {
		err = s.apply(p)
	}
	if err == nil {
		err = s.inPlace() // it may have left meanwhile
	}
	for i, w := range group {
		if err != nil {
			p.answers[i] = answer{err: fmt.Errorf("%w: commit: %w", lock.ErrUnknown, err)}
		}
		w.done <- p.answers[i]
	}
}

// plan is what a group comes to: an answer for each write, the last revision given
// out, and what each key that changes will hold, nil for nothing.
type plan struct {
	answers []answer
	last    uint64
	changes map[string][]byte
	order   []string
}

// plan decides on a snapshot. Nobody else writes, so it is the state that the
// transaction will find; deciding before spares groups of refusals a transaction.
func (s *Store) plan(group []*write) (plan, error) {
	p := plan{answers: make([]answer, len(group)), changes: make(map[string][]byte, len(group))}
	err := s.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(items)
		p.last = b.Sequence()
		for i, w := range group {
			p.answers[i] = p.decide(b, w)
		}
		return nil
	})
	return p, err
}

// decide adds one write to the plan.
func (p *plan) decide(b *bbolt.Bucket, w *write) answer {
	if w.key == "" {
		return answer{}
	}
	held, changed := p.changes[w.key]
	if !changed {
		held = b.Get([]byte(w.key))
	}
	if !holds(held, w.cond) {
		return answer{err: lock.ErrConflict}
	}
	if w.stored == nil && held == nil {
		return answer{}
	}
	if !changed {
		p.order = append(p.order, w.key)
	}
	p.changes[w.key] = w.stored
	if w.stored == nil {
		return answer{}
	}
	// Never given out before: the sequence goes on over deletes and restarts.
	p.last++
	binary.BigEndian.PutUint64(w.stored, p.last)
	return answer{rev: revision(w.stored)}
}

// holds reports whether a condition does on what a key holds, nil for nothing.
func holds(held []byte, c lock.Condition) bool {
	if rev, ok := c.Revision(); ok {
		return held != nil && revision(held) == rev
	}
	return !c.Absent() || held == nil
}

// apply makes a plan durable. After an error it may or may not have landed, or be
// seen now and be gone after a power failure.
func (s *Store) apply(p plan) error {
	if !s.takeOff(p) {
		return nil
	}
	err := s.update(p.write)
	s.land(err == nil)
	return err
}

// takeOff announces the commit to readers, if there is something to commit.
func (s *Store) takeOff(p plan) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p.changes) == 0 && !s.unsettled {
		return false
	}
	s.flight = &flight{keys: p.changes, landed: make(chan struct{})}
	return true
}

// land is the end of a commit. The first sync of a commit makes all pages durable
// that it builds on, and the second the root that leads to them; so a success
// settles what an earlier failure left open.
func (s *Store) land(ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsettled = !ok
	close(s.flight.landed)
	s.flight = nil
}

func (p plan) write(tx *bbolt.Tx) error {
	b := tx.Bucket(items)
	if err := b.SetSequence(p.last); err != nil {
		return err
	}
	for _, key := range p.order {
		if err := set(b, []byte(key), p.changes[key]); err != nil {
			return err
		}
	}
	return nil
}

func set(b *bbolt.Bucket, key, stored []byte) error {
	if stored == nil {
		return b.Delete(key)
	}
	return b.Put(key, stored)
}
