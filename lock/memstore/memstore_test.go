package memstore_test

import (
	"testing"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/locktest"
	"github.com/txcoord/txcoord/lock/memstore"
)

func TestConformance(t *testing.T) {
	const maxValue = 1 << 20
	locktest.Run(t, locktest.Config{
		New:      func(locktest.T) lock.Store { return memstore.New(memstore.Config{MaxValue: maxValue}) },
		MaxValue: maxValue,
		Without: map[locktest.Capability]string{
			locktest.Reopening:     "nothing outlives the process",
			locktest.LosingReplies: "there is no way on which a reply could be lost",
		},
	})
}
