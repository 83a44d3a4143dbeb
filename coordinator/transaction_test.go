package coordinator_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
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
	_, err = w.try("job", blind("a", "1"), blind("b", "1"))
	wantReason(t, "one call with one more table", err, coordinator.OtherDigests)
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

// Stage says early why a commit would fail as things stand; only Commit decides.
func TestHints(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("seed", blind("t", "there"))
	b := w.begin("job")
	for name, c := range map[string]struct {
		part coordinator.OnceTable
		rule twophase.Rule
	}{
		"nothing speaks against it": {blind("t", "1"), twophase.RuleNone},
		"a path that is there":      {blind("t", "there"), twophase.RulePathExists},
		"a path that is not":        {change("t", readAt(1), remove("nowhere")), twophase.RulePathMissing},
	} {
		st := w.stage(b.Token, c.part)
		switch {
		case c.rule == twophase.RuleNone && st.Hint != nil, c.rule != twophase.RuleNone && (st.Hint == nil || st.Hint.Rule != c.rule || st.Hint.Table != "t"):
			t.Errorf("%s: hint %+v, want %s", name, st.Hint, c.rule)
		}
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{wrapObjects: gate.over}
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("seed", change("t", blindRead, add("1"), add("2")))
	gate.hold(commitKey("t", 2))
	pending := w.background("k", blind("t", "3"))
	w.eventually("it is decided", func() bool { return w.info("t").Pending == 1 })
	d, err := w.catalog.Describe(w.ctx(), w.uri("t"))
	if err != nil || len(d.Changes) != 1 || d.Changes[0].Number != 2 || d.Round == nil || d.Round.Txns != 1 || !cmp.Equal(d.Round.Tables, []string{"t"}) {
		t.Errorf("%+v, %v", d, err)
	}
	if d.State == nil || d.State.Version != 1 || d.State.Files != 2 || d.State.Bytes != 2 {
		t.Errorf("state %+v", d.State)
	}
	gate.release()
	if err := <-pending; err != nil {
		t.Fatal(err)
	}
	if d, err = w.catalog.Describe(w.ctx(), "t"); err != nil || len(d.Changes) != 0 || d.Round != nil || d.State.Files != 3 {
		t.Errorf("%+v, %v", d, err)
	}
	if err := w.objects.Delete(w.ctx(), commitKey("t", 1)); err != nil {
		t.Fatal(err)
	}
	if d, err = w.catalog.Describe(w.ctx(), "t"); err != nil || d.State != nil || len(d.Warnings) == 0 {
		t.Errorf("of a log that cannot be read: %+v, %v", d, err)
	}
	_, err = w.catalog.Describe(w.ctx(), "nowhere")
	wantReason(t, "unknown", err, coordinator.TableNotFound)
}

func TestVerifiedFilesAreThere(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeExclusive)
	if err := w.objects.PutIfAbsent(w.ctx(), "t/a b.parquet", []byte("x")); err != nil {
		t.Fatal(err)
	}
	r := once("k", blind("t", "a%20b.parquet"))
	r.VerifyFiles = true
	if _, _, err := w.catalog.CommitOnce(w.ctx(), r); err != nil {
		t.Error(err)
	}
}
