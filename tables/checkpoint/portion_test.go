package checkpoint_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/twophase"
)

// rows are those of a checkpoint: as they are written, and as each portion yields them.
type rows struct {
	written, all, head, keys, live []string
}

func (r *rows) other(written, line string) {
	r.written, r.all = append(r.written, written), append(r.all, line)
	r.head, r.live = append(r.head, line), append(r.live, line)
}

// file takes a file action of which an own portion has the fields that are kept.
func (r *rows) file(written, all, keys, live string) {
	r.written, r.all = append(r.written, written), append(r.all, all)
	r.keys, r.live = append(r.keys, keys), append(r.live, live)
}

func (r *rows) add(i int, dv bool) {
	key := fmt.Sprintf(`"path":"f%d"`, i)
	vector := ""
	if dv {
		vector = fmt.Sprintf(`,"deletionVector":{"storageType":"u","pathOrInlineDv":"v%d","offset":1,"sizeInBytes":2,"cardinality":3}`, i)
	}
	values := fmt.Sprintf(`{"p":"%d"}`, i)
	if i%5 == 0 {
		values = `{}`
	}
	tail := fmt.Sprintf(`,"size":%d,"modificationTime":7,"dataChange":false,"stats":"{}","tags":{"a":"b","c":null}%s,"baseRowId":%d`, i, vector, i)
	line := `{"add":{` + key + `,"partitionValues":` + values + tail + `}}`
	r.file(pairsOf(line), line, `{"add":{`+key+vector+`}}`, fmt.Sprintf(`{"add":{%s,"size":%d%s,"baseRowId":%d}}`, key, i, vector, i))
}

func (r *rows) remove(i int) {
	key := fmt.Sprintf(`"path":"g%d"`, i)
	line := `{"remove":{` + key + `,"deletionTimestamp":1,"dataChange":true,"size":4}}`
	r.file(line, line, `{"remove":{`+key+`}}`, `{"remove":{`+key+`,"size":4}}`)
}

// pairsOf writes the maps of an add as Arrow's JSON does.
func pairsOf(line string) string {
	for _, name := range []string{"partitionValues", "tags"} {
		at := strings.Index(line, `"`+name+`":{`) + len(name) + 3
		end := at + strings.IndexByte(line[at:], '}') + 1
		var pairs []string
		for p := range strings.SplitSeq(strings.Trim(line[at:end], "{}"), ",") {
			if k, v, ok := strings.Cut(p, ":"); ok {
				pairs = append(pairs, `{"key":`+k+`,"value":`+v+`}`)
			}
		}
		line = line[:at] + "[" + strings.Join(pairs, ",") + "]" + line[end:]
	}
	return line
}

// random makes runs of rows of one kind, from one row to thousands: far more than are
// decoded at a time, and than a page or a row group has.
func random(rnd *rand.Rand) *rows {
	r := &rows{}
	for range 1 + rnd.IntN(12) {
		kind, n := rnd.IntN(5), 1+rnd.IntN(4)
		if rnd.IntN(3) == 0 {
			n = rnd.IntN(3000)
		}
		for i := range n {
			switch kind {
			case 0:
				line := fmt.Sprintf(`{"txn":{"appId":"a%d","version":%d}}`, i, i)
				r.other(line, line)
			case 1:
				line := `{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":[],"writerFeatures":["x","y"]}}`
				r.other(line, line)
			case 2:
				r.remove(i)
			default:
				r.add(i, kind == 3 && i%3 == 0)
			}
		}
	}
	return r
}

// TestPortions: each portion is all that was written, without what it leaves out. Runs of
// rows in which a column has nothing are passed at once, over pages and row groups of any size.
func TestPortions(t *testing.T) {
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		r := random(rnd)
		if rnd.IntN(4) == 0 {
			r.written = append(r.written, "{}") // a row of what is no action known here, which no portion has
		}
		data := fileWith(t, []parquet.WriterProperty{
			parquet.WithDataPageSize(int64(100 + rnd.IntN(4000))), parquet.WithMaxRowGroupLength(int64(1 + rnd.IntN(5000))),
			parquet.WithBatchSize(int64(1 + rnd.IntN(700))), parquet.WithDictionaryDefault(rnd.IntN(2) == 0),
		}, []arrow.Field{txn, add, remove, meta, proto, sidecar, novel}, r.written...)
		for what, want := range map[tables.Portion][]string{tables.AllActions: r.all, tables.HeadActions: r.head, tables.FileKeys: r.keys, tables.LiveActions: r.live} {
			if diff := cmp.Diff(want, portionOf(t, data, what)); diff != "" {
				t.Fatalf("seed %d, portion %d (-want +got):\n%.2000s", seed, what, diff)
			}
		}
	}
}

