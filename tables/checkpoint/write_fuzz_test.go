package checkpoint_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
)

// FuzzWrite: whatever a line holds, it is written or refused. What was written can
// be read again, and then is one line of JSON.
func FuzzWrite(f *testing.F) {
	for _, line := range []string{
		`{"add":{"path":"a\u00e9","partitionValues":{"p":null,"day":"2024-01-02"},"tags":{"a":1},"stats":"{\"numRecords\":1,\"minValues\":{\"dec\":1e5}}"}}`,
		`{"metaData":{"id":"i","format":{"provider":"parquet","options":{}},"partitionColumns":["p",null],"configuration":{"a":"b"}}}`,
		`{"protocol":{"minReaderVersion":3,"readerFeatures":[]}}`,
		`{"txn":{"appId":"\ud83d\ude00\ud800","version":-1}}`, `{"add":{"path":`, `{"a":[[[{}]]]}`, "{\"add\":\"\\", `{"sidecar":{"path":"x"}}`,
	} {
		f.Add([]byte(line))
	}
	c := columnsWith(tables.MainFile, typedSchema, []string{"p", "day"}, map[string]string{"delta.checkpoint.writeStatsAsStruct": "true"})
	f.Fuzz(func(t *testing.T, line []byte) {
		var buf bytes.Buffer
		w, err := checkpoint.NewWriter(&buf, c)
		if err != nil {
			t.Fatal(err)
		}
		if w.Write(line) != nil {
			return
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		lines, err := read(buf.Bytes())
		if err != nil || len(lines) != 1 || !json.Valid([]byte(lines[0])) {
			t.Errorf("%q reads back as %q, %v", line, lines, err)
		}
	})
}
