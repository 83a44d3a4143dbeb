package coordinator

import (
	"context"
	"fmt"

	"github.com/txcoord/txcoord/tables/objstore"
)

// CheckUnused errs if a warehouse holds manifests of a catalog of this name. It is for
// a start that has found no journal, before it makes one: the journal that those
// manifests are of is lost, or somewhere else. It writes nothing.
func CheckUnused(ctx context.Context, all Objects, warehouse, name string) error {
	store, prefix, err := all.Open(warehouse)
	if err != nil {
		return fmt.Errorf("warehouse %s: %w", warehouse, err)
	}
	if prefix != "" {
		prefix += "/"
	}
	prefix += "_txcoord/" + name + "/manifests/"
	for e, err := range store.List(ctx, objstore.ListOptions{Prefix: prefix}) {
		if err != nil {
			return fmt.Errorf("look for manifests of catalog %s: %w", name, err)
		}
		return contradicts(fmt.Sprintf("the warehouse has manifests of catalog %s (%s), and the store has no journal", name, e.Key))
	}
	return nil
}
