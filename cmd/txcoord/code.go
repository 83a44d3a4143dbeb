package main

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// readingCode is code for an engine that reads the tables at exactly the versions
// of a snapshot.
func readingCode(engine, catalog string, snap *txcoordv1.Snapshot) string {
	e := engines[engine]
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s snapshot %d of catalog %s, %s", e.comment, snap.GetVersion(), oneLine(catalog), exact(snap.GetTimestamp()))
	for _, l := range e.before {
		line("%s", l)
	}
	taken := map[string]bool{}
	for _, t := range snap.GetTables() {
		if t.GetFrozen() {
			line("%s %s is frozen: it stands at its last complete version", e.comment, oneLine(t.GetName()))
		}
		for _, l := range e.table(identifier(t.GetName(), taken), t) {
			line("%s", l)
		}
	}
	return b.String()
}

// engine is how one of them is told to read a table at a version.
type engine struct {
	comment string
	before  []string
	// table has a name of its own for the table, fit for the language.
	table func(name string, t *txcoordv1.SnapshotTable) []string
}

var engines = map[string]engine{
	"spark": {comment: "#", table: func(name string, t *txcoordv1.SnapshotTable) []string {
		return []string{fmt.Sprintf(`%s = spark.read.format("delta").option("versionAsOf", %d).load(%s)`,
			name, t.GetVersion(), pyString(location(t.GetUri(), "s3a", true)))}
	}},
	"python": {
		comment: "#", before: []string{"from deltalake import DeltaTable", ""},
		table: func(name string, t *txcoordv1.SnapshotTable) []string {
			return []string{fmt.Sprintf(`%s = DeltaTable(%s, version=%d)`, name, pyString(location(t.GetUri(), "s3", false)), t.GetVersion())}
		},
	},
	"duckdb": {
		comment: "--", before: []string{
			"-- For DuckDB 1.5.x: the delta extension is built for one version of DuckDB each, and 2.0.1 had none yet.",
			"-- INSTALL fetches the extension. Without a network, pip install duckdb-extension-delta of DuckDB's own version, and",
			"-- LOAD '<site-packages>/duckdb_extension_delta/extensions/v<version>/delta.duckdb_extension', unsigned extensions allowed.",
			"INSTALL delta;", "LOAD delta;",
		},
		table: func(name string, t *txcoordv1.SnapshotTable) []string {
			return []string{fmt.Sprintf(`CREATE OR REPLACE VIEW %s AS SELECT * FROM delta_scan(%s, version => %d);`,
				sqlName(name), sqlString(location(t.GetUri(), "s3", false)), t.GetVersion())}
		},
	},
	"trino": {comment: "--", before: []string{
		"-- Tables that Trino does not know yet are registered first, in a catalog (delta) and a schema (default)",
		"-- of the Delta Lake connector; delta.register-table-procedure.enabled has to be true.",
	}, table: func(name string, t *txcoordv1.SnapshotTable) []string {
		return []string{
			fmt.Sprintf(`CALL delta.system.register_table(schema_name => 'default', table_name => %s, table_location => %s);`,
				sqlString(strings.ToLower(name)), sqlString(location(t.GetUri(), "s3", true))),
			fmt.Sprintf(`SELECT * FROM delta.default.%s FOR VERSION AS OF %d;`, sqlName(strings.ToLower(name)), t.GetVersion()),
		}
	}},
}

// location is a table's URI as engines take it: not escaped, a file as a path or
// with its scheme, S3 under the name that the engine has for it.
func location(uri, s3 string, fileScheme bool) string {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return uri
	}
	if decoded, err := url.PathUnescape(rest); err == nil {
		rest = decoded
	}
	switch {
	case scheme == "file" && !fileScheme:
		return rest
	case scheme == "s3":
		return s3 + "://" + rest
	default:
		return scheme + "://" + rest
	}
}

// identifier makes a name that Python and SQL take, and that no other table has.
func identifier(table string, taken map[string]bool) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == '_', r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			return r
		default:
			return '_'
		}
	}, table)
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "t_" + name
	}
	if slices.Contains(pythonWords, name) {
		name += "_"
	}
	unique := name
	for i := 2; taken[strings.ToLower(unique)]; i++ {
		unique = fmt.Sprintf("%s_%d", name, i)
	}
	taken[strings.ToLower(unique)] = true
	return unique
}

// pythonWords cannot be variables, or would hide what the code uses.
var pythonWords = []string{
	"False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif",
	"else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or",
	"pass", "raise", "return", "try", "while", "with", "yield", "spark", "DeltaTable",
}

// pyString relies on Go's escapes being Python's, too.
func pyString(s string) string { return strconv.Quote(s) }

func sqlString(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func sqlName(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

func oneLine(s string) string { return printable(s) }

// shellWord quotes a word for a shell where it needs to be.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r == '/' || r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
