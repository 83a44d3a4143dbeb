package readers_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/e2e/readers"
)

func TestEnginesReadWhatDeltaRSAppends(t *testing.T) {
	p := readers.Require(t)
	table := filepath.Join(t.TempDir(), "it's a table")
	got, err := p.Append(t.Context(), readers.Append{Path: table, Create: true, Batches: 3, Rows: 2, First: 1 << 53, Constants: map[string]any{"amount": 0.1}})
	if err != nil {
		t.Fatal(err)
	}
	want := []readers.Appended{{Version: 1, First: 1 << 53, Rows: 2}, {Version: 2, First: 1<<53 + 2, Rows: 2}, {Version: 3, First: 1<<53 + 4, Rows: 2}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	rs, err := p.ReadAgreed(t.Context(), readers.Query{Name: "t", Path: table, Versions: []int64{0, 1, 3}, Latest: true, Sums: []string{"id", "amount"}})
	if err != nil {
		t.Fatal(err)
	}
	newest := readers.Result{Name: "t", Version: 3, Count: 6, Sums: map[string]string{"id": fmt.Sprint(6<<53 + 15), "amount": "0.6"}}
	wantRead := []readers.Result{
		{Name: "t", Version: 0, Sums: map[string]string{"id": "0", "amount": "0"}},
		{Name: "t", Version: 1, Count: 2, Sums: map[string]string{"id": fmt.Sprint(2<<53 + 1), "amount": "0.2"}},
		newest,
		{Name: "t", Version: readers.Latest, Count: 6, Sums: newest.Sums},
	}
	for i, w := range wantRead {
		if i >= len(rs) || !w.Equal(rs[i]) {
			t.Errorf("answer %d of %+v, want %+v", i, rs, w)
		}
	}
}

func TestTwoAppendersShareATable(t *testing.T) {
	p := readers.Require(t)
	table := filepath.Join(t.TempDir(), "t")
	if _, err := p.Append(t.Context(), readers.Append{Path: table, Create: true}); err != nil {
		t.Fatal(err)
	}
	other, err := p.StartAppend(t.Context(), readers.Append{Path: table, Batches: 5, Rows: 1})
	if err != nil {
		t.Fatal(err)
	}
	all, err := p.Append(t.Context(), readers.Append{Path: table, Batches: 5, Rows: 1})
	if err != nil {
		t.Fatal(err)
	}
	more, err := other.Wait()
	if err != nil {
		t.Fatal(err)
	}
	versions := map[int64]bool{}
	for _, a := range append(all, more...) {
		if a.Error != "" || versions[a.Version] {
			t.Errorf("version %d again, or error %q", a.Version, a.Error)
		}
		versions[a.Version] = true
	}
	if len(versions) != 10 {
		t.Errorf("%d versions, want 10", len(versions))
	}
}

func TestErrorsSayWhatWentWrong(t *testing.T) {
	p := readers.Require(t)
	if _, err := p.StartAppend(t.Context(), readers.Append{Path: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("appending to a table that is not there: no error")
	} else {
		t.Log(err)
	}
	for _, e := range readers.Engines() {
		if _, err := p.Read(t.Context(), e, readers.Query{Path: t.TempDir(), Latest: true}); err == nil {
			t.Errorf("%s reads an empty folder", e)
		}
	}
}

func TestRequireWithoutPython(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(readers.RequireVariable, "")
	f := &fakeTB{TB: t}
	f.run(func() { readers.Require(f) })
	if f.skipped == "" || f.failed != "" {
		t.Errorf("skipped %q, failed %q; want a reason to skip", f.skipped, f.failed)
	}
	t.Setenv(readers.RequireVariable, "1")
	f = &fakeTB{TB: t}
	f.run(func() { readers.Require(f) })
	if f.failed == "" {
		t.Error("did not fail, although the readers are required")
	}
}

// fakeTB notes how a test ends. It embeds a real one, as the interface demands.
type fakeTB struct {
	testing.TB
	skipped, failed string
}

type ended struct{}

func (f *fakeTB) Helper() {}

func (f *fakeTB) Skipf(format string, args ...any) {
	f.skipped = fmt.Sprintf(format, args...)
	panic(ended{})
}

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.failed = fmt.Sprintf(format, args...)
	panic(ended{})
}

func (f *fakeTB) run(body func()) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(ended); !ok {
				panic(r)
			}
		}
	}()
	body()
}

func TestSameNumber(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"1", "1.00", true},
		{"9007199254740993", "9007199254740992", false},
		{"0.30000000000000004", "0.3", true},
		{"0.31", "0.3", false},
		{"", "", true},
		{"", "0", false},
	} {
		if got := readers.SameNumber(c.a, c.b); got != c.same {
			t.Errorf("SameNumber(%q, %q) = %t", c.a, c.b, got)
		}
	}
}

func TestOpenWaitsForTheOneThatBuilds(t *testing.T) {
	readers.Require(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := make(chan error, 4)
	for range cap(got) {
		go func() {
			_, err := readers.Open(ctx)
			got <- err
		}()
	}
	for range cap(got) {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
}
