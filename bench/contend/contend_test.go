package contend_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/e2e/checker"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
)

func objects(dir string) (objstore.Store, error) { return fileobj.New(dir, fileobj.Config{}) }

func keys(dir string) (lock.Store, error) {
	return boltstore.Open(filepath.Join(dir, "store.db"), boltstore.Config{})
}

func baselines() []contend.Contender {
	return []contend.Contender{
		contend.Seq{Objects: objects},
		contend.OCC{Objects: objects},
		contend.Bare{Objects: objects, Keys: keys},
		contend.Dynamo{Objects: objects, Keys: keys},
	}
}

func open(t *testing.T, c contend.Contender, tables int) contend.Session {
	t.Helper()
	s, err := c.Open(t.Context(), t.TempDir(), tables)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func check(t *testing.T, s contend.Session) *checker.Report {
	t.Helper()
	report, err := checker.Check(s.Books())
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	return report
}

func TestBaselinesWriteWhatTheCheckerAccepts(t *testing.T) {
	for _, c := range baselines() {
		t.Run(c.Name(), func(t *testing.T) {
			s := open(t, c, 3)
			for n := range 4 {
				w := contend.Work{Number: n, Tables: []int{0, 1, 2}[:1+n%3]}
				if err := s.Commit(t.Context(), w); err != nil {
					t.Fatal(err)
				}
			}
			report := check(t, s)
			if report.OwnVersions != 1+2+3+1 || report.Transactions != 4 {
				t.Errorf("%s", report)
			}
		})
	}
}

// A checker that accepts everything would make the test above worthless.
func TestBooksThatAreWrongAreNoticed(t *testing.T) {
	s := open(t, contend.Seq{Objects: objects}, 1)
	if err := s.Commit(t.Context(), contend.Work{Tables: []int{0}}); err != nil {
		t.Fatal(err)
	}
	books := s.Books()
	log := filepath.Join(books.Tables[0].Path, "_delta_log", "00000000000000000001.json")
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	report, err := checker.Check(books)
	if err != nil {
		t.Fatal(err)
	}
	if !report.Has(checker.TransactionLost) {
		t.Errorf("the log is gone: %s", report)
	}
}

func TestRequestsOfOneTransaction(t *testing.T) {
	want := map[string]contend.Requests{
		"seq": {"put": 3}, "occ": {"put": 3}, "bare": {"put": 3, "key put": 2, "write units": 2},
		"dstor": {"head": 6, "get": 3, "put": 6, "key get": 3, "key put": 6, "read units": 3, "write units": 6},
	}
	for _, c := range baselines() {
		t.Run(c.Name(), func(t *testing.T) {
			s := open(t, c, 3)
			before := s.Requests()
			if err := s.Commit(t.Context(), contend.Work{Tables: []int{0, 1, 2}}); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want[c.Name()], s.Requests().Minus(before)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestOCCRetriesAndGivesUp(t *testing.T) {
	s := open(t, contend.OCC{Objects: objects}, 1)
	const writers, each = 6, 20
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			for n := range each {
				err := s.Commit(context.Background(), contend.Work{Writer: w, Number: n, Tables: []int{0}})
				if err != nil && !errors.Is(err, contend.ErrAborted) {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	books := s.Books()
	if n := len(books.Committed) + len(books.Refused); n != writers*each {
		t.Errorf("%d transactions booked, want %d", n, writers*each)
	}
	report := check(t, s)
	if report.Transactions != len(books.Committed) {
		t.Errorf("%d in the log, %d acknowledged", report.Transactions, len(books.Committed))
	}
	if r := s.Requests(); r["put refused"] == 0 || r["get"] == 0 {
		t.Errorf("no conflict in %v, so nothing was tried", r)
	}
}

// full refuses every put as if a rival had been there first.
type full struct{ objstore.Store }

func (f full) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if strings.HasSuffix(key, "00000000000000000000.json") {
		return f.Store.PutIfAbsent(ctx, key, data)
	}
	return objstore.ErrExists
}

func TestOCCGivesUpAfterFifteenRetries(t *testing.T) {
	s := open(t, contend.OCC{Objects: func(dir string) (objstore.Store, error) {
		o, err := objects(dir)
		return full{o}, err
	}}, 1)
	if err := s.Commit(t.Context(), contend.Work{Tables: []int{0}}); !errors.Is(err, contend.ErrAborted) {
		t.Fatalf("got %v, want ErrAborted", err)
	}
	if got := s.Requests()["put refused"]; got != 16 {
		t.Errorf("%d puts, want one and 15 retries", got)
	}
	if got := len(s.Books().Refused); got != 1 {
		t.Errorf("%d transactions booked as refused", got)
	}
}

func TestBareHalves(t *testing.T) {
	s, err := contend.Bare{Objects: objects, Keys: keys}.OpenBare(t.Context(), t.TempDir(), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for n := range 3 {
		if err := s.Commit(t.Context(), contend.Work{Number: n, Tables: []int{0, 1}}); err != nil {
			t.Fatal(err)
		}
	}
	appends, puts := s.Halves()
	if len(appends) != 3 || len(puts) != 3 || appends.Median() <= 0 || puts.Median() <= 0 {
		t.Errorf("appends %v, puts %v", appends, puts)
	}
}

func TestWorkIsOneOfAKind(t *testing.T) {
	seen := map[string]bool{}
	for w := range 3 {
		for n := range 3 {
			work := contend.Work{Writer: w, Number: n}
			for _, s := range []string{work.ID(), work.Path(), string(work.AddLine())} {
				if seen[s] {
					t.Errorf("twice: %s", s)
				}
				seen[s] = true
			}
		}
	}
	if n := len(contend.Work{Writer: 63, Number: 1000}.AddLine()); n < 400 || n > 520 {
		t.Errorf("an add line has %d bytes, want about 460", n)
	}
}

func TestRequestArithmetic(t *testing.T) {
	a := contend.Requests{"put": 3, "get": 1}
	if d := cmp.Diff(contend.Requests{"put": 2}, a.Minus(contend.Requests{"put": 1, "get": 1})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(contend.Requests{"put": 4, "get": 1}, a.Plus(contend.Requests{"put": 1})); d != "" {
		t.Error(d)
	}
	if contend.Requests(nil).Minus(a) != nil || contend.Requests(nil).Plus(nil) != nil {
		t.Error("what cannot be known became a number")
	}
}
