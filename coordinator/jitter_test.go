package coordinator_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"time"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
)

// jitter looks for tests that rest on a schedule: each answer of a store is held up for up
// to that long, so that what otherwise happens once in a thousand runs happens in one.
var jitter = flag.Duration("jitter", 0, "hold each answer of a store up for a random time, at most this")

// holdUp is a store whose answers come late.
func holdUp(keys lock.Store, objects objstore.Store) (lock.Store, objstore.Store) {
	if *jitter == 0 {
		return keys, objects
	}
	return lock.Observe(keys, func(context.Context, lock.Request) { late() }),
		objstore.Observe(objects, func(context.Context, objstore.Request) { late() })
}

// late waits: mostly for nothing, sometimes for long.
func late() {
	if rand.IntN(4) == 0 { //nolint:gosec // not a secret
		time.Sleep(rand.N(*jitter)) //nolint:gosec // not a secret
	}
}
