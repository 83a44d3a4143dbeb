package tables_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
)

// Random transactions beside foreign writers, on tables with random features. What is
// checked is the log that comes out, by a replayer that shares nothing with the
// product: every change is possible where it stands, row ids never overlap, times
// rise, and a State says the same.

// agrees compares a State with the naive replayer.
func (w *lake) agrees() {
	s := w.state()
	live := map[tables.PathHash]bool{}
	for path := range s.Live() {
		live[path] = true
	}
	want := map[tables.PathHash]bool{}
	for path := range w.naive.files {
		want[tables.HashPath(path)] = true
	}
	domains := maps.Clone(w.naive.domains)
	if diff := cmp.Diff(want, live); diff != "" {
		w.r.Fatalf("live files (-naive +state):\n%s", diff)
	}
	w.filesAgree()
	if diff := cmp.Diff(w.naive.txns, s.Txns()); diff != "" {
		w.r.Fatalf("txns (-naive +state):\n%s", diff)
	}
	if diff := cmp.Diff(domains, s.Domains()); diff != "" {
		w.r.Fatalf("domains (-naive +state):\n%s", diff)
	}
	if diff := cmp.Diff(w.naive.config, s.Profile().MetaData.Configuration); diff != "" {
		w.r.Fatalf("properties (-naive +state):\n%s", diff)
	}
	w.portionsAgree(s)
}

// portionsAgree reads less of the checkpoint, which says the same.
func (w *lake) portionsAgree(all *tables.State) {
	cfg := w.log.LogConfig
	cfg.Extracts = nil
	log := tables.NewLog(cfg)
	live, err := log.LiveState(w.t.Context(), all.Version())
	if err != nil || !reflect.DeepEqual(live, all) {
		w.r.Fatalf("LiveState says %+v, %v, and State %+v", live, err, all)
	}
	tail, err := log.Tail(w.t.Context(), all.Version())
	if err != nil {
		w.r.Fatal(err)
	}
	want, err := log.TailOf(w.t.Context(), all)
	if err != nil || !reflect.DeepEqual(tail, want) {
		w.r.Fatalf("Tail says %+v, and TailOf the whole state %+v, %v", tail, want, err)
	}
	if err := loadsAlike(w.t.Context(), w.log, all.Version()); err != nil {
		w.r.Fatal(err)
	}
}

// filesAgree compares paths, deletion vectors and row ids.
func (w *lake) filesAgree() {
	all, err := w.log.LiveFiles(w.t.Context(), tables.Latest)
	if err != nil {
		w.r.Fatal(err)
	}
	got, want := map[string]string{}, map[string]string{}
	for _, f := range all {
		var a naiveAction
		if err := json.Unmarshal(f.Raw, &a); err != nil {
			w.r.Fatal(err)
		}
		got[f.Path] = f.DV + rowIDsOf(a.BaseRowID, a.RowVersion)
	}
	for path, f := range w.naive.files {
		want[path] = rowIDsOf(f.base, f.version)
		if f.dv != "" {
			want[path] = "u" + f.dv + "@1" + want[path]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.r.Fatalf("files, their vectors and row ids (-naive +log):\n%s", diff)
	}
}

func rowIDsOf(base, version *int64) string {
	if base == nil || version == nil {
		return ""
	}
	return fmt.Sprintf(" rows %d@%d", *base, *version)
}

// checkpointed lets the log go on from a checkpoint: it says the same, with the
// commits below it or without them.
func (w *lake) checkpointed() {
	cfg := w.log.LogConfig
	cfg.ReadCheckpoint = checkpoint.Read
	w.log, w.kept = tables.NewLog(cfg), true
	w.shelve()
	cfg = w.log.LogConfig
	k := tables.NewKeeper(tables.KeeperConfig{Log: cfg, Format: checkpoint.Format(), SidecarRows: 3, TempDir: w.t.TempDir()})
	s, err := k.Survey(w.t.Context(), tables.Latest)
	if err != nil {
		w.r.Fatal(err)
	}
	if _, err := k.Checkpoint(w.t.Context(), s, nil); err != nil {
		w.r.Fatal(err)
	}
	w.agrees()
}

// shelve gives the table a place for its extract.
func (w *lake) shelve() {
	if cfg := w.log.LogConfig; cfg.Extracts == nil {
		cfg.Extracts, cfg.ExtractFrom, cfg.ExtractCommits = &shelf{}, 1, 1
		w.log = tables.NewLog(cfg)
	}
}

// renewed makes the extract anew.
func (w *lake) renewed() {
	w.shelve()
	before := w.log.Extracts.(*shelf).puts
	out, err := w.log.RenewExtract(w.t.Context(), tables.Latest, tables.Renewal{AtLeast: 1, MaxBytes: 1 << 20})
	if err != nil {
		w.r.Fatal(err)
	}
	w.renewals += w.log.Extracts.(*shelf).puts - before
	if !out.Written {
		return
	}
	if err := loadsAlike(w.t.Context(), w.log, out.Version); err != nil {
		w.r.Fatal(err)
	}
}

func TestRandomTransactions(t *testing.T) {
	t.Parallel()
	decided, lost, renewals := 0, 0, 0
	rapid.Check(t, func(r *rapid.T) {
		w := newLake(t, r)
		for range rapid.IntRange(20, 60).Draw(r, "steps") {
			switch rapid.SampledFrom([]string{"begin", "begin", "begin", "decide", "decide", "publish", "publish all", "foreign", "foreign", "checkpoint", "renew"}).Draw(r, "step") {
			case "begin":
				w.begin()
			case "decide":
				w.decide()
			case "publish":
				w.publish(false)
			case "publish all":
				w.publish(true)
			case "foreign":
				w.foreign()
			case "renew":
				w.renewed()
			case "checkpoint":
				if !w.kept { // one a table is what time allows
					w.checkpointed()
				}
			}
		}
		w.publish(true)
		w.agrees()
		decided, lost, renewals = decided+w.decided, lost+w.lost, renewals+w.renewals
	})
	t.Logf("%d decided, %d given up after that, and %d extracts were made anew", decided, lost, renewals)
	if decided == 0 || lost == 0 || renewals == 0 {
		t.Errorf("%d transactions were decided, %d given up after that, and %d extracts were made anew: the test has lost its subject", decided, lost, renewals)
	}
}
