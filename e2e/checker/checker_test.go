package checker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/e2e/checker"
)

func TestGoodWorlds(t *testing.T) {
	for name, change := range goodChanges {
		t.Run(name, func(t *testing.T) {
			w := goodWorld(t)
			change(w)
			if err := w.check().Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// takenOver is a transaction whose version 5 was cleaned behind a checkpoint, and of
// which the server tells version 6.
func takenOver(checkpoint int) func(*world) {
	return func(w *world) {
		w.files[logFile("orders", 5)] = own(5, []string{"H"}, add("h.parquet"))
		w.files[logFile("orders", 6)] = foreign("later.parquet")
		w.files[manifestFile(7)] = manifestText(w, 7, "range", []string{"H"}, false, tableVersion{"orders", 6})
		place := 1
		w.run.Committed = append(w.run.Committed, checker.Transaction{ID: id("H"), Snapshot: 7, Parts: []checker.Part{
			{Table: "orders", Adds: []string{"h.parquet"}, Version: 6, Place: &place},
		}})
		w.during = func() {
			w.write(checkpointFile("orders", checkpoint), "")
			w.remove(logFile("orders", 5))
		}
	}
}

// goodChanges are worlds that look odd and are right.
var goodChanges = map[string]func(*world){
	"as it is": func(*world) {},
	"log cleaned behind a checkpoint, seen before": func(w *world) {
		w.during = func() {
			w.write(checkpointFile("orders", 3), "")
			w.remove(logFile("orders", 1))
			w.remove(logFile("orders", 2))
		}
	},
	"log cleaned before anybody looked": func(w *world) {
		w.files[checkpointFile("orders", 3)] = ""
		for v := range 3 {
			delete(w.files, logFile("orders", v))
		}
	},
	"cleaned before the server recorded it: it tells the end of the range": takenOver(6),
	"history sampled twice": func(w *world) {
		w.during = func() { w.t.Log(w.run.History.Sample()) }
	},
	"markers dense where nothing was given up": func(w *world) {
		w.run.Dense = true
	},
	"unresolved, and there in all tables": func(w *world) {
		w.files[logFile("orders", 5)] = own(5, []string{"F"}, add("f.parquet"))
		w.files[logFile("items", 4)] = own(4, []string{"F"}, add("f.parquet"))
		w.files[manifestFile(7)] = manifestText(w, 7, "publication", []string{"F"}, false, tableVersion{"orders", 5}, tableVersion{"items", 4})
	},
	"in flight: published, no snapshot yet": func(w *world) {
		w.files[logFile("orders", 5)] = own(5, []string{"F"}, add("f.parquet"))
		w.files[logFile("items", 4)] = own(4, []string{"F"}, add("f.parquet"))
		w.run.Settled = false
	},
	"another catalog's versions are foreign": func(w *world) {
		w.files[logFile("orders", 5)] = strings.ReplaceAll(own(1, []string{"G"}, add("g.parquet")), catalogID, "cat-2")
		w.files[manifestFile(7)] = manifestText(w, 7, "foreign", nil, false, tableVersion{"orders", 5})
	},
	"released, then registered again under another id": func(w *world) {
		w.files[manifestFile(7)] = strings.Replace(manifestText(w, 7, "release", nil, false), `"tables":[]`, `"removed":["id-items"],"tables":[]`, 1)
		w.files[manifestFile(8)] = strings.Replace(manifestText(w, 8, "register", nil, false, tableVersion{"items", 3}), "id-items", "id-items-2", 1)
	},
	"two parts of one table": func(w *world) {
		text := own(1, []string{"A"}, add("a.parquet"))
		second := `,[\"` + id("A") + `\",\"` + digest("A2") + `\"]]`
		w.files[logFile("orders", 1)] = strings.Replace(text, `]]`, `]`+second, 1)
		w.run.Committed[0].Parts[0].Digests = []string{digest("A"), digest("A2")}
	},
	"place in a version": func(w *world) {
		second := 1
		w.run.Committed[1].Parts[0].Place, w.run.Committed[2].Parts[0].Place = new(int), &second
	},
	"path spelled differently": func(w *world) {
		w.run.Committed[2].Parts[0].Adds[0] = "c c.parquet"
	},
	"an object that is no version": func(w *world) {
		w.files["orders/_delta_log/_txcoord/owner.json"] = "{}"
		w.files["orders/_delta_log/00000000000000000009.tmp.json"] = "torn"
	},
}

// mutation breaks a good world; every kind listed must be reported.
type mutation struct {
	name  string
	want  checker.Kind
	apply func(*world)
}

func TestEveryMutationIsReported(t *testing.T) {
	fired := map[checker.Kind]bool{}
	for _, m := range mutations() {
		t.Run(string(m.want)+"/"+m.name, func(t *testing.T) {
			w := goodWorld(t)
			m.apply(w)
			report := w.check()
			if !report.Has(m.want) {
				t.Errorf("want %s, got %s", m.want, report)
			}
			fired[m.want] = true
		})
	}
	for _, k := range checker.Kinds() {
		if !fired[k] {
			t.Errorf("no mutation for %s", k)
		}
	}
}

func TestCheckWithoutHistoryOrManifests(t *testing.T) {
	w := goodWorld(t)
	for n := 1; n <= 6; n++ {
		delete(w.files, manifestFile(n))
	}
	delete(w.files, fullFile(5))
	for name, text := range w.files {
		w.write(name, text)
	}
	w.run.Settled = false
	report, err := checker.Check(w.run)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.OwnVersions != 6 || report.Transactions != 4 {
		t.Errorf("found %d versions of ours with %d transactions, want 6 and 4", report.OwnVersions, report.Transactions)
	}
}

func TestTablesOfTheManifests(t *testing.T) {
	w := goodWorld(t)
	for name, text := range w.files {
		w.write(name, text)
	}
	got, err := checker.TablesOf(w.run.Warehouse, w.run.Catalog)
	if err != nil {
		t.Fatal(err)
	}
	want := []checker.Table{w.run.Tables[1], w.run.Tables[0]}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	w.write(manifestFile(7), "{")
	if _, err := checker.TablesOf(w.run.Warehouse, w.run.Catalog); err == nil {
		t.Error("no error, although a manifest is torn")
	}
}

func TestUnreadableFolderIsAnError(t *testing.T) {
	w := goodWorld(t)
	w.write("orders/_delta_log", "a file where the log should be")
	if _, err := checker.Check(w.run); err == nil {
		t.Error("no error, although the log cannot be listed")
	}
}

func TestReportNamesThePlace(t *testing.T) {
	w := goodWorld(t)
	delete(w.files, logFile("items", 2))
	text := w.check().String()
	for _, want := range []string{"log-gap: table items version 2", "transaction-lost: table items version 2 transaction " + id("B")} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

func touch(w *world, name string) {
	w.t.Helper()
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(filepath.Join(w.dir, name), later, later); err != nil {
		w.t.Fatal(err)
	}
}
