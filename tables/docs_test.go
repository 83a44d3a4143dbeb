package tables_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// docs compares a page with what the code says, or writes it with -rewrite.
func docs(t *testing.T, name, want string) {
	t.Helper()
	file := "../docs/" + name
	if *rewrite {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/%s is stale; go test ./tables -run Docs -rewrite writes it (-want +got):\n%s", name, diff)
	}
}

func TestFeaturesDocs(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Table features\n\n<!-- Written by go test ./tables -run Docs -rewrite from tables/features.go. -->\n\n" +
		"What txcoord does about each Delta table feature when it writes a table that has it.\n" +
		"A feature that is not listed is refused by its name before anything is written.\n\n")
	for p := tables.Pass; p <= tables.Refuse; p++ {
		fmt.Fprintf(&b, "- **%s**: %s\n", p, map[tables.Policy]string{
			tables.Pass:    "the actions are published as they came.",
			tables.Check:   "the actions are published as they came, after the feature's rules were checked, when a part is staged and again when it is decided.",
			tables.Rewrite: "actions that name a version, a time or row ids are written for the version that they get. Only those values change: every other byte, unknown fields and 64-bit integers included, stays.",
			tables.Refuse:  "the table is not written.",
		}[p])
	}
	b.WriteString("\n| feature | for | without a name from | policy | why |\n|---|---|---|---|---|\n")
	for _, f := range tables.Features() {
		who, legacy := "writers", "–"
		if f.Reader {
			who = "readers, writers"
		}
		switch {
		case f.LegacyReader > 0:
			legacy = fmt.Sprintf("reader %d, writer %d", f.LegacyReader, f.LegacyWriter)
		case f.LegacyWriter > 0:
			legacy = fmt.Sprintf("writer %d", f.LegacyWriter)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.Name, who, legacy, f.Policy, f.Why)
	}
	b.WriteString("\n## Protocol versions\n\nVersions up to reader 3 and writer 7 are known. Below writer 7 features are in force by the version; writer 7 has those that it names and no others.\n\n| writer version | in force |\n|---|---|\n")
	for v := 1; v <= 6; v++ {
		var names []string
		for _, f := range tables.Features() {
			if f.LegacyWriter > 0 && f.LegacyWriter <= v {
				names = append(names, "`"+f.Name+"`")
			}
		}
		if len(names) == 0 {
			names = []string{"nothing"}
		}
		fmt.Fprintf(&b, "| %d | %s |\n", v, strings.Join(names, ", "))
	}
	b.WriteString("\n## Switched on in between\n\nA part that was made before a feature was switched on stays right beside these:\n")
	var safe, unsafe []string
	for _, f := range tables.Features() {
		switch name := "`" + f.Name + "`"; {
		case f.Policy == tables.Refuse:
		case f.Unsafe:
			unsafe = append(unsafe, name)
		default:
			safe = append(safe, name)
		}
	}
	fmt.Fprintf(&b, "%s.\nIt conflicts with the others: %s.\nWhere a feature makes row counts a duty (`rowTracking`, `icebergCompatV1`, `icebergCompatV2`), a part whose adds have no `numRecords` conflicts as well.\n",
		strings.Join(safe, ", "), strings.Join(unsafe, ", "))
	b.WriteString("\n## Names that are refused with an explanation\n\n| feature | what is known of it |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(tables.UnreleasedFeatures())) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, tables.UnreleasedFeatures()[name])
	}
	b.WriteString(featureNotes)
	docs(t, "features.md", b.String())
}

