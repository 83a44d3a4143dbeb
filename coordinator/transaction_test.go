package coordinator_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

func TestBeginTwiceIsOneTransaction(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeExclusive)
	first := w.begin("job")
	staged := w.stage(first.Token, blind("t", "1"))
	w.commit("between", blind("t", "0")) // the journal goes on
	second := w.begin("job")
	if first.Txn != second.Txn || second.Attempt != 1 || len(second.Known) != 0 {
		t.Errorf("%+v and %+v", first, second)
	}
	if first.Txn != twophase.DeriveTxnID(first.CatalogID, "job", 1) {
		t.Errorf("transaction %s", first.Txn)
	}
	// What was staged under the first token is there under the second.
	o, err := w.catalog.Commit(w.ctx(), coordinator.CommitRequest{Token: second.Token, Tables: []coordinator.TableParts{parts("t", staged.Digest)}})
	if err != nil || o.Committed == nil {
		t.Fatalf("%+v, %v", o, err)
	}
	// A job that comes back learns that its work is done, after a restart too.
	for range 2 {
		third := w.begin("job")
		if len(third.Known) != 1 || third.Known[0].Committed == nil || third.Known[0].Txn != first.Txn {
			t.Errorf("begin of what is committed knows %+v", third.Known)
		}
		w.restart()
	}
}

func TestBeginWithoutAKeyIsANewTransaction(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	if a, b := w.begin(""), w.begin(""); a.Txn == b.Txn {
		t.Errorf("%s twice", a.Txn)
	}
	_, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Attempt: 2})
	wantReason(t, "an attempt of no key", err, coordinator.InvalidRequest)
}

func TestTheSameStageWritesNothing(t *testing.T) {
	t.Parallel()
	for _, large := range []bool{false, true} {
		w := &world{}
		if large {
			w.cfg.Limits.InlineBytes = 1
		}
		w.open(t)
		w.create("t", twophase.ModeExclusive)
		b := w.begin("job")
		one := w.stage(b.Token, blind("t", "1"))
		for range 2 {
			w.unchanged("staging the same bytes", func() {
				if again := w.stage(b.Token, blind("t", "1")); again.Digest != one.Digest {
					t.Errorf("digest %s, then %s", one.Digest, again.Digest)
				}
			})
			w.restart()
		}
		if other := w.stage(b.Token, blind("t", "2")); other.Digest == one.Digest {
			t.Error("two contents, one digest")
		}
		// Two transactions with equal bytes share nothing (R20).
		w.stage(w.begin("other").Token, blind("t", "1"))
		if n := w.payloads(); n != 3 {
			t.Errorf("%d payloads, want 3", n)
		}
		if got := w.payloadObjects(); got != map[bool]int{false: 0, true: 3}[large] {
			t.Errorf("large=%t: %d payloads are objects", large, got)
		}
	}
}

func (w *world) payloadObjects() int {
	n := 0
	for key := range w.keys() {
		if strings.Contains(key, "/staged/") {
			n++
		}
	}
	return n
}

func TestPartsArePutTogetherInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("a", twophase.ModeOpen)
	w.create("b", twophase.ModeOpen)
	b := w.begin("job")
	a1 := w.stage(b.Token, blind("a", "one"))
	a2 := w.stage(b.Token, blind("a", "two"))
	b1 := w.stage(b.Token, blind("b", "three"))
	w.stage(b.Token, blind("b", "left out"))
	req := coordinator.CommitRequest{Token: b.Token, Tables: []coordinator.TableParts{parts("a", a2.Digest, a1.Digest), parts("b", b1.Digest)}}
	o, err := w.catalog.Commit(w.ctx(), req)
	if err != nil {
		t.Fatal(err)
	}
	log := w.read("a", 1)
	if one, two := strings.Index(log, `"one"`), strings.Index(log, `"two"`); one < 0 || two < 0 || two > one {
		t.Errorf("version 1 of a: %s", log)
	}
	if log := w.read("b", 1); !strings.Contains(log, `"three"`) || strings.Contains(log, "left out") {
		t.Errorf("version 1 of b: %s", log)
	}
	want := map[string]twophase.Version{"a": 1, "b": 1}
	if diff := cmp.Diff(want, deliveries(o)); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}

	// The same call again, also much later, is the same answer.
	w.settle()
	if n := w.payloads(); n != 0 {
		t.Errorf("%d payloads after publication, the left out one among them", n)
	}
	for range 2 {
		again, err := w.catalog.Commit(w.ctx(), req)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(o, again); diff != "" {
			t.Errorf("commit again (-first +second):\n%s", diff)
		}
		w.restart()
	}
	if n := w.versions("a"); n != 2 {
		t.Errorf("a has %d versions", n)
	}
}

