package tables_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/txcoord/txcoord/tables"
)

// spelling writes a place as somebody might: slashes doubled and trailing, dot segments,
// any byte percent-encoded, in either case.
func spelling(t *rapid.T, segments []string) string {
	var b strings.Builder
	slashes := func(least int) {
		b.WriteString(strings.Repeat("/", rapid.IntRange(least, 3).Draw(t, "slashes")))
	}
	for _, s := range segments {
		slashes(1)
		switch rapid.IntRange(0, 9).Draw(t, "detour") {
		case 0:
			b.WriteString("./")
		case 1:
			b.WriteString("nowhere//../")
		}
		for i := range len(s) {
			c := s[i]
			must := c == '%' || c == '?' || c == '#'
			switch {
			case must || rapid.IntRange(0, 5).Draw(t, "escape") == 0:
				format := rapid.SampledFrom([]string{"%%%02X", "%%%02x"}).Draw(t, "case")
				fmt.Fprintf(&b, format, c)
			default:
				b.WriteByte(c)
			}
		}
	}
	slashes(0)
	return b.String()
}

var segmentBytes = rapid.SampledFrom([]rune("abcXYZ019 _-.+=%?#&;,@!()[]{}'\"~äß日:"))

func genSegments(t *rapid.T) []string {
	segment := rapid.Custom(func(t *rapid.T) string {
		s := string(rapid.SliceOfN(segmentBytes, 1, 8).Draw(t, "segment"))
		if s == "." || s == ".." {
			s += "x"
		}
		return s
	})
	return rapid.SliceOfN(segment, 1, 4).Draw(t, "segments")
}

// TestOneTableHasOneURI: every spelling of a place is the same URI, which is its own
// canonical form; and another place is another URI (R21).
func TestOneTableHasOneURI(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segments := genSegments(t)
		heads := rapid.SampledFrom([][]string{
			{"s3://bucket", "s3a://bucket", "s3n://bucket", "S3://bucket", "S3A://Bucket"},
			{"file://", "FILE://localhost", "file://LOCALHOST"},
			{"gs://bucket", "GS://BUCKET"},
		}).Draw(t, "scheme")
		var uris []string
		for range 3 {
			raw := rapid.SampledFrom(heads).Draw(t, "head") + spelling(t, segments)
			uri, err := tables.CanonicalURI(raw)
			if err != nil {
				t.Fatalf("%q: %v", raw, err)
			}
			if again, err := tables.CanonicalURI(uri); err != nil || again != uri {
				t.Fatalf("%q: %q becomes %q, %v", raw, uri, again, err)
			}
			uris = append(uris, uri)
		}
		if uris[0] != uris[1] || uris[1] != uris[2] {
			t.Fatalf("one place, %q", uris)
		}
		other := genSegments(t)
		uri, err := tables.CanonicalURI(heads[0] + spelling(t, other))
		if err != nil {
			t.Fatal(err)
		}
		if same := strings.Join(other, "/") == strings.Join(segments, "/"); same != (uri == uris[0]) {
			t.Fatalf("%q and %q: %s and %s", segments, other, uris[0], uri)
		}
	})
}

// TestPathIsNoURI: a path without scheme is not decoded, and is the same place as its
// escaped URI.
func TestPathIsNoURI(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segments := genSegments(t)
		path, err := tables.CanonicalURI("/" + strings.Join(segments, "/"))
		if err != nil {
			t.Fatal(err)
		}
		uri, err := tables.CanonicalURI("file://" + spelling(t, segments))
		if err != nil || path != uri {
			t.Fatalf("%q: %q and %q, %v", segments, path, uri, err)
		}
	})
}
