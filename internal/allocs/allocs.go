// Package allocs bounds what reading foreign input may take, and what is kept in memory.
package allocs

import (
	"runtime"
	"runtime/metrics"
)

// tries is how often a reading over its bound is repeated: other goroutines' memory
// counts too, and they do not allocate at the same moment each time.
const tries = 3

// Over runs f and returns how many bytes it allocated if that is more than limit, and
// 0 if it is not. Every byte counts, whether it was freed meanwhile or not: the
// figure does not depend on when the collector ran, and bounds the memory that f
// held at any time. f may run several times; the least counts.
func Over(limit int, f func()) int {
	least := 0
	for range tries {
		before := allocated()
		f()
		n := int(allocated() - before)
		if n <= limit {
			return 0
		}
		if least == 0 || n < least {
			least = n
		}
	}
	return least
}

// allocated is what the process has allocated since it began. It lags behind by the
// spans that processors hold, some hundred KiB.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// Held returns how many bytes what f makes holds: those that are live after it and were
// not before. What other goroutines allocate meanwhile counts too, so f runs several
// times, and the least counts.
func Held(f func() any) int {
	least := 0
	for i := range tries {
		before := live()
		made := f()
		n := max(int(live()-before), 0)
		runtime.KeepAlive(made)
		if i == 0 || n < least {
			least = n
		}
	}
	return least
}

// live is what is reachable.
func live() uint64 {
	runtime.GC()
	runtime.GC() // what had a finalizer, and pools
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
