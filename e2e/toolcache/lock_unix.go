//go:build unix

package toolcache

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// Lock holds the file for this process until unlock is called; the kernel
// lets go of it if the process dies.
func Lock(ctx context.Context, name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := waitForLock(ctx, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// Closing lets go of it; nothing was written that closing could lose.
	return func() { _ = f.Close() }, nil
}

func waitForLock(ctx context.Context, f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
