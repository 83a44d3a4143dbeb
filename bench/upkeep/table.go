package upkeep

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/txcoord/txcoord/bench/contend"
)

// table writes a table's log as engines do, as files: what is measured is reading it.
type table struct {
	dir  string
	next int
	made int // files ever added
	gone int // and removed
	size int64
}

// newTable makes version 0. policy is that of the table's checkpoints.
func newTable(dir, policy string) (*table, error) {
	if err := os.MkdirAll(filepath.Join(dir, "_delta_log"), 0o755); err != nil {
		return nil, err
	}
	t := &table{dir: dir}
	features := `{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["v2Checkpoint"],"writerFeatures":["v2Checkpoint"]}}`
	if policy != "v2" {
		features = `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`
	}
	return t, t.commit([]byte(features + "\n" +
		`{"metaData":{"id":"5fba94ed-9794-4965-ba6e-6ee3c0d22af9","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"amount\",\"type\":\"double\",\"nullable\":true,\"metadata\":{}},{\"name\":\"note\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}","partitionColumns":[],"configuration":{"delta.checkpointPolicy":"` + policy + `"},"createdTime":1700000000000}}` + "\n"))
}

func (t *table) commit(text []byte) error {
	name := fmt.Sprintf("%020d.json", t.next)
	if err := os.WriteFile(filepath.Join(t.dir, "_delta_log", name), text, 0o644); err != nil {
		return fmt.Errorf("write a version: %w", err)
	}
	t.next++
	t.size += int64(len(text))
	return nil
}

// change commits a version that adds files and removes the oldest ones.
func (t *table) change(adds, removes int) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"commitInfo":{"timestamp":%d,"operation":"WRITE","operationParameters":{"mode":"Append"},"engineInfo":"bench"}}`+"\n", 1_700_000_000_000+t.next*1000)
	live := t.made
	for i := range removes {
		n := t.next*removes + i
		if n >= live {
			break
		}
		fmt.Fprintf(&b, `{"remove":{"path":"%s","deletionTimestamp":%d,"dataChange":true}}`+"\n", file(n).Path(), 1_700_000_000_000+t.next*1000)
		t.gone++
	}
	for range adds {
		b.Write(file(t.made).AddLine())
		t.made++
	}
	return t.commit(b.Bytes())
}

func file(n int) contend.Work { return contend.Work{Writer: 1 + n/1_000_000, Number: n} }

// grown is a table of files that are all live, in versions of at most 10,000.
func grown(ctx context.Context, dir, policy string, files int) (*table, error) {
	t, err := newTable(dir, policy)
	for err == nil && t.made < files {
		if err = ctx.Err(); err == nil {
			err = t.change(min(10_000, files-t.made), 0)
		}
	}
	return t, err
}
