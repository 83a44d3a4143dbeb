package coordinator_test

import (
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
	w := &world{}
	w.cfg.OutcomesAtOnce(1) // the most that a page is made of
	w.open(t)
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
	idle := func(o coordinator.OpenTxn) bool { return o.Key == "idle" }
	if got := list(coordinator.ListRequest{PageSize: 1, Shows: idle}); len(got.Open) != 1 || got.Open[0].Key != "idle" {
		t.Errorf("a page of those that are shown: %+v", got.Open)
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
