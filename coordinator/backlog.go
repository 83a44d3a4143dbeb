package coordinator

import (
	"sync"
	"time"

	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/twophase"
)

// backlog counts the payload bytes of transactions that wait to be decided, or are
// decided and not yet published. Back pressure is by bytes: new transactions are
// refused while too many wait, and those of one principal while it has half of them and
// others want some; what is decided never is.
type backlog struct {
	mu     sync.Mutex
	m      map[twophase.TxnID]waiting
	budget quota.Budget
}

// waiting is a transaction's share, and whose it is. What was decided elsewhere, or
// before this process, is nobody's.
type waiting struct {
	bytes int64
	by    string
}

// newBacklog counts what a fold has decided and not published.
func newBacklog(s *twophase.State, limit int64, now func() time.Time) *backlog {
	b := &backlog{m: map[twophase.TxnID]waiting{}, budget: quota.Budget{Name: quota.NameQueueBytes, Limit: limit, Large: true, Now: now}}
	for _, t := range s.Tables() {
		for _, ch := range t.Pending {
			b.put(ch.Txn, b.m[ch.Txn].bytes+int64(ch.Part.Shape.Bytes))
		}
	}
	return b
}

// put counts a transaction, whatever waits.
func (b *backlog) put(id twophase.TxnID, bytes int64) {
	was := b.m[id]
	b.budget.Add(was.by, bytes-was.bytes)
	b.m[id] = waiting{bytes, was.by}
}

// enter lets a transaction in, or refuses it. One alone may be larger than the limit.
func (b *backlog) enter(by string, id twophase.TxnID, bytes int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.m[id]; ok {
		return nil
	}
	if err := b.budget.Take(by, bytes); err != nil {
		return OverQuota(err)
	}
	b.m[id] = waiting{bytes, by}
	return nil
}

// size is what waits, and what may wait.
func (b *backlog) size() (bytes, limit int64) { return b.budget.Used(), b.budget.Limit }

// leave takes transactions out that are published, or will not be.
func (b *backlog) leave(ids ...twophase.TxnID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		if w, ok := b.m[id]; ok {
			b.budget.Give(w.by, w.bytes)
			delete(b.m, id)
		}
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
