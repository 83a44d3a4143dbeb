package locktest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/locktest"
	"github.com/txcoord/txcoord/lock/memstore"
)

const testMaxValue = 100_000

func good(s lock.Store) lock.Store { return s }

// config is the suite for a memory store behind a wrapper. It is "reopened" by
// wrapping it again, and its replies are lost by a wrapper between the two.
func config(wrap func(lock.Store) lock.Store) locktest.Config {
	return locktest.Config{
		New: func(locktest.T) lock.Store { return wrap(memstore.New(memstore.Config{MaxValue: testMaxValue})) },
		Reopen: func(_ locktest.T, s lock.Store) lock.Store {
			return wrap(s)
		},
		Lossy: func(locktest.T) (lock.Store, func()) {
			var armed atomic.Bool
			return wrap(locktest.NewFaulty(memstore.New(memstore.Config{}), func(_ context.Context, op locktest.Op) locktest.Fate {
				if op.Kind != locktest.Get && op.Kind != locktest.Scan && armed.Swap(false) {
					return locktest.Landed
				}
				return locktest.Done
			}).Batching()), func() { armed.Store(true) }
		},
		MaxValue: testMaxValue,
	}
}

// defects are broken stores under the name of the case that has to find them. The
// first nine are those that a journal would not survive.
var defects = []struct {
	what, foundBy string
	store         func(s lock.Store) lock.Store
}{
	{"put overwrites", "IfAbsentKeepsTheFirst", overwrites},
	{"own landed write reported as refused", "OwnLandedWriteIsNotRefused", sendsAgain},
	{"unknown reported as refused", "UnknownIsNotRefused", saysRefusedForUnknown},
	{"unknown reported as an error like any other", "UnknownIsNotRefused", saysErrorForUnknown},
	{"condition checked outside the lock", "RacingPutsHaveOneWinner", looksThenWrites},
	{"stale get", "GetSeesTheLastPut", readsOneBehind},
	{"scan unordered", "ScanIsOrdered", pages(unordered)},
	{"scan misses a key", "ScanMissesNothing", pages(dropsOne)},
	{"scan misses the first key of a page", "ScanMissesNothing", skipsAtPages},

	{"own landed write reported as refused, without a cause", "ConflictMeansNotWritten", sendsAgainUnasked},
	{"condition checked outside the lock", "CountersLoseNothing", looksThenWrites},
	{"condition checked outside the lock", "HistoriesAreLinearizable", looksThenWrites},
	{"reads from a follower", "HistoriesAreLinearizable", readsFromAFollower},
	{"empty values are not written", "PutCanBeRead", dropsEmptyValues},
	{"revisions are ignored", "IfRevisionNeedsThatRevision", ignoresRevisions},
	{"put never overwrites", "AlwaysReplaces", alwaysMeansAbsent},
	{"the revision is a hash", "EqualBytesAreANewRevision", revisionsAreHashes},
	{"revisions start again", "RevisionsNeverRepeat", revisionsPerKey},
	{"a missing key is empty", "MissingIsNotFound", missingIsEmpty},
	{"a deleted key is empty", "DeleteRemoves", deleteLeavesEmpty},
	{"large values are cut", "TooLargeIsRefused", cutsValues},
	{"values are shared", "ValuesAreCopied", sharesValues},
	{"keys are cleaned", "KeysAreTakenLiterally", foldsKeys},
	{"a prefix is a range", "ScanHonoursThePrefix", prefixIsARange},
	{"the key to start after is included", "ScanStartsAfter", includesAfter},
	{"the limit is ignored", "ScanKeepsTheLimit", ignoresTheLimit},
	{"an index that lags", "ScanSeesTheLastPut", scansAnIndex},
	{"scan leaves the values out", "ScanCarriesTheItems", pages(withoutValues)},
	{"contexts are ignored", "CancelledDoesNothing", func(s lock.Store) lock.Store {
		return broken{Store: s, put: func(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
			return s.Put(context.WithoutCancel(ctx), key, value, c)
		}}
	}},
	{"a context that ends in flight is an error like any other", "CancelledInFlightIsUnknown", func(s lock.Store) lock.Store {
		return broken{Store: s, put: func(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
			rev, err := s.Put(context.WithoutCancel(ctx), key, value, c)
			time.Sleep(100 * time.Microsecond) // memory is too quick for a context to end in flight
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			return rev, err
		}}
	}},
	{"batch without the rest", "BatchWritesAll", batches(batchWithoutTheRest)},
	{"a refused batch is refused as a whole", "RefusedBatchWritesTheRest", batches(batchAllOrNothing)},
	{"batch ignores the condition", "RacingBatchesHaveOneWinner", batches(batchOverwrites)},
	{"batch cuts large values", "TooLargeBatchIsRefused", batches(batchCuts)},
	{"unknown batch reported as refused", "UnknownBatchIsNotRefused", batches(batchSaysRefused)},
	{"close does nothing", "ClosedStoreCarriesNothingOut", func(s lock.Store) lock.Store {
		return broken{Store: s, close: func() error { return nil }}
	}},
}

