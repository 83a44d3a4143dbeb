package objectstore

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // what ETags are
	"encoding/hex"
	"strings"

	"github.com/txcoord/txcoord/tables/objstore"
)

// object reads an object and its ETag, which belong together: an entry that came with the
// ETag of the one that took its place would be replaced by who means to replace the former.
// S3 answers with one or the other. Gateways that keep objects as files look for the ETag
// and open the file one after the other, and what is put between makes them answer with
// both (versitygw 1.8). Where ETags are the MD5 of the content, as of S3's objects that are
// put in one piece, that shows, and the object is read again. Where they are something else
// (SSE-KMS), two reads that are alike show that; after that one is believed.
func (s *Store) object(ctx context.Context, key string) (data []byte, etag string, err error) {
	for {
		before, was := data, etag
		var info objstore.Info
		if data, info, err = s.cfg.Objects.Get(ctx, key, objstore.Range{}); err != nil {
			return nil, "", err
		}
		etag = info.ETag
		if s.whole.Load() || !isMD5(etag) || etag == md5Of(data) {
			return data, etag, nil
		}
		if was == etag && bytes.Equal(before, data) {
			s.whole.Store(true)
			return data, etag, nil
		}
	}
}

// isMD5: an ETag looks like one.
func isMD5(etag string) bool {
	b, err := hex.DecodeString(etag)
	return err == nil && len(b) == md5.Size && etag == strings.ToLower(etag)
}

func md5Of(data []byte) string {
	sum := md5.Sum(data) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}
