package locktest_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/txcoord/txcoord/lock/locktest"
)

// recorder stands in for testing.T where failing is what is wanted.
type recorder struct {
	t        *testing.T
	mu       sync.Mutex
	failures []string
	cleanups []func()
}

var _ locktest.T = (*recorder)(nil)

func (r *recorder) Helper()                  {}
func (r *recorder) Logf(string, ...any)      {}
func (r *recorder) Context() context.Context { return r.t.Context() }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) TempDir() string {
	dir, err := os.MkdirTemp(r.t.TempDir(), "")
	if err != nil {
		r.Fatalf("%v", err)
	}
	return dir
}

// try runs a case against a store and answers with what it found.
func try(t *testing.T, kase locktest.Case, c locktest.Config) []string {
	r := &recorder{t: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v", p)
			}
		}()
		kase.Run(r, c)
	}()
	<-done
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	return r.failures
}