const featureNotes = `
## Checkpoints

A checkpoint is used if it can be read, has protocol and metadata, and does not contradict itself:

- Under a unique name it is a V2 checkpoint, and has one ` + "`checkpointMetadata`" + `, of the version that its name says. Under the classic name it has that one, too, or none, and then no sidecars.
- Each sidecar that it names has a path, is there, and has the size that is given of it. It is named once, and holds ` + "`add` and `remove`" + ` alone. A row without an action, such as a sidecar that is null, is damage; where the file has columns that are no actions known here, it is not.
- No file is live in it twice, with the same deletion vector. An ` + "`add` beside a `remove`" + ` of the same path with another vector is legal.

One that is not is passed over, and the server's log names file and cause: an older checkpoint is read, or all commits, as far as these are there. Where nothing else tells the table's state, the error is the table's. ` + "`fsck`" + ` says it as ` + "`CHECKPOINT_DIFFERS`" + `,
and maintenance goes by what is older, too: it makes the next checkpoint of that, leaves the file, and takes it for no cut of the log. Where nothing older tells the same, it waits until the file is removed, or put right.

## In-commit timestamps

A round has one time, that of the journal entry that opened it. On each table of a round that has the feature, the last version gets that time, the one before it one millisecond less, and so on.
So ` + "`TIMESTAMP AS OF`" + ` at a round's time shows that round on all of them, and a millisecond more than its number of versions earlier shows none of it.
A version's time is always above that of the version below. Where that has the round's time already, or a later one, the version gets one millisecond more than it, and the log says that the table is not aligned.
Above 2^63-1 ms, which only a broken clock of another engine leaves behind, there is no time: versions of ours repeat that one, so that what is decided can be published and no time goes back. The table's times are of no use from there on; to have some again, switch the feature off and on.
The part that switches the feature on is published with ` + "`delta.inCommitTimestampEnablementVersion` and `…Timestamp`" + ` of its version, and that time is also above the time of the file below.

## Row tracking

- A file that is new to the table gets ids above the high-water mark, and the version as its ` + "`defaultRowCommitVersion`" + `; the mark is raised in the same version. That also holds where the client gave ids out itself, above the mark that it had read: they are given out anew.
- A file that is part of the table (a deletion vector, statistics written again) keeps the ids of its last add; so does its remove.
- Ids below the mark that a part brings along for a file that is not part of the table are kept: they were reserved before, or the file is brought back. A blind part has read nothing, and cannot know any. Only reserving ids in a transaction is refused.
- A file without ids on such a table, from before the feature, gets some when it is added again.
- Where the domain ` + "`delta.rowTracking`" + ` does not hold a mark from -1 to 2^62, which no writer that keeps to the protocol leaves behind, ids begin 2^36 (the rows that one file may have) above those of all live files, and the mark is put right.
- While ` + "`delta.rowTrackingSuspended`" + ` is true nothing is given out.
`

// The matrix of conflicts: what is decided when a winner stands between the version
// that a candidate read and its decision. Each cell is run.

const (
	matrixSchema = `{"type":"struct","fields":[` +
		`{"name":"id","type":"long","nullable":true,"metadata":{"delta.identity.start":1,"delta.identity.step":1,"delta.identity.highWaterMark":5}},` +
		`{"name":"day","type":"date","nullable":true,"metadata":{}}]}`
	matrixConfig = `"delta.enableDeletionVectors":"true","k":"1"`
)

var matrixFeatures = []string{"deletionVectors", "v2Checkpoint", "appendOnly", "identityColumns", "domainMetadata", "rowTracking"}

func matrixTable(t testing.TB) *fixture {
	return newFixture(t).commit(matrixProtocol(), matrixMeta(matrixSchema, matrixConfig),
		dayFile("add", "x", 1, ""), dayFile("add", "y", 1, ""), dayFile("add", "z", 2, ""), txnLine("a", 1))
}

func matrixProtocol(more ...string) string {
	return featureProtocol([]string{"deletionVectors", "v2Checkpoint"}, append(slices.Clone(matrixFeatures), more...))
}

func matrixMeta(schema, config string) string { return metaOf(schema, []string{"day"}, config) }

// dayFile is an add or remove in a partition.
func dayFile(action, path string, day int, more string) string {
	line := fmt.Sprintf(`{%q:{"path":%q,"partitionValues":{"day":"2020-01-0%d"},"size":1,"dataChange":true,"extendedFileMetadata":true,"stats":"{\"numRecords\":1}"%s,"modificationTime":1}}`, action, path, day, more)
	if action == "add" {
		line = strings.Replace(line, `"extendedFileMetadata":true,`, "", 1)
	}
	return line
}

// matrixOp is an operation of the matrix.
type matrixOp struct {
	name  string
	info  string // of a winner
	lines []string
}

const dvField = `,"deletionVector":{"storageType":"u","pathOrInlineDv":"0000000000000000000v","sizeInBytes":1,"cardinality":1}`

