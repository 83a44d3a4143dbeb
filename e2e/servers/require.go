//go:build unix

package servers

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/txcoord/txcoord/e2e/toolcache"
)

// RequireVariable is the environment variable that turns "skip" into "fail": set
// to 1, a machine that cannot build or start a server fails the tests.
const RequireVariable = "TXCOORD_REQUIRE_SERVERS"

// ErrUnavailable: a server cannot be had on this machine. The error around it says why.
var ErrUnavailable = toolcache.ErrUnavailable

// buildLimit bounds the first set-up, which downloads and compiles.
const buildLimit = 15 * time.Minute

// require ends the test if there is no server: skipped where it cannot be had here,
// failed for any other reason or where servers are required.
func require[S any](t testing.TB, start func(ctx context.Context) (S, error)) S {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	s, err := start(ctx)
	switch {
	case err == nil:
	case os.Getenv(RequireVariable) == "1":
		t.Fatalf("%s=1: %v", RequireVariable, err)
	case errors.Is(err, ErrUnavailable):
		t.Skipf("skipped, there is no server, or tool, to test with: %v", err)
	default:
		t.Fatal(err)
	}
	return s
}