func TestOtherDigestsAreAnotherCommit(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("a", twophase.ModeExclusive)
	w.create("b", twophase.ModeExclusive)
	b := w.begin("job")
	one, two := w.stage(b.Token, blind("a", "1")), w.stage(b.Token, blind("a", "2"))
	other := w.stage(b.Token, blind("b", "1"))
	commit := func(list ...coordinator.TableParts) error {
		_, err := w.catalog.Commit(w.ctx(), coordinator.CommitRequest{Token: b.Token, Tables: list})
		return err
	}
	if err := commit(parts("a", one.Digest)); err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string][]coordinator.TableParts{
		"another part":  {parts("a", two.Digest)},
		"one more part": {parts("a", one.Digest, two.Digest)},
		"another table": {parts("b", other.Digest)},
		"one more":      {parts("a", one.Digest), parts("b", other.Digest)},
	} {
		own := wantReason(t, name, commit(list...), coordinator.OtherDigests)
		if own.Txn == nil || own.Txn.Txn != b.Txn || own.Txn.Key != "job" {
			t.Errorf("%s: %+v", name, own.Txn)
		}
	}
	_, err := w.try("job", blind("a", "2"))
	wantReason(t, "one call with other bytes", err, coordinator.OtherDigests)
	if _, err := w.try("job", blind("a", "1")); err != nil {
		t.Errorf("one call with the same bytes: %v", err)
	}
	// Staging after the commit: the lost answer again, or another part.
	if again := w.stage(b.Token, blind("a", "1")); again.Digest != one.Digest {
		t.Errorf("digest %s, then %s", one.Digest, again.Digest)
	}
	_, err = w.catalog.Stage(w.ctx(), coordinator.StageRequest{Token: b.Token, Table: "a", Read: blindRead, Actions: add("9")})
	wantReason(t, "staging another part after the commit", err, coordinator.OtherDigests)
	if n := w.versions("a"); n != 2 {
		t.Errorf("a has %d versions", n)
	}
}

// One transaction that many replicas of a client commit at once, with two contents.
func TestRacingCommitsOfOneTransaction(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeExclusive)
	for round := range 20 {
		key := "job " + string(rune('a'+round))
		var wg sync.WaitGroup
		results := make([]error, 8)
		for i := range results {
			wg.Go(func() { _, results[i] = w.try(key, blind("t", key+string(rune('0'+i%2)))) })
		}
		wg.Wait()
		won := map[int]int{}
		for i, err := range results {
			switch {
			case err == nil:
				won[i%2]++
			case !errors.Is(err, &coordinator.Error{Reason: coordinator.OtherDigests}):
				t.Fatalf("round %d, caller %d: %v", round, i, err)
			}
		}
		if len(won) != 1 || won[0]+won[1] != 4 {
			t.Fatalf("round %d: winners %v", round, won)
		}
	}
	if n := w.versions("t"); n > 21 {
		t.Errorf("%d versions of 20 transactions", n)
	}
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeExclusive)
	attempt := func(key string, n uint32) error {
		_, _, err := w.catalog.CommitOnce(w.ctx(), coordinator.OnceRequest{Key: key, Attempt: n, Tables: []coordinator.OnceTable{blind("t", key+string(rune('0'+n)))}})
		return err
	}
	abort := func(key string, n uint32) {
		b, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Key: key, Attempt: n})
		if err != nil {
			t.Fatal(err)
		}
		if o, err := w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Token: b.Token}, ""); err != nil || o.Aborted == nil {
			t.Fatalf("abort %s %d: %+v, %v", key, n, o, err)
		}
	}
	own := wantReason(t, "attempt 2 of nothing", attempt("k", 2), coordinator.AttemptUndecided)
	if own.Txn == nil || own.Txn.Txn != twophase.DeriveTxnID(w.status().CatalogID, "k", 1) {
		t.Errorf("names %+v", own.Txn)
	}
	abort("k", 1)
	abort("k", 3)
	wantReason(t, "attempt 4, 2 undecided", attempt("k", 4), coordinator.AttemptUndecided)
	if err := attempt("k", 2); err != nil {
		t.Fatalf("attempt 2 after the abort of 1: %v", err)
	}
	own = wantReason(t, "attempt 4, 2 committed", attempt("k", 4), coordinator.KeyCommitted)
	if own.Txn == nil || own.Txn.Txn != twophase.DeriveTxnID(w.status().CatalogID, "k", 2) {
		t.Errorf("names %+v", own.Txn)
	}
	b := w.begin("k")
	var known []string
	for _, o := range b.Known {
		known = append(known, map[bool]string{true: "committed", false: "aborted"}[o.Committed != nil])
	}
	if diff := cmp.Diff([]string{"aborted", "committed", "aborted"}, known); diff != "" {
		t.Errorf("known attempts (-want +got):\n%s", diff)
	}
	o, _, err := w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: "k"}})
	if err != nil || o.Committed == nil || o.Attempt != 2 {
		t.Errorf("outcome of the key: %+v, %v", o, err)
	}
}

