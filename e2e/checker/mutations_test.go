package checker_test

import (
	"strings"

	"github.com/txcoord/txcoord/e2e/checker"
)

func mutations() []mutation {
	var all []mutation
	for _, list := range [][]mutation{logMutations, tagMutations, transactionMutations, manifestMutations, snapshotMutations} {
		all = append(all, list...)
	}
	return all
}

var logMutations = []mutation{
	{"in the middle", checker.LogGap, func(w *world) { delete(w.files, logFile("orders", 2)) }},
	{"at the start", checker.LogGap, func(w *world) { delete(w.files, logFile("orders", 0)) }},
	{"behind a checkpoint", checker.LogGap, func(w *world) {
		w.files[checkpointFile("orders", 2)] = ""
		delete(w.files, logFile("orders", 3))
	}},
	{"a checkpoint of which parts are missing covers nothing", checker.LogGap, func(w *world) {
		w.files["orders/_delta_log/00000000000000000003.checkpoint.0000000001.0000000002.parquet"] = ""
		delete(w.files, logFile("orders", 2))
	}},
	{"empty", checker.LogUnreadable, func(w *world) { w.files[logFile("orders", 2)] = "" }},
	{"torn", checker.LogUnreadable, func(w *world) {
		w.files[logFile("orders", 3)] = strings.TrimSuffix(w.files[logFile("orders", 3)], "e}}\n")
	}},
	{"two actions in a line", checker.LogUnreadable, func(w *world) { w.edit(logFile("orders", 2), `{"add":`, `{"remove":{},"add":`) }},
	{"add without a path", checker.LogUnreadable, func(w *world) { w.edit(logFile("orders", 2), `"path"`, `"p"`) }},
	{"other bytes", checker.VersionRewritten, func(w *world) {
		w.during = func() { w.write(logFile("orders", 2), foreign("other.parquet")) }
	}},
	{"other bytes, and back", checker.VersionRewritten, func(w *world) {
		w.during = func() {
			w.write(logFile("orders", 2), foreign("other.parquet"))
			if err := w.run.History.Sample(); err != nil {
				w.t.Fatal(err)
			}
			w.write(logFile("orders", 2), foreign("foreign.parquet"))
			touch(w, logFile("orders", 2))
		}
	}},
	{"the newest", checker.VersionVanished, func(w *world) {
		w.during = func() { w.remove(logFile("items", 3)) }
	}},
}

