package quota

import (
	"sync"
	"time"
)

// Budget bounds what all principals hold of one thing together. One may have it all while
// it is alone; while another holds some of it, or was refused a moment ago and has not
// come back, it gets no further than half. So who holds all of it has to let the next
// one in as it gives back, and nobody needs a part that is kept free. It is safe for
// concurrent use.
type Budget struct {
	// Name and Limit are what refusals say.
	Name  string
	Limit int64
	// Large lets in what alone is more than the limit while nothing else is there, and what
	// alone is more than half while its principal holds nothing.
	Large bool
	// Refused, if set, is told of the limit's name with each refusal.
	Refused func(limit string)
	// Now is the clock by which a refusal is a moment ago; time.Now if nil.
	Now func() time.Time

	mu    sync.Mutex
	used  int64
	held  map[string]int64
	wants map[string]time.Time // until when who was refused counts as waiting
}

// patience is how long who was refused counts as waiting: it was told to come back
// after retry.
const patience = 3 * retry

// Take lets n more in, or refuses them with *Exceeded.
func (b *Budget) Take(who string, n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	held := b.held[who]
	if b.used+n > b.Limit && (!b.Large || b.used > 0) {
		if b.wants == nil {
			b.wants = map[string]time.Time{}
		}
		b.wants[who] = b.now().Add(patience)
		return told(b.Refused, &Exceeded{Limit: b.Name, Value: b.used + n, Bound: b.Limit, RetryAfter: retry})
	}
	if held+n > b.Limit/2 && (!b.Large || held > 0) && b.othersLocked(who) {
		return told(b.Refused, &Exceeded{Limit: b.Name, Value: held + n, Bound: b.Limit / 2, Share: true, RetryAfter: retry})
	}
	delete(b.wants, who)
	b.addLocked(who, n)
	return nil
}

// Add counts what is there already, whatever the limit.
func (b *Budget) Add(who string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addLocked(who, n)
}

// Give gives back what was taken or added.
func (b *Budget) Give(who string, n int64) { b.Add(who, -n) }

func (b *Budget) addLocked(who string, n int64) {
	if b.held == nil {
		b.held = map[string]int64{}
	}
	b.used += n
	if b.held[who] += n; b.held[who] == 0 {
		delete(b.held, who)
	}
}

// othersLocked reports whether somebody else holds something, or waits for it.
func (b *Budget) othersLocked(who string) bool {
	if len(b.held) > 1 || len(b.held) == 1 && b.held[who] == 0 {
		return true
	}
	now, waits := b.now(), false
	for name, until := range b.wants {
		if !now.Before(until) {
			delete(b.wants, name)
		} else if name != who {
			waits = true
		}
	}
	return waits
}

func (b *Budget) now() time.Time {
	if b.Now != nil {
		return b.Now()
	}
	return time.Now()
}

// Used is what is held.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