func TestDefectsAreFoundByTheirCase(t *testing.T) {
	for _, d := range defects {
		t.Run(d.what+"/"+d.foundBy, func(t *testing.T) {
			t.Parallel()
			wantFound(t, d.foundBy, config(d.store))
		})
	}
}

// wantFound gives a race that a case has to lose a few tries.
func wantFound(t *testing.T, foundBy string, c locktest.Config) {
	t.Helper()
	i := slices.IndexFunc(locktest.Cases(), func(kase locktest.Case) bool { return kase.Name == foundBy })
	if i < 0 {
		t.Fatalf("there is no case %s", foundBy)
	}
	for range 10 {
		if found := try(t, locktest.Cases()[i], c); len(found) > 0 {
			first, _, _ := strings.Cut(found[0], "\n")
			t.Logf("%s: %s", foundBy, first)
			return
		}
	}
	t.Errorf("%s finds nothing", foundBy)
}

// acknowledged write lost on reopen.
func TestLossOnReopenIsFound(t *testing.T) {
	c := config(good)
	c.Reopen = func(t locktest.T, s lock.Store) lock.Store {
		if err := s.Delete(t.Context(), "k/77"); err != nil {
			t.Fatalf("%v", err)
		}
		return s
	}
	wantFound(t, "AcknowledgedWritesSurviveReopen", c)
}

// What went along with a refused write is owed too.
func TestBatchLostOnReopenIsFound(t *testing.T) {
	c := config(good)
	c.Reopen = func(t locktest.T, s lock.Store) lock.Store {
		if err := s.Delete(t.Context(), "pay/lost/3"); err != nil {
			t.Fatalf("%v", err)
		}
		return s
	}
	wantFound(t, "BatchesSurviveReopen", c)
}

// A counter of revisions that is not stored starts again from what it finds.
func TestRevisionsThatRestartAreFound(t *testing.T) {
	c := config(good)
	c.Reopen = func(t locktest.T, s lock.Store) lock.Store {
		again := memstore.New(memstore.Config{})
		page, err := s.Scan(t.Context(), "", "", 0)
		for _, item := range page {
			_, putErr := again.Put(t.Context(), item.Key, item.Value, lock.IfAbsent())
			err = errors.Join(err, putErr)
		}
		if err != nil {
			t.Fatalf("%v", err)
		}
		return again
	}
	wantFound(t, "RevisionsSurviveReopen", c)
}

// A suite that finds fault with everything would pass the tests above.
func TestAGoodStoreHasNoDefects(t *testing.T) {
	for _, kase := range locktest.Cases() {
		for _, failure := range try(t, kase, config(good)) {
			t.Errorf("%s: %s", kase.Name, failure)
		}
	}
}

// Cases rot when nothing shows that they can fail.
func TestEveryCaseHasItsDefect(t *testing.T) {
	shown := map[string]bool{"BatchesSurviveReopen": true, "AcknowledgedWritesSurviveReopen": true, "RevisionsSurviveReopen": true}
	for _, d := range defects {
		shown[d.foundBy] = true
	}
	for _, kase := range locktest.Cases() {
		if !shown[kase.Name] {
			t.Errorf("no broken store is found by %s", kase.Name)
		}
	}
}
