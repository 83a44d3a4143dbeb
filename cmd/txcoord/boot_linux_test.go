package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestBootClock compares with what the kernel tells by another way.
func TestBootClock(t *testing.T) {
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Skip(err)
	}
	uptime, err := strconv.ParseFloat(strings.Fields(string(b))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	now := bootClock()
	first := now()
	if d := first.Seconds() - uptime; d < -1 || d > 10 {
		t.Errorf("the clock shows %s, the machine is up %.2f s", first, uptime)
	}
	time.Sleep(2 * time.Millisecond)
	if second := now(); second-first < 2*time.Millisecond {
		t.Errorf("%s passed in 2 ms", second-first)
	}
}
