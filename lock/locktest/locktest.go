// Package locktest is the suite that every lock.Store passes, and wrappers for
// tests of what stands on one: Faulty decides the fate of each operation, Counting
// counts them.
//
// The suite races writers and checks whole histories, since a store that answers
// one client after the other as it should may still let two of them win. Its own
// test feeds it stores that are broken on purpose and requires that the case which
// names the defect finds it.
package locktest

import (
	"context"
	"testing"

	"github.com/txcoord/txcoord/lock"
)

// T is what cases need of testing.T; the suite's own test has another one.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
	Context() context.Context
	TempDir() string
}

// Capability is something that a store, or its test, may lack, if it says why.
type Capability string

const (
	// Reopening: what was acknowledged outlives the process. Needs Config.Reopen.
	Reopening Capability = "reopening"
	// LosingReplies: a write can land and its answer be lost. Needs Config.Lossy.
	LosingReplies Capability = "losing replies"
	// Batching: the store is a lock.Batcher.
	Batching Capability = "batching"
)

// Config says how to get at the store under test.
type Config struct {
	// New makes an empty store. What has to be released goes to t.Cleanup, where
	// closing a store a second time must do no harm.
	New func(t T) lock.Store
	// Client is another client of the same items, as another process would have.
	// Without it there is one client.
	Client func(t T, s lock.Store) lock.Store
	// Reopen ends a store, the rougher the better, and opens it again. The first is
	// not used any more.
	Reopen func(t T, s lock.Store) lock.Store
	// Lossy makes an empty store whose next write after lose was called lands, while
	// what would have told the store so is lost on the way.
	Lossy func(t T) (s lock.Store, lose func())
	// MaxValue is the size of the largest value that New's stores take.
	MaxValue int
	// Without names the capabilities that the store lacks, each with the reason.
	Without map[Capability]string
}

// Case is one property of the contract.
type Case struct {
	// Name says what holds, so that a failure says what does not.
	Name string
	// Needs are the capabilities without which there is nothing to test.
	Needs []Capability
	// Run tests a store.
	Run func(t T, c Config)
}

// Cases are all of them.
func Cases() []Case {
	var all []Case
	for _, some := range [][]Case{itemCases(), scanCases(), racingCases(), answerCases(), batchCases()} {
		all = append(all, some...)
	}
	return all
}

// Run holds a store to the contract.
func Run(t *testing.T, c Config) {
	if c.MaxValue <= 0 {
		t.Fatal("locktest.Config lacks MaxValue")
	}
	for need, given := range map[Capability]bool{Reopening: c.Reopen != nil, LosingReplies: c.Lossy != nil} {
		if c.Without[need] == "" && !given {
			t.Fatalf("locktest.Config lacks the function for %s, and the reason in Without", need)
		}
	}
	for _, kase := range Cases() {
		t.Run(kase.Name, func(t *testing.T) {
			t.Parallel()
			for _, need := range kase.Needs {
				if reason, ok := c.Without[need]; ok {
					t.Skipf("no %s: %s", need, reason)
				}
			}
			kase.Run(t, c)
		})
	}
}

// client is another client of the same items, if there can be one.
func (c Config) client(t T, s lock.Store) lock.Store {
	if c.Client == nil {
		return s
	}
	return c.Client(t, s)
}
