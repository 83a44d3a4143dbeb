package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/goldentest"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
)

// What becomes of the golden tables, counted. A table that joins or leaves a line
// is a change that somebody has to have meant.
var (
	goldenTookPart = 179
	goldenRefused  = map[string]int{
		"feature collations":          1,
		"feature collations-preview":  1,
		"feature minReaderVersion 99": 2,  // a table, and the same as an archive
		"log_contradiction":           12, // gaps, no protocol, no metadata, broken checkpoints: goldentest names each
		"not_a_table":                 3,  // no log; archives that hold several tables
	}
)

// TestGoldenTablesTakePart copies every golden table and every archive into the
// warehouse, registers it, and commits to it and to a table of our own. Where that
// is refused, the reason is counted. Afterwards its log is what it was and one
// commit more, by a replayer that shares no code with the writer.
func TestGoldenTablesTakePart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serverConfig{})
	w.start(nil)
	w.create("ledger", txcoordv1.TableMode_TABLE_MODE_OPEN)
	took, refused := 0, map[string]int{}
	for i, g := range goldenCopies(t, filepath.Join(w.warehouse(), "golden")) {
		why := w.takesPart(g, fmt.Sprintf("golden %d", i))
		if why != "" {
			refused[why]++
			continue
		}
		took++
	}
	if took != goldenTookPart {
		t.Errorf("%d tables took part, want %d", took, goldenTookPart)
	}
	if d := cmp.Diff(goldenRefused, refused); d != "" {
		t.Errorf("refused tables, by reason (-want +got): %s", d)
	}
	w.rest()
}

// golden is a copy of a golden table.
type golden struct{ name, dir string }

// tableName is the name of a table for a folder's: without slashes.
func tableName(folder string) string { return strings.ReplaceAll(folder, "/", ".") }

func goldenCopies(t *testing.T, into string) (all []golden) {
	t.Helper()
	for _, g := range goldentest.Tables(t) {
		dir := filepath.Join(into, "tables", filepath.FromSlash(g.Name))
		all = append(all, golden{tableName("tables/" + g.Name), goldentest.Copy(t, g, filepath.Dir(dir))})
	}
	for _, a := range goldentest.Archives(t) {
		from, _ := goldentest.Unpack(t, a)
		dir := filepath.Join(into, "archives", a.Name)
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		all = append(all, golden{tableName("archives/" + a.Name), dir})
	}
	return all
}

// takesPart registers a golden table and commits to it; or says why that is
// refused, having left the log as it was.
func (w *world) takesPart(g golden, key string) string {
	w.t.Helper()
	was := replay(g.dir)
	_, err := w.client.Tables.RegisterTable(w.ctx(), &txcoordv1.RegisterTableRequest{Name: g.name, Uri: g.dir})
	if err != nil {
		if now := replay(g.dir); now.version != was.version {
			w.t.Errorf("%s: refused, and written: version %d", g.name, now.version)
		}
		return reasonOf(err)
	}
	w.knowsAt(g.name, g.dir)
	file := dataFile{path: "golden.parquet"}
	file.add = fmt.Appendf(nil, `{"add":{"path":%q,"partitionValues":%s,"size":7,"modificationTime":1,"dataChange":true,"stats":"{\"numRecords\":0}"}}`+"\n",
		file.path, was.nullPartition())
	r := w.commitOnce(key, append(w.rows("ledger"), change{table: g.name, adds: []dataFile{file}}))
	if r == nil {
		return "commit"
	}
	w.replays(g, was, file)
	return ""
}

// reasonOf is the feature or the reason for which a table is refused.
func reasonOf(err error) string {
	var e *client.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	if f := e.Feature.GetFeature(); f != "" {
		return "feature " + f
	}
	return strings.ToLower(e.Reason)
}

// replays compares what package tables reads after the commit, what the naive
// replayer reads, and what was there before.
func (w *world) replays(g golden, was *replayed, file dataFile) {
	w.t.Helper()
	now := replay(g.dir)
	want := was.and(file.path, 7, "txcoord/"+w.catalogID())
	if d := cmp.Diff(want, now, cmp.AllowUnexported(replayed{})); d != "" {
		w.t.Errorf("%s after the commit (-want +got): %s", g.name, d)
	}
	store, err := fileobj.New(g.dir, fileobj.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	uri, err := tables.CanonicalURI(g.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	state, err := tables.NewLog(tables.LogConfig{Store: store, URI: uri, ReadCheckpoint: checkpoint.Read}).State(w.ctx(), tables.Latest)
	if err != nil {
		w.t.Errorf("%s: %v", g.name, err)
		return
	}
	got := &replayed{
		version: int64(state.Version()), txns: state.Txns(), domains: state.Domains(),
		protocol: object(state.Profile().Protocol.Raw), metaData: object(state.Profile().MetaData.Raw),
	}
	files := now.files
	now.files = nil
	if d := cmp.Diff(now, got, cmp.AllowUnexported(replayed{})); d != "" {
		w.t.Errorf("%s: package tables reads otherwise (-naive +tables): %s", g.name, d)
	}
	if state.NumFiles() != len(files) || state.TotalSize() != sizes(files) {
		w.t.Errorf("%s: %d files of %d bytes, want %d of %d", g.name, state.NumFiles(), state.TotalSize(), len(files), sizes(files))
	}
}
