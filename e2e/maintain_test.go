package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/e2e/readers"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/datafile"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
	"github.com/txcoord/txcoord/twophase"
)

// keptTable is a table that nobody but a keeper of ours makes checkpoints for.
// It is partitioned, and has a column of each type that readers skip files by.
type keptTable struct {
	t      *testing.T
	dir    string
	log    *tables.Log
	cfg    tables.KeeperConfig
	fits   *datafile.Table
	next   twophase.Version
	live   []string // remove lines of the files that are live
	python *readers.Python
}

var keptColumns = []datafile.Column{
	{Name: "id", Type: "long", Nullable: true},
	{Name: "amount", Type: "decimal(10,2)", Nullable: true},
	{Name: "stamp", Type: "timestamp", Nullable: true},
	{Name: "note", Type: "string", Nullable: true},
}

func newKeptTable(t *testing.T, p *readers.Python, config map[string]string) *keptTable {
	t.Helper()
	k := &keptTable{t: t, dir: filepath.Join(freshDir(t), "t"), python: p}
	if err := os.MkdirAll(k.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	store, err := fileobj.New(k.dir, fileobj.Config{})
	if err != nil {
		t.Fatal(err)
	}
	uri, err := tables.CanonicalURI(k.dir)
	if err != nil {
		t.Fatal(err)
	}
	log := tables.LogConfig{Store: store, URI: uri, ReadCheckpoint: checkpoint.Read}
	k.log, k.cfg = tables.NewLog(log), tables.KeeperConfig{Log: log, Format: checkpoint.Format(), SidecarRows: 5}
	all := append(slices.Clone(keptColumns), datafile.Column{Name: "region", Type: "string", Nullable: true}, datafile.Column{Name: "day", Type: "date", Nullable: true})
	if k.fits, err = datafile.NewTable(datafile.SchemaString(all), []string{"region", "day"}, nil); err != nil {
		t.Fatal(err)
	}
	k.create(datafile.SchemaString(all), config)
	return k
}

func (k *keptTable) create(schemaString string, config map[string]string) {
	k.t.Helper()
	protocol := `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`
	if config["delta.checkpointPolicy"] == "v2" {
		protocol = `{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["v2Checkpoint"],"writerFeatures":["v2Checkpoint","appendOnly","invariants"]}}`
	}
	meta, err := json.Marshal(map[string]any{"metaData": map[string]any{
		"id": "5f7a8f0c-5a3e-4c57-9a53-3c0e0d6c7a11", "format": map[string]any{"provider": "parquet", "options": map[string]any{}},
		"schemaString": schemaString, "partitionColumns": []string{"region", "day"}, "configuration": config, "createdTime": 1_700_000_000_000,
	}})
	if err != nil {
		k.t.Fatal(err)
	}
	k.put(protocol, string(meta), `{"txn":{"appId":"txcoord/catalog","version":7}}`)
}

func (k *keptTable) put(lines ...string) {
	k.t.Helper()
	info := fmt.Sprintf(`{"commitInfo":{"timestamp":%d,"operation":"WRITE","operationParameters":{}}}`, 1_700_000_000_000+int64(k.next)*1000)
	if err := k.log.PutCommit(k.t.Context(), k.next, []byte(strings.Join(append([]string{info}, lines...), "\n")+"\n")); err != nil {
		k.t.Fatal(err)
	}
	k.next++
}

// grow adds a file to each of three partitions, and takes one away.
func (k *keptTable) grow() {
	k.t.Helper()
	var lines []string
	for i, region := range []string{"EU", "A/P ä%", ""} {
		day := time.Date(2024, 1, 1+int(k.next)%3, 0, 0, 0, 0, time.UTC)
		lines = append(lines, k.file(int64(k.next)*100+int64(i)*10, region, day.Format("2006-01-02")))
	}
	if k.next%3 == 0 {
		lines = append(lines, k.live[0])
		k.live = k.live[1:]
	}
	k.put(lines...)
}

// file writes ten rows, with ids from first on, and returns the add line.
func (k *keptTable) file(first int64, region, day string) string {
	k.t.Helper()
	rows := func(yield func([]any) bool) {
		for i := range int64(10) {
			at := time.Date(2024, 5, 1, 0, 0, int(first+i), int(i)*1000, time.UTC)
			if !yield([]any{first + i, fmt.Sprintf("%d.%02d", first+i, i), at, fmt.Sprintf("note %06d", first+i)}) {
				return
			}
		}
	}
	var b bytes.Buffer
	footer, err := datafile.Write(&b, keptColumns, datafile.WriteOptions{}, rows)
	if err != nil {
		k.t.Fatal(err)
	}
	name := fmt.Sprintf("part %d.parquet", first)
	if err := os.WriteFile(filepath.Join(k.dir, name), b.Bytes(), 0o644); err != nil {
		k.t.Fatal(err)
	}
	values := map[string]*string{"region": &region, "day": &day}
	if region == "" {
		values["region"] = nil
	}
	line, err := k.fits.Add(footer, name, values)
	if err != nil {
		k.t.Fatal(err)
	}
	var add struct {
		Add struct {
			Path            string
			PartitionValues json.RawMessage
			Size            int64
		}
	}
	if err := json.Unmarshal(line, &add); err != nil {
		k.t.Fatal(err)
	}
	k.live = append(k.live, fmt.Sprintf(`{"remove":{"path":%q,"deletionTimestamp":%d,"dataChange":true,"extendedFileMetadata":true,"partitionValues":%s,"size":%d}}`,
		add.Add.Path, time.Now().UnixMilli(), add.Add.PartitionValues, add.Add.Size))
	return string(line)
}

// checkpointed writes a checkpoint of the newest version, and removes all commits
// below it: from then on nobody can read the table without it.
func (k *keptTable) checkpointed() *tables.Checkpoint {
	k.t.Helper()
	keeper := tables.NewKeeper(k.cfg)
	s, err := keeper.Survey(k.t.Context(), tables.Latest)
	if err != nil {
		k.t.Fatal(err)
	}
	c, err := keeper.Checkpoint(k.t.Context(), s, nil)
	if err != nil || c.Existed {
		k.t.Fatalf("checkpoint: %+v, %v", c, err)
	}
	names, err := filepath.Glob(filepath.Join(k.dir, "_delta_log", "*"))
	if err != nil {
		k.t.Fatal(err)
	}
	for _, name := range names {
		base := filepath.Base(name)
		if base[0] != '_' && base < fmt.Sprintf("%020d", c.Version) {
			if err := os.Remove(name); err != nil {
				k.t.Fatal(err)
			}
		}
	}
	k.next = c.Version + 1
	return c
}

// questions are conditions by which readers skip files, by partition values and by
// statistics.
var questions = []string{
	"true", "id >= 315 AND id < 522", "id = 301", "id < 0", "day = DATE '2024-01-02'", "day > DATE '2024-01-01'", "region = 'EU'", "region = 'A/P ä%'", "region IS NULL",
	"amount > 412.5", "amount = 405.05", "stamp >= TIMESTAMPTZ '2024-05-01 00:07:00+00'", "stamp = TIMESTAMPTZ '2024-05-01 00:06:49.000009+00'", "note = 'note 000405'", "note > 'note 000700'", "note IS NULL",
}

// ask counts the rows for each question, with each engine.
const askScript = `
import json, os, sys
import duckdb, duckdb_extension_delta, deltalake, pyarrow as pa
request = json.load(sys.stdin)
con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
root = os.path.dirname(duckdb_extension_delta.__file__)
con.execute("LOAD '" + os.path.join(root, "extensions", "v" + duckdb.__version__, "delta.duckdb_extension").replace("'", "''") + "'")
con.execute("SET TimeZone = 'UTC'")
table = deltalake.DeltaTable(request["path"])
engine = deltalake.QueryBuilder().register("t", table)
out = {"duck": [], "delta_rs": [], "app": table.transaction_version("txcoord/catalog"), "version": table.version()}
for where in request["questions"]:
    out["duck"].append(con.execute("SELECT count(*) FROM delta_scan(?) WHERE " + where, [request["path"]]).fetchone()[0])
    where = where.replace("TIMESTAMPTZ '", "TIMESTAMP '").replace("TIMESTAMP '", "arrow_cast('").replace("+00'", "+00:00', 'Timestamp(Microsecond, Some(\"UTC\"))')")
    out["delta_rs"].append(pa.table(engine.execute("SELECT count(*) AS n FROM t WHERE " + where).read_all()).column(0).to_pylist()[0])
print(json.dumps(out))
`

type answers struct {
	Duck    []int64
	DeltaRS []int64 `json:"delta_rs"`
	App     int64
	Version int64
}

func (k *keptTable) ask() answers {
	k.t.Helper()
	in, err := json.Marshal(map[string]any{"path": k.dir, "questions": questions})
	if err != nil {
		k.t.Fatal(err)
	}
	cmd := exec.CommandContext(k.t.Context(), k.python.Path, "-E", "-s", "-c", askScript)
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		k.t.Fatalf("ask: %v: %s", err, stderr.String())
	}
	var a answers
	if err := json.Unmarshal(out, &a); err != nil {
		k.t.Fatal(err)
	}
	if diff := cmp.Diff(a.Duck, a.DeltaRS); diff != "" {
		k.t.Errorf("the engines disagree: %s", diff)
	}
	if a.App != 7 {
		k.t.Errorf("the marker is at %d", a.App)
	}
	return a
}

