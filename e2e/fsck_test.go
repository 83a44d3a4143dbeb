package e2e_test

import (
	"path/filepath"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock/boltstore"
	"github.com/txcoord/txcoord/tables/checkpoint"
)

// prove has fsck look at what a dead server left: wherever it died, nothing is wrong.
func (w *world) prove() {
	w.t.Helper()
	if w.config.Shared != nil || w.gone != "" {
		return
	}
	objects, err := openObjects(w.ctx(), w.config, w.warehouse())
	if err != nil {
		w.t.Fatal(err)
	}
	store, err := boltstore.Open(filepath.Join(w.config.Dir, "store.db"), boltstore.Config{ReadOnly: true})
	if err != nil {
		w.t.Fatal(err)
	}
	defer store.Close()
	r, err := coordinator.Fsck(w.ctx(), coordinator.Config{
		Warehouse: w.warehouse(), Store: store, Objects: folder{w.warehouse(), objects}, ReadCheckpoint: checkpoint.Read,
	}, "")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range r.Findings {
		if f.Code.Wrong() {
			w.t.Errorf("fsck: %s: %s version %d, snapshot %d, transaction %s: %s", f.Code, f.Table, f.Version, f.Snapshot, f.Txn, f.What)
		}
	}
}
