package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// What stands behind a key that goes first (twophase's reservations) is parked: it takes
// no part in the groups. When that key's reservation has ended it is looked at anew, as
// open tables may have moved meanwhile. Nobody waits for ever: a call is answered after ReserveWait, and where
// somebody waits a reservation is ended ReserveTime after this replica saw it.

// reservation names one: a key has one at a time.
type reservation struct {
	key  string
	from twophase.Position
}

// parked is guarded by the sequencer's lock.
type parked struct {
	behind map[reservation][]*submission
	// saw is when this replica first saw each that stands, on the boot clock, and asked
	// whether it asked for its end.
	saw   map[reservation]time.Duration
	asked map[reservation]bool
	// held counts what is parked, for who looks without the lock.
	held atomic.Int64
}

// parkedLook is the time between looks at who has waited for long enough.
func (l Limits) parkedLook() time.Duration {
	return min(max(min(l.ReserveTime, l.ReserveWait)/10, time.Millisecond), time.Second)
}

// park puts a commit aside. It leaves the queue: what it may be decided with is not known
// yet, and others must not stand behind it.
func (s *sequencer) park(sub *submission, behind *twophase.Reservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sub.place != nil {
		s.queue.Done(sub.place)
		sub.place = nil
	}
	sub.stood.CompareAndSwap(0, int64(max(s.c.cfg.Boot(), 1)))
	p, at := &s.parked, reservation{behind.Key, behind.From}
	if p.behind == nil {
		p.behind = map[reservation][]*submission{}
	}
	p.behind[at] = append(p.behind[at], sub)
	p.held.Add(1)
}

// errGoOn is the answer of what stands behind nobody any more: to be asked again.
var errGoOn = errors.New("the key that went first has had its turn")

// unpark lets go on what waits for nobody any more, answers who has waited for long
// enough, and asks for the end of reservations whose keys do not come back.
func (s *sequencer) unpark() {
	first := s.goFirst()
	now := s.c.cfg.Boot()
	s.mu.Lock()
	stands := map[reservation]*twophase.Reservation{}
	var over, on []*submission
	for _, r := range first {
		stands[reservation{r.Key, r.From}] = r
	}
	p := &s.parked
	p.see(stands, now)
	for at, subs := range p.behind {
		if stands[at] == nil {
			p.leave(at, nil)
			on = append(on, subs...)
			continue
		}
		keep := subs[:0:0]
		for _, sub := range subs {
			switch {
			case sub.left.Load():
			case now-time.Duration(sub.stood.Load()) >= s.c.cfg.Limits.ReserveWait:
				over = append(over, sub)
			default:
				keep = append(keep, sub)
			}
		}
		p.leave(at, keep)
		s.endOverdue(at, stands, now)
	}
	s.mu.Unlock()
	s.answerAll(on, errGoOn)
	for _, sub := range over {
		s.answer(sub, s.c.reservedError(sub.request.Commit.Record, first))
	}
}

// endOverdue asks for the end of what somebody has waited behind for long enough, and of
// all others on its tables that are as old: who waits would stand behind one after the
// other of them else, an entry and a look each.
func (s *sequencer) endOverdue(at reservation, stands map[reservation]*twophase.Reservation, now time.Duration) {
	p := &s.parked
	overdue := func(at reservation) bool { return now-p.saw[at] >= s.c.cfg.Limits.ReserveTime }
	if !overdue(at) {
		return
	}
	for other, r := range stands {
		if overdue(other) && !p.asked[other] && overlap(stands[at], r) {
			p.asked[other] = true
			s.own = append(s.own, s.endOf(other))
		}
	}
}

// overlap reports whether two reservations have a table in common.
func overlap(a, b *twophase.Reservation) bool {
	return slices.ContainsFunc(a.Tables, func(t twophase.ReservedTable) bool { _, ok := b.Reserves(t.Table); return ok })
}

// see notes which reservations stand. A key that goes first for long is asked for its
// end again should the first word have been lost.
func (p *parked) see(stands map[reservation]*twophase.Reservation, now time.Duration) {
	if p.saw == nil {
		p.saw, p.asked = map[reservation]time.Duration{}, map[reservation]bool{}
	}
	for at := range p.saw {
		if stands[at] == nil {
			delete(p.saw, at)
			delete(p.asked, at)
		}
	}
	for at := range stands {
		if _, ok := p.saw[at]; !ok {
			p.saw[at] = now
		}
	}
}

// leave keeps some of those that are parked behind a reservation.
func (p *parked) leave(at reservation, keep []*submission) {
	p.held.Add(int64(len(keep) - len(p.behind[at])))
	if p.behind[at] = keep; len(keep) == 0 {
		delete(p.behind, at)
	}
}

