package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/tables/datafile"
)

// A column that is not there is named with its table, the columns that are, and the one that
// may be meant.
func TestColumnsThatAreNotThere(t *testing.T) {
	s := startServer(t)
	root := filepath.Join(s.warehouse, "orders")
	s.ok("tables", "create", "orders", root, "--column", "order_id BIGINT", "--column", "total INT", "--column", "day STRING", "--partition-by", "day")
	token := line(s.ok("tx", "begin", "-o", "id"))
	file := parquet(t, filepath.Join(root, "f.parquet"), []datafile.Column{{Name: "total", Type: "integer", Nullable: true}}, []any{int32(1)})
	actions := s.file(strings.Replace(add("x"), "{}", `{"day":"x"}`, 1))
	part := line(s.ok("tx", "stage", "orders", "--token", token, "--read-version", "0", "--read-partition", "dya=x", actions, "-o", "id"))
	const all, near = "name one of order_id, total, day", `; did you mean "order_id"?`
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"tables", "create", "more", filepath.Join(s.warehouse, "more"), "--column", "order_id BIGINT", "--column", "total INT", "--partition-by", "oder_id"}, "partition_columns: is not a column of the schema (oder_id); name one of order_id, total" + near},
		{[]string{"tables", "alter", "orders", "--comment", "oder_id=x"}, "column_comments: is not a column of the table (oder_id); " + all + near},
		{[]string{"tables", "alter", "orders", "--widen", "oder_id=BIGINT"}, "widen_columns: is not a column of the table (oder_id); " + all + near},
		{[]string{"tx", "alter", "orders", "--token", token, "--comment", "zone=x"}, "(zone); " + all},
		{[]string{"tx", "commit", "--token", token, part}, `is not a partition column of the table (dya); name one of day; did you mean "day"?`},
		{[]string{"tx", "add", "orders", file, "--partition", "dya=x"}, `column dya: is not a partition column of the table; name one of day; did you mean "day"?`},
	} {
		name := "table orders"
		if c.args[1] == "create" {
			name = "table more"
		}
		s.fails(exitUsage, c.args, c.says, name)
	}
}
