package coordinator

import (
	"context"
	"fmt"
	"regexp"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// extractsFolder is where the extracts of the tables' newest checkpoints lie, below the
// catalog's folder, one for each table under its id. Nothing rests on one: one that is
// gone, old or damaged costs a read of the checkpoint.
const extractsFolder = "extracts/"

// tableIDForm is that of the ids that tables get.
var tableIDForm = regexp.MustCompile(`^t-[0-9a-f]{16}$`)

// extracts is a table's (tables.Extracts).
type extracts struct {
	c  *Catalog
	id twophase.TableID
}

func (x extracts) name() string { return extractsFolder + string(x.id) }

func (x extracts) Get(ctx context.Context, atMost int64) ([]byte, error) {
	b, _, err := x.c.own.store.Get(ctx, x.c.own.key(x.name()), objstore.Range{Length: atMost + 1})
	if err == nil && int64(len(b)) > atMost {
		err = fmt.Errorf("extract %s has more than %d bytes", x.name(), atMost)
	}
	return b, err
}

// Keep: of two that are put at once the older one may stay.
func (x extracts) Keep(ctx context.Context, b []byte) {
	if err := x.c.own.store.Put(ctx, x.c.own.key(x.name()), b); err != nil && ctx.Err() == nil {
		x.c.log.Warn("keep the extract of a table's checkpoint; without it the table's first commit after a start takes longer", "table", string(x.id), "error", err)
	}
}

// drop removes that of a table that has left the catalog. gc finds those that stay.
func (x extracts) drop(ctx context.Context) {
	if err := x.c.own.store.Delete(ctx, x.c.own.key(x.name())); err != nil && ctx.Err() == nil {
		x.c.log.Warn("remove the extract of a released table", "table", string(x.id), "error", err)
	}
}

// wanted reports whether the table is in the catalog.
func (x extracts) wanted() (is bool) {
	x.c.ledger.read(func(s *twophase.State) {
		t, ok := s.Table(x.id)
		is = ok && !t.Released
	})
	return is
}