var novel = group("novel", text("value"))

// TestRowWithoutAction: where all columns are actions, something was to stand in such a row.
// What reads no files cannot tell.
func TestRowWithoutAction(t *testing.T) {
	line := `{"txn":{"appId":"a","version":1}}`
	data := file(t, []arrow.Field{txn, sidecar}, line, `{}`)
	for what, says := range map[tables.Portion]string{tables.AllActions: "row 1: holds no action", tables.LiveActions: "row 1: holds no action", tables.HeadActions: ""} {
		err := checkpoint.Read(t.Context(), bytes.NewReader(data), int64(len(data)), what, func([]byte) error { return nil })
		if (err == nil) != (says == "") || err != nil && err.Error() != says {
			t.Errorf("portion %d: %v, want %q", what, err, says)
		}
	}
	if diff := cmp.Diff([]string{line}, portionOf(t, file(t, []arrow.Field{txn, sidecar, novel}, line, `{"novel":{"value":"x"}}`), tables.AllActions)); diff != "" {
		t.Error(diff)
	}
}

func portionOf(t *testing.T, data []byte, what tables.Portion) (lines []string) {
	t.Helper()
	err := checkpoint.Read(context.Background(), bytes.NewReader(data), int64(len(data)), what, func(line []byte) error {
		lines = append(lines, string(line))
		return nil
	})
	if err != nil {
		t.Fatalf("portion %d: %v", what, err)
	}
	return lines
}

// TestPortionsOfPieces: a sidecar, or a part of a checkpoint, need not have the columns
// of a portion.
func TestPortionsOfPieces(t *testing.T) {
	row := `{"add":{"path":"a","size":1}}`
	files := file(t, []arrow.Field{group("add", text("path"), long("size"))}, row)
	if got := portionOf(t, files, tables.HeadActions); got != nil {
		t.Errorf("the head of a file of files: %q", got)
	}
	if got := portionOf(t, files, tables.LiveActions); !slices.Equal(got, []string{row}) {
		t.Errorf("its files: %q", got)
	}
}

// TestPortionsAreNotTouched: damage in a column that a portion leaves out does not matter
// to it, and does to the others.
func TestPortionsAreNotTouched(t *testing.T) {
	mark := strings.Repeat("statistics", 20)
	data := fileWith(t, []parquet.WriterProperty{parquet.WithDictionaryDefault(false)}, []arrow.Field{txn, add},
		`{"txn":{"appId":"a","version":1}}`, `{"add":{"path":"a","size":1,"stats":"`+mark+`"}}`)
	at := bytes.Index(data, []byte(mark))
	if at < 4 {
		t.Fatal("the statistics are not in the file as they are")
	}
	copy(data[at-4:], []byte{0xff, 0xff, 0xff, 0x7f}) // the length in front of them
	if got := portionOf(t, data, tables.HeadActions); len(got) != 1 {
		t.Errorf("head: %q", got)
	}
	if got := portionOf(t, data, tables.LiveActions); len(got) != 2 {
		t.Errorf("live: %q", got)
	}
	if _, err := read(data); err == nil {
		t.Error("all of it can be read")
	}
}

// TestLiveStateRefuses: a row with two actions is damage, whatever is read of it.
func TestLiveStateRefuses(t *testing.T) {
	const first = `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}` + "\n" +
		`{"metaData":{"id":"i","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[]}","partitionColumns":[],"configuration":{}}}` + "\n" +
		`{"add":{"path":"x","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}` + "\n"
	data := file(t, []arrow.Field{proto, meta, txn, add},
		`{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`,
		`{"metaData":{"id":"i","format":{"provider":"parquet","options":[]},"schemaString":"{\"type\":\"struct\",\"fields\":[]}","partitionColumns":[],"configuration":[]}}`,
		`{"txn":{"appId":"a","version":1},"add":{"path":"x","size":1}}`)
	store := memobj.New()
	for name, content := range map[string][]byte{"00000000000000000000.json": []byte(first), "00000000000000000000.checkpoint.parquet": data} {
		if err := store.Put(t.Context(), "_delta_log/"+name, content); err != nil {
			t.Fatal(err)
		}
	}
	log := tables.NewLog(tables.LogConfig{Store: store, URI: "file:///t", ReadCheckpoint: checkpoint.Read})
	for name, load := range map[string]func(context.Context, twophase.Version) (*tables.State, error){"State": log.State, "LiveState": log.LiveState} {
		s, err := load(t.Context(), 0)
		if err != nil || s.Skipped() == nil || s.NumFiles() != 1 {
			t.Errorf("%s: %+v, %v; want what the commit says, and that the checkpoint was passed over", name, s, err)
		}
	}
}