var tagMutations = []mutation{
	{"commitInfo second", checker.TagsMalformed, func(w *world) {
		l := strings.SplitAfter(w.files[logFile("items", 1)], "\n")
		w.files[logFile("items", 1)] = l[1] + l[0] + l[2]
	}},
	{"commitInfo twice", checker.TagsMalformed, func(w *world) {
		w.files[logFile("items", 1)] += strings.SplitAfter(w.files[logFile("items", 1)], "\n")[0]
	}},
	{"a tag is a number", checker.TagsMalformed, func(w *world) { w.edit(logFile("items", 1), `"txcoord.round":"7.0"`, `"txcoord.round":7`) }},
	{"no incarnation", checker.TagsMalformed, func(w *world) { w.edit(logFile("items", 1), `"txcoord.incarnation":"1",`, "") }},
	{"no transactions", checker.TagsMalformed, func(w *world) { w.edit(logFile("items", 1), "txcoord.transactions", "txcoord.others") }},
	{"transactions are no array", checker.TagsMalformed, func(w *world) {
		w.edit(logFile("items", 1), `"txcoord.transactions":"[[`, `"txcoord.transactions":"[`)
	}},
	{"a digest that is too short", checker.TagsMalformed, func(w *world) { w.edit(logFile("items", 1), digest("A"), digest("A")[:62]) }},
	{"an id in upper case", checker.TagsMalformed, func(w *world) { w.edit(logFile("items", 1), `[[\"`+id("A"), `[[\"`+strings.ToUpper(id("A"))) }},
	{"multi-table id missing", checker.TagsMalformed, func(w *world) { w.edit(logFile("items", 1), "delta.multiTableTransaction", "delta.other") }},
	{"multi-table id of another", checker.TagsMalformed, func(w *world) {
		w.edit(logFile("items", 1), `transactionId":"`+id("A"), `transactionId":"`+id("B"))
	}},
	{"multi-table id with two transactions", checker.TagsMalformed, func(w *world) {
		w.edit(logFile("orders", 3), `"txcoord.round"`, `"delta.multiTableTransaction.transactionId":"`+id("B")+`","txcoord.round"`)
	}},
	{"an action of our own", checker.TagsMalformed, func(w *world) { w.files[logFile("items", 1)] += `{"transactionGroup":{}}` + "\n" }},
	{"engine", checker.TagsMalformed, func(w *world) { w.edit(logFile("items", 1), "txcoord/0.1", "spark") }},
	{"timestamp", checker.TagsMalformed, func(w *world) { w.edit(logFile("items", 1), `"timestamp"`, `"time"`) }},
	{"operation", checker.TagsMalformed, func(w *world) { w.edit(logFile("items", 1), `"operation"`, `"op"`) }},
	{"isBlindAppend", checker.TagsMalformed, func(w *world) { w.edit(logFile("items", 1), `"isBlindAppend":true,`, "") }},
	{"txnId", checker.TagsMalformed, func(w *world) { w.edit(logFile("items", 1), `"txnId"`, `"id"`) }},
	{"neither delivers nor gives up", checker.TagsMalformed, func(w *world) {
		w.files[logFile("orders", 4)] = ownTags(3, map[string]string{"txcoord.transactions": "[]"}, nil)
	}},
	{"delivers and gives up", checker.TagsMalformed, func(w *world) {
		w.edit(logFile("orders", 3), `"txcoord.round"`, `"txcoord.notApplied":"[[\"`+id("D")+`\",\"`+digest("D")+`\"]]","txcoord.round"`)
	}},
	{"a barrier with a payload", checker.TagsMalformed, func(w *world) { w.files[logFile("orders", 4)] += add("x.parquet") + "\n" }},

	{"missing", checker.MarkerMalformed, func(w *world) {
		l := strings.SplitAfter(w.files[logFile("items", 1)], "\n")
		w.files[logFile("items", 1)] = l[0] + l[2]
	}},
	{"on line 3", checker.MarkerMalformed, func(w *world) {
		l := strings.SplitAfter(w.files[logFile("items", 1)], "\n")
		w.files[logFile("items", 1)] = l[0] + l[2] + l[1]
	}},
	{"two", checker.MarkerMalformed, func(w *world) {
		w.files[logFile("items", 1)] += strings.SplitAfter(w.files[logFile("items", 1)], "\n")[1]
	}},
	{"of another catalog", checker.MarkerMalformed, func(w *world) { w.edit(logFile("items", 1), "txcoord/"+catalogID, "txcoord/cat-2") }},
	{"with lastUpdated", checker.MarkerMalformed, func(w *world) { w.edit(logFile("items", 1), `"version":1`, `"version":1,"lastUpdated":5`) }},

	{"not above the version below", checker.MarkerOrder, func(w *world) { w.edit(logFile("items", 2), `"version":2`, `"version":1`) }},
	{"less than the transactions delivered", checker.MarkerOrder, func(w *world) { w.edit(logFile("orders", 3), `"version":3`, `"version":2`) }},
	{"a barrier moves it", checker.MarkerOrder, func(w *world) { w.edit(logFile("orders", 4), `"version":3`, `"version":4`) }},
	{"a hole, and nothing was given up", checker.MarkerOrder, func(w *world) {
		w.run.Dense = true
		w.edit(logFile("items", 3), `"version":3`, `"version":4`)
	}},
}