func TestAbort(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeExclusive)
	b := w.begin("job")
	st := w.stage(b.Token, blind("t", "1"))
	for range 2 {
		o, err := w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Token: b.Token}, "changed my mind")
		if err != nil || o.Aborted == nil || o.Aborted.Rule != twophase.RuleClient || o.Aborted.Detail != "changed my mind" {
			t.Fatalf("abort: %+v, %v", o, err)
		}
	}
	_, err := w.catalog.Commit(w.ctx(), coordinator.CommitRequest{Token: b.Token, Tables: []coordinator.TableParts{parts("t", st.Digest)}})
	wantReason(t, "commit after the abort", err, coordinator.Aborted)
	_, err = w.try("job", blind("t", "1"))
	wantReason(t, "one call after the abort", err, coordinator.Aborted)
	_, err = w.catalog.Stage(w.ctx(), coordinator.StageRequest{Token: b.Token, Table: "t", Read: blindRead, Actions: add("2")})
	wantReason(t, "staging after the abort", err, coordinator.Aborted)
	_, err = w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Token: b.Token})
	wantReason(t, "extending after the abort", err, coordinator.Aborted)
	w.settle()
	if n := w.payloads(); n != 0 {
		t.Errorf("%d payloads of an aborted transaction", n)
	}

	done := w.commit("done", blind("t", "3"))
	o, err := w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Token: w.begin("done").Token}, "")
	if err != nil || o.Committed == nil || o.Txn != done.Txn {
		t.Errorf("abort of what is committed: %+v, %v", o, err)
	}

	// An abort that comes before the begin works by itself.
	_, err = w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Txn: twophase.TxnID{9}}, "")
	wantReason(t, "abort of a transaction nobody knows", err, coordinator.TransactionNotFound)
	open := w.begin("by an operator")
	o, err = w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Txn: open.Txn}, "by hand")
	if err != nil || o.Aborted == nil || o.Aborted.Rule != twophase.RuleOperator {
		t.Errorf("abort by id: %+v, %v", o, err)
	}
	if n := w.versions("t"); n != 2 {
		t.Errorf("%d versions", n)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeExclusive)
	ask := func(r coordinator.OutcomeRequest) (coordinator.Outcome, error) {
		o, _, err := w.catalog.Outcome(w.ctx(), r)
		return o, err
	}
	b := w.begin("job")
	o, err := ask(coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Token: b.Token}})
	if err != nil || o.Aborted != nil || o.Committed != nil || !o.Deadline.Equal(b.Deadline.Truncate(time.Millisecond)) {
		t.Errorf("outcome of an open one: %+v, %v", o, err)
	}
	for name, ref := range map[string]coordinator.OutcomeRef{"key": {Key: "job"}, "id": {Txn: b.Txn}} {
		if o, err = ask(coordinator.OutcomeRequest{OutcomeRef: ref}); err != nil || o.Aborted != nil || o.Committed != nil {
			t.Errorf("outcome of an open one by %s: %+v, %v", name, o, err)
		}
	}
	_, err = ask(coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: "never heard of"}})
	wantReason(t, "unknown key", err, coordinator.TransactionNotFound)
	_, err = ask(coordinator.OutcomeRequest{})
	wantReason(t, "no reference", err, coordinator.InvalidRequest)
	_, err = ask(coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Txn: b.Txn}, Resolve: true})
	wantReason(t, "resolve by id", err, coordinator.InvalidRequest)
	w.unchanged("resolve by key without a time", func() {
		_, err = ask(coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: "job"}, Resolve: true})
		wantReason(t, "resolve by key without a time", err, coordinator.OutcomeExpired)
	})
	o, err = ask(coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Token: b.Token}, Resolve: true})
	if err != nil || o.Aborted == nil || o.Aborted.Rule != twophase.RuleResolved {
		t.Errorf("resolve by token: %+v, %v", o, err)
	}
	o, err = ask(coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: "a job that never came"}, Resolve: true, BegunAfter: time.Now()})
	if err != nil || o.Aborted == nil {
		t.Errorf("resolve by key and time: %+v, %v", o, err)
	}
	_, err = w.try("a job that never came", blind("t", "1"))
	wantReason(t, "the job comes after all", err, coordinator.Aborted)
	done := w.commit("done", blind("t", "2"))
	o, err = ask(coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: "done"}, Resolve: true, BegunAfter: time.Now()})
	if err != nil || o.Committed == nil || o.Txn != done.Txn {
		t.Errorf("resolve of what is committed: %+v, %v", o, err)
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeExclusive)
	short, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Key: "short", TTL: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	long, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Key: "extended", TTL: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	st := w.stage(long.Token, blind("t", "1"))
	w.stage(short.Token, blind("t", "2"))
	longer, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Token: long.Token, TTL: time.Hour})
	if err != nil || longer.Txn != long.Txn || !longer.Deadline.After(long.Deadline) {
		t.Fatalf("extended: %+v, %v", longer, err)
	}
	w.restart() // whoever comes next still knows whom to expire
	w.eventually("the short one expires", func() bool {
		o, _, err := w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Token: short.Token}})
		return err == nil && o.Aborted != nil && o.Aborted.Rule == twophase.RuleExpired
	})
	_, err = w.try("short", blind("t", "2"))
	wantReason(t, "commit of the expired one", err, coordinator.Expired)
	// The old token commits: a deadline only permits an abort.
	if _, err := w.catalog.Commit(w.ctx(), coordinator.CommitRequest{Token: long.Token, Tables: []coordinator.TableParts{parts("t", st.Digest)}}); err != nil {
		t.Errorf("commit of the extended one: %v", err)
	}
	w.restart()
	w.eventually("no payload is left", func() bool { return w.payloads() == 0 })
	w.eventually("the list of open transactions is empty", func() bool { return !w.hasStoreKey("open/") })
}

