package coordinator

import (
	"fmt"
	"time"
)

// hang is a request to a table's place that may have no answer. Under a disk or a share that
// hangs, a request heeds no deadline: it does not fail, so nothing counts it (R12), and
// nothing of the table goes on.
type hang struct {
	at     troubleAt
	since  time.Time
	limit  time.Duration
	shown  bool
	closed bool // it was answered
}

// awaited runs a request to a table's place, which ends by the limit as a rule. One that
// does not is a trouble of the place, until it is answered. It freezes nothing: whether
// what hangs will land is not known, and other tables go on without its place (putPlaces).
func (c *Catalog) awaited(t *handle, use use, limit time.Duration, request func() error) error {
	h := &hang{at: troubleAt{t.uri, use}, since: c.cfg.Now(), limit: limit}
	// A request that heeds its deadline has had the time to say so.
	over := time.AfterFunc(limit+limit/4, func() {
		if c.troubles.hangs(h) {
			c.log.Error("a request to a table's place is not answered, and cannot be ended", "table", t.uri, "what", requestNames[use], "since", h.since)
		}
	})
	err := request()
	over.Stop()
	if c.troubles.answered(h) {
		c.log.Info("a request to a table's place that hung is answered", "table", t.uri, "what", requestNames[use], "since", h.since)
	}
	return err
}

var requestNames = [...]string{written: "write", read: "read"}

// hangs notes a request without an answer; false if it has one by now.
func (t *troubles) hangs(h *hang) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.closed {
		return false
	}
	if t.hung == nil {
		t.hung = map[*hang]bool{}
	}
	h.shown = true
	t.hung[h] = true
	return true
}

// answered takes it away; true if it had been noted.
func (t *troubles) answered(h *hang) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h.closed = true
	delete(t.hung, h)
	return h.shown
}

// oldest are the requests without an answer, of each place and use the one that has waited
// longest. The lock is held.
func (t *troubles) oldest() map[troubleAt]*hang {
	out := map[troubleAt]*hang{}
	for h := range t.hung {
		if was := out[h.at]; was == nil || h.since.Before(was.since) {
			out[h.at] = h
		}
	}
	return out
}

func (h *hang) trouble() Trouble {
	return Trouble{
		Place: h.at.place, Since: h.since,
		Text: fmt.Sprintf("the object store of %s has not answered a %s for longer than it may take (%s): it hangs", h.at.place, requestNames[h.at.use], h.limit),
		Remedy: "see that the disk, the share or the bucket answers; what waits goes on by itself when it does. " +
			"A process that hangs in a disk ends only when that answers, or with the machine",
	}
}

// hanging reports whether requests to a place are without an answer.
func (t *troubles) hanging(place string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for h := range t.hung {
		if h.at.place == place {
			return true
		}
	}
	return false
}