var transactionMutations = []mutation{
	{"two versions", checker.TransactionTwice, func(w *world) {
		w.files[logFile("items", 4)] = own(4, []string{"A"}, add("a2.parquet"))
	}},
	{"one version", checker.TransactionTwice, func(w *world) {
		w.files[logFile("orders", 3)] = own(4, []string{"B", "C", "B"}, add("b.parquet"), add("c%20c.parquet"))
	}},
	{"one version, in a row", checker.TransactionTwice, func(w *world) {
		w.files[logFile("orders", 3)] = own(4, []string{"B", "B", "C"}, add("b.parquet"), add("c%20c.parquet"))
	}},
	{"in one table", checker.TransactionLost, func(w *world) { w.files[logFile("items", 2)] = foreign("b.parquet") }},
	{"never written", checker.TransactionLost, func(w *world) {
		w.run.Committed = append(w.run.Committed, checker.Transaction{ID: id("G"), Parts: []checker.Part{part("orders", "G", 0, "g.parquet")}})
	}},
	{"part not applied, and the client does not know", checker.TransactionLost, func(w *world) {
		w.run.Committed[3].Parts[0] = part("orders", "D", 0, "d.parquet")
	}},
	{"no answer, one table only", checker.TransactionTorn, func(w *world) {
		w.files[logFile("items", 4)] = own(4, []string{"F"}, add("f.parquet"))
	}},
	{"in a log", checker.TransactionRefused, func(w *world) {
		w.files[logFile("orders", 5)] = own(5, []string{"E"}, add("e.parquet"))
	}},
	{"nobody knows it", checker.TransactionStray, func(w *world) {
		w.files[logFile("items", 4)] = own(4, []string{"G"}, add("g.parquet"))
	}},
	{"a table it has no part on", checker.TransactionStray, func(w *world) {
		w.files[logFile("items", 4)] = own(4, []string{"C"}, add("g.parquet"))
	}},
	{"other version", checker.TransactionMisplaced, func(w *world) { w.run.Committed[1].Parts[0].Version = 1 }},
	{"a version above what was cleaned", checker.TransactionMisplaced, takenOver(5)},
	{"other place", checker.TransactionMisplaced, func(w *world) { w.run.Committed[2].Parts[0].Place = new(int) }},
	{"other digest", checker.TransactionMisplaced, func(w *world) { w.run.Committed[1].Parts[0].Digests[0] = digest("X") }},
	{"given up and delivered", checker.TransactionGivenUp, func(w *world) { w.files[logFile("orders", 4)] = barrier(3, "C") }},
	{"the client was told not applied", checker.TransactionGivenUp, func(w *world) { w.run.Committed[1].Parts[0].NotApplied = true }},
	{"missing", checker.PathWrong, func(w *world) { w.edit(logFile("items", 1), "a.parquet", "z.parquet") }},
	{"twice in a version", checker.PathWrong, func(w *world) { w.files[logFile("items", 1)] += add("a.parquet") + "\n" }},
	{"again in another version", checker.PathWrong, func(w *world) { w.files[logFile("items", 3)] += add("a.parquet") + "\n" }},
	{"of a refused transaction", checker.PathWrong, func(w *world) { w.files[logFile("orders", 3)] += add("e.parquet") + "\n" }},
	{"of nobody", checker.PathWrong, func(w *world) { w.files[logFile("orders", 3)] += add("nobody.parquet") + "\n" }},
	{"two tables", checker.OrderCycle, func(w *world) {
		w.files[logFile("items", 1)] = own(1, []string{"B"}, add("b.parquet"))
		w.files[logFile("items", 2)] = own(2, []string{"A"}, add("a.parquet"))
	}},
}

