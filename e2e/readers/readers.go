// Package readers runs Delta engines that nobody here wrote, so that tests can
// hold our tables against them: delta-rs and DuckDB read tables at given versions,
// and a delta-rs process appends to a table beside us.
//
// Both are Python packages. The first test that needs them builds the environment
// in which they live, once for all packages: package toolcache says where.
package readers

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/txcoord/txcoord/e2e/toolcache"
)

// RequireVariable is the environment variable that turns "skip" into "fail": set
// to 1, a machine without python3 or without the packages fails the tests.
const RequireVariable = "TXCOORD_REQUIRE_READERS"

// buildLimit bounds the first set-up, which downloads some 150 MB of packages.
const buildLimit = 10 * time.Minute

// Require returns the engines, or skips the test and says why they cannot be had.
// With RequireVariable set to 1 it fails instead.
func Require(t testing.TB) *Python {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	p, err := Open(ctx)
	switch {
	case err == nil:
		return p
	case os.Getenv(RequireVariable) == "1":
		t.Fatalf("%s=1: %v", RequireVariable, err)
	case errors.Is(err, toolcache.ErrUnavailable):
		t.Skipf("skipped, no engine reads our tables here: %v", err)
	default:
		t.Fatal(err)
	}
	return nil
}
