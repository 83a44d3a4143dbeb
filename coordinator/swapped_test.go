package coordinator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// swap exchanges what lies below two tables' places.
func (w *world) swap(a, b string) {
	w.t.Helper()
	before := w.keys()
	for key := range before {
		if name, ok := strings.CutPrefix(key, "object: "); ok && (strings.HasPrefix(name, a+"/") || strings.HasPrefix(name, b+"/")) {
			w.drop(name)
		}
	}
	for key, content := range before {
		if name, ok := strings.CutPrefix(key, "object: "+a+"/"); ok {
			w.put(b+"/"+name, content)
		}
		if name, ok := strings.CutPrefix(key, "object: "+b+"/"); ok {
			w.put(a+"/"+name, content)
		}
	}
}

// The folders of two tables of the catalog are swapped: that is said as what it is, a
// take-over is refused and writes nothing, and both go on when the folders are back.
func TestSwappedFolders(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.OwnerInterval = 5 * time.Millisecond
	w.open(t)
	for _, name := range []string{"t", "u"} {
		w.create(name, twophase.ModeExclusive)
		w.commit("1"+name, blind(name, "1"))
	}
	w.settle()
	w.swap("t", "u")
	for _, name := range []string{"t", "u"} {
		other := map[string]string{"t": "u", "u": "t"}[name]
		w.eventually("it is seen at "+name, func() bool {
			for _, f := range w.explain(name).Findings {
				if f.Code == coordinator.FoundOwnedElsewhere {
					return strings.Contains(f.Text, "that of table "+other+" of this catalog") && strings.Contains(f.Remedy, "put the folders back")
				}
			}
			return false
		})
		before := w.object(ownerKey(name))
		_, _, err := w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: name, URI: w.uri(name), Mode: twophase.ModeExclusive, TakeOver: true})
		own := wantReason(t, "take over "+name, err, coordinator.TableOwned)
		if !strings.Contains(own.Message, "put the folders back") || w.object(ownerKey(name)) != before {
			t.Errorf("%v", own)
		}
	}
	w.swap("t", "u")
	w.eventually("both take commits again", func() bool {
		_, err := w.try("2", blind("t", "2"), blind("u", "2"))
		return err == nil
	})
	// An owner object alone that names the other table is written anew.
	w.put(ownerKey("t"), w.object(ownerKey("u")))
	if _, _, err := w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: "t", URI: w.uri("t"), Mode: twophase.ModeExclusive, TakeOver: true}); err != nil {
		t.Fatal(err)
	}
	if o := w.owner("t"); o.Table != w.info("t").ID {
		t.Errorf("%+v", o)
	}
}

// The newest version goes while the server runs and trusts what it saw shortly before: who
// asks why, resolves or maintains finds out, and not only the next look at owners.
func TestNewestVersionGoneWhileRunning(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(w *tended){
		"why": func(w *tended) { w.explain("t") },
		"resolve": func(w *tended) {
			err := w.resolve("t")
			wantReason(w.t, "resolve", err, coordinator.LogContradiction)
		},
		"describe": func(w *tended) { w.catalog.Describe(w.ctx(), "t") }, //nolint:errcheck // what it finds is in the row
		"maintain": func(w *tended) {
			_, err := w.maintainer(coordinator.MaintainConfig{}).Maintain(w.ctx(), coordinator.MaintainRequest{Table: "t"})
			wantReason(w.t, "maintain", err, coordinator.TableFrozen)
		},
	} {
		for _, mode := range []twophase.Mode{twophase.ModeOpen, twophase.ModeExclusive} {
			t.Run(name+" "+mode.String(), func(t *testing.T) {
				t.Parallel()
				w := newTended(t)
				w.create("t", mode)
				w.grow("t", 2)
				was := w.read("t", 2)
				w.world.drop(commitKey("t", 2))
				ask(w)
				if f := w.info("t").Frozen; f == nil || f.Cause != twophase.CauseReplaced {
					t.Fatalf("%+v", f)
				}
				w.put(commitKey("t", 2), was)
				if err := w.resolve("t"); err != nil {
					t.Fatal(err)
				}
				w.commit("3", blind("t", "3"))
			})
		}
	}
}