func (w *world) hasStoreKey(prefix string) bool {
	w.t.Helper()
	items, err := w.store.Scan(w.ctx(), prefix, "", 1)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(items) > 0
}

func TestList(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("a", twophase.ModeExclusive)
	w.create("b", twophase.ModeExclusive)
	for _, key := range []string{"1", "2", "3", "4", "5"} {
		w.commit(key, blind("a", key))
	}
	w.commit("6", blind("b", "6"))
	open := w.begin("open")
	w.stage(open.Token, blind("a", "7"))
	w.stage(open.Token, blind("b", "7"))
	w.stage(open.Token, blind("b", "8"))
	w.begin("idle")
	list := func(r coordinator.ListRequest) coordinator.Listed {
		t.Helper()
		l, err := w.catalog.List(w.ctx(), r)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	got := list(coordinator.ListRequest{})
	if len(got.Open) != 2 || len(got.Decided) != 0 || got.Open[0].Key != "open" || len(got.Open[0].Tables) != 2 || got.Open[0].Tables[1].Parts != 2 {
		t.Errorf("open ones: %+v", got)
	}
	if got := list(coordinator.ListRequest{Table: "b"}); len(got.Open) != 1 {
		t.Errorf("open ones on b: %+v", got.Open)
	}
	var keys []string
	for page, n := "", 0; ; n++ {
		l := list(coordinator.ListRequest{Table: "a", IncludeDecided: true, PageSize: 2, PageToken: page})
		for _, o := range l.Decided {
			keys = append(keys, o.Key)
		}
		if page = l.NextPage; page == "" || n > 5 {
			break
		}
	}
	if diff := cmp.Diff([]string{"5", "4", "3", "2", "1"}, keys); diff != "" {
		t.Errorf("decided ones on a, newest first (-want +got):\n%s", diff)
	}
	_, err := w.catalog.List(w.ctx(), coordinator.ListRequest{PageToken: "§"})
	wantReason(t, "page token", err, coordinator.InvalidRequest)
	_, err = w.catalog.List(w.ctx(), coordinator.ListRequest{Table: "nowhere"})
	wantReason(t, "table", err, coordinator.TableNotFound)
}

// A token below the floor is refused, and never executed (R6, A6).
func TestForgottenTransactionsAreRefused(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits = coordinator.Limits{OutcomeCount: 50, PollInterval: 5 * time.Millisecond, CheckpointEvery: 200}
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	first := w.commit("first", blind("t", "first"))
	old := w.begin("")
	staged := w.stage(old.Token, blind("t", "old"))
	refused := w.begin("refused")
	if _, err := w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Token: refused.Token}, ""); err != nil {
		t.Fatal(err)
	}
	n := 0
	more := func(what string, until func() bool) {
		t.Helper()
		for end := n + 3000; !until() && n < end; n++ {
			w.commit(fmt.Sprint(what, n), blind("t", fmt.Sprint(what, n)))
		}
		if !until() {
			t.Fatalf("after %d transactions it did not come about that %s", n, what)
		}
	}
	outcome := func(id twophase.TxnID) (coordinator.Outcome, error) {
		o, _, err := w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Txn: id}})
		return o, err
	}
	more("the first is forgotten", func() bool {
		_, err := outcome(first.Txn)
		return err != nil
	})
	if n < 100 {
		t.Errorf("forgotten after %d transactions, with one of the same age open", n)
	}
	b := w.begin("first")
	if len(b.Known) != 0 || !b.RememberedSince.After(time.Unix(0, 0)) {
		t.Errorf("begin of what is forgotten: %+v", b)
	}
	more("the open one is too old", func() bool {
		_, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Token: old.Token})
		return err != nil
	})
	w.settle()
	if _, err := outcome(refused.Txn); err == nil {
		t.Error("an abort is remembered longer than commits")
	}
	w.checkToken("below the floor", old.Token, staged.Digest, coordinator.OutcomeExpired)
	w.unchanged("resolve of a key of before", func() {
		_, _, err := w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: "first"}, Resolve: true, BegunAfter: b.RememberedSince})
		wantReason(t, "resolve of a key of before", err, coordinator.OutcomeExpired)
	})
	w.restart()
	w.eventually("the payload of the forgotten one is swept", func() bool { return w.payloads() == 0 })
	w.checkToken("below the floor, after a restart", old.Token, staged.Digest, coordinator.OutcomeExpired)
}

// A piece that arrives when its transaction is over is refused and goes (C2).
func TestLateStageIsSwept(t *testing.T) {
	t.Parallel()
	var w *world
	var once sync.Once
	token := ""
	w = &world{wrapStore: func(s lock.Store) lock.Store {
		return hookedStore{s, func(key string) {
			if strings.HasPrefix(key, "pay/") {
				once.Do(func() {
					if _, err := w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Token: token}, ""); err != nil {
						t.Error(err)
					}
				})
			}
		}}
	}}
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	token = w.begin("job").Token
	_, err := w.catalog.Stage(w.ctx(), coordinator.StageRequest{Token: token, Table: "t", Read: tables.ReadDeclaration{Blind: true}, Actions: add("1")})
	wantReason(t, "stage beside the abort", err, coordinator.Aborted)
	w.eventually("the late piece is swept", func() bool { return w.payloads() == 0 })
}