var manifestMutations = []mutation{
	{"in the middle", checker.ManifestGap, func(w *world) { delete(w.files, manifestFile(4)) }},
	{"at the start", checker.ManifestGap, func(w *world) { delete(w.files, manifestFile(1)) }},
	{"a snapshot in two files", checker.ManifestGap, func(w *world) {
		w.files[manifestFile(2)] = manifestText(w, 2, "register", nil, false, tableVersion{"items", 0})
	}},
	{"full within a file", checker.ManifestGap, func(w *world) {
		w.files[fullFile(1)] = manifestText(w, 1, "register", nil, true, tableVersion{"orders", 0})
	}},
	{"a hole in a file", checker.ManifestMalformed, func(w *world) { w.edit(manifestFile(1), `"snapshot":2`, `"snapshot":3`) }},
	{"an empty file", checker.ManifestMalformed, func(w *world) { w.files[manifestFile(7)] = fileOf(false) }},
	{"a null", checker.ManifestMalformed, func(w *world) { w.files[manifestFile(7)] = fileOf(false, nil) }},
	{"two full ones in a file", checker.ManifestMalformed, func(w *world) {
		w.files[fullFile(5)] = fileOf(true, snapshot(w, 5, "register", nil), snapshot(w, 6, "register", nil))
	}},
	{"full without delta", checker.ManifestGap, func(w *world) { w.files[fullFile(9)] = manifestText(w, 9, "publication", nil, true) }},
	{"torn", checker.ManifestMalformed, func(w *world) { w.files[manifestFile(6)] = w.files[manifestFile(6)][:40] }},
	{"other number inside", checker.ManifestMalformed, func(w *world) { w.edit(manifestFile(6), `"snapshot":6`, `"snapshot":7`) }},
	{"format", checker.ManifestMalformed, func(w *world) { w.edit(manifestFile(6), `"format":2`, `"format":1`) }},
	{"kind", checker.ManifestMalformed, func(w *world) { w.edit(manifestFile(6), `"publication"`, `"compaction"`) }},
	{"catalog", checker.ManifestMalformed, func(w *world) { w.edit(manifestFile(6), `"`+catalogID+`"`, `"cat-2"`) }},
	{"no incarnation", checker.ManifestMalformed, func(w *world) { w.edit(manifestFile(6), `"incarnation":"1"`, `"incarnation":""`) }},
	{"no timestamp", checker.ManifestMalformed, func(w *world) { w.edit(manifestFile(6), `"timestamp"`, `"time"`) }},
	{"no transactions", checker.ManifestMalformed, func(w *world) { w.edit(manifestFile(6), `"transactions"`, `"txns"`) }},
	{"no tables", checker.ManifestMalformed, func(w *world) { w.edit(manifestFile(6), `"tables"`, `"tabs"`) }},
	{"transaction id", checker.ManifestMalformed, func(w *world) { w.edit(manifestFile(6), id("D"), id("D")[1:]) }},
	{"table version", checker.ManifestMalformed, func(w *world) { w.edit(manifestFile(6), `"version":4`, `"version":-4`) }},
	{"table twice", checker.ManifestMalformed, func(w *world) { w.edit(manifestFile(6), "id-items", "id-orders") }},
	{"no uri", checker.ManifestMalformed, func(w *world) { w.edit(manifestFile(6), "file://", "") }},
	{"full in a delta's file", checker.ManifestMalformed, func(w *world) { w.edit(manifestFile(6), `{"catalog"`, `{"full":true,"catalog"`) }},
	{"the schema alone knows", checker.ManifestMalformed, func(w *world) { w.edit(manifestFile(6), `{"kind"`, `{"removed":["x","x"],"kind"`) }},
	{"changed", checker.ManifestRewritten, func(w *world) {
		w.during = func() { w.write(manifestFile(4), w.files[manifestFile(4)]+" ") }
	}},
	{"gone", checker.ManifestRewritten, func(w *world) { w.during = func() { w.remove(manifestFile(6)) } }},
	{"backwards", checker.ManifestTime, func(w *world) { w.edit(manifestFile(5), "1700000000005", "1700000000003") }},
	{"version", checker.ManifestFold, func(w *world) { w.edit(fullFile(5), `"version":2`, `"version":1`) }},
	{"table missing", checker.ManifestFold, func(w *world) {
		w.files[fullFile(5)] = manifestText(w, 5, "publication", []string{"B", "C"}, true, tableVersion{"orders", 3})
	}},
	{"own fields", checker.ManifestFold, func(w *world) { w.edit(fullFile(5), "1700000000005", "1700000000006") }},
	{"unknown table", checker.ManifestTable, func(w *world) {
		w.files[manifestFile(7)] = manifestText(w, 7, "register", nil, false, tableVersion{"other", 0})
	}},
	{"moved", checker.ManifestTable, func(w *world) { w.edit(manifestFile(6), "/items", "/elsewhere") }},
	{"removes what is not there", checker.ManifestTable, func(w *world) { w.edit(manifestFile(6), `{"kind"`, `{"removed":["id-x"],"kind"`) }},
	{"back", checker.ManifestBack, func(w *world) {
		w.files[manifestFile(7)] = manifestText(w, 7, "publication", nil, false, tableVersion{"orders", 2})
	}},
	{"one missing", checker.ManifestTransactions, func(w *world) {
		w.files[manifestFile(5)] = manifestText(w, 5, "publication", []string{"B"}, false, tableVersion{"orders", 3}, tableVersion{"items", 2})
	}},
	{"one too many", checker.ManifestTransactions, func(w *world) {
		w.files[manifestFile(4)] = manifestText(w, 4, "foreign", []string{"E"}, false, tableVersion{"orders", 2})
	}},
	{"listed twice", checker.ManifestTransactions, func(w *world) {
		w.files[manifestFile(6)] = manifestText(w, 6, "publication", []string{"A", "D"}, false, tableVersion{"orders", 4}, tableVersion{"items", 3})
	}},
	{"a foreign version brings ours along", checker.ManifestTransactions, func(w *world) {
		w.files[manifestFile(4)] = manifestText(w, 4, "foreign", nil, false, tableVersion{"orders", 3})
	}},
}

