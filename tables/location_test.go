package tables_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/tables"
)

func TestCanonicalURI(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{"/data/orders", "file:///data/orders"},
		{"/data//orders/", "file:///data/orders"},
		{"/data/./x/../orders", "file:///data/orders"},
		{"file:/data/orders", "file:///data/orders"},
		{"file:///data/orders/", "file:///data/orders"},
		{"file://localhost/data/orders", "file:///data/orders"},
		{"FILE:///data", "file:///data"},
		{"file:///my%20data/a", "file:///my data/a"},
		{"/my data/a", "file:///my data/a"},
		{"/my%20data/a", "file:///my%2520data/a"}, // a path is no URI
		{"file:///my%2520data/a", "file:///my%2520data/a"},
		{"/d/a#1?", "file:///d/a%231%3F"},
		{"s3://lake/orders/", "s3://lake/orders"},
		{"s3a://lake//orders", "s3://lake/orders"},
		{"S3N://Lake/orders", "s3://lake/orders"},
		{"s3://lake", "s3://lake"},
		{"s3://lake/", "s3://lake"},
		{"s3://lake/a+b", "s3://lake/a+b"},
		{"s3://lake/a%2Bb", "s3://lake/a+b"},
		{"gs://b/t", "gs://b/t"},
		{"s3://lake/" + strings.Repeat("k", 896), "s3://lake/" + strings.Repeat("k", 896)},
		{"abfss://c@acct.dfs.core.windows.net/t", "abfss://c@acct.dfs.core.windows.net/t"},
	} {
		got, err := tables.CanonicalURI(c.raw)
		if err != nil || got != c.want {
			t.Errorf("CanonicalURI(%q) = %q, %v, want %q", c.raw, got, err, c.want)
		}
		if again, err := tables.CanonicalURI(got); again != got {
			t.Errorf("CanonicalURI(%q) again = %q, %v", got, again, err)
		}
	}
}

func TestCanonicalURIRefuses(t *testing.T) {
	for _, c := range []struct{ raw, reason string }{
		{"", "not absolute"},
		{"data/orders", "not absolute"},
		{"./orders", "not absolute"},
		{"/", "root of the file system"},
		{"file:///", "root of the file system"},
		{"/../x", "above its root"},
		{"s3://lake/../x", "above its root"},
		{"s3:///orders", "no bucket"},
		{"s3:orders", "no bucket"},
		{"file://host/x", "another machine"},
		{"s3://lake/%zz", "percent sign"},
		{"s3://lake/%4", "breaks off"},
		{"s3://lake/a%00b", "control character"},
		{"/a\nb", "control character"},
		{"/x/" + strings.Repeat("k", 256), "file systems take 255"},
		{strings.Repeat("/kk", 1196), "more than the 3584"},
		{"s3://lake/" + strings.Repeat("k", 897), "more than the 896"},
		{"gs://lake/" + strings.Repeat("a/", 449), "more than the 896"},
		{"abfss://c@acct.dfs.core.windows.net/" + strings.Repeat("%20", 897) + "x", "more than the 896"},
		{"s3://me:word@lake/orders", "a user and a password"},
		{"abfss://c:word@acct.dfs.core.windows.net/t", "a user and a password"},
		{"s3://me:word@lake/%4", "a user and a password"},
	} {
		got, err := tables.CanonicalURI(c.raw)
		in, ok := errors.AsType[*tables.InputError](err)
		if !ok || !strings.Contains(in.Reason, c.reason) || in.Remedy == "" {
			t.Errorf("CanonicalURI(%q) = %q, %v, want an InputError with %q", c.raw, got, err, c.reason)
		}
		if err != nil && strings.Contains(err.Error(), "word@") {
			t.Errorf("the error repeats a password: %v", err)
		}
	}
}

