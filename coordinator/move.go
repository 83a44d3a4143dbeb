package coordinator

import (
	"context"
	"fmt"
	"strings"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// Leave records that the catalog moves to another store. From then on nothing is
// decided here, by any replica: the journal in this store ends with the record.
func (c *Catalog) Leave(ctx context.Context, to string) error {
	return c.adminRecord(ctx, &twophase.Moved{To: to})
}

// Arrive lets a catalog go on whose journal was copied from another store, and
// which has left that one.
func (c *Catalog) Arrive(ctx context.Context, from string) error {
	return c.adminRecord(ctx, &twophase.Arrived{From: from})
}

// MovedTo names the store in which the catalog lives now; empty if it is this one.
func (c *Catalog) MovedTo() (to string) {
	c.ledger.read(func(s *twophase.State) { to = s.MovedTo() })
	return to
}

// MovedError says that a journal has ended, and where the catalog goes on: in the store
// that MovedTo names, or with what a rebuild makes.
func MovedError(catalog, to string) error {
	remedy := "start its servers with that --store"
	if isRebuilt(to) {
		remedy = "start its servers with the --store of that rebuild; if it broke off, run it again"
	}
	return lock.Mark(lock.ErrUnfit, fmt.Errorf("catalog %s has moved to %s: %s", catalog, to, remedy))
}

// StaysBehind names the keys of a store that are not part of a catalog: what replicas
// say of themselves.
func StaysBehind(key string) bool { return strings.HasPrefix(key, replicaPrefix) }