var snapshotMutations = []mutation{
	{"a version nobody has", checker.SnapshotUnreal, func(w *world) {
		w.files[manifestFile(7)] = manifestText(w, 7, "foreign", nil, false, tableVersion{"items", 9})
	}},
	{"one table later", checker.SnapshotTorn, func(w *world) {
		w.files[manifestFile(3)] = manifestText(w, 3, "publication", []string{"A"}, false, tableVersion{"orders", 1})
	}},
	{"one table never", checker.SnapshotTorn, func(w *world) {
		w.files[manifestFile(5)] = manifestText(w, 5, "publication", []string{"B", "C"}, false, tableVersion{"orders", 3})
		w.files[manifestFile(6)] = manifestText(w, 6, "publication", []string{"D"}, false, tableVersion{"orders", 4})
		delete(w.files, fullFile(5))
	}},
	{"released before it got there", checker.SnapshotTorn, func(w *world) {
		w.files[manifestFile(5)] = strings.Replace(
			manifestText(w, 5, "publication", []string{"B", "C"}, false, tableVersion{"orders", 3}), `"tables"`, `"removed":["id-items"],"tables"`, 1)
		delete(w.files, manifestFile(6))
	}},
	{"other than told", checker.SnapshotWrong, func(w *world) { w.run.Committed[0].Snapshot = 5 }},
	{"no snapshot at rest", checker.SnapshotUnsettled, func(w *world) {
		w.files[logFile("orders", 5)] = own(5, []string{"F"}, add("f.parquet"))
		w.files[logFile("items", 4)] = own(4, []string{"F"}, add("f.parquet"))
	}},
	{"no manifest at rest", checker.SnapshotUnsettled, func(w *world) { w.run.Committed[0].Snapshot = 7 }},
}
