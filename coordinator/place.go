package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/txcoord/txcoord/lock"
)

// placeKey says whose journal a store holds. Without it two catalogs that were given
// the same store would fold one journal, and each write its own manifests of it.
const placeKey = "place"

type placeRecord struct {
	Catalog   string `json:"catalog"`
	Warehouse string `json:"warehouse"`
}

// notePlace writes the key if it is absent, and refuses the store of another catalog
// or warehouse.
func notePlace(ctx context.Context, cfg Config) error {
	if !cfg.SharedStore {
		return nil
	}
	want := placeRecord{cfg.Name, cfg.Warehouse}
	b, err := json.Marshal(want)
	if err != nil {
		return err
	}
	condition := lock.IfAbsent()
	if cfg.WarehouseMoved {
		condition = lock.Always()
	}
	_, err = cfg.Store.Put(ctx, placeKey, b, condition)
	if err != nil && !errors.Is(err, lock.ErrConflict) && !errors.Is(err, lock.ErrUnknown) {
		return fmt.Errorf("note whose journal the store holds: %w", err)
	}
	item, err := cfg.Store.Get(ctx, placeKey)
	if err != nil {
		return fmt.Errorf("read whose journal the store holds: %w", err)
	}
	var have placeRecord
	if err := json.Unmarshal(item.Value, &have); err != nil {
		return lock.Mark(lock.ErrUnfit, fmt.Errorf("key %q of the store cannot be read: %w", placeKey, err))
	}
	if have != want {
		return lock.Mark(lock.ErrUnfit, fmt.Errorf("the store holds the journal of catalog %q with warehouse %s, and this is catalog %q with %s: "+
			"give each catalog a store or a prefix of its own, or correct --catalog or --warehouse; if the warehouse was moved, say --warehouse-moved once",
			have.Catalog, have.Warehouse, want.Catalog, want.Warehouse))
	}
	return nil
}
