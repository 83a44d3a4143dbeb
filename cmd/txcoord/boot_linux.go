package main

import (
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime counts from the start of the machine and goes on while it sleeps,
// which Go's monotonic clock does not (clock_gettime(2)).
const clockBoottime = 7

// bootClock is the clock of R10: a publisher that has slept has to know it.
func bootClock() func() time.Duration {
	if _, ok := boottime(); !ok {
		return nil
	}
	return func() time.Duration {
		t, _ := boottime() // it worked once, and takes nothing that could be refused
		return t
	}
}

func boottime() (time.Duration, bool) {
	var t syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano()), errno == 0
}
