package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/e2e/readers"
	"github.com/txcoord/txcoord/e2e/servers"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/s3obj"
)

// bucketDir is a fresh bucket, and the folder that it is: the checker reads there what
// the server writes by the S3 API.
func bucketDir(t testing.TB, s *servers.S3) (string, *s3obj.Config) {
	t.Helper()
	bucket := s.Bucket(t)
	dir, err := filepath.EvalSymlinks(s.Folder(bucket))
	if err != nil {
		t.Fatal(err)
	}
	return dir, &s3obj.Config{Bucket: bucket, Region: s.Region, Endpoint: s.Endpoint, AccessKey: s.AccessKey, SecretKey: s.SecretKey}
}

// below is what a store has below a prefix.
type below struct {
	objstore.Store
	prefix string
}

func (b below) info(i objstore.Info) objstore.Info {
	i.Key = strings.TrimPrefix(i.Key, b.prefix)
	return i
}

func (b below) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	data, info, err := b.Store.Get(ctx, b.prefix+key, r)
	return data, b.info(info), err
}

func (b below) Stat(ctx context.Context, key string) (objstore.Info, error) {
	info, err := b.Store.Stat(ctx, b.prefix+key)
	return b.info(info), err
}

func (b below) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return b.Store.PutIfAbsent(ctx, b.prefix+key, data)
}

func (b below) Put(ctx context.Context, key string, data []byte) error {
	return b.Store.Put(ctx, b.prefix+key, data)
}

func (b below) Delete(ctx context.Context, key string) error {
	return b.Store.Delete(ctx, b.prefix+key)
}

func (b below) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	o.Prefix = b.prefix + o.Prefix
	if o.StartAfter != "" {
		o.StartAfter = b.prefix + o.StartAfter
	}
	return func(yield func(objstore.Entry, error) bool) {
		for e, err := range b.Store.List(ctx, o) {
			e.Info, e.Prefix = b.info(e.Info), strings.TrimPrefix(e.Prefix, b.prefix)
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestEveryWriteKilledOnS3 is the same for tables that are reached by the S3 API.
func TestEveryWriteKilledOnS3(t *testing.T) {
	s := commitScenario()
	s.config.s3 = servers.StartVersity(t)
	t.Run("uninterrupted", s.uninterrupted)
	for _, k := range s.kills() {
		t.Run(strings.ReplaceAll(k.String(), " ", "-"), func(t *testing.T) {
			t.Parallel()
			s.killed(t, k)
		})
	}
}

// TestDeltaRSOnS3 has delta-rs append to a table by the S3 API, beside us, and read by
// it what both have written.
func TestDeltaRSOnS3(t *testing.T) {
	p := readers.Require(t)
	w := newWorld(t, serverConfig{s3: servers.StartVersity(t)})
	w.start(nil)
	w.create("shared", txcoordv1.TableMode_TABLE_MODE_OPEN)
	w.create("ours", txcoordv1.TableMode_TABLE_MODE_EXCLUSIVE)
	w.look()
	b := w.config.Bucket
	uri := func(table string) string { return "s3://" + b.Bucket + "/" + warehouseDir + "/" + table }
	options := map[string]string{
		"AWS_ENDPOINT_URL": b.Endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": b.Region,
		"AWS_ACCESS_KEY_ID": b.AccessKey, "AWS_SECRET_ACCESS_KEY": b.SecretKey,
	}
	const batches, rows = 8, 3
	other, err := p.StartAppend(w.ctx(), readers.Append{
		Path: w.table("shared"), URI: uri("shared"), StorageOptions: options,
		Batches: batches, Rows: rows, Constants: map[string]any{"amount": 0}, Pause: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	foreign := appended(other)
	ours := int64(0)
	for done := false; !done; ours++ {
		select {
		case <-foreign.done:
			done = true
		default:
		}
		w.commitOnce(fmt.Sprintf("beside %d", ours), w.rows("shared", "ours"))
		time.Sleep(50 * time.Millisecond) // delta-rs gives up after 15 versions that were there before its own
	}
	w.rest()
	if err := errors.Join(foreign.err...); err != nil || len(foreign.versions) != batches {
		t.Fatalf("delta-rs has %d versions: %v", len(foreign.versions), err)
	}
	for table, want := range map[string]int64{"shared": 3*ours + batches*rows, "ours": 3 * ours} {
		got, err := p.Read(t.Context(), readers.DeltaRS, readers.Query{Name: table, Path: uri(table), StorageOptions: options, Latest: true})
		if err != nil || len(got) != 1 || got[0].Count != want {
			t.Errorf("%s: delta-rs reads %+v, %v, want %d rows", table, got, err, want)
		}
	}
}
