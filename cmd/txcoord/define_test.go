package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/tables/datafile"
)

// A table gets Parquet files in the transaction in which it begins.
func TestCreateWithFiles(t *testing.T) {
	s := startServer(t)
	root := filepath.Join(s.warehouse, "new")
	cols := []datafile.Column{{Name: "id", Type: "long", Nullable: true}}
	one := parquet(t, filepath.Join(root, "day=2026-11-28", "a.parquet"), cols, []any{int64(1)})
	two := parquet(t, filepath.Join(root, "b.parquet"), cols, []any{int64(2)})
	token := line(s.ok("tx", "begin", "-o", "id"))
	args := []string{"tx", "create", "new", root, "--column", "id BIGINT", "--column", "day DATE COMMENT of sale", "--partition-by", "day", "--token", token, "-o", "id"}
	s.fails(3, []string{"tx", "add", "new", one, "--token", token}, "TABLE_NOT_FOUND", "tx create", "--add")
	s.fails(2, append(args, "--add", two), "b.parquet", "day")
	part := line(s.ok(append(args, "--add", one, "--add", two, "--partition", "day=2026-11-28")...))
	s.ok("tx", "commit", "--token", token, part, "--verify-files")
	if got := s.liveFiles("new"); got != 2 {
		t.Errorf("%d files", got)
	}
	if got := s.ok("tables", "describe", "new"); !strings.Contains(got, `"name":"day","type":"date"`) || !strings.Contains(got, "of sale") {
		t.Errorf("describe: %s", got)
	}
}

func TestColumnsThatAreWrong(t *testing.T) {
	s := startServer(t)
	root := filepath.Join(s.warehouse, "b")
	s.fails(2, []string{"tables", "create", "b", root, "--column", "id"}, "--column", "write 'NAME TYPE'")
	s.fails(2, []string{"tables", "create", "b", root, "--column", "id NUMBER"}, "NUMBER", "write it as in SQL")
	s.fails(2, []string{"tables", "create", "b", root}, "--schema", "--column")
	s.ok("tables", "create", "b", root, "--column", "price INT")
	for column, want := range map[string]string{
		"price INT":      "add_columns: the table has a column of this name already (price)",
		"x INT NOT NULL": "columns are nullable here: leave NOT NULL out",
		"x INT UNIQUE":   `"UNIQUE" stands behind the type`,
	} {
		args := []string{"tables", "alter", "b", "--add-column", column}
		o := txcoord(t, s.env, "", args...)
		wantCode(t, args, o, 2)
		if strings.Contains(o.stderr, "transaction ") || strings.Contains(o.stderr, "stage b") {
			t.Errorf("internals: %s", o.stderr)
		}
		if !strings.Contains(strings.ReplaceAll(o.stderr, "\\", ""), want) {
			t.Errorf("want %s in %s", want, o.stderr)
		}
	}
}
