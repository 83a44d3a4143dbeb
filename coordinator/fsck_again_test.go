package coordinator_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// usedAgain is a catalog at rest in which keys were committed, forgotten and used again:
// "weekly" is committed anew, "retried" is aborted, as its file is there, "narrow" is
// committed on b alone, and "thrice" is forgotten twice and committed a third time.
func usedAgain(t *testing.T) *world {
	t.Helper()
	w := &world{}
	w.cfg.Limits = coordinator.Limits{OutcomeCount: 10, PollInterval: 5 * time.Millisecond, CheckpointEvery: 200}
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	w.create("b", twophase.ModeExclusive)
	both := func(path string) []coordinator.OnceTable {
		return []coordinator.OnceTable{blind("a", path), blind("b", path)}
	}
	for _, key := range []string{"weekly", "retried", "narrow", "thrice"} {
		w.commit(key, both(key+" 1")...)
	}
	w.untilForgotten("one ", "weekly", "retried", "narrow", "thrice")
	w.commit("thrice", both("thrice 2")...)
	w.untilForgotten("two ", "thrice")
	w.commit("thrice", both("thrice 3")...)
	w.commit("weekly", both("weekly 2")...)
	_, err := w.try("retried", both("retried 1")...)
	wantReason(t, "a forgotten call once more", err, coordinator.Conflicted)
	w.commit("narrow", blind("b", "narrow 2"))
	w.settle()
	w.stop()
	return w
}

// untilForgotten commits until the fold does not know keys any more.
func (w *world) untilForgotten(prefix string, keys ...string) {
	w.t.Helper()
	for n := range 5000 {
		if !slices.ContainsFunc(keys, func(key string) bool { return len(w.begin(key).Known) > 0 }) {
			return
		}
		w.commit(fmt.Sprint(prefix, n), blind("a", fmt.Sprint(prefix, n)))
	}
	w.t.Fatalf("%v are remembered for ever", keys)
}

// holding are the versions of a table that name a key's transaction.
func (w *world) holding(table, key string) (at []int) {
	w.t.Helper()
	id := twophase.DeriveTxnID(w.meta().Catalog, key, 1).String()
	for v := 1; v < w.versions(table); v++ {
		if strings.Contains(w.read(table, v), id) {
			at = append(at, v)
		}
	}
	return at
}

// Transactions whose keys were used before are told apart from those of before, which are
// forgotten: nothing is wrong. What is damaged of the new ones is named as ever.
func TestFsckOfKeysThatWereUsedAgain(t *testing.T) {
	t.Parallel()
	w := usedAgain(t)
	if a, b := w.holding("a", "thrice"), w.holding("b", "weekly"); len(a) != 3 || len(b) != 2 {
		t.Fatalf("thrice is in versions %v of a, weekly in %v of b", a, b)
	}
	r := w.fsck("")
	w.wantFindings("whole", r)
	if r.Forgotten < 13 {
		t.Errorf("%d forgotten ones", r.Forgotten)
	}
	id := func(key string) string { return twophase.DeriveTxnID(w.meta().Catalog, key, 1).String() }
	at, last := w.holding("a", "weekly"), w.versions("a")
	first, second := w.read("a", at[0]), w.read("a", at[1])
	thrice := w.holding("b", "thrice")
	for name, c := range map[string]struct {
		table   string
		version int
		content string
		want    []string
	}{
		"the new one has another digest": {"a", at[1], otherDigest(t, second, id("weekly")), []string{
			fmt.Sprint("TRANSACTION_ALTERED a ", at[1], " ", id("weekly")), fmt.Sprint("VERSION_ALTERED a ", at[1]),
		}},
		"the new one is there twice": {"a", last, second, []string{
			fmt.Sprint("MARKER_WRONG a ", last), fmt.Sprint("TRANSACTION_MISPLACED a ", last, " ", id("weekly")),
		}},
		"the old one in the new one's place": {"a", at[1], first, []string{
			fmt.Sprint("MARKER_WRONG a ", at[1]), fmt.Sprint("MARKER_WRONG a ", at[1]),
			fmt.Sprint("TRANSACTION_ALTERED a ", at[1], " ", id("weekly")), fmt.Sprint("VERSION_ALTERED a ", at[1]),
		}},
		"the old one behind all others": {"a", last, first, []string{
			fmt.Sprint("MARKER_WRONG a ", last), fmt.Sprint("TRANSACTION_MISPLACED a ", last, " ", id("weekly")),
		}},
		"the aborted one behind all others": {"b", w.versions("b"), w.read("b", w.holding("b", "retried")[0]), []string{
			fmt.Sprint("MARKER_WRONG b ", w.versions("b")), fmt.Sprint("TRANSACTION_UNKNOWN b ", w.versions("b"), " ", id("retried")),
		}},
		"a forgotten one twice": {"b", thrice[1], w.read("b", thrice[0]), []string{
			fmt.Sprint("MARKER_WRONG b ", thrice[1]), fmt.Sprint("TRANSACTION_MISPLACED b ", thrice[1], " ", id("thrice")),
			fmt.Sprint("VERSION_ALTERED b ", thrice[1]),
		}},
		"the new one is gone": {"a", at[1], "", []string{
			fmt.Sprint("TRANSACTION_INCOMPLETE a ", at[1], " ", id("weekly")), fmt.Sprint("VERSION_MISSING a ", at[1]),
		}},
	} {
		key, before := commitKey(c.table, c.version), w.object(commitKey(c.table, c.version))
		w.drop(key)
		if c.content != "" {
			w.put(key, c.content)
		}
		w.wantFindings(name, w.fsck(""), c.want...)
		w.drop(key)
		if before != "" {
			w.put(key, before)
		}
	}
	w.wantFindings("whole again", w.fsck(""))
}

