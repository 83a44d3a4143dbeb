package objtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
)

func objectCases() []Case {
	return []Case{
		{Name: "PutCanBeRead", Run: putCanBeRead},
		{Name: "PutIfAbsentKeepsTheFirst", Run: putIfAbsentKeepsTheFirst},
		{Name: "PutReplaces", Run: putReplaces},
		{Name: "MissingIsNotFound", Run: missingIsNotFound},
		{Name: "DeleteRemoves", Run: deleteRemoves},
		{Name: "RangesAreClipped", Run: rangesAreClipped},
		{Name: "BytesAreCopied", Run: bytesAreCopied},
		{Name: "LargeObjects", Run: largeObjects},
		{Name: "KeysAreTakenLiterally", Run: keysAreTakenLiterally},
		{Name: "BadKeysAreRefused", Run: badKeysAreRefused},
		{Name: "InfoDescribesTheObject", Run: infoDescribesTheObject},
		{Name: "ETagChangesWithTheContent", Run: etagChangesWithTheContent},
		{Name: "KeysNest", Needs: []Capability{Nesting}, Run: keysNest},
		{Name: "CancelledDoesNothing", Run: cancelledDoesNothing},
		{Name: "AcknowledgedOutlivesReopen", Needs: []Capability{Reopening}, Run: acknowledgedOutlivesReopen},
	}
}

