package scenario_test

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/bench/measure"
	"github.com/txcoord/txcoord/bench/scenario"
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

func config(t *testing.T, contenders ...contend.Contender) scenario.Config {
	return scenario.Config{
		Dir: t.TempDir(), Bare: contend.Bare{Objects: objects, Keys: keys}, Contenders: contenders, Judged: "seq",
		Rounds: 2, Transactions: 3, Races: 2, Tables: []int{1, 4}, Writers: []int{1, 4, 64}, Spread: 200, Many: 20, Growth: 600,
		Outage: 300 * time.Millisecond, Rate: 100, Duration: 300 * time.Millisecond,
		InFlight: 20, Warm: 50 * time.Millisecond, Progress: t.Output(),
	}
}

// configOf is config with few tables for those that make many.
func configOf(t *testing.T, name string, contenders ...contend.Contender) scenario.Config {
	c := config(t, contenders...)
	switch name {
	case "B3", "B7", "B13":
		c.Writers, c.Spread = []int{4}, 12
	}
	return c
}

func seq() contend.Contender { return contend.Seq{Objects: objects} }
func occ() contend.Contender { return contend.OCC{Objects: objects} }

func text(t *testing.T, r *measure.Result) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	t.Log(b.String())
	return b.String()
}

func TestB1(t *testing.T) {
	r, err := scenario.B1(t.Context(), config(t, seq(), occ()))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 6 || len(r.Goals) != 2 {
		t.Errorf("%d rows and %d goals, want 6 and 2", len(r.Rows), len(r.Goals))
	}
	if s := text(t, r); !strings.Contains(s, "key put 2, put 4") || !strings.Contains(s, "two appends") {
		t.Error("the floor's requests or halves are missing")
	}
}

func TestB2(t *testing.T) {
	r, err := scenario.B2(t.Context(), config(t, seq(), occ()))
	if err != nil {
		t.Fatal(err)
	}
	text(t, r)
	if len(r.Rows) != 7 || len(r.Goals) != 6 {
		t.Errorf("%d rows and %d goals, want 7 and 6", len(r.Rows), len(r.Goals))
	}
}

