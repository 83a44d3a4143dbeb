//go:build unix

package objectstore_test

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"testing"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/objectstore"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
)

// tagged has ETags that are MD5s of what tag says of a content, and gives the next answer
// with the ETag of another one.
type tagged struct {
	*memobj.Store
	tag  func(data []byte) []byte
	torn []byte
	gets int
}

func (s *tagged) etag(data []byte) string {
	sum := md5.Sum(s.tag(data))
	return hex.EncodeToString(sum[:])
}

func (s *tagged) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	s.gets++
	data, info, err := s.Store.Get(ctx, key, r)
	info.ETag = s.etag(data)
	if s.torn != nil {
		info.ETag, s.torn = s.etag(s.torn), nil
	}
	return data, info, err
}

// reads is what a key holds, with its revision, and how many requests that took.
func reads(t *testing.T, s *objectstore.Store, from *tagged) (item lock.Item, gets int) {
	t.Helper()
	from.gets = 0
	item, err := s.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	return item, from.gets
}

func openTagged(t *testing.T, tag func([]byte) []byte) (*objectstore.Store, *tagged) {
	t.Helper()
	from := &tagged{Store: memobj.New(), tag: tag}
	s, err := objectstore.Open(t.Context(), objectstore.Config{Objects: from})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "k", []byte("value"), lock.Always()); err != nil {
		t.Fatal(err)
	}
	return s, from
}

// A gateway answers with an object, and with the ETag of the one before or after it: whoever
// took that for the object's would replace an entry that it has not seen.
func TestObjectWithAnothersETag(t *testing.T) {
	s, from := openTagged(t, func(data []byte) []byte { return data })
	want, gets := reads(t, s, from)
	if gets != 1 {
		t.Errorf("a read took %d requests", gets)
	}
	from.torn = []byte("another")
	got, gets := reads(t, s, from)
	if got.Revision != want.Revision || string(got.Value) != "value" || gets != 2 {
		t.Errorf("%q of revision %s after %d requests, want %s", got.Value, got.Revision, gets, want.Revision)
	}
}

// Where ETags are no MD5s of contents, though they look like that, one request is enough
// once that is known.
func TestETagsOfAnotherKind(t *testing.T) {
	s, from := openTagged(t, func(data []byte) []byte { return append([]byte("encrypted "), data...) })
	first, gets := reads(t, s, from)
	if gets != 2 {
		t.Errorf("the first read took %d requests", gets)
	}
	again, gets := reads(t, s, from)
	if again.Revision != first.Revision || gets != 1 {
		t.Errorf("revision %s after %d requests, was %s", again.Revision, gets, first.Revision)
	}
}
