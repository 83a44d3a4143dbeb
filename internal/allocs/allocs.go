// Package allocs bounds what reading foreign input may take.
package allocs

import "runtime/metrics"

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
