// Package objtest is the suite that every objstore.Store passes, and wrappers for
// tests of what stands on one: Faulty decides the fate of each operation, Counting
// counts them.
//
// The suite races writers and readers, since that is where stores differ from their
// contract. Its own test feeds it stores that are broken on purpose and requires
// that the case which names the defect finds it.
package objtest

import (
	"context"
	"slices"
	"testing"

	"github.com/txcoord/txcoord/tables/objstore"
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

// Capability is something that a store may lack, if it says why.
type Capability string

const (
	// Reopening: what was acknowledged outlives the process. Needs Config.Reopen.
	Reopening Capability = "reopening"
	// Nesting: "a" and "a/b" can both be objects.
	Nesting Capability = "nesting"
	// Backslashes: a key may hold one, which is no slash.
	Backslashes Capability = "backslashes"
	// Replacing: the store is an objstore.Conditional.
	Replacing Capability = "replacing"
)

// Config says how to get at the store under test.
type Config struct {
	// New makes an empty store. What has to be released goes to t.Cleanup.
	New func(t T) objstore.Store
	// Reopen answers with a store on the same objects that shares no memory with
	// the first, as another process would have. The first stays in use.
	Reopen func(t T, s objstore.Store) objstore.Store
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
	return slices.Concat(objectCases(), listingCases(), racingCases(), replacingCases())
}

// Run holds a store to the contract.
func Run(t *testing.T, c Config) {
	if _, ok := c.Without[Reopening]; !ok && c.Reopen == nil {
		t.Fatal("objtest.Config lacks Reopen and no reason in Without")
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

// second is another handle on the same objects, if the store can have one.
func (c Config) second(t T, s objstore.Store) objstore.Store {
	if c.Reopen == nil {
		return s
	}
	return c.Reopen(t, s)
}
