package tables_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/internal/allocs"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// The most that reading may allocate in all, freed or not: a constant, and so much
// for each byte of the input.
const (
	allocConstant = 1 << 20
	allocPerByte  = 256
)

// bounded runs f, which reads n bytes, within the bound.
func bounded(t *testing.T, n int, f func()) {
	t.Helper()
	most := allocConstant + allocPerByte*n
	if got := allocs.Over(most, f); got != 0 {
		t.Errorf("%d bytes of input took %d bytes of memory, want at most %d", n, got, most)
	}
}

// readable wants a replay that either worked or names what is wrong with the log.
func readable(t *testing.T, err error) {
	t.Helper()
	if _, named := errors.AsType[*tables.LogError](err); err != nil && !named {
		t.Errorf("an error of another type: %v", err)
	}
}

// FuzzParseCommit: whatever lies in a log under a version's name is read whole or
// refused with its place, and what is taken replays to a state.
func FuzzParseCommit(f *testing.F) {
	for _, s := range [][]byte{
		text(plainProtocol, metaOf(schemaJSON, []string{"day"}, `"delta.appendOnly":"true"`), addLine("a")),
		text(`{"commitInfo":{"timestamp":1,"inCommitTimestamp":2,"operation":"WRITE","engineInfo":"e","isBlindAppend":true,"tags":{"txcoord.catalog":"cat"}}}`, addDV("a", "x"), removeDV("a", "y")),
		text(txnLine("txcoord/cat", 7), domainLine("delta.rowTracking"), addRows("x", 3, `"baseRowId":1,"defaultRowCommitVersion":0`)),
		text(`{"add":null}`, `{"newer":{"x":1}}`, `{}`), []byte(`{"add":{"path":"a%2`), []byte(`{"add":{"path":"a","deletionVector":{"storageType":"u","pathOrInlineDv":"x","offset":1}}}`),
	} {
		f.Add(s)
	}
	profile := plain(f).profile()
	f.Fuzz(func(t *testing.T, raw []byte) {
		var c *tables.Commit
		var err error
		bounded(t, len(raw), func() { c, err = tables.ParseCommit(tableURI, 1, raw) })
		readable(t, err)
		if err != nil {
			return
		}
		if !bytes.Equal(raw, c.Raw) || c.Identity != twophase.HashOf(raw) {
			t.Error("the commit's bytes are not those that were read")
		}
		_, err = c.Tags("cat")
		readable(t, err)
		tables.CommitFacts(c, profile)
		log := plain(t).put("00000000000000000001.json", raw).log
		bounded(t, 2*len(raw), func() { _, err = log.State(t.Context(), tables.Latest) })
		readable(t, err)
	})
}

// FuzzPointer: _last_checkpoint is a hint. Whatever it holds, the log says the same.
func FuzzPointer(f *testing.F) {
	k := newKept(f)
	k.commit(plainProtocol, metaOf(schemaJSON, nil, ""), addLine("a")).commit(addLine("b"), txnLine("app", 1))
	k.checkpoint()
	f.Add(k.get("_last_checkpoint"))
	k.commit(removeLine("a"))
	k.checkpoint()
	want := k.commit(addLine("c")).state()
	for _, s := range []string{`{"version":1,`, `{"version":9}`, `{"version":-1}`, `{"version":9223372036854775807}`, `{"version":"2"}`, `[]`, ``, `{"version":2,"parts":3}`} {
		f.Add([]byte(s))
	}
	f.Add(k.get("_last_checkpoint"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := k.store.Put(t.Context(), tableKey+"/_delta_log/_last_checkpoint", raw); err != nil {
			t.Fatal(err)
		}
		got, err := k.log.State(t.Context(), tables.Latest)
		if err != nil {
			t.Fatal(err)
		}
		if got.Version() != want.Version() || got.NumFiles() != want.NumFiles() || !cmp.Equal(got.Txns(), want.Txns()) {
			t.Errorf("version %d, %d files, %v; without the hint %d, %d, %v",
				got.Version(), got.NumFiles(), got.Txns(), want.Version(), want.NumFiles(), want.Txns())
		}
	})
}

// FuzzListing: any names may stand in a log's folder. Those of commits and
// checkpoints are found, in order, and nothing else is.
func FuzzListing(f *testing.F) {
	const v0, v1 = "00000000000000000000", "00000000000000000001"
	for _, s := range []string{
		v0 + ".json\n" + v1 + ".json\n" + v0 + ".checkpoint.parquet", v1 + ".checkpoint.0000000001.0000000002.parquet\n" + v1 + ".checkpoint.0000000002.0000000002.parquet",
		v1 + ".checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", v0 + ".json.tmp\n" + v0 + ".crc\n_sidecars/x\n_txcoord/owner\n_last_checkpoint",
		"9223372036854775807.json\n99999999999999999999.json\n" + v0 + ".compacted.json", "09223372036854775807.checkpoint.parquet\n09223372036854775807.json",
		v1 + ".checkpoint.0000000001.2147483647.parquet",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, names string) {
		fx := plain(t)
		for name := range strings.SplitSeq(names, "\n") {
			if (objstore.ListOptions{Prefix: name}).Prefix != "" && name[0] != '/' {
				_ = fx.store.Put(t.Context(), tableKey+"/_delta_log/"+name, nil) // names that no store takes stand in none
			}
		}
		var l *tables.Listing
		var err error
		bounded(t, 16*len(names), func() { l, err = fx.log.List(t.Context(), 0) })
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range l.Commits {
			if want := fmt.Sprintf("%s/_delta_log/%020d.json", tableKey, c.Version); c.Key != want || i > 0 && l.Commits[i-1].Version >= c.Version {
				t.Errorf("commit %d is %s, after %v", c.Version, c.Key, l.Commits[:i])
			}
		}
		for _, c := range l.Checkpoints {
			for _, file := range c.Files {
				if !strings.HasPrefix(file.Key, fmt.Sprintf("%s/_delta_log/%020d.checkpoint.", tableKey, c.Version)) {
					t.Errorf("checkpoint %d has the file %s", c.Version, file.Key)
				}
			}
		}
		_, err = fx.log.State(t.Context(), tables.Latest)
		readable(t, err)
	})
}

