package coordinator

import (
	"sync"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// backlog counts the payload bytes of transactions that wait to be decided, or are
// decided and not yet published. Back pressure is by bytes: new transactions are
// refused while too many wait; what is decided never is.
type backlog struct {
	mu    sync.Mutex
	m     map[twophase.TxnID]int64
	bytes int64
	limit int64
}

// newBacklog counts what a fold has decided and not published.
func newBacklog(s *twophase.State, limit int64) *backlog {
	b := &backlog{m: map[twophase.TxnID]int64{}, limit: limit}
	for _, t := range s.Tables() {
		for _, ch := range t.Pending {
			b.put(ch.Txn, b.m[ch.Txn]+int64(ch.Part.Shape.Bytes))
		}
	}
	return b
}

func (b *backlog) put(id twophase.TxnID, bytes int64) {
	b.bytes += bytes - b.m[id]
	b.m[id] = bytes
}

// enter lets a transaction in, or refuses it. One alone may be larger than the limit.
func (b *backlog) enter(id twophase.TxnID, bytes int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.m[id]; ok {
		return nil
	}
	if b.bytes > 0 && b.bytes+bytes > b.limit {
		return &Error{
			Reason: QuotaExceeded, Message: "too much waits to be decided and published; repeat the call later", RetryAfter: time.Second,
			Limit: &LimitDetail{Name: "queue_bytes", Value: b.bytes + bytes, Limit: b.limit},
		}
	}
	b.put(id, bytes)
	return nil
}

// size is what waits, and what may wait.
func (b *backlog) size() (bytes, limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes, b.limit
}

// leave takes transactions out that are published, or will not be.
func (b *backlog) leave(ids ...twophase.TxnID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		b.bytes -= b.m[id]
		delete(b.m, id)
	}
}

// decided counts a transaction that somebody decided, here or elsewhere.
func (b *backlog) decided(r *twophase.Committed) {
	var bytes int64
	for i := range r.Parts {
		bytes += int64(r.Parts[i].Shape.Bytes)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(r.Txn, bytes)
}
