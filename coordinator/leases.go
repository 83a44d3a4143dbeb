package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// LeaseRequest asks for a lease, or to renew one.
type LeaseRequest struct {
	// ID names the lease. A new one may leave it empty; a call that is repeated with
	// the same id makes one lease only.
	ID string
	// Snapshot whose versions are kept; the latest if 0. Unset to renew.
	Snapshot twophase.SnapshotVersion
	// TTL from now on; LeaseTTL if 0.
	TTL  time.Duration
	Note string
}

// Lease keeps the versions of a snapshot readable.
type Lease struct {
	ID           string
	Snapshot     twophase.SnapshotVersion
	Note         string
	Since, Until time.Time
}

// Tag is a name for a snapshot.
type Tag struct {
	Name     string
	Snapshot twophase.SnapshotVersion
}

var leaseID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// Lease makes a lease, of a snapshot that can be read: that is looked at before, so that
// nothing is written for another one, and after, since a clean-up, or another engine, may
// have begun before the lease was folded. The warnings name tables whose own settings would
// let another engine break it.
func (c *Catalog) Lease(ctx context.Context, q LeaseRequest) (Lease, []string, error) {
	if q.ID == "" {
		var b [8]byte
		_, _ = rand.Read(b[:])
		q.ID = "l-" + hex.EncodeToString(b[:])
	}
	if err := c.checkLease(&q); err != nil {
		return Lease{}, nil, err
	}
	set, err := c.resolveSnapshot(ctx, SnapshotRef{Version: q.Snapshot})
	if err != nil {
		return Lease{}, nil, err
	}
	q.Snapshot = set.version
	if err := c.roomForLease(q); err != nil {
		return Lease{}, nil, err
	}
	if gone, err := c.unreadable(ctx, set); gone != nil || err != nil {
		return Lease{}, nil, errors.Join(gone, err)
	}
	rec := &twophase.Leased{ID: q.ID, Snapshot: q.Snapshot, TTL: q.TTL, Note: q.Note}
	out, err := c.leaseRecord(ctx, rec)
	if err != nil {
		return Lease{}, nil, err
	}
	gone, err := c.unreadable(ctx, set) // as seen from behind the record
	if err == nil && gone != nil {
		err = errors.Join(gone, c.EndLease(ctx, out.ID))
	}
	if err != nil {
		return Lease{}, nil, err
	}
	return out, c.holdWarnings(ctx, hold{what: "lease " + out.ID, snapshot: out.Snapshot, until: out.Until}, set), nil
}

// RenewLease makes a lease last TTL from now on. One that has ended stays so: what it
// kept may be gone.
func (c *Catalog) RenewLease(ctx context.Context, q LeaseRequest) (Lease, []string, error) {
	if err := c.checkLease(&q); err != nil {
		return Lease{}, nil, err
	}
	have, err := c.lease(q.ID)
	if err != nil {
		return Lease{}, nil, err
	}
	out, err := c.leaseRecord(ctx, &twophase.Leased{ID: q.ID, Snapshot: have.Snapshot, TTL: q.TTL, Renew: true})
	if err != nil {
		return Lease{}, nil, err
	}
	set, err := c.at(ctx, out.Snapshot)
	if err != nil {
		return out, []string{"its snapshot cannot be looked up: " + messageOf(err)}, nil
	}
	return out, c.holdWarnings(ctx, hold{what: "lease " + out.ID, snapshot: out.Snapshot, until: out.Until}, set), nil
}

// EndLease takes a lease away. NOT_FOUND if it is not there, or not any more.
func (c *Catalog) EndLease(ctx context.Context, id string) error {
	if _, err := c.lease(id); err != nil {
		return err
	}
	return c.leaseGone(id, c.adminRecord(ctx, &twophase.LeaseEnded{ID: id}))
}

// Leases are those that have not ended, by id.
func (c *Catalog) Leases(context.Context) (out []Lease, err error) {
	c.ledger.read(func(s *twophase.State) {
		for _, l := range s.Leases() {
			out = append(out, leaseOf(l))
		}
	})
	return out, nil
}

// Tags are all names of snapshots.
func (c *Catalog) Tags(context.Context) (out []Tag, err error) {
	c.ledger.read(func(s *twophase.State) {
		for name, v := range s.Tags() {
			out = append(out, Tag{name, v})
		}
	})
	slices.SortFunc(out, func(a, b Tag) int { return compare(a.Name, b.Name) })
	return out, nil
}

func leaseOf(l *twophase.Lease) Lease {
	return Lease{ID: l.ID, Snapshot: l.Snapshot, Note: l.Note, Since: l.Since.Std(), Until: l.Until.Std()}
}

func (c *Catalog) checkLease(q *LeaseRequest) error {
	if !leaseID.MatchString(q.ID) {
		return fieldError("lease_id", q.ID, "is no id", "use 1 to 64 letters, digits, '-', '_' and '.', beginning with a letter or digit")
	}
	if len(q.Note) > maxNoteBytes {
		return fieldError("note", q.Note, "is longer than 1,024 bytes", "use less of it")
	}
	if err := checkText("note", q.Note); err != nil {
		return err
	}
	def(&q.TTL, c.cfg.Limits.LeaseTTL)
	switch {
	case q.TTL < time.Second:
		return fieldError("ttl", q.TTL.String(), "is shorter than a second", "give a longer time to live")
	case q.TTL > c.cfg.Limits.MaxLeaseTTL:
		return ttlError("max_lease_ttl", q.TTL, c.cfg.Limits.MaxLeaseTTL)
	}
	return nil
}

