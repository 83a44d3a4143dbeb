package coordinator

import (
	"context"
	"sync"
	"time"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// listedLog is a table's log with the newest listing by which somebody read the table. After a
// start its view, its tail and the log's end are wanted at the same time, and one listing
// serves for all: a local folder is read as a whole for each, 7 ms for 20,000 versions.
type listedLog struct {
	log  *tables.Log
	boot func() time.Duration
	turn turn // held by who makes one

	mu  sync.Mutex
	now madeListing
	// dropped counts how often one was not to serve any more.
	dropped uint64
}

// madeListing is a listing; of none the pointer is nil. at is when it was about to be made.
type madeListing struct {
	*tables.Listing
	at time.Duration
}

func newListedLog(log *tables.Log, boot func() time.Duration) *listedLog {
	return &listedLog{log: log, boot: boot, turn: newTurn()}
}

// listingWait is how long a reader waits for the listing that another one makes. Should that
// hang, one of his own may be answered.
const listingWait = 2 * time.Second

// reading is the log for who reads a version of it that was recorded: by the newest listing,
// or by another one, where that is old or does not have the version.
func (l *listedLog) reading(ctx context.Context, at twophase.Version) (*tables.Log, error) {
	soon, over := context.WithTimeout(ctx, listingWait)
	defer over()
	if l.turn.take(soon) != nil {
		return l.log, ctx.Err()
	}
	defer l.turn.give()
	made, dropped := l.newest()
	if made.Listing == nil || !made.Reads(at) {
		var err error
		made.at = l.boot()
		if made.Listing, err = l.log.ListFor(ctx, at); err != nil {
			return nil, err
		}
		l.keep(made, dropped)
	}
	return l.log.In(made.Listing), nil
}

// newest is the newest listing, if it was so within the ten seconds for which a sight stands
// (R9). dropped goes to keep.
func (l *listedLog) newest() (made madeListing, dropped uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.boot()-l.now.at > twophase.SightLimit {
		return madeListing{}, l.dropped
	}
	return l.now, l.dropped
}

// before is the newest listing for a walk that begins; none, and the present time, for a look-up,
// which is for what is there now, or if the walk knows something newer.
func (l *listedLog) before(in *twophase.WalkInput) madeListing {
	made, _ := l.newest()
	if in.LookUp || made.Listing == nil || made.at <= in.Ended {
		return madeListing{at: l.boot()}
	}
	return made
}

// keep keeps a listing for as long as it may serve, if none was dropped while it was made.
func (l *listedLog) keep(made madeListing, dropped uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if dropped != l.dropped {
		return
	}
	l.now = made
	time.AfterFunc(twophase.SightLimit, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.now == made {
			l.now = madeListing{}
		}
	})
}

// drop forgets the newest listing, and does not keep one that is being made: the log may be
// another one.
func (l *listedLog) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now, l.dropped = madeListing{}, l.dropped+1
}
