package engines_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/txcoord/txcoord/e2e/engines"
	"github.com/txcoord/txcoord/e2e/readers"
)

// limit bounds one statement, on a busy machine.
const limit = 3 * time.Minute

func TestSparkWritesAndRefuses(t *testing.T) {
	s := engines.RequireSpark(t, engines.Spark40()).Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	table := engines.SparkTable(filepath.Join(t.TempDir(), "it is `a table"))
	run := func(statement string) []engines.Row {
		t.Helper()
		rows, err := s.SQL(ctx, "made by a test", statement)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	run("CREATE TABLE " + table + " (id BIGINT, note STRING) USING delta")
	run("INSERT INTO " + table + " VALUES (1, 'a'), (2, NULL)")
	rows := run("SELECT count(*) AS n, max(note) AS note FROM " + table)
	if len(rows) != 1 || rows[0].Int("n") != 2 || rows[0]["note"] != "a" {
		t.Errorf("read %v", rows)
	}
	history := run("DESCRIBE HISTORY " + table)
	if len(history) != 2 || history[0]["userMetadata"] != "made by a test" {
		t.Errorf("history %v", history)
	}
	var refused *engines.Refusal
	if _, err := s.SQL(ctx, "", "INSERT INTO "+table+" VALUES ('x')"); !errors.As(err, &refused) {
		t.Errorf("a wrong row: %v", err)
	}
	s.Kill()
	if _, err := s.SQL(ctx, "", "SELECT 1"); !errors.Is(err, engines.ErrEnded) {
		t.Errorf("after its end: %v", err)
	}
}

func TestDeltaRSAndDuckDBWriteAndRefuse(t *testing.T) {
	table := t.TempDir()
	if _, err := readers.Require(t).Append(t.Context(), readers.Append{Path: table, Create: true}); err != nil {
		t.Fatal(err)
	}
	d, duck := engines.StartDeltaRS(t), engines.StartDuck(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	do := func(operation string, a engines.Arguments) engines.Row {
		t.Helper()
		row, err := d.Do(ctx, operation, table, a)
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	counts := func(rows int64) {
		t.Helper()
		if got := do("count", engines.Arguments{"predicate": "true"}).Int("rows"); got != rows {
			t.Errorf("%d rows, want %d", got, rows)
		}
	}
	do("append", engines.Arguments{"first": 0, "rows": 10})
	do("merge", engines.Arguments{"first": 5, "rows": 10, "amount": 1})
	counts(15)
	do("delete", engines.Arguments{"predicate": "id < 3"})
	if _, err := duck.SQL(ctx, table, "INSERT INTO t SELECT range, 0, 'duck' FROM range(4)"); err != nil {
		t.Fatal(err)
	}
	counts(16)
	do("compact", nil)
	do("z_order", engines.Arguments{"columns": []string{"id"}})
	do("create_checkpoint", nil)
	do("cleanup_metadata", nil)
	do("vacuum", engines.Arguments{"hours": 0})
	counts(16)
	if rows, err := duck.SQL(ctx, table, "SELECT count(*) AS n FROM t"); err != nil || rows[0].Int("n") != 16 {
		t.Errorf("DuckDB reads %v, %v", rows, err)
	}
	var refused *engines.Refusal
	if _, err := d.Do(ctx, "delete", table, engines.Arguments{"predicate": "no such column"}); !errors.As(err, &refused) {
		t.Errorf("a wrong predicate: %v", err)
	}
	if _, err := duck.SQL(ctx, table, "DELETE FROM t"); !errors.As(err, &refused) {
		t.Errorf("DuckDB deletes: %v", err)
	}
}
