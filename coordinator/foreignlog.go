package coordinator

import (
	"sync"
	"time"
)

// foreignEvery is how often a table's foreign commits are logged, summed up.
const foreignEvery = time.Minute

// foreignCounter sums up a table's foreign commits for the log.
type foreignCounter struct {
	mu     sync.Mutex
	unsaid int
	next   time.Duration // on the boot clock; 0 before the first one
}

// count notes one more, and says how many there were since they were last logged;
// 0 while that is not long ago.
func (f *foreignCounter) count(now time.Duration) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unsaid++
	if f.next != 0 && now < f.next {
		return 0
	}
	n := f.unsaid
	f.unsaid, f.next = 0, now+foreignEvery
	return n
}
