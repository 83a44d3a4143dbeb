package coordinator

import (
	"sync"

	"github.com/txcoord/txcoord/twophase"
)

// urgent counts the callers here who are answered when a transaction is published, from
// before it is decided: its round may be worked on at once.
type urgent struct {
	mu      sync.Mutex
	callers map[twophase.TxnID]int
}

// enter counts a caller until it leaves.
func (u *urgent) enter(id twophase.TxnID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.callers == nil {
		u.callers = map[twophase.TxnID]int{}
	}
	u.callers[id]++
}

func (u *urgent) leave(id twophase.TxnID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.callers[id]--; u.callers[id] == 0 {
		delete(u.callers, id)
	}
}

// any reports whether somebody waits for one of the changes.
func (u *urgent) any(changes []*twophase.Change) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, ch := range changes {
		if u.callers[ch.Txn] > 0 {
			return true
		}
	}
	return false
}