// otherDigest is a version in which a transaction has another digest.
func otherDigest(t *testing.T, version, id string) string {
	t.Helper()
	before := id + `\",\"`
	i := strings.Index(version, before)
	if i < 0 {
		t.Fatalf("no digest of %s in %s", id, version)
	}
	i += len(before)
	digit := "0"
	if version[i] == '0' {
		digit = "1"
	}
	return version[:i] + digit + version[i+1:]
}

// A payload that is missing is named, although the log holds the forgotten transaction of
// the same key.
func TestFsckOfAKeyThatIsPendingAgain(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{wrapObjects: gate.over}
	w.cfg.Limits = coordinator.Limits{OutcomeCount: 10, PollInterval: 5 * time.Millisecond, CheckpointEvery: 200}
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	w.commit("weekly", blind("a", "weekly 1"))
	w.untilForgotten("one ", "weekly")
	w.settle()
	gate.refuse()
	w.abandonedParts("a", once("weekly", blind("a", "weekly 2")))
	w.stop()
	txn := twophase.DeriveTxnID(w.meta().Catalog, "weekly", 1).String()
	w.wantFindings("pending", w.fsck(""), "PENDING a "+txn)
	items, err := w.store.Scan(w.ctx(), "pay/", "", 0)
	if err != nil || len(items) != 1 {
		t.Fatalf("%d payloads, %v", len(items), err)
	}
	if err := w.store.Delete(w.ctx(), items[0].Key); err != nil {
		t.Fatal(err)
	}
	w.wantFindings("a payload is gone", w.fsck(""), "PAYLOAD_MISSING a "+txn, "PENDING a "+txn)
}

// What a transaction lost to is not what came later under the same key.
func TestExplainOfAWinnerThatIsForgotten(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits = coordinator.Limits{OutcomeCount: 10, PollInterval: 5 * time.Millisecond, CheckpointEvery: 200}
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	w.commit("file", blind("a", "f"))
	winner := w.commit("winner", change("a", readAt(1), remove("f")))
	loser := ""
	for n := 0; len(w.begin("winner").Known) > 0; n++ {
		if n == 5000 {
			t.Fatal("the winner is remembered for ever")
		}
		key := fmt.Sprint("loser ", n)
		_, err := w.try(key, change("a", readAt(1), remove("f")))
		wantReason(t, key, err, coordinator.Conflicted)
		if e, _ := errors.AsType[*coordinator.Error](err); e.Conflict.Winner == winner.Txn {
			loser = key // the winner may be forgotten by now: then nobody is named
		}
	}
	again := w.commit("winner", blind("a", "g"))
	x := w.explainTxn(coordinator.OutcomeRef{Key: loser}, nil)
	if x.State != coordinator.TxnAborted || x.Winner == nil || x.Winner.Txn != winner.Txn {
		t.Fatalf("%s: %+v, lost to %v: %s", loser, x.Outcome.Aborted, x.Winner, x.Text)
	}
	if v := again.Committed.Tables[0].Version; x.Winner.Version == v {
		t.Errorf("it is said to have lost to version %d, which came later", v)
	}
}