// roomForLease bounds the leases of a catalog. Two replicas may each let in the last one.
func (c *Catalog) roomForLease(q LeaseRequest) error {
	n, other := 0, twophase.SnapshotVersion(0)
	c.ledger.read(func(s *twophase.State) {
		n = len(s.Leases())
		if l, ok := s.Lease(q.ID); ok {
			n, other = 0, l.Snapshot
		}
	})
	switch {
	case other != 0 && other != q.Snapshot:
		return &Error{
			Reason: LeaseExists, Message: fmt.Sprintf("lease %s is there, for snapshot %d", q.ID, other),
			Field: &FieldDetail{Field: "lease_id", Value: q.ID, Remedy: "use another id, or leave it out"},
		}
	case n >= c.cfg.Limits.LeaseCount:
		return &Error{
			Reason: QuotaExceeded, Message: "there are as many leases as the catalog takes; delete some, or wait for one to end", RetryAfter: time.Minute,
			Limit: &LimitDetail{Name: "lease_count", Value: int64(n) + 1, Limit: int64(c.cfg.Limits.LeaseCount)},
		}
	}
	return nil
}

func (c *Catalog) lease(id string) (out Lease, err error) {
	err = noLease(id)
	c.ledger.read(func(s *twophase.State) {
		if l, ok := s.Lease(id); ok {
			out, err = leaseOf(l), nil
		}
	})
	return out, err
}

func noLease(id string) error {
	return &Error{Reason: LeaseNotFound, Message: fmt.Sprintf("there is no lease %q, or it has ended", clip(id, 256))}
}

// leaseRecord appends, and answers from the fold (R5).
func (c *Catalog) leaseRecord(ctx context.Context, r *twophase.Leased) (Lease, error) {
	if err := c.adminRecord(ctx, r); err != nil {
		return Lease{}, c.leaseGone(r.ID, err)
	}
	out, err := c.lease(r.ID)
	if err == nil && out.Snapshot != r.Snapshot {
		err = &Error{Reason: LeaseExists, Message: fmt.Sprintf("lease %s is there, for snapshot %d", r.ID, out.Snapshot)}
	}
	return out, err
}

// leaseGone: the fold refuses the record because the lease is not, or not that, any more.
func (c *Catalog) leaseGone(id string, err error) error {
	var own *Error
	if !errors.As(err, &own) || own.Reason != BrokenInvariant {
		return err
	}
	if have, err := c.lease(id); err == nil {
		return &Error{Reason: LeaseExists, Message: fmt.Sprintf("lease %s is there, for snapshot %d", id, have.Snapshot)}
	}
	return noLease(id)
}

// warnedAtMost bounds the tables whose settings are looked at for one answer.
const warnedAtMost = 1000

// holdWarnings say by which settings of tables another engine could break a hold.
func (c *Catalog) holdWarnings(ctx context.Context, h hold, set *tableSet) []string {
	h.made = set.time.Std()
	rows, _ := c.Tables(ctx)
	rows = slices.DeleteFunc(rows, func(r TableInfo) bool { _, ok := set.tables[r.ID]; return !ok })
	var out []string
	if n := len(rows) - warnedAtMost; n > 0 {
		out = append(out, fmt.Sprintf("the settings of %d further tables were not looked at", n))
		rows = rows[:warnedAtMost]
	}
	unread, found := make([][]string, len(rows)), make([][]risk, len(rows))
	_ = parallelIndex(len(rows), 8, func(i int) error {
		p, err := c.profileOf(ctx, rows[i])
		if err != nil {
			unread[i] = []string{fmt.Sprintf("the settings of table %s cannot be read: %s", rows[i].Name, messageOf(err))}
			return nil
		}
		at := h
		at.version = set.tables[rows[i].ID]
		found[i] = at.risks(rows[i], p)
		return nil
	})
	return slices.Concat(h.told(slices.Concat(found...)), slices.Concat(unread...), out)
}

// endLeases takes leases away whose time has passed (R16): counted here on the boot
// clock, from when this process first saw how long they last.
func (c *Catalog) endLeases(ctx context.Context) {
	seen := map[string]leaseSight{}
	every(ctx, c.cfg.Limits.LeaseInterval, func(ctx context.Context) {
		var leases []*twophase.Lease
		c.ledger.read(func(s *twophase.State) { leases = s.Leases() })
		boot := c.cfg.Boot()
		there := map[string]leaseSight{}
		for _, l := range leases {
			sight, ok := seen[l.ID]
			if !ok || sight.until != l.Until {
				sight = leaseSight{until: l.Until, ends: boot + leaseLasts(l, c.cfg.Now())}
			}
			there[l.ID] = sight
			if boot < sight.ends {
				continue
			}
			err := c.adminRecord(ctx, &twophase.LeaseEnded{ID: l.ID, Until: l.Until})
			if err = c.leaseGone(l.ID, err); err != nil && ctx.Err() == nil && !errors.Is(err, &Error{Reason: LeaseNotFound}) && !errors.Is(err, &Error{Reason: LeaseExists}) {
				c.log.Warn("end a lease", "lease", l.ID, "error", err)
			}
		}
		seen = there
	})
}

// leaseSight is until when a lease lasts, in the journal's time and here.
type leaseSight struct {
	until twophase.Time
	ends  time.Duration
}

// clockError is by how much this machine's clock is believed to be ahead of the one that
// gave a lease its end, where the store does not tell the time: a day, and some.
const clockError = 25 * time.Hour

// leaseLasts is how long a lease lasts that is seen for the first time: all of its time,
// since clocks may differ; but one that was made long ago is not given all of it again by
// each start, without end.
func leaseLasts(l *twophase.Lease, now time.Time) time.Duration {
	ttl := l.TTL
	if ttl == 0 { // it was made by a build that did not note it
		ttl = l.Until.Std().Sub(l.Since.Std())
	}
	return min(ttl, max(l.Until.Std().Sub(now)+clockError, 0))
}