func TestCanonicalPath(t *testing.T) {
	for _, c := range []struct{ table, path, want string }{
		{"s3://lake/orders", "a.parquet", "a.parquet"},
		{"s3://lake/orders", "day=1/a.parquet", "day=1/a.parquet"},
		{"s3://lake/orders", "special%20p@%23h", "special p@#h"},
		{"s3://lake/orders", "_2=bar+%252521/x", "_2=bar+%2521/x"},
		{"s3://lake/orders", "a+b", "a+b"},
		{"s3://lake/orders", "a%2Bb", "a+b"},
		{"s3://lake/orders", "a%2fb", "a/b"},
		{"s3://lake/orders", "./a//b", "a/b"},
		{"s3://lake/orders", "x/../a", "a"},
		{"s3://lake/orders", "...", "..."},
		{"s3://lake/orders", "t=10:00/a", "t=10:00/a"},
		{"s3://lake/orders", "2020-01-01 10:00/a", "2020-01-01 10:00/a"},
		{"s3://lake/orders", "s3://lake/orders/a", "a"},
		{"s3://lake/orders", "s3a://lake/orders/a%20b", "a b"},
		{"s3://lake/orders", "s3n://LAKE/orders/a", "a"},
		{"s3://lake/orders", "/orders/a", "a"},
		{"s3://lake/orders", "../other/a", "s3://lake/other/a"},
		{"s3://lake/orders", "../orders/a", "a"},
		{"s3://lake/orders", "%2e%2e/other/a", "s3://lake/other/a"},
		{"s3://lake/orders", "s3://lake/orders2/a", "s3://lake/orders2/a"},
		{"s3://lake/orders", "s3://other/orders/a", "s3://other/orders/a"},
		{"s3://lake/orders", "file:/orders/a", "file:///orders/a"},
		{"s3://lake/orders", "s3://lake/orders", "s3://lake/orders"},
		{"s3://lake", "s3a://lake/a", "a"},
		{"file:///data/t", "/data/t/a", "a"},
		{"file:///data/t", "file:/data/t/a", "a"},
		{"file:///data/t", "file:///data/t/a", "a"},
		{"file:///data/t", "file://localhost/data/t/a", "a"},
		{"file:///data/t", "file:/some/absolute", "file:///some/absolute"},
		{"file:///data/t", "/some/absolute", "file:///some/absolute"},
		{"file:///my data/t", "file:///my%20data/t/a", "a"},
		{"file:///my%2520data/t", "file:///my%2520data/t/a", "a"},
	} {
		got, err := tables.CanonicalPath(c.table, c.path)
		if err != nil || got != c.want {
			t.Errorf("CanonicalPath(%q, %q) = %q, %v, want %q", c.table, c.path, got, err, c.want)
		}
	}
	for _, bad := range []string{"a%", "a%2", "a%zz", "../../../x", "file:/../x"} {
		if got, err := tables.CanonicalPath("s3://lake/orders", bad); err == nil {
			t.Errorf("CanonicalPath(%q) = %q, want an error", bad, got)
		}
	}
}

func TestHashPath(t *testing.T) {
	// printf a.parquet | sha256sum
	if got, want := tables.HashPath("a.parquet").String(), "sha256:cb8eb0d4cd41f22d"; got != want {
		t.Errorf("HashPath = %s, want %s", got, want)
	}
}

func FuzzCanonicalPath(f *testing.F) {
	for _, s := range []string{"a", "a%20b", "s3a://lake/orders/a", "../x", "a//b", "%2e%2e/x", ":", "a:b", "s3:", "//x", "/", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		const table = "s3://lake/orders"
		got, err := tables.CanonicalPath(table, path)
		if err != nil {
			return
		}
		// A name by its canonical form, escaped, is the same name.
		escaped := got
		if i := strings.Index(got, "://"); i < 0 {
			escaped = escape(got)
		} else if host, rest, ok := strings.Cut(got[i+3:], "/"); ok {
			escaped = got[:i+3] + host + "/" + escape(rest)
		}
		again, err := tables.CanonicalPath(table, escaped)
		if err != nil || again != got {
			t.Errorf("%q is %q, and that is %q, %v", path, got, again, err)
		}
		if !strings.Contains(got, "://") && (strings.Contains(got, "//") || strings.HasPrefix(got, "/")) {
			t.Errorf("%q is %q, which is not clean", path, got)
		}
	})
}

// escape escapes every byte but letters, digits and slashes.
func escape(s string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c == '/' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' {
			b.WriteByte(c)
			continue
		}
		b.WriteString("%" + string(digits[c>>4]) + string(digits[c&15]))
	}
	return b.String()
}

func FuzzCanonicalURI(f *testing.F) {
	for _, s := range []string{"/a", "file:/a%20b", "s3a://b/c/", "s3://b/%2525", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := tables.CanonicalURI(raw)
		if err != nil {
			return
		}
		if again, err := tables.CanonicalURI(got); err != nil || again != got {
			t.Errorf("%q is %q, and that is %q, %v", raw, got, again, err)
		}
	})
}

func TestFileURI(t *testing.T) {
	for path, want := range map[string]string{
		"day=1/a b.parquet": "s3://lake/orders/day=1/a b.parquet", "p@#%": "s3://lake/orders/p@%23%25", "s3://other/x": "s3://other/x",
	} {
		if got := tables.FileURI(tableURI, path); got != want {
			t.Errorf("FileURI(%q) = %q, want %q", path, got, want)
		}
	}
}
