//go:build unix

package coordinator_test

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// A burst on one table: the work per transaction does not grow with the burst.
// BenchmarkBurst has the large one.
func TestBurst(t *testing.T) {
	w := &world{}
	w.open(t)
	w.create("hot", twophase.ModeExclusive)
	small := w.workOfBurst("small", 300)
	large := w.workOfBurst("large", 3000)
	t.Logf("300 in %s, 3,000 in %s", small, large)
	if large > 40*small+time.Second {
		t.Errorf("ten times as many transactions took %s instead of %s", large, small)
	}
	if n := w.versions("hot"); n > 400 {
		t.Errorf("%d versions of 3,300 blind appends", n)
	}
}

// workOfBurst is the processor time that a burst takes: others of this machine have no
// part in it, as they have in how long it takes.
func (w *world) workOfBurst(name string, n int) time.Duration {
	runtime.GC()
	before := processorTime(w.t)
	w.hotBurst(name, n)
	return processorTime(w.t) - before
}

func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