// FuzzCheckpointLines replays a V2 checkpoint in JSON that holds anything. The
// commits below it are gone, so that there is nothing to fall back to.
func FuzzCheckpointLines(f *testing.F) {
	for _, s := range [][]byte{
		text(`{"checkpointMetadata":{"version":1}}`, plainProtocol, metaOf(schemaJSON, nil, ""), addLine("a"), removeLine("b", `"deletionTimestamp":1`), txnLine("app", 1), domainLine("d")),
		text(`{"checkpointMetadata":{"version":1}}`, plainProtocol, metaOf(schemaJSON, nil, ""), `{"sidecar":{"path":"x.parquet","sizeInBytes":1,"modificationTime":1}}`),
		text(`{"checkpointMetadata":{"version":1}}`, plainProtocol, metaOf(schemaJSON, nil, ""), sidecarLine("x.parquet", text(addLine("s")))),
		text(`{"checkpointMetadata":{"version":2}}`, plainProtocol), text(plainProtocol, plainProtocol), []byte("{"),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		fx := newFixture(t)
		fx.put("00000000000000000001.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", raw)
		fx.put("_sidecars/x.parquet", text(addLine("s")))
		fx.put("00000000000000000002.json", text(addLine("c")))
		var err error
		bounded(t, len(raw), func() { _, err = fx.log.State(t.Context(), tables.Latest) })
		readable(t, err)
		if err == nil {
			if _, err := fx.log.LiveFiles(t.Context(), tables.Latest); err != nil {
				t.Errorf("a state, and no live files: %v", err)
			}
		}
	})
}

// FuzzSpellings writes one table's place in every way that people and engines do:
// it stays one table.
func FuzzSpellings(f *testing.F) {
	for _, s := range []string{"s3://lake/orders", "file:///data/a%20b", "s3a://Lake/x/./y", "s3://lake/%25/%3F", "gs://b/é"} {
		f.Add(s, uint(1))
	}
	f.Fuzz(func(t *testing.T, raw string, spot uint) {
		var want string
		var err error
		bounded(t, len(raw), func() { want, err = tables.CanonicalURI(raw) })
		scheme, rest, ok := strings.Cut(want, "://")
		if err != nil || !ok {
			return
		}
		root, path, _ := strings.Cut(rest, "/")
		spellings := []string{
			strings.ToUpper(scheme) + "://" + rest, want + "/", scheme + "://" + root + "//" + path, scheme + "://" + root + "/./" + path,
			scheme + "://" + root + "/x/../" + path, scheme + "://" + root + "/" + strings.ReplaceAll(path, "/", "///"),
		}
		if n := uint(len(path)); n > 0 && path[spot%n] != '%' && (spot%n < 1 || path[spot%n-1] != '%') && (spot%n < 2 || path[spot%n-2] != '%') {
			i := spot % n
			spellings = append(spellings, fmt.Sprintf("%s://%s/%s%%%02x%s", scheme, root, path[:i], path[i], path[i+1:]))
		}
		if scheme == "s3" {
			spellings = append(spellings, "s3a://"+rest, "s3n://"+rest)
		}
		for _, s := range spellings {
			if got, err := tables.CanonicalURI(s); err != nil || got != want {
				t.Errorf("%q is %q, and %q is %q, %v", raw, want, s, got, err)
			}
		}
	})
}

var withScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)

// FuzzRelativePath compares with the standard library, which knows RFC 3986.
func FuzzRelativePath(f *testing.F) {
	for _, s := range []string{"a", "a%20b/c", "a/./b//c", "a/../b", "../x", "day=2024-01-01/a%3D.parquet", "a+b", "%2e%2e/x", "é", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if withScheme.MatchString(raw) || strings.HasPrefix(raw, "/") {
			return
		}
		var got string
		var err error
		bounded(t, len(raw), func() { got, err = tables.CanonicalPath(tableURI, raw) })
		decoded, wrong := url.PathUnescape(raw)
		if strings.HasPrefix(decoded, "/") {
			return // an absolute path, once it is decoded
		}
		if wrong != nil {
			if err == nil {
				t.Errorf("%q is %q, want an error", raw, got)
			}
			return
		}
		joined := path.Join("orders", decoded)
		if up := joined == ".." || strings.HasPrefix(joined, "../"); err != nil || up {
			if err == nil || !up {
				t.Errorf("%q is %q, %v; leads above the store: %t", raw, got, err, up)
			}
			return
		}
		want := "s3://lake" + path.Clean("/orders/"+decoded)
		if below, ok := strings.CutPrefix(want, tableURI+"/"); ok {
			want = below
		}
		if got != want {
			t.Errorf("%q is %q, want %q", raw, got, want)
		}
	})
}
