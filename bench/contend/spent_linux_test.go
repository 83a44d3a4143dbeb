package contend

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// used is the processor's time of this process, as another interface of the kernel tells it.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A process's time is what the kernel says elsewhere, too: in the same unit, and of both modes.
func TestSpentOfAProcess(t *testing.T) {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for used(t) < 200*time.Millisecond { // so that a wrong unit or field is far off
	}
	before := used(t)
	got, ok := (&Process{cmd: &exec.Cmd{Process: self}}).Spent()
	after := used(t)
	if !ok || got < before-4*tick || got > after+4*tick {
		t.Errorf("%s, %t; between %s and %s by getrusage", got, ok, before, after)
	}
}
