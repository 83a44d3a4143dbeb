package coordinator_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
)

// Who names a place that holds no table is told what is missing there.
func TestRegisterSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, folder := range []string{"empty", "other/data", "log/_delta_log"} {
		if err := os.MkdirAll(filepath.Join(w.dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		"none": "there is no such folder on the server's machine", "file": "there is a file, and no folder", "empty": "there is no _delta_log in the folder",
		"other": "there is no _delta_log in the folder", "log": "there is no commit and no complete checkpoint in the folder",
	} {
		wantMissing(t, w, w.uri(name), says)
	}
}

// bucketToo are objects of which those at s3:// lie in a bucket.
type bucketToo struct {
	coordinator.Objects
	bucket objstore.Store
}

func (b bucketToo) Open(uri string) (objstore.Store, string, error) {
	if key, ok := strings.CutPrefix(uri, "s3://bucket/"); ok {
		return b.bucket, key, nil
	}
	return b.Objects.Open(uri)
}

func TestRegisterSaysWhatIsMissingInABucket(t *testing.T) {
	t.Parallel()
	bucket := memobj.New()
	w := (&world{objectsAs: func(o coordinator.Objects) coordinator.Objects { return bucketToo{o, bucket} }}).open(t)
	for _, key := range []string{"other/data.parquet", "nothing2/x", "log/_delta_log/_last_checkpoint"} {
		if err := bucket.Put(w.ctx(), key, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	for name, says := range map[string]string{
		"nothing": "nothing lies below it", "other": "there is no _delta_log below it", "log": "there is no commit and no complete checkpoint in the folder",
	} {
		wantMissing(t, w, "s3://bucket/"+name, says)
	}
}

func wantMissing(t *testing.T, w *world, uri, says string) {
	t.Helper()
	_, _, err := w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: "x", URI: uri})
	if e := wantReason(t, uri, err, coordinator.NotATable); !strings.Contains(e.Message, says) || !strings.Contains(e.Message, "name the folder in which the table's _delta_log is") {
		t.Errorf("%s: %s", uri, e.Message)
	}
}