// endOf asks for a reservation's end. Nobody waits for the answer: where it is not
// granted, or is lost, the next look asks again.
func (s *sequencer) endOf(at reservation) *submission {
	s.c.log.Info("a key that goes first has not come back, and others have waited for it", "key", at.key, "position", at.from)
	sub := &submission{answer: make(chan error, 1), left: new(atomic.Bool)}
	sub.request.Record = &twophase.ReservationEnded{Key: at.key, From: at.from}
	sub.done = func(err error) {
		if err != nil {
			delete(s.parked.asked, at)
		}
	}
	return sub
}

// unparkAll takes out everything that is parked.
func (s *sequencer) unparkAll() (all []*submission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, subs := range s.parked.behind {
		all = append(all, subs...)
		s.parked.leave(at, nil)
	}
	return all
}

// goFirst are the reservations that stand; they are immutable.
func (s *sequencer) goFirst() (out []*twophase.Reservation) {
	s.c.ledger.read(func(st *twophase.State) { out = st.Reservations() })
	return out
}

// reservedTables are the reservations that stand, with names.
func reservedTables(s *twophase.State) (out []ReservedTables) {
	for _, r := range s.Reservations() {
		info := ReservedTables{Key: r.Key, Attempt: r.Attempt, Since: r.Since.Std(), Until: r.Until}
		for _, t := range r.Tables {
			info.Tables = append(info.Tables, nameOf(s, t.Table))
		}
		out = append(out, info)
	}
	return out
}

// reservedCount is how many tables are reserved.
func reservedCount(s *twophase.State) int {
	all := map[twophase.TableID]bool{}
	for _, r := range s.Reservations() {
		for _, t := range r.Tables {
			all[t.Table] = true
		}
	}
	return len(all)
}

// reservationOf is the reservation of a key, if one stands.
func (c *Catalog) reservationOf(key string) (at *twophase.Reservation) {
	c.ledger.read(func(s *twophase.State) {
		for _, r := range s.Reservations() {
			if key != "" && r.Key == key {
				at = r
			}
		}
	})
	return at
}

// lostButFirst adds to the answer of an aborted transaction that its key goes first now:
// it is worth to read anew at once.
func (c *Catalog) lostButFirst(o Outcome) error {
	err := c.abortedError(o)
	var own *Error
	if r := c.reservationOf(o.Key); r != nil && o.Attempt >= r.Attempt && errors.As(err, &own) {
		own.Message += fmt.Sprintf(". The key has lost so often that it goes first on its tables, until position %d of the journal at most: read again now, and commit as attempt %d", r.Until, o.Attempt+1)
	}
	return err
}

// reserved: a key goes first on the table.
func (e *explainer) reserved(s *twophase.State, t *twophase.Table) {
	for _, r := range s.Reservations() {
		if _, ok := r.Reserves(t.Table); !ok {
			continue
		}
		f := Finding{
			Code: FoundReserved, Since: r.Since.Std(), Txn: twophase.DeriveTxnID(s.Catalog(), r.Key, r.Attempt), Key: r.Key,
			Text: fmt.Sprintf("key %q has lost many attempts, the last as attempt %d, and goes first: commits of others that it could lose to are decided after its next one, until position %d at most (the journal is at %d)",
				r.Key, r.Attempt, r.Until, s.Next()),
			Remedy: "nothing: it passes by itself, where others wait within the limit reserve_time. The job of that key should read again, and commit as its next attempt",
		}
		for _, o := range r.Tables {
			if name := nameOf(s, o.Table); o.Table != t.Table && e.visible(name) {
				f.Tables = append(f.Tables, name)
			}
		}
		e.add(f)
	}
}

// reservedRetry is when to ask again, of who was told that another key goes first.
const reservedRetry = time.Second

// reservedError tells who has waited that a key goes first, on which table, and that the
// same call may be repeated.
func (c *Catalog) reservedError(rec *twophase.Committed, first []*twophase.Reservation) error {
	out := &Error{
		Reason: TableReserved, RetryAfter: reservedRetry,
		Message: "a key that has lost many attempts goes first on a table of this transaction, and has not come back yet; nothing is decided. Repeat the call",
	}
	for _, r := range first {
		for id := range decidedTables(rec) {
			if _, ok := r.Reserves(id); !ok {
				continue
			}
			row := c.row(id)
			out.Message = fmt.Sprintf("key %q has lost many attempts and goes first on table %s, until position %d of the journal at most; it has not come back yet, and nothing is decided. Repeat the call", r.Key, row.Name, r.Until)
			out.Txn = &TxnDetail{Txn: twophase.DeriveTxnID(c.journal.Meta().Catalog, r.Key, r.Attempt), Key: r.Key, Attempt: r.Attempt}
			out.Table = &TableDetail{Table: row.Name, TableID: row.ID, URI: row.URI, Version: twophase.NoVersion}
			return out
		}
	}
	return out
}
