package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
	"github.com/txcoord/txcoord/tables/logstore"
	"github.com/txcoord/txcoord/tables/objstore"
)

// kill says at which write a server ends itself with SIGKILL.
type kill struct {
	// Name and Nth: at the nth write of that name, from 1. An empty name fits any, and a
	// # any number in it.
	Name string
	Nth  int
	When moment
}

// moment of a write. A write here is one call that changes something in a store;
// fileobj and bbolt make several system calls of it and have crash tests of their own.
type moment string

// Before: nothing was sent. After: it has landed, and nobody was told.
const (
	before moment = "before"
	after  moment = "after"
)

var number = regexp.MustCompile(`\d+`)

// counts is the name under which the kill counts a write.
func (k *kill) counts(name string) string {
	switch {
	case k == nil:
		return name
	case k.Name == "":
		return ""
	case strings.Contains(k.Name, "#"):
		return number.ReplaceAllString(name, "#")
	}
	return name
}

func (k kill) String() string { return fmt.Sprintf("%s %s #%d", k.When, k.Name, k.Nth) }

// gate is what every write of a server passes. It counts from when the armed file
// is there, writes a trace of what it saw, and ends the process where it was told to.
type gate struct {
	c     serverConfig
	names *namer
	trace *os.File

	mu    sync.Mutex
	armed bool
	seen  map[string]int
}

func newGate(c serverConfig) (*gate, error) {
	trace, err := os.OpenFile(filepath.Join(c.Dir, traceFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &gate{c: c, names: newNamer(), trace: trace, seen: map[string]int{}}, nil
}

// pass makes a write.
func (g *gate) pass(name string, write func() error) error {
	nth := g.count(name)
	g.moment(kill{name, nth, before})
	err := write()
	if err == nil || errors.Is(err, lock.ErrConflict) || errors.Is(err, objstore.ErrExists) || errors.Is(err, logstore.ErrClaimed) {
		g.moment(kill{name, nth, after})
	}
	return err
}

// count returns how many writes of the name there were, this one included; 0 while
// nothing is counted.
func (g *gate) count(name string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.armed {
		_, err := os.Stat(filepath.Join(g.c.Dir, armedFile))
		if g.armed = err == nil; !g.armed {
			return 0
		}
	}
	name = g.c.Kill.counts(name)
	g.seen[name]++
	return g.seen[name]
}

// moment notes where the process is, and ends it if this is the place. The line
// goes to the file with one system call and outlives the process.
func (g *gate) moment(at kill) {
	if at.Nth == 0 {
		at.When = "unarmed " + at.When
	}
	here := g.c.Kill != nil && at.Nth == g.c.Kill.Nth && at.When == g.c.Kill.When &&
		g.c.Kill.counts(at.Name) == g.c.Kill.Name
	line := at.String() + "\n"
	if here {
		line = killedLine + line
	}
	if _, err := g.trace.WriteString(line); err != nil {
		panic(err)
	}
	if here {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way; nothing more may be done here
	}
}

// killedLine begins the trace's line of the moment at which the process ended itself.
const killedLine = "KILLED "

type gatedStore struct {
	*boltstore.Store
	g *gate
}

func (s gatedStore) Put(ctx context.Context, key string, value []byte, c lock.Condition) (rev lock.Revision, err error) {
	err = s.g.pass(s.g.names.ofPut(key, value, nil), func() error {
		rev, err = s.Store.Put(ctx, key, value, c)
		return err
	})
	return rev, err
}

// PutBatch is one write: the store carries all of it out at once.
func (s gatedStore) PutBatch(
	ctx context.Context, key string, value []byte, c lock.Condition, with []lock.Write,
) (rev lock.Revision, err error) {
	err = s.g.pass(s.g.names.ofPut(key, value, with), func() error {
		rev, err = s.Store.PutBatch(ctx, key, value, c, with)
		return err
	})
	return rev, err
}

func (s gatedStore) Delete(ctx context.Context, key string) error {
	return s.g.pass("delete "+s.g.names.ofKey(key), func() error { return s.Store.Delete(ctx, key) })
}

type gatedObjects struct {
	objstore.Store
	g *gate
}

func (s gatedObjects) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return s.g.pass(s.g.names.ofKey(key), func() error { return s.Store.PutIfAbsent(ctx, key, data) })
}

func (s gatedObjects) Put(ctx context.Context, key string, data []byte) error {
	return s.g.pass("overwrite "+s.g.names.ofKey(key), func() error { return s.Store.Put(ctx, key, data) })
}

func (s gatedObjects) Delete(ctx context.Context, key string) error {
	return s.g.pass("delete "+s.g.names.ofKey(key), func() error { return s.Store.Delete(ctx, key) })
}
