//go:build unix

package main

import (
	"fmt"
	"syscall"
	"time"
)

// pause holds the process still, so that what it is in the middle of can be looked
// at without hurry; resume lets it go on as if nothing had been.
func (d *demoServer) pause() error {
	if err := d.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pause the server: %w", err)
	}
	// The signal reaches other threads a moment later.
	time.Sleep(settle)
	return nil
}

func (d *demoServer) resume() error {
	if err := d.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("resume the server: %w", err)
	}
	return nil
}

// settle is longer than a system call that a stopped process finishes.
const settle = 5 * time.Millisecond
