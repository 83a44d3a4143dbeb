//go:build !linux

package main

import "time"

// bootClock leaves it to the coordinator, which takes the monotonic clock: that
// one goes on during sleep on some systems, and stops on others.
func bootClock() func() time.Duration { return nil }
