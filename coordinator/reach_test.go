package coordinator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// within are objects of which one table's place is left out.
type within struct {
	coordinator.Objects
	without string
}

func (w within) Open(uri string) (objstore.Store, string, error) {
	if strings.HasSuffix(uri, w.without) {
		return nil, "", fmt.Errorf("%s is not allowed", uri)
	}
	return w.Objects.Open(uri)
}

// A replica that was not given a table's place says so, and that another one may be asked:
// the caller has named a table, and no location.
func TestReplicaThatMayNotUseATable(t *testing.T) {
	t.Parallel()
	one := (&world{}).open(t)
	one.create("t", twophase.ModeOpen)
	two := &world{objects: one.objects, shared: one.store, objectsAs: func(o coordinator.Objects) coordinator.Objects { return within{o, "/t"} }}
	two.open(t)
	if err := two.catalog.AtLeast(two.ctx(), one.catalog.Shown()); err != nil {
		t.Fatal(err)
	}
	token := two.begin("k").Token
	for what, call := range map[string]func() error{
		"stage": func() error {
			part := blind("t", "x")
			_, err := two.catalog.Stage(two.ctx(), coordinator.StageRequest{Token: token, Table: "t", Read: part.Read, Actions: part.Actions})
			return err
		},
		"commit": func() error {
			_, _, err := two.catalog.CommitOnce(two.ctx(), once("once", blind("t", "x")))
			return err
		},
		"describe": func() error {
			_, err := two.catalog.Describe(two.ctx(), "t")
			return err
		},
	} {
		e := wantReason(t, what, call(), coordinator.ObjectsUnavailable)
		if e.Field != nil || e.Table == nil || !e.Table.OutOfReach || e.Table.Table != "t" || !strings.HasSuffix(e.Table.URI, "/t") {
			t.Errorf("%s: the field %+v, the table %+v", what, e.Field, e.Table)
		}
		if !strings.Contains(e.Message, "/t is not allowed") || !strings.Contains(e.Message, "another server") {
			t.Errorf("%s: %s", what, e.Message)
		}
	}
	staged := one.stage(token, blind("t", "x")) // the same transaction, where the table may be used
	if _, err := one.catalog.Commit(one.ctx(), coordinator.CommitRequest{Token: token, Tables: []coordinator.TableParts{parts("t", staged.Digest)}}); err != nil {
		t.Errorf("at the other: %v", err)
	}
}

// The same of a table that a transaction creates, where another replica has staged it: the call
// that commits it names no location.
func TestReplicaThatMayNotUseATableToBe(t *testing.T) {
	t.Parallel()
	one := (&world{}).open(t)
	two := (&world{objects: one.objects, shared: one.store, objectsAs: func(o coordinator.Objects) coordinator.Objects { return within{o, "/n"} }}).open(t)
	token := one.begin("k").Token
	staged, err := one.catalog.Stage(one.ctx(), coordinator.StageRequest{Token: token, Table: "n", Actions: add("1"), Create: one.creating("n").Create})
	if err != nil {
		t.Fatal(err)
	}
	commit := coordinator.CommitRequest{Token: token, Tables: []coordinator.TableParts{parts("n", staged.Digest)}}
	_, err = two.catalog.Commit(two.ctx(), commit)
	if e := wantReason(t, "commit", err, coordinator.ObjectsUnavailable); e.Field != nil || e.Table == nil || e.Table.Table != "n" || !strings.HasSuffix(e.Table.URI, "/n") || !e.Table.OutOfReach {
		t.Errorf("the field %+v, the table %+v", e.Field, e.Table)
	}
	if _, err := one.catalog.Commit(one.ctx(), commit); err != nil {
		t.Errorf("at the other: %v", err)
	}
}