// must stops a case whose own steps fail.
func must(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// wantErr checks an answer that callers branch on.
func wantErr(t T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// wantObject checks what a key holds.
func wantObject(t T, s objstore.Store, key string, want []byte) {
	t.Helper()
	got, info, err := s.Get(t.Context(), key, objstore.Range{})
	switch {
	case err != nil:
		t.Errorf("get %q: %v", key, err)
	case !bytes.Equal(got, want):
		t.Errorf("get %q: got %s, want %s", key, brief(got), brief(want))
	case info.Key != key || info.Size != int64(len(want)):
		t.Errorf("get %q: info is %+v, want the key and size %d", key, info, len(want))
	}
}

func brief(data []byte) string {
	if len(data) > 40 {
		return fmt.Sprintf("%d bytes %q…", len(data), data[:40])
	}
	return fmt.Sprintf("%q", data)
}

func putCanBeRead(t T, c Config) {
	s := c.New(t)
	for i, data := range []string{"", "x", "{\"add\":{}}\n", strings.Repeat("line\n", 1000)} {
		a, b := fmt.Sprintf("absent/%d", i), fmt.Sprintf("put/%d", i)
		must(t, s.PutIfAbsent(t.Context(), a, []byte(data)))
		wantObject(t, s, a, []byte(data))
		must(t, s.Put(t.Context(), b, []byte(data)))
		wantObject(t, s, b, []byte(data))
	}
}

func putIfAbsentKeepsTheFirst(t T, c Config) {
	s := c.New(t)
	for _, first := range []string{"first", ""} {
		key := "k" + first
		must(t, s.PutIfAbsent(t.Context(), key, []byte(first)))
		for _, other := range []string{"second", first, ""} {
			wantErr(t, "second put", s.PutIfAbsent(t.Context(), key, []byte(other)), objstore.ErrExists)
			wantErr(t, "through another handle", c.second(t, s).PutIfAbsent(t.Context(), key, []byte(other)), objstore.ErrExists)
			wantObject(t, s, key, []byte(first))
		}
	}
	must(t, s.Put(t.Context(), "put", []byte("first")))
	wantErr(t, "put if absent after put", s.PutIfAbsent(t.Context(), "put", []byte("second")), objstore.ErrExists)
}

func putReplaces(t T, c Config) {
	s := c.New(t)
	must(t, s.PutIfAbsent(t.Context(), "k", []byte("a longer first version")))
	for _, data := range []string{"second", "", "third"} {
		must(t, s.Put(t.Context(), "k", []byte(data)))
		wantObject(t, s, "k", []byte(data))
		wantObject(t, c.second(t, s), "k", []byte(data))
	}
}

func missingIsNotFound(t T, c Config) {
	s := c.New(t)
	must(t, s.Put(t.Context(), "folder/object", []byte("x")))
	for _, key := range []string{"missing", "folder", "folder/missing", "no/such/folder", "folder/object/below"} {
		_, _, err := s.Get(t.Context(), key, objstore.Range{})
		wantErr(t, "get "+key, err, objstore.ErrNotFound)
		_, err = s.Stat(t.Context(), key)
		wantErr(t, "stat "+key, err, objstore.ErrNotFound)
	}
}

func deleteRemoves(t T, c Config) {
	s := c.New(t)
	must(t, s.Put(t.Context(), "a/b", []byte("x")))
	must(t, s.Put(t.Context(), "a/c", []byte("y")))
	for _, key := range []string{"a/b", "a/b", "a", "missing", "no/such/folder"} {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Errorf("delete %s: %v", key, err)
		}
	}
	_, err := s.Stat(t.Context(), "a/b")
	wantErr(t, "stat after delete", err, objstore.ErrNotFound)
	wantObject(t, s, "a/c", []byte("y"))
	must(t, s.PutIfAbsent(t.Context(), "a/b", []byte("again")))
	wantObject(t, s, "a/b", []byte("again"))
}

func rangesAreClipped(t T, c Config) {
	s := c.New(t)
	must(t, s.Put(t.Context(), "k", []byte("0123456789")))
	must(t, s.Put(t.Context(), "empty", nil))
	for r, want := range map[objstore.Range]string{
		{}:                       "0123456789",
		{Length: 3}:              "012",
		{Offset: 4}:              "456789",
		{Offset: 4, Length: 3}:   "456",
		{Offset: 8, Length: 9}:   "89",
		{Offset: 10}:             "",
		{Offset: 99, Length: 1}:  "",
		{Offset: -4}:             "6789",
		{Offset: -4, Length: 2}:  "67",
		{Offset: -99}:            "0123456789",
		{Offset: -99, Length: 2}: "01",
	} {
		got, info, err := s.Get(t.Context(), "k", r)
		if err != nil || string(got) != want || info.Size != 10 {
			t.Errorf("get %+v: got %q, size %d, %v, want %q of 10", r, got, info.Size, err, want)
		}
		if got, _, err := s.Get(t.Context(), "empty", r); err != nil || len(got) != 0 {
			t.Errorf("get %+v of the empty object: got %q, %v", r, got, err)
		}
	}
	if _, _, err := s.Get(t.Context(), "k", objstore.Range{Length: -1}); err == nil {
		t.Errorf("a range of negative length is answered")
	}
}

func bytesAreCopied(t T, c Config) {
	s := c.New(t)
	for name, put := range map[string]func(context.Context, string, []byte) error{"absent": s.PutIfAbsent, "put": s.Put} {
		data := []byte("original")
		must(t, put(t.Context(), name, data))
		copy(data, "xxxxxxxx")
		got, _, err := s.Get(t.Context(), name, objstore.Range{})
		must(t, err)
		copy(got, "yyyyyyyy")
		wantObject(t, s, name, []byte("original"))
	}
}

func largeObjects(t T, c Config) {
	s := c.New(t)
	data := make([]byte, 33<<20+1)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(data)
	must(t, s.PutIfAbsent(t.Context(), "large/if absent", data))
	wantObject(t, s, "large/if absent", data)
	must(t, s.Put(t.Context(), "large/put", data))
	wantObject(t, s, "large/put", data)
	tail, _, err := s.Get(t.Context(), "large/put", objstore.Range{Offset: -3})
	if err != nil || !bytes.Equal(tail, data[len(data)-3:]) {
		t.Errorf("last three bytes: got %x, %v", tail, err)
	}
}

// awkwardKeys are keys that some layer may want to unquote, fold or hide. No two of
// them are one key, though they would be after decoding.
func awkwardKeys() []string {
	return []string{
		"t/part=a b/f.parquet", "t/part=a%20b/f.parquet", "t/part=a+b/f.parquet", "t/part=a%2520b/f.parquet",
		"t/part=a%2Fb/f", "t/é", "t/e\u0301", "t/日本語/ファイル", "t/\U0001F600", "t/#?&=;:@!$'(),*~", "t/\"quoted\"", "t/back\\slash",
		"t/.hidden", "t/_underscore", "t/.0001.json.crc", "t/...", "t/..a", "t/a..", "t/tab\there", "t/new\nline", "t/UPPER", "t/upper",
		"t/ leading", "t/trailing ", "t/.x.tmp", "t/" + strings.Repeat("n", 200), strings.Repeat("d/", 60) + "deep",
	}
}

func keysAreTakenLiterally(t T, c Config) {
	s := c.New(t)
	keys := awkwardKeys()
	if _, ok := c.Without[Backslashes]; ok {
		keys = slices.DeleteFunc(keys, func(key string) bool { return strings.Contains(key, `\`) })
	}
	for _, key := range keys {
		if err := s.PutIfAbsent(t.Context(), key, []byte("1 "+key)); err != nil {
			t.Errorf("put if absent: %v", err)
		}
	}
	for _, key := range keys {
		wantObject(t, s, key, []byte("1 "+key))
		if err := s.Put(t.Context(), key, []byte("2 "+key)); err != nil {
			t.Errorf("put: %v", err)
		}
	}
	for _, key := range keys {
		wantObject(t, s, key, []byte("2 "+key))
	}
	wantListed(t, s, objstore.ListOptions{}, sorted(keys))
}

func badKeysAreRefused(t T, c Config) {
	s := c.New(t)
	for _, key := range []string{"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/..", "./a", "nul\x00byte"} {
		_, _, getErr := s.Get(t.Context(), key, objstore.Range{})
		_, statErr := s.Stat(t.Context(), key)
		for what, err := range map[string]error{
			"put if absent": s.PutIfAbsent(t.Context(), key, []byte("x")), "put": s.Put(t.Context(), key, []byte("x")),
			"delete": s.Delete(t.Context(), key), "get": getErr, "stat": statErr,
		} {
			if err == nil || errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrExists) || errors.Is(err, objstore.ErrUnknown) {
				t.Errorf("%s %q: got %v, want a refusal of the key", what, key, err)
			}
		}
	}
	wantListed(t, s, objstore.ListOptions{}, nil)
}

func infoDescribesTheObject(t T, c Config) {
	s := c.New(t)
	start := time.Now()
	must(t, s.Put(t.Context(), "k", []byte("12345")))
	_, got, err := s.Get(t.Context(), "k", objstore.Range{Offset: 1, Length: 1})
	must(t, err)
	if got.Key != "k" || got.Size != 5 {
		t.Errorf("get: info is %+v", got)
	}
	const skew = time.Minute
	if got.Modified.Before(start.Add(-skew)) || got.Modified.After(time.Now().Add(skew)) {
		t.Errorf("get: modified %v, put at %v", got.Modified, start)
	}
	stat, err := s.Stat(t.Context(), "k")
	must(t, err)
	listed := list(t, s, objstore.ListOptions{})
	for what, info := range map[string]objstore.Info{"stat": stat, "list": listed[0].Info} {
		if info.Key != got.Key || info.Size != got.Size || info.ETag != got.ETag {
			t.Errorf("%s says %+v, get %+v", what, info, got)
		}
	}
}

// etagChangesWithTheContent writes back and forth as fast as it can: a clock that
// ticks slowly and numbers that are used again must not make two objects look alike.
func etagChangesWithTheContent(t T, c Config) {
	s := c.New(t)
	seen := map[string]string{}
	for i := range 200 {
		data := fmt.Sprintf("%03d", i)
		must(t, s.Put(t.Context(), "k", []byte(data)))
		info, err := s.Stat(t.Context(), "k")
		must(t, err)
		if info.ETag == "" {
			return
		}
		if other, ok := seen[info.ETag]; ok {
			t.Fatalf("%s and %s have the same ETag %s", other, data, info.ETag)
		}
		seen[info.ETag] = data
	}
}

func keysNest(t T, c Config) {
	s := c.New(t)
	must(t, s.PutIfAbsent(t.Context(), "a/b", []byte("below")))
	must(t, s.PutIfAbsent(t.Context(), "a", []byte("above")))
	wantObject(t, s, "a", []byte("above"))
	wantObject(t, s, "a/b", []byte("below"))
	wantListed(t, s, objstore.ListOptions{Delimiter: true}, []string{"a", "a/"})
}

func cancelledDoesNothing(t T, c Config) {
	s := c.New(t)
	must(t, s.Put(t.Context(), "there", []byte("x")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, getErr := s.Get(ctx, "there", objstore.Range{})
	_, statErr := s.Stat(ctx, "there")
	var listErr error
	for _, err := range s.List(ctx, objstore.ListOptions{}) {
		listErr = err
	}
	for what, err := range map[string]error{
		"get": getErr, "stat": statErr, "list": listErr, "delete": s.Delete(ctx, "there"),
		"put if absent": s.PutIfAbsent(ctx, "new/1", []byte("x")), "put": s.Put(ctx, "new/2", []byte("x")),
	} {
		wantErr(t, what, err, context.Canceled)
	}
	wantListed(t, s, objstore.ListOptions{}, []string{"there"})
}

func acknowledgedOutlivesReopen(t T, c Config) {
	s := c.New(t)
	var keys []string
	for i := range 50 {
		key := fmt.Sprintf("a/%d/%02d", i%3, i)
		put := s.PutIfAbsent
		if i%2 == 0 {
			put = s.Put
		}
		must(t, put(t.Context(), key, []byte(key)))
		keys = append(keys, key)
	}
	must(t, s.Delete(t.Context(), keys[0]))
	again := c.Reopen(t, s)
	for _, key := range keys[1:] {
		wantObject(t, again, key, []byte(key))
		wantErr(t, "put if absent after reopen", again.PutIfAbsent(t.Context(), key, []byte("x")), objstore.ErrExists)
	}
	wantListed(t, again, objstore.ListOptions{}, sorted(keys[1:]))
}
