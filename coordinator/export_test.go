package coordinator

import (
	"context"
	"time"

	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// Append puts a record into the journal without the checks at the entrance, as an older
// build may have done.
func (c *Catalog) Append(ctx context.Context, r twophase.Record) error { return c.adminRecord(ctx, r) }

// RenderWith lets versions be made by something else.
func (c *Config) RenderWith(f func(tables.RenderInput) (tables.Rendered, error)) { c.render = f }

// OutcomesAtOnce sets how many outcomes are looked at for a list before others may go on.
func (c *Config) OutcomesAtOnce(n int) { c.outcomesAtOnce = n }

// TableDuty reports whether recurring work at a table's place is this replica's.
func (c *Catalog) TableDuty(name string) bool {
	rows, _ := c.Tables(context.Background())
	for _, row := range rows {
		if row.Name == name {
			return c.tableDuty(string(row.ID), row)
		}
	}
	return false
}

// Queued is how many requests wait behind the append that is in flight.
func (c *Catalog) Queued() int {
	c.seq.mu.Lock()
	defer c.seq.mu.Unlock()
	return c.seq.queue.Len() + len(c.seq.own)
}

// Waiters is how many callers wait for what the fold says of a transaction next.
func (c *Catalog) Waiters(id twophase.TxnID) int {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	return len(c.ledger.waiters[id])
}

// Publishing is how much the publisher has to do.
func (c *Catalog) Publishing() int { return len(c.publisher.open()) }

// RoundsAtWork is how many rounds the publisher works on.
func (c *Catalog) RoundsAtWork() int {
	c.publisher.mu.Lock()
	defer c.publisher.mu.Unlock()
	return len(c.publisher.running)
}

// Bundling is how many calls wait for a bundle behind those that are in flight.
func (c *Catalog) Bundling() int {
	c.bundler.mu.Lock()
	defer c.bundler.mu.Unlock()
	return len(c.bundler.waiting)
}

// SweepAgain is a sweeper of its own, which lists what is stored at each call.
func (c *Catalog) SweepAgain(ctx context.Context) func() {
	w := newSweeper(c)
	return func() { w.listed(ctx) }
}

// Held is what a principal holds.
func (c *Catalog) Held(who string, r quota.Resource) int64 { return c.book.Held(who, r) }

// Backlog is how much waits to be decided or published.
func (c *Catalog) Backlog() int64 { return c.backlog.budget.Used() }

// BatchesAtOnce is how many batches of bundles may be on their way.
const BatchesAtOnce = batchesAtOnce

// Returning waits for callers who were answered together.
type Returning struct{ g gathering }

// NewReturning waits for so long at most.
func NewReturning(atMost time.Duration) *Returning {
	return &Returning{gathering{atMost: atMost, signal: func() {}}}
}

// Answered says that so many were answered, by a round that took an hour.
func (r *Returning) Answered(n int) { r.g.expect(n, time.Hour) }

// Enters is one who comes.
func (r *Returning) Enters() (reached func()) { return r.g.enter() }

// Awaited waits for them. awaited is false where nobody is, came how many calls are to be
// waited for until they reach the queue, and missing how many of those have not.
func (r *Returning) Awaited(ctx context.Context) (awaited bool, came, missing int) {
	a := r.g.entering(ctx)
	if a == nil {
		return false, 0, 0
	}
	came = r.g.came(a)
	return true, came, r.g.missing(came)
}

// TakePlace waits for a place to put into a table, among those of limits.
func TakePlace(l Limits) func(ctx context.Context, uri string, hurry bool) (leave func(), err error) {
	return newPutPlaces(l).take
}

// Refusal is the answer to a call of a key's attempt that a decision refused.
func (c *Catalog) Refusal(key string, attempt uint32, r *twophase.Refused) error {
	id := twophase.DeriveTxnID(c.journal.Meta().Catalog, key, attempt)
	return c.refusal(txnRef{id: id, key: key, attempt: attempt}, r)
}

// Renew makes a table's extract anew, if it is as far behind as the limit says.
func (c *Catalog) Renew(ctx context.Context, id twophase.TableID) { c.renewals.renew(ctx, id) }

// Noticed shows the renewals an entry as the fold does.
func (c *Catalog) Noticed(e *twophase.Entry) {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	c.renewals.look(e)
}

// RenewDue makes extracts anew until no table's turn has come, or so often, and says how often.
func (c *Catalog) RenewDue(ctx context.Context, most int) (turns int) {
	for id, ok := c.renewals.next(); ok && turns < most; id, ok = c.renewals.next() {
		c.renewals.renew(ctx, id)
		turns++
	}
	return turns
}

// Undone is a snapshot by what the fold says, nil where that does not go back far enough, and
// by the manifests.
func (c *Catalog) Undone(ctx context.Context, v twophase.SnapshotVersion) (undone, read map[twophase.TableID]twophase.Version, err error) {
	if set := c.undone(c.latest(), v); set != nil {
		undone = set.tables
	}
	set, err := c.manifests.at(ctx, v)
	if err != nil {
		return nil, nil, err
	}
	return undone, set.tables, nil
}