// TestEnginesReadOurCheckpoints: delta-rs and DuckDB read tables that only we
// checkpointed and cleaned, skip files by our statistics without losing a row, and
// delta-rs goes on writing to them.
func TestEnginesReadOurCheckpoints(t *testing.T) {
	t.Parallel()
	p := readers.Require(t)
	for name, config := range map[string]map[string]string{
		"classic":             {},
		"classic, typed only": {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"},
		"v2, typed":           {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpointPolicy": "v2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			readsOurCheckpoints(t, newKeptTable(t, p, config))
		})
	}
}

func readsOurCheckpoints(t *testing.T, k *keptTable) {
	for range 12 {
		k.grow()
	}
	want := k.ask()
	if want.Duck[0] != 320 || want.Duck[1] == 0 || want.Duck[2] != 1 {
		t.Errorf("from the commits: %+v", want)
	}
	first := k.checkpointed()
	if diff := cmp.Diff(want, k.ask()); diff != "" {
		t.Errorf("from the checkpoint: %s", diff)
	}
	appended, err := k.python.Append(t.Context(), readers.Append{Path: k.dir, Batches: 3, Rows: 4, First: 5000, Constants: map[string]any{"region": "EU"}})
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range appended {
		if a.Error != "" || a.Version != int64(first.Version)+1+int64(i) {
			t.Errorf("delta-rs appends: %+v", a)
		}
	}
	k.next += 3
	k.grow()
	want = k.ask()
	if want.Duck[0] != 320+12+30 {
		t.Errorf("after appends: %+v", want)
	}
	second := k.checkpointed()
	if diff := cmp.Diff(want, k.ask()); diff != "" {
		t.Errorf("from the second checkpoint: %s", diff)
	}
	if second.V2 && (second.Reused == 0 || strings.Count(second.Name, ".") == 2) {
		t.Errorf("the second has used no sidecar again, or has the classic name: %+v", second)
	}
}
