package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
)

// A catalog is moved to another file: its servers have to follow, and find everything.
func TestStoreMove(t *testing.T) {
	warehouse := t.TempDir()
	newStore := "bolt:" + filepath.Join(t.TempDir(), "journal.db")
	var before string
	t.Run("before", func(t *testing.T) {
		s := &server{t: t, warehouse: warehouse, env: map[string]string{"TXCOORD_SERVER": serving(t, "--warehouse", warehouse)}}
		s.ok("tables", "create", "orders", filepath.Join(warehouse, "orders"), "--schema", schema)
		s.ok("tables", "create", "items", filepath.Join(warehouse, "items"), "--schema", schema)
		before = s.ok("snapshot", "get", "-o", "json")
		args := []string{"store", "move", "--warehouse", warehouse, "--to", newStore}
		wantCode(t, args, txcoord(t, nil, "", args...), 6, "in use", "end that first")
	})
	move := []string{"store", "move", "--warehouse", warehouse, "--to", newStore}
	for range 2 { // the second time there is nothing left to do
		o := txcoord(t, nil, "", move...)
		wantCode(t, move, o, 0)
		if !strings.Contains(o.out, "--store "+newStore) {
			t.Errorf("says %q", o.out)
		}
	}
	old := []string{"serve", "--listen", "127.0.0.1:0", "--warehouse", warehouse}
	wantCode(t, old, txcoord(t, nil, "", old...), 6, "has moved to", filepath.Base(filepath.Dir(strings.TrimPrefix(newStore, "bolt:"))))
	unmade := filepath.Join(t.TempDir(), "new", "other.db")
	elsewhere := []string{"store", "move", "--warehouse", warehouse, "--to", "bolt:" + unmade}
	wantCode(t, elsewhere, txcoord(t, nil, "", elsewhere...), 6, "has moved to")
	wantNothing(t, filepath.Dir(unmade))
	t.Run("after", func(t *testing.T) {
		s := &server{t: t, warehouse: warehouse, env: map[string]string{"TXCOORD_SERVER": serving(t, "--warehouse", warehouse, "--store", newStore)}}
		if after := s.ok("snapshot", "get", "-o", "json"); after != before {
			t.Errorf("snapshot %s became %s", before, after)
		}
		s.ok("tables", "create", "more", filepath.Join(warehouse, "more"), "--schema", schema)
		s.ok("tables", "describe", "orders")
		s.ok("snapshot", "tag", "after-the-move")
	})
	// Manifests are newer than the journal that was left: it is not taken for one that was put back.
	for _, args := range [][]string{old, move, elsewhere} {
		wantCode(t, args, txcoord(t, nil, "", args...), 6, "has moved to", "start its servers with that --store")
	}
	// What the catalog left behind has another past than what it would leave now.
	back := []string{"store", "move", "--warehouse", warehouse, "--store", newStore, "--to", "bolt:" + filepath.Join(warehouse, "_txcoord", "default.db")}
	wantCode(t, back, txcoord(t, nil, "", back...), 6, "older copy of this journal", "delete that")
	t.Run("still there", func(t *testing.T) {
		s := &server{t: t, warehouse: warehouse, env: map[string]string{"TXCOORD_SERVER": serving(t, "--warehouse", warehouse, "--store", newStore)}}
		s.ok("snapshot", "get", "--tag", "after-the-move")
	})
	for _, to := range []string{newStore, "bolt:" + unmade} {
		nowhere := []string{"store", "move", "--warehouse", t.TempDir(), "--to", to}
		wantCode(t, nowhere, txcoord(t, nil, "", nowhere...), 6, "holds no journal")
	}
	wantNothing(t, filepath.Dir(unmade))
	same := []string{"store", "move", "--warehouse", warehouse, "--store", newStore, "--to", newStore}
	wantCode(t, same, txcoord(t, nil, "", same...), 2, "--to")
}

// A move that broke off has left a store that looks empty, and is not.
func TestStoreCheckOfAMoveThatBrokeOff(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journal.db")
	store, err := boltstore.Open(file, boltstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Put(t.Context(), "copying", []byte("catalog incarnation"), lock.Always())
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	check := []string{"store", "check", "--store", "bolt:" + file}
	wantCode(t, check, txcoord(t, nil, "", check...), 6, "the same txcoord store move again")
}