func matrixWinners() []matrixOp {
	moved := func(path string, day int) []string {
		return []string{rearrange(dayFile("remove", path, day, "")), rearrange(dayFile("add", path+"2", day, ""))}
	}
	wider := strings.Replace(matrixSchema, "]}", `,{"name":"w","type":"long","nullable":true,"metadata":{}}]}`, 1)
	return []matrixOp{
		{"blind append, day 1", blindInfo, []string{dayFile("add", "w", 1, "")}},
		{"blind append, day 2", blindInfo, []string{dayFile("add", "w", 2, "")}},
		{"append, day 1", readInfo, []string{dayFile("add", "w", 1, "")}},
		{"append, day 2", readInfo, []string{dayFile("add", "w", 2, "")}},
		{"DELETE of x", readInfo, []string{dayFile("remove", "x", 1, "")}},
		{"DELETE of z", readInfo, []string{dayFile("remove", "z", 2, "")}},
		{"vector on x", readInfo, []string{dayFile("remove", "x", 1, ""), dayFile("add", "x", 1, dvField)}},
		{"OPTIMIZE of x", readInfo, moved("x", 1)},
		{"OPTIMIZE of z", readInfo, moved("z", 2)},
		{"append of n", blindInfo, []string{dayFile("add", "n", 2, "")}},
		{"x added again", readInfo, []string{rearrange(dayFile("add", "x", 1, ""))}},

		{"metadata, the same", readInfo, []string{matrixMeta(matrixSchema, matrixConfig)}},
		{"nullable column", readInfo, []string{matrixMeta(wider, matrixConfig)}},
		{"other schema change", readInfo, []string{matrixMeta(strings.Replace(matrixSchema, `"long"`, `"string"`, 1), matrixConfig)}},
		{"property", readInfo, []string{matrixMeta(matrixSchema, `"delta.enableDeletionVectors":"true","k":"2"`)}},
		{"enablement", readInfo, []string{matrixMeta(matrixSchema, matrixConfig+`,"delta.checkpointPolicy":"v2"`)}},
		{"identity values, append", readInfo, []string{matrixMeta(strings.Replace(matrixSchema, `Mark":5`, `Mark":9`, 1), matrixConfig), dayFile("add", "w", 2, "")}},
		{"safe feature", readInfo, []string{matrixProtocol("changeDataFeed")}},
		{"unsafe feature", readInfo, []string{matrixProtocol("checkConstraints")}},
		{"feature dropped", readInfo, []string{featureProtocol([]string{"deletionVectors", "v2Checkpoint"}, slices.Clone(matrixFeatures[:5]))}},
		{"unknown feature", readInfo, []string{matrixProtocol("magic")}},
		{"domain d", readInfo, []string{domainLine("d")}},
		{"domain e", readInfo, []string{domainLine("e")}},
		{"row id mark", readInfo, []string{domainOf("delta.rowTracking", `{"rowIdHighWaterMark":5}`)}},
		{"app a at 2", readInfo, []string{txnLine("a", 2)}},
		{"app a at 3", readInfo, []string{txnLine("a", 3)}},
		{"app b", readInfo, []string{txnLine("b", 3)}},
	}
}

const fileWinners = 11

// matrixRow is a candidate, with what each winner does to it: a letter for the rule,
// or a dot. The letters are those of matrixRules.
type matrixRow struct {
	name  string
	read  tables.ReadDeclaration
	lines []string
	cells string
}

var matrixRules = []struct {
	letter byte
	rule   twophase.Rule
	why    string
}{
	{'P', twophase.RuleProtocol, "the protocol was changed: both change it, a feature is not supported here, was dropped, or is one that its writer had to know"},
	{'M', twophase.RuleMetadata, "the metadata was changed: both change it, or the change is one that its writer had to know"},
	{'D', twophase.RuleDomain, "both write one metadata domain; the high-water mark of row ids is written anew and conflicts with nothing"},
	{'T', twophase.RuleAppVersion, "the application has reached the version that the candidate writes, or was read by it and went on"},
	{'A', twophase.RuleAppendRead, "a file was added to what the candidate read"},
	{'R', twophase.RuleDeleteRead, "a file that the candidate read is gone, rearranged ones included"},
	{'X', twophase.RuleDeleteDelete, "both remove the file, whatever its deletion vector: one of two deletes would be lost"},
	{'E', twophase.RulePathExists, "both add the file"},
}

