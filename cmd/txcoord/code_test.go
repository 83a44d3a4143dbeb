package main

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

func TestReadingCode(t *testing.T) {
	snap := &txcoordv1.Snapshot{
		Version: 7, Timestamp: timestamppb.New(time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)),
		Tables: []*txcoordv1.SnapshotTable{
			{Name: "orders", Uri: "file:///data/it's 50%25 off", Version: 12},
			{Name: "class", Uri: "s3://bucket/class", Version: 0, Frozen: true},
			{Name: "order items", Uri: "s3://bucket/items", Version: 3},
			{Name: "order.items", Uri: "s3://bucket/items2", Version: 4},
			{Name: "2026", Uri: "s3://bucket/2026", Version: 5},
		},
	}
	for engine, want := range map[string]string{
		"spark": `# snapshot 7 of catalog default, 2026-11-29T12:00:00Z
orders = spark.read.format("delta").option("versionAsOf", 12).load("file:///data/it's 50% off")
# class is frozen: it stands at its last complete version
class_ = spark.read.format("delta").option("versionAsOf", 0).load("s3a://bucket/class")
order_items = spark.read.format("delta").option("versionAsOf", 3).load("s3a://bucket/items")
order_items_2 = spark.read.format("delta").option("versionAsOf", 4).load("s3a://bucket/items2")
t_2026 = spark.read.format("delta").option("versionAsOf", 5).load("s3a://bucket/2026")
`,
		"python": `# snapshot 7 of catalog default, 2026-11-29T12:00:00Z
from deltalake import DeltaTable

orders = DeltaTable("/data/it's 50% off", version=12)
# class is frozen: it stands at its last complete version
class_ = DeltaTable("s3://bucket/class", version=0)
order_items = DeltaTable("s3://bucket/items", version=3)
order_items_2 = DeltaTable("s3://bucket/items2", version=4)
t_2026 = DeltaTable("s3://bucket/2026", version=5)
`,
		"duckdb": `-- snapshot 7 of catalog default, 2026-11-29T12:00:00Z
-- For DuckDB 1.5.x: the delta extension is built for one version of DuckDB each, and 2.0.1 had none yet.
-- INSTALL fetches the extension. Without a network, pip install duckdb-extension-delta of DuckDB's own version, and
-- LOAD '<site-packages>/duckdb_extension_delta/extensions/v<version>/delta.duckdb_extension', unsigned extensions allowed.
INSTALL delta;
LOAD delta;
CREATE OR REPLACE VIEW "orders" AS SELECT * FROM delta_scan('/data/it''s 50% off', version => 12);
-- class is frozen: it stands at its last complete version
CREATE OR REPLACE VIEW "class_" AS SELECT * FROM delta_scan('s3://bucket/class', version => 0);
CREATE OR REPLACE VIEW "order_items" AS SELECT * FROM delta_scan('s3://bucket/items', version => 3);
CREATE OR REPLACE VIEW "order_items_2" AS SELECT * FROM delta_scan('s3://bucket/items2', version => 4);
CREATE OR REPLACE VIEW "t_2026" AS SELECT * FROM delta_scan('s3://bucket/2026', version => 5);
`,
	} {
		same(t, want, readingCode(engine, "default", snap))
	}
	trino := readingCode("trino", "default", snap)
	for _, want := range []string{
		"CALL delta.system.register_table(schema_name => 'default', table_name => 'orders', table_location => 'file:///data/it''s 50% off');",
		`SELECT * FROM delta.default."order_items" FOR VERSION AS OF 3;`,
	} {
		if !strings.Contains(trino, want) {
			t.Errorf("trino lacks %s:\n%s", want, trino)
		}
	}
}

func TestShellWord(t *testing.T) {
	for in, want := range map[string]string{"/a/b-c.d": "/a/b-c.d", "a b": "'a b'", "it's": `'it'\''s'`, "": "''"} {
		same(t, want, shellWord(in))
	}
}
