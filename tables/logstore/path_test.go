package logstore_test

import (
	"errors"
	"testing"

	"github.com/txcoord/txcoord/tables/logstore"
)

func TestTablePath(t *testing.T) {
	for _, c := range []struct{ uri, scheme, want string }{
		{"s3://b/t", "s3a", "s3a://b/t"},
		{"s3://b/t", "s3", "s3://b/t"},
		{"s3://my-bucket/db/t", "s3n", "s3n://my-bucket/db/t"},
		{"s3://123bucket/t", "s3a", "s3a://123bucket/t"},
		{"s3://my.bucket.a1/t", "s3a", "s3a://my.bucket.a1/t"},
		{"s3://b/größe/t", "s3a", "s3a://b/größe/t"},
		{"s3://b", "s3a", "s3a://b"},
		{"file:///data/t", "s3a", "file:/data/t"},
		// java.net.URI has no host for these, so that Spark drops them from its keys.
		{"s3://my_bucket/db/t", "s3a", ""},
		{"s3://my.bucket.1/t", "s3a", ""},
		{"s3://my.bucket.1a/t", "s3a", ""},
		{"s3://a..b/t", "s3a", ""},
		{"s3://bucket-/t", "s3a", ""},
		// Written in different ways by different clients.
		{"s3://b/my t", "s3a", ""},
		{"s3://b/my%2525t", "s3a", ""},
		{"s3://b/a:b", "s3a", ""},
		{"s3://b/a%3Fb", "s3a", ""},
		{"s3://b/a%23b", "s3a", ""},
		{"gs://b/t", "s3a", ""},
		{"/t", "s3a", ""},
	} {
		got, err := logstore.TablePath(c.uri, c.scheme)
		var refused *logstore.PathError
		if got != c.want || (err != nil) != (c.want == "") || err != nil && !errors.As(err, &refused) {
			t.Errorf("%s: got %q, %v, want %q", c.uri, got, err, c.want)
		}
	}
}