func matrixRows() []matrixRow {
	nothing, whole, days := at(0, tables.ReadNothing), at(0, tables.ReadWholeTable), readDays("2020-01-01")
	app := at(0, tables.ReadNothing)
	app.Apps = []string{"a"}
	add := []string{dayFile("add", "n", 2, "")}
	column := strings.Replace(matrixSchema, "]}", `,{"name":"c","type":"long","nullable":true,"metadata":{}}]}`, 1)
	return []matrixRow{
		{"blind append", blind, add, ".........E. ..MM...PPP......"},
		{"append, nothing read", nothing, add, ".........E. ..MM...PPP......"},
		{"append, x read", readFiles("x"), add, "....R.RR.E. .MMM...PPP......"},
		{"append, day 1 read", days, add, "A.A.R.AA.EA .MMM...PPP......"},
		{"append, all read", whole, add, "AAAARRAAAAA .MMM.A.PPP......"},
		{"DELETE of x", nothing, []string{dayFile("remove", "x", 1, "")}, "....X.XX... .MMM...PPP......"},
		{"vector on x", nothing, []string{dayFile("remove", "x", 1, ""), dayFile("add", "x", 1, dvField)}, "....X.XX... .MMM...PPP......"},
		{"OPTIMIZE of x", readFiles("x"), []string{rearrange(dayFile("remove", "x", 1, "")), rearrange(dayFile("add", "n", 1, ""))}, "....R.RR.E. .MMM...PPP......"},
		{"OPTIMIZE, day 1 read", days, []string{rearrange(dayFile("remove", "x", 1, "")), rearrange(dayFile("add", "n", 1, ""))}, "....R.RR.E. .MMM...PPP......"},
		{"x added again", nothing, []string{rearrange(dayFile("add", "x", 1, ""))}, "....R.ER..E ..MM...PPP......"},
		{"nullable column", nothing, []string{matrixMeta(column, matrixConfig)}, "........... MMMMMM.PPP......"},
		{"property", nothing, []string{matrixMeta(matrixSchema, `"delta.enableDeletionVectors":"true","k":"3"`)}, "........... MMMMMM.PPP......"},
		{"identity values", nothing, []string{matrixMeta(strings.Replace(matrixSchema, `Mark":5`, `Mark":7`, 1), matrixConfig), dayFile("add", "n", 1, "")}, ".........E. MMMMMM.PPP......"},
		{"feature", nothing, []string{matrixProtocol("changeDataFeed")}, "........... .MMM..PPPP......"},
		{"domain d", nothing, []string{domainLine("d")}, "........... .MMM...PPPD....."},
		{"app a to 3", nothing, []string{txnLine("a", 3)}, "........... ..MM...PPP....T."},
		{"append, app a read", app, add, ".........E. ..MM...PPP...TT."},
		{"reads x only", readFiles("x"), nil, "....R.RR... .MMM...PPP......"},
		{"reads day 1 only", days, nil, "A.A.R.AA..A .MMM...PPP......"},
		{"reads all only", whole, nil, "AAAARRAAAAA .MMM.A.PPP......"},
	}
}

func TestConflictsDocs(t *testing.T) {
	f := matrixTable(t)
	winners, rows := matrixWinners(), matrixRows()
	foreign := make([]twophase.Facts, len(winners))
	for i, w := range winners {
		foreign[i] = f.foreign(append([]string{w.info}, w.lines...)...)
	}
	weak := map[string]string{}
	for _, row := range rows {
		got := f.judged(row, foreign, tables.Serializable)
		if got != row.cells {
			t.Errorf("%q: got %q, want %q", row.name, got, row.cells)
		}
		weak[row.name] = f.judged(row, foreign, tables.WriteSerializable)
	}
	docs(t, "conflicts.md", conflictsPage(winners, rows, weak))
}

// judged is what the winners do to a candidate.
func (f *fixture) judged(row matrixRow, winners []twophase.Facts, level tables.Isolation) string {
	f.t.Helper()
	read := row.read
	read.Isolation = level
	var facts twophase.Facts
	if row.lines == nil {
		var err error
		if facts, err = tables.ReadFacts(f.profile(), read); err != nil {
			f.t.Fatal(err)
		}
	} else {
		facts = f.part(read, row.lines...)
	}
	var out strings.Builder
	for i, w := range winners {
		if i == fileWinners {
			out.WriteByte(' ')
		}
		out.WriteByte(f.letter(ruleOf((tables.Rules{}).Checker().Conflict(facts, w))))
	}
	return out.String()
}