func TestB3(t *testing.T) {
	cfg := config(t, seq(), occ())
	cfg.Writers, cfg.Spread = []int{4}, 20
	r, err := scenario.B3(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := text(t, r)
	if len(r.Rows) != 10 || len(r.Goals) != 8 {
		t.Errorf("%d rows and %d goals, want 10 and 8", len(r.Rows), len(r.Goals))
	}
	for _, want := range []string{"one of its own +seq .* put 1\n", "one of 8 for all +occ ", "three of its own +occ .* put 3\n", "Zipf 0.99 / any one"} {
		if !regexp.MustCompile(want).MatchString(s) {
			t.Errorf("%s is not in it", want)
		}
	}
}

// Over simulated stores B2 has the floor's rate beside the writers', and other goals.
func TestB2Simulated(t *testing.T) {
	cfg := config(t, seq(), occ())
	cfg.Simulated, cfg.Writers = true, []int{64}
	r, err := scenario.B2(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if s := text(t, r); len(r.Rows) != 3 || len(r.Goals) != 2 || !strings.Contains(s, "of 64/(bare's median)") {
		t.Errorf("%d rows and %d goals, want 3 and 2", len(r.Rows), len(r.Goals))
	}
}

func TestB6(t *testing.T) {
	f := &fragile{contender: seq()}
	r, err := scenario.B6(t.Context(), config(t, f))
	if err != nil {
		t.Fatal(err)
	}
	text(t, r)
	if len(r.Rows) != 2 || f.kills != 2 {
		t.Errorf("%d rows, %d kills, want 2 of each", len(r.Rows), f.kills)
	}
}

func TestB6WithAHistory(t *testing.T) {
	f := &fragile{contender: seq()}
	cfg := config(t, f)
	cfg.History = 50
	r, err := scenario.B6(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if s := text(t, r); len(r.Rows) != 4 || len(r.Goals) != 6 || !strings.Contains(s, "seq after 50, serving again, x that without") {
		t.Errorf("%d rows and %d goals, want 4 and 6", len(r.Rows), len(r.Goals))
	}
}

func TestWhatWantsAServer(t *testing.T) {
	for name, run := range map[string]scenario.Benchmark{"B6": scenario.B6, "B8": scenario.B8, "B12": scenario.B12} {
		if _, err := run(t.Context(), config(t, seq())); err == nil {
			t.Errorf("%s: no error, although nothing can be killed or stalled", name)
		}
	}
}

func TestB7(t *testing.T) {
	cfg := configOf(t, "B7", seq(), contend.Dynamo{Objects: objects, Keys: keys}, occ())
	r, err := scenario.B7(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := text(t, r)
	if len(r.Rows) != 11 || len(r.Goals) != 4 {
		t.Errorf("%d rows and %d goals, want 11 and 4", len(r.Rows), len(r.Goals))
	}
	if !regexp.MustCompile("dstor +300 +0 +0 +900 ").MatchString(s) {
		t.Error("dstor leaves a temporary object for each table of each transaction")
	}
}

func TestB8(t *testing.T) {
	f := &fragile{contender: seq()}
	r, err := scenario.B8(t.Context(), config(t, f))
	if err != nil {
		t.Fatal(err)
	}
	text(t, r)
	if len(r.Rows) != 2 || len(r.Goals) != 1 || f.kills != 2 {
		t.Errorf("%d rows, %d goals, %d kills", len(r.Rows), len(r.Goals), f.kills)
	}
}

func TestB12(t *testing.T) {
	r, err := scenario.B12(t.Context(), config(t, &fragile{contender: seq()}))
	if err != nil {
		t.Fatal(err)
	}
	if s := text(t, r); len(r.Rows) != 1 || len(r.Goals) != 5 || !regexp.MustCompile("seq +30 +30 +0 +0 +0 ").MatchString(s) {
		t.Errorf("%d rows and %d goals, want 1 and 5", len(r.Rows), len(r.Goals))
	}
}

// Requests of one at a time are exact, and so is their price.
func TestB13(t *testing.T) {
	cfg := configOf(t, "B13", seq(), contend.Dynamo{Objects: objects, Keys: keys})
	r, err := scenario.B13(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := text(t, r)
	for _, want := range []string{
		`one at a time, 3 tables +seq +3 +15 +0.398 +put 3 +0 +0`,
		`one at a time, 3 tables +dstor +3 +37.73 +1.000 +get 3, head 6, key get 3, key put 6, put 6 +6 +3`,
		`4 writers, three of their own +dstor +12 +37.73 `,
	} {
		if !regexp.MustCompile(want).MatchString(s) {
			t.Errorf("%s is not in it", want)
		}
	}
}

// What the checker finds ends the run: figures of a store that loses data are worthless.
func TestALiarIsCaught(t *testing.T) {
	for name, run := range scenario.Benchmarks() {
		_, err := run(t.Context(), configOf(t, name, &fragile{contender: seq(), lies: true}))
		caught := err != nil && strings.Contains(err.Error(), string(checker.TransactionLost))
		if name == "B4" && err != nil { // which may see it before the checker does
			caught = caught || strings.Contains(err.Error(), "writers replaced one file")
		}
		if !caught {
			t.Errorf("%s: got %v, want %s", name, err, checker.TransactionLost)
		}
	}
}

func TestAFailingContenderEndsTheRun(t *testing.T) {
	for name, run := range scenario.Benchmarks() {
		_, err := run(t.Context(), configOf(t, name, &fragile{contender: seq(), fails: true}))
		if !errors.Is(err, errFragile) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

var errFragile = errors.New("broken on purpose")

// fragile is a contender that can be killed: a call in flight is lost before or
// after it was carried out, and is repeated when the server is back.
type fragile struct {
	contender   contend.Contender
	lies, fails bool
	kills       int
}

func (f *fragile) Replaces() {}

func (f *fragile) Name() string { return f.contender.Name() }

func (f *fragile) Open(ctx context.Context, dir string, tables int) (contend.Session, error) {
	return f.OpenServer(ctx, dir, tables)
}

func (f *fragile) OpenServer(ctx context.Context, dir string, tables int) (contend.Server, error) {
	s, err := f.contender.Open(ctx, dir, tables)
	if err != nil {
		return nil, err
	}
	return &fragileServer{Session: s, f: f, up: make(chan struct{})}, nil
}

type fragileServer struct {
	contend.Session
	f    *fragile
	mu   sync.Mutex
	up   chan struct{} // closed while the server is up
	down bool
	lied []checker.Transaction
}

func (s *fragileServer) Commit(ctx context.Context, w contend.Work) error {
	if s.f.fails {
		return errFragile
	}
	if s.f.lies && w.Number%3 == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lied = append(s.lied, checker.Transaction{ID: w.ID(), Parts: []checker.Part{{Table: contend.TableName(w.Tables[0])}}})
		return nil
	}
	for {
		s.mu.Lock()
		down, up := s.down, s.up
		s.mu.Unlock()
		if !down {
			return s.Session.Commit(ctx, w)
		}
		select {
		case <-up:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *fragileServer) Books() checker.Run {
	books := s.Session.Books()
	books.Committed = append(books.Committed, s.lied...)
	return books
}

func (s *fragileServer) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.up = true, make(chan struct{})
	s.f.kills++
	return nil
}

func (s *fragileServer) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
	close(s.up)
	return nil
}

func (f *fragile) Stalling() (contend.Contender, bool) { return f, true }

func (s *fragileServer) Out(context.Context, bool) error { return nil }

func (s *fragileServer) Try(ctx context.Context, w contend.Work) error { return s.Commit(ctx, w) }

func (s *fragileServer) Frozen(context.Context) (int, error) { return 0, nil }

func (s *fragileServer) Memory() (int64, error) { return 1 << 20, nil }

func (s *fragileServer) Serving(context.Context) error { return nil }
