package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator/manifest"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

func newFiles() manifest.Files { return manifest.Files{Store: memobj.New(), Folder: folder} }

// pack makes the file of some snapshots.
func pack(t *testing.T, incarnation string, deltas ...manifest.Delta) *manifest.File {
	t.Helper()
	f, err := manifest.Pack(manifest.HeadOf("c", incarnation), slices.Values(deltas), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// append puts a file and wants it, or another one, to stand there.
func appendTo(t *testing.T, files manifest.Files, f *manifest.File) *manifest.File {
	t.Helper()
	there, err := files.Append(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return there
}

func names(t *testing.T, files manifest.Files, after twophase.SnapshotVersion) (out []string) {
	t.Helper()
	for n, err := range files.List(t.Context(), after) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n.String()[14:])
	}
	return out
}

// TestOneFile: what a file looks like, and what is read from it.
func TestOneFile(t *testing.T) {
	h := newHistory(7)
	f := pack(t, "1", h[5:]...)
	b, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"format":2,"catalog":"c","incarnation":"1","snapshots":[
{"snapshot":6,"timestamp":1020,"kind":"publication","transactions":["00000000000000000000000000000005"],"tables":[{"id":"t-1","name":"n1","uri":"file:///1","version":5}]},
{"snapshot":7,"timestamp":1030,"kind":"release","transactions":[],"tables":[],"removed":["t-2"]}
]}
`
	if diff := cmp.Diff(want, string(b)); diff != "" {
		t.Error(diff)
	}
	files := newFiles()
	appendTo(t, files, f)
	got, err := files.Read(t.Context(), manifest.Name{Snapshot: 6})
	if err != nil || got.First() != 6 || got.Last() != 7 {
		t.Fatalf("%+v, %v", got, err)
	}
	if again, err := got.Encode(); err != nil || string(again) != want {
		t.Errorf("read and written again: %s, %v", again, err)
	}
}

// TestPackKeepsToItsBytes: a file ends before it is too large, and never before its first
// snapshot; nothing is made of what does not fit.
func TestPackKeepsToItsBytes(t *testing.T) {
	h := newHistory(5)
	one, err := h[0].Encode()
	if err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int]int{1: 1, len(one): 1, 2 * len(one): 2, 2*len(one) + 1: 2, 1 << 20: 5} {
		asked := 0
		f, err := manifest.Pack(manifest.HeadOf("c", "1"), func(yield func(manifest.Delta) bool) {
			for _, d := range h {
				if asked++; !yield(d) {
					return
				}
			}
		}, most)
		if err != nil || len(f.Deltas) != want || asked > want+1 {
			t.Errorf("%d bytes: %d snapshots, asked for %d, %v", most, len(f.Deltas), asked, err)
		}
	}
	if _, err := manifest.Pack(manifest.HeadOf("c", "1"), slices.Values([]manifest.Delta{}), 1); err == nil {
		t.Error("a file of nothing")
	}
}

func TestNames(t *testing.T) {
	for s, want := range map[string]manifest.Name{
		"00000000000000000042.json":            {Snapshot: 42},
		"00000000000000000042.checkpoint.json": {Snapshot: 42, Full: true},
	} {
		if n, ok := manifest.ParseName(s); !ok || n != want || n.String() != s {
			t.Errorf("%s: %+v, %t", s, n, ok)
		}
	}
	for _, s := range []string{"42.json", "00000000000000000000.json", "00000000000000000042.jsn", "00000000000000000042.json.tmp", "+0000000000000000042.json", "x", ""} {
		if n, ok := manifest.ParseName(s); ok {
			t.Errorf("%s is taken for %+v", s, n)
		}
	}
}

// TestDecodeRefuses what is not what its name says, and says why.
func TestDecodeRefuses(t *testing.T) {
	b, err := pack(t, "1", newHistory(3)[1:]...).Encode()
	if err != nil {
		t.Fatal(err)
	}
	good, name := string(b), manifest.Name{Snapshot: 2}
	for what, c := range map[string]struct {
		name manifest.Name
		text string
		want string
	}{
		"torn":              {name, good[:60], "cannot be read"},
		"the former format": {name, `{"format":1,"catalog":"c","incarnation":"1","snapshot":2}`, "format 1, this build knows 2"},
		"another name":      {manifest.Name{Snapshot: 3}, good, "begins with snapshot 2"},
		"no snapshots":      {name, `{"format":2,"snapshots":[]}`, "holds no snapshot"},
		"a hole":            {name, strings.Replace(good, `"snapshot":3`, `"snapshot":4`, 1), "snapshot 4 in the place of 3"},
		"full, by its name": {manifest.Name{Snapshot: 2, Full: true}, good, "has full false"},
		"full, and two":     {manifest.Name{Snapshot: 2, Full: true}, strings.Replace(good, `,"snap`, `,"full":true,"snap`, 1), "holds 2 snapshots"},
	} {
		if _, err := manifest.Decode(c.name, []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	if f, err := manifest.Decode(name, []byte(strings.Replace(good, `"kind"`, `"new":{"x":1},"kind"`, 1))); err != nil || f.Last() != 3 {
		t.Errorf("a field of a later build: %v", err)
	}
}

// TestTwoDivideDifferently: two replicas go on from the same snapshot with different
// ranges. One of them finds the other's file, and both go on from where that ends.
func TestTwoDivideDifferently(t *testing.T) {
	h, files := newHistory(9), newFiles()
	if there := appendTo(t, files, pack(t, "1", h[:2]...)); there.Last() != 2 {
		t.Fatal(there)
	}
	if there := appendTo(t, files, pack(t, "1", h[:5]...)); there.Last() != 2 {
		t.Errorf("the second goes on behind %d", there.Last())
	}
	appendTo(t, files, pack(t, "1", h[2:3]...))
	appendTo(t, files, pack(t, "1", h[3:9]...))
	if diff := cmp.Diff([]string{"000001.json", "000003.json", "000004.json"}, names(t, files, 0)); diff != "" {
		t.Error(diff)
	}
	var got []twophase.SnapshotVersion
	for f, err := range files.Follow(t.Context(), 1, 5) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f.Last())
	}
	if diff := cmp.Diff([]twophase.SnapshotVersion{2, 3, 9}, got); diff != "" {
		t.Error(diff)
	}
	for f, err := range files.Follow(t.Context(), 4, 12) {
		if f == nil && !errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("behind the newest: %v", err)
		}
	}
}

// distant is a store behind a network, whose listings may miss a file.
type distant struct {
	objstore.Store
	misses string
}

func (d distant) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	time.Sleep(20 * time.Millisecond)
	return d.Store.Get(ctx, key, r)
}

func (d distant) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		time.Sleep(20 * time.Millisecond)
		for e, err := range d.Store.List(ctx, o) {
			if !strings.HasSuffix(e.Key, d.misses) && !yield(e, err) {
				return
			}
		}
	}
}

// TestFollowReadsAhead: a thousand files of a snapshot each, as between two full maps, are
// not a thousand round trips. A file that the listing missed is in its place; one that is
// not there ends it, and so does who has enough.
func TestFollowReadsAhead(t *testing.T) {
	h, files := newHistory(1000), newFiles()
	for i := range h {
		appendTo(t, files, pack(t, "1", h[i:i+1]...))
	}
	follow := func(t *testing.T, misses string, first, upTo, enough twophase.SnapshotVersion) (got []twophase.SnapshotVersion, err error) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			far := manifest.Files{Store: distant{files.Store, misses}, Folder: files.Folder}
			for f, failed := range far.Follow(t.Context(), first, upTo) {
				if err = failed; err != nil {
					break
				}
				if got = append(got, f.First()); f.First() == enough {
					break
				}
			}
			if took := time.Since(began); misses == "nothing" && took > 1500*time.Millisecond {
				t.Errorf("%d files took %s", len(got), took)
			}
		})
		return got, err
	}
	from := func(first, last twophase.SnapshotVersion) (want []twophase.SnapshotVersion) {
		for v := first; v <= last; v++ {
			want = append(want, v)
		}
		return want
	}
	for _, c := range []struct {
		misses              string
		first, upTo, enough twophase.SnapshotVersion
		want                []twophase.SnapshotVersion
		missing             bool
	}{
		{misses: "nothing", first: 1, upTo: 1000, want: from(1, 1000)},
		{misses: "nothing", first: 17, upTo: 20, want: from(17, 20)},
		{misses: "nothing", first: 1, upTo: 1000, enough: 5, want: from(1, 5)},
		{misses: "00000000000000000990.json", first: 900, upTo: 1000, want: from(900, 1000)},
		{misses: "nothing", first: 950, upTo: 1020, want: from(950, 1000), missing: true},
	} {
		got, err := follow(t, c.misses, c.first, c.upTo, c.enough)
		if diff := cmp.Diff(c.want, got); diff != "" || errors.Is(err, objstore.ErrNotFound) != c.missing {
			t.Errorf("%+v: %v (-want +got):\n%s", c, err, diff)
		}
	}
}

// TestALatePut of a replica that was paused finds its name taken, whatever is in it.
func TestALatePut(t *testing.T) {
	h, files := newHistory(9), newFiles()
	late := pack(t, "1", h[:4]...)
	appendTo(t, files, pack(t, "1", h[:1]...))
	appendTo(t, files, pack(t, "1", h[1:9]...))
	if there := appendTo(t, files, late); there.Last() != 1 {
		t.Errorf("it stands there, up to %d", there.Last())
	}
}

// TestAppendWithoutAnAnswer: what is there counts, and where nothing is there nothing is
// known, and the next try may hold more.
func TestAppendWithoutAnAnswer(t *testing.T) {
	for name, fate := range map[string]objtest.Fate{"landed": objtest.Landed(), "lost": objtest.Lost(), "refused": objtest.Refused()} {
		h, files, once := newHistory(4), newFiles(), true
		files.Store = objtest.Faulty{Store: files.Store, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			if op.Kind == objtest.PutIfAbsent && once {
				once = false
				return fate
			}
			return objtest.Done()
		}}
		there, err := files.Append(t.Context(), pack(t, "1", h[:2]...))
		if landed := name == "landed"; landed != (err == nil) || landed && there.Last() != 2 {
			t.Errorf("%s: %+v, %v", name, there, err)
		}
		want := twophase.SnapshotVersion(4)
		if name == "landed" {
			want = 2
		}
		if there := appendTo(t, files, pack(t, "1", h...)); there.Last() != want {
			t.Errorf("%s, and again: up to %d, want %d", name, there.Last(), want)
		}
	}
}

// TestTheNameFollowsFromWhatIsDurable is why a file is named by its first snapshot, and not
// by its last with a field that says what it follows on.
//
// A server of a catalog that has 2 snapshots in manifests has closed 3 and 4, and is paused.
// A rebuild finds 2, and its first snapshot is 3. The server wakes, and puts. By last names
// its put is that of 4, which is free: two lives of the catalog are in one folder, each
// following on 2, and who lists takes the one that is over. By first names both mean 3.
func TestTheNameFollowsFromWhatIsDurable(t *testing.T) {
	h := newHistory(4)
	server, rebuild := pack(t, "1", h[2:4]...), pack(t, "2", h[2])
	byLast := memobj.New()
	for _, f := range []*manifest.File{rebuild, server} {
		b, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := byLast.PutIfAbsent(t.Context(), fmt.Sprint(f.Last()), b); err != nil {
			t.Fatalf("the schedule does not show it: %v", err)
		}
	}
	files := newFiles()
	appendTo(t, files, pack(t, "1", h[:2]...))
	if there := appendTo(t, files, rebuild); there.Incarnation != "2" {
		t.Errorf("the rebuild finds incarnation %s", there.Incarnation)
	}
	if there := appendTo(t, files, server); there.Incarnation != "2" || there.Last() != 3 {
		t.Errorf("the server of the life that is over finds incarnation %s, up to %d", there.Incarnation, there.Last())
	}
}

// TestNewest: however far behind the newest file begins, and whether or not there is one.
func TestNewest(t *testing.T) {
	h := newHistory(6000)
	for _, c := range []struct{ ends, upTo, newest, above twophase.SnapshotVersion }{
		{0, 0, 0, 0}, {0, 6000, 0, 0}, {3, 3, 2, 0}, {3, 6000, 2, 0}, {3, 2, 2, 0}, {3, 1, 1, 2}, {3, 0, 0, 1}, {5000, 5999, 2, 0},
	} {
		files := newFiles()
		if c.ends > 0 {
			appendTo(t, files, pack(t, "1", h[:1]...))
			appendTo(t, files, pack(t, "1", h[1:c.ends]...))
			if err := files.PutFull(t.Context(), h.full(manifest.HeadOf("c", "1"), c.ends)); err != nil {
				t.Fatal(err)
			}
		}
		newest, above, err := files.Newest(t.Context(), c.upTo)
		if err != nil || newest != c.newest || above != c.above {
			t.Errorf("up to %d of %d: %d, above %d, %v; want %d, %d", c.upTo, c.ends, newest, above, err, c.newest, c.above)
		}
	}
}

// TestAsOf: the newest snapshot of a time, whatever shares a file, with old files gone.
func TestAsOf(t *testing.T) {
	h := newHistory(30) // two snapshots of each time: 1000, 1010, …
	for gone := range 3 {
		files := newFiles()
		var first twophase.SnapshotVersion = 1
		for i, ends := range []int{1, 2, 9, 10, 24, 30} {
			appendTo(t, files, pack(t, "1", h[first-1:ends]...))
			if i < gone {
				if err := files.Store.Delete(t.Context(), files.Key(manifest.Name{Snapshot: first})); err != nil {
					t.Fatal(err)
				}
			}
			first = twophase.SnapshotVersion(ends) + 1
		}
		for at := twophase.Time(990); at < 1160; at += 5 {
			for _, upTo := range []twophase.SnapshotVersion{7, 24, 30} {
				var want twophase.SnapshotVersion
				for _, d := range h[gone:upTo] {
					if d.Timestamp <= at {
						want = d.Snapshot
					}
				}
				if got, err := files.AsOf(t.Context(), at, upTo); err != nil || got != want {
					t.Errorf("%d gone, at %d up to %d: %d, %v; want %d", gone, at, upTo, got, err, want)
				}
			}
		}
	}
}

// TestStoreFails: an error of the store is none of "there is nothing".
func TestStoreFails(t *testing.T) {
	files := newFiles()
	appendTo(t, files, pack(t, "1", newHistory(3)...))
	for _, kind := range []objtest.Kind{objtest.List, objtest.Get} {
		broken := files
		broken.Store = objtest.Faulty{Store: files.Store, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			if op.Kind == kind {
				return objtest.Refused()
			}
			return objtest.Done()
		}}
		ctx := context.Background()
		if _, err := broken.AsOf(ctx, 5000, 3); err == nil {
			t.Errorf("%s: a snapshot by time", kind)
		}
		if _, _, err := broken.Newest(ctx, 3); (err == nil) != (kind == objtest.Get) {
			t.Errorf("%s: newest: %v", kind, err)
		}
		if there, err := broken.Append(ctx, pack(t, "1", newHistory(2)...)); (err == nil) != (kind == objtest.List) {
			t.Errorf("%s: %v stands there: %v", kind, there, err)
		}
	}
}
