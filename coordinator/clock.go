package coordinator

import (
	"fmt"
	"time"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// maxAhead is how far this replica's clock may be ahead of the store's for it to
// append (R16): its times would stay in the journal, and in tables, for everybody.
const maxAhead = 5 * time.Second

// clockFits says why this replica may not append for its clock; nil if it may. Stores
// that do not tell the time are not asked.
func (c *Catalog) clockFits() error {
	store, ok := c.cfg.Store.(lock.Clocked)
	if !ok {
		return nil
	}
	ahead, told := store.Ahead()
	if !told || ahead <= maxAhead {
		return nil
	}
	c.log.Error("this machine's clock is ahead of the store's; nothing is appended until it is set right", "ahead", ahead.Round(time.Second))
	return &Error{
		Reason: StoreUnavailable, RetryAfter: time.Second,
		Message: fmt.Sprintf("this replica's clock is %s ahead of the store's, and it decides nothing until that is mended; repeat the call, at another replica", ahead.Round(time.Second)),
	}
}

// reportFuture says that the journal's newest entry is in the future: some replica's
// clock was ahead, and times stand still until the others have caught up.
func (c *Catalog) reportFuture() {
	c.ledger.read(func(s *twophase.State) {
		if ahead := s.Time().Std().Sub(c.cfg.Now()); ahead > maxAhead {
			c.log.Error("the journal's newest entry is in the future: a replica's clock was wrong", "ahead", ahead.Round(time.Second))
		}
	})
}
