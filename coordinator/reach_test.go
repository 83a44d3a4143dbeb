package coordinator_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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

// What is decided beside a table that this replica may not use waits for another one to publish
// it, which who asks here is told.
func TestPublicationThatIsLeftToAnother(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	one := &world{wrapObjects: func(s objstore.Store) objstore.Store { return fullObjects{s, "away/_delta_log/0", &full} }}
	one.open(t)
	one.create("own", twophase.ModeExclusive)
	one.create("away", twophase.ModeExclusive)
	two := (&world{objects: one.objects, shared: one.store, objectsAs: func(o coordinator.Objects) coordinator.Objects { return within{o, "/away"} }}).open(t)
	full.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if o, _, err := one.catalog.CommitOnce(ctx, once("k", blind("own", "1"), blind("away", "1"))); err != nil || o.Committed == nil || o.Committed.Snapshot != 0 {
		t.Fatalf("%+v, %v", o, err)
	}
	const says = "away has 1 change to be put by another server, since this one may not use its location"
	if f := found(t, two.explain("own"), coordinator.FoundRoundOpen); !strings.Contains(f.Text, says) {
		t.Errorf("%s", f.Text)
	}
	full.Store(false)
	one.eventually("it publishes both", func() bool { return one.info("own").Version == 1 && one.info("away").Version == 1 })
}

// What others commit is seen although a replica is alive that may not use the tables' places,
// and whose turn it would be by its name.
func TestReplicasWhereOneMayNotUseTables(t *testing.T) {
	t.Parallel()
	limits := coordinator.Limits{PollInterval: 10 * time.Millisecond, Heartbeat: 500 * time.Millisecond}
	one := &world{}
	one.cfg.Limits = limits
	one.cfg.SharedStore = true
	one.open(t)
	const tables = 12
	name := func(i int) string { return fmt.Sprintf("%d-away", i) }
	for i := range tables {
		one.create(name(i), twophase.ModeOpen)
	}
	one.create("own", twophase.ModeExclusive)
	var log logged
	two := &world{objects: one.objects, shared: one.store, objectsAs: func(o coordinator.Objects) coordinator.Objects { return within{o, "-away"} }}
	two.cfg.Limits, two.cfg.SharedStore, two.cfg.Log = limits, true, log.logger()
	two.open(t)
	one.eventually("each sees the other", func() bool { return len(one.status().Replicas) == 2 && len(two.status().Replicas) == 2 })
	for i := range tables {
		one.foreign(name(i), 1, add("x"))
	}
	one.eventually("all are seen", func() bool {
		for i := range tables {
			if one.info(name(i)).Version != 1 {
				return false
			}
		}
		return true
	})
	if n := log.count("look at an open table"); n > 0 {
		t.Errorf("said %d times that it cannot look", n)
	}
}

// Of three replicas each may not use some table: each table has one of the others at work.
func TestDutyWhereNoReplicaMayUseAllTables(t *testing.T) {
	t.Parallel()
	worlds := make([]*world, 3)
	for i := range worlds {
		w := &world{objectsAs: func(o coordinator.Objects) coordinator.Objects { return within{o, fmt.Sprintf("-%d", i)} }}
		w.cfg.Limits.Heartbeat, w.cfg.SharedStore = 500*time.Millisecond, true
		if i > 0 {
			w.objects, w.shared = worlds[0].objects, worlds[0].store
		}
		worlds[i] = w.open(t)
	}
	var names []string
	for i := range 18 {
		names = append(names, fmt.Sprintf("t%d-%d", i, i%len(worlds)))
		worlds[(i+1)%len(worlds)].create(names[i], twophase.ModeOpen)
	}
	worlds[0].eventually("each table is one replica's work", func() bool {
		for i, name := range names {
			n := 0
			for at, w := range worlds {
				if w.catalog.TableDuty(name) {
					n++
					if at == i%len(worlds) {
						t.Fatalf("%s is the work of a replica that may not use it", name)
					}
				}
			}
			if n != 1 {
				return false
			}
		}
		return true
	})
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