func (f *fixture) letter(rule twophase.Rule) byte {
	if rule == twophase.RuleNone {
		return '.'
	}
	for _, r := range matrixRules {
		if r.rule == rule {
			return r.letter
		}
	}
	f.t.Fatalf("rule %v has no letter", rule)
	return '?'
}

func conflictsPage(winners []matrixOp, rows []matrixRow, weak map[string]string) string {
	var b strings.Builder
	b.WriteString("# What conflicts\n\n<!-- Written by go test ./tables -run Docs -rewrite from the matrix in tables/docs_test.go, whose cells are all run. -->\n\n" + conflictsIntro)
	section := func(title string, winners []matrixOp, cells func(matrixRow) string, keep func(matrixRow) bool) {
		fmt.Fprintf(&b, "\n## %s\n\n|", title)
		for _, w := range winners {
			b.WriteString(" | " + w.name)
		}
		b.WriteString(" |\n|---" + strings.Repeat("|:-:", len(winners)) + "|\n")
		for _, row := range rows {
			if !keep(row) {
				continue
			}
			b.WriteString("| " + row.name)
			for _, c := range cells(row) {
				b.WriteString(" | " + strings.Replace(string(c), ".", "·", 1))
			}
			b.WriteString(" |\n")
		}
	}
	every := func(matrixRow) bool { return true }
	section("Beside changes of files", winners[:fileWinners], func(r matrixRow) string { return r.cells[:fileWinners] }, every)
	section("Beside changes of what the table is", winners[fileWinners:], func(r matrixRow) string { return r.cells[fileWinners+1:] }, every)
	section("Write-serializable", winners[:fileWinners], func(r matrixRow) string { return weak[r.name][:fileWinners] },
		func(r matrixRow) bool { return weak[r.name] != r.cells })
	b.WriteString("\nThe other rows are the same: below serializable, a blind append to what was read is no conflict, unless the candidate changes the metadata.\n\n## Why\n\nThe rules are asked in this order, and the first that is broken is named.\n\n")
	for _, r := range matrixRules {
		fmt.Fprintf(&b, "- **%c**, %s: %s.\n", r.letter, r.rule, r.why)
	}
	b.WriteString(conflictsNotes)
	return b.String()
}

const conflictsIntro = `A transaction is decided against everything that was decided or recorded on its tables since the version that it had read.
Each row is a candidate, each column a winner that stands in between; ` + "`·`" + ` means that the candidate is committed after it, a letter names the rule by which it is aborted.
The table is partitioned by day, x and y are files of day 1, z is one of day 2; candidates add n to day 2, or to day 1 where they touch x.
The rules and their order are those of Delta's own checker in Spark. What was read is what the client declared; a candidate that declares nothing is checked for writes alone.
`

const conflictsNotes = `
Where the order matters: a part that both reads a file and removes it is told that the file it read is gone.

## Changes of the metadata that pass

- **The same metadata** again: nothing that writers depend on changed.
- **Enablement**: properties that were only switched on, from this list, and metadata of columns that column mapping gives: ` + "`delta.enableDeletionVectors`, `delta.enableInCommitTimestamps` with its two properties, `delta.enableRowTracking` with the names of its columns, `delta.columnMapping.mode` from none to name with `delta.columnMapping.maxColumnId`, `delta.checkpointPolicy` to v2, `io.unitycatalog.tableId`" + `. The candidate is written for the table as it is then. A property that is removed or switched off conflicts.
- **A next identity value** beside a part that gives none out.
- **Nullable columns** that were added, beside parts that only append and read nothing: their files lack the columns, which read as null. A new column that must not be null, has a default, an expression, a constraint or identity values, conflicts.

A candidate that changes the metadata itself conflicts with all of these.

## After the decision

What was decided is published, and only impossibility counts: a pair of path and deletion vector that is not live, a path that is taken, an app version that somebody else has passed, a feature that is not supported here, a schema or an append-only rule that the files break, row counts that a feature asks for, another ` + "`metaData.id`" + `. A change of the metadata or the protocol that would undo a foreign one is impossible too. What a declared read set would have forbidden is published and reported.
`
