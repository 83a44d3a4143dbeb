package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/txcoord/txcoord/e2e/checker"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// change is what a transaction does to one table, by the client's own books.
type change struct {
	table string
	// adds are the data files that it adds, removes those that it takes away, both
	// with what is in them.
	adds, removes []dataFile
	// create and alter say what the table becomes by it.
	create *txcoordv1.NewTable
	alter  *txcoordv1.TableAlteration
	// digest of the staged part; empty where the client does not know it.
	digest string
}

// attempt is one transaction id that a client used.
type attempt struct {
	id      string
	changes []change
	outcome *txcoordv1.Outcome // committed, if set
	refused bool
	token   string // to ask for the outcome by
	// operator's: an administrative call made it, and no client knows what is in it.
	operators bool
}

// books are what clients did and were told. They are the test's, never the server's.
type books struct {
	mu       sync.Mutex
	attempts map[string]*attempt
	gone     string // a table that is not what it was, so that nothing is said of it
}

func newBooks() *books { return &books{attempts: map[string]*attempt{}} }

// begins notes an attempt before its commit is sent; once, if the call is repeated.
func (b *books) begins(id string, changes []change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.attempts[id] == nil {
		b.attempts[id] = &attempt{id: id, changes: changes}
	}
}

// holds notes the token of an attempt.
func (b *books) holds(id, token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempts[id].token = token
}

// operated notes a transaction that an administrative call made.
func (b *books) operated(id, table string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempts[id] = &attempt{id: id, changes: []change{{table: table}}, operators: true}
}

// open lists the tokens of attempts whose outcome nobody was told, by id.
func (b *books) open() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	open := map[string]string{}
	for id, a := range b.attempts {
		if a.outcome == nil && !a.refused && a.token != "" {
			open[id] = a.token
		}
	}
	return open
}

// refuses notes a final no.
func (b *books) refuses(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempts[id].refused = true
}

// commits notes that the server said COMMITTED.
func (b *books) commits(o *txcoordv1.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.attempts[o.GetTransactionId()]
	if a == nil {
		panic(fmt.Sprintf("committed, and begun by nobody: %v; the books have %v", o, slices.Collect(maps.Keys(b.attempts))))
	}
	a.outcome = o
}

// numbers counts what became of the attempts.
func (b *books) numbers() (committed, refused, unresolved int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.attempts {
		switch {
		case a.operators:
		case a.outcome != nil:
			committed++
		case a.refused:
			refused++
		default:
			unresolved++
		}
	}
	return committed, refused, unresolved
}

// run hands the books to the checker.
func (b *books) run() checker.Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	var r checker.Run
	for _, id := range slices.Sorted(maps.Keys(b.attempts)) {
		a := b.attempts[id]
		switch {
		case a.outcome != nil:
			r.Committed = append(r.Committed, b.answered(a))
		case a.refused:
			r.Refused = append(r.Refused, b.unanswered(a))
		default:
			r.Unresolved = append(r.Unresolved, b.unanswered(a))
		}
	}
	return r
}

func (b *books) unanswered(a *attempt) checker.Transaction {
	x := checker.Transaction{ID: a.id}
	for _, c := range a.changes {
		if c.table == b.gone {
			continue
		}
		p := checker.Part{Table: c.table}
		for _, f := range c.adds {
			p.Adds = append(p.Adds, f.path)
		}
		if c.digest != "" {
			p.Digests = []string{c.digest}
		}
		x.Parts = append(x.Parts, p)
	}
	return x
}

func (b *books) answered(a *attempt) checker.Transaction {
	x := b.unanswered(a)
	committed := a.outcome.GetCommitted()
	x.Snapshot = committed.GetSnapshotVersion()
	for i := range x.Parts {
		for _, d := range committed.GetTables() {
			if d.GetTable() == x.Parts[i].Table {
				x.Parts[i].NotApplied = givenUp(d.GetState())
				x.Parts[i].Pending = d.GetState() == txcoordv1.DeliveryState_DELIVERY_STATE_PENDING
			}
			if d.GetTable() != x.Parts[i].Table || d.GetState() != txcoordv1.DeliveryState_DELIVERY_STATE_PUBLISHED {
				continue
			}
			place := int(d.GetPlace())
			x.Parts[i].Version, x.Parts[i].Place = d.GetVersion(), &place
		}
	}
	return x
}

// givenUp: the part will never be in the table's log.
func givenUp(s txcoordv1.DeliveryState) bool {
	return s == txcoordv1.DeliveryState_DELIVERY_STATE_DIVERGED || s == txcoordv1.DeliveryState_DELIVERY_STATE_NOT_APPLIED
}

// totals is how many rows a table holds and what their amounts add up to.
type totals struct{ rows, amount int64 }

// totalsAt says, from the books alone, what each table holds at a snapshot.
func (b *books) totalsAt(snapshot uint64) map[string]totals {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string]totals{}
	for _, a := range b.attempts {
		s := a.outcome.GetCommitted().GetSnapshotVersion()
		if s == 0 || s > snapshot {
			continue
		}
		for _, c := range a.changes {
			t := all[c.table]
			for _, f := range c.adds {
				t.rows, t.amount = t.rows+f.rows, t.amount+f.amount
			}
			for _, f := range c.removes {
				t.rows, t.amount = t.rows-f.rows, t.amount-f.amount
			}
			all[c.table] = t
		}
	}
	return all
}
