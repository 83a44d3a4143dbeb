package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/txcoord/txcoord/lock"
)

// Kind is an operation of a store.
type Kind string

// The operations.
const (
	Put    Kind = "put"
	Get    Kind = "get"
	Scan   Kind = "scan"
	Delete Kind = "delete"
	// PutBatch is seen only through Faulty.Batching and Counting.Batching, and
	// Batched only by the latter.
	PutBatch Kind = "put batch"
	Batched  Kind = "batched"
)

// Op is one call. For a scan Key is the prefix.
type Op struct {
	Kind Kind
	Key  string
	// Value is what a put writes. It is not to be changed.
	Value []byte
	// Condition is that of a put.
	Condition lock.Condition
	// With are the other writes of a batch. They are not to be changed.
	With []lock.Write
}

// Fate is what becomes of a call.
type Fate uint8

const (
	// Done: it goes through.
	Done Fate = iota
	// Refused: certainly not carried out, as by a store that cannot be reached.
	Refused
	// Lost: not carried out, and the caller cannot know. Of a read: not answered.
	Lost
	// Landed: carried out, and the caller cannot know.
	Landed
	// Later: the caller cannot know, and it is carried out at some later time, under
	// its condition as it is then: see Faulty.Land.
	Later
)

// ErrInjected is the cause in all errors of fates.
var ErrInjected = errors.New("injected")

// Faulty lets a hook decide the fate of every call to a store. It is no lock.Batcher
// itself, see Batching.
type Faulty struct {
	lock.Store
	hook func(ctx context.Context, op Op) Fate

	mu   sync.Mutex
	held []func()
}

var _ lock.Store = (*Faulty)(nil)

// NewFaulty wraps a store. The hook is called before each operation but Close, by
// many goroutines at once. It may block to hold an operation up, and may end the
// process.
func NewFaulty(s lock.Store, hook func(ctx context.Context, op Op) Fate) *Faulty {
	return &Faulty{Store: s, hook: hook}
}

// Held is the number of writes that have yet to land.
func (f *Faulty) Held() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.held)
}

// Land carries out the i-th of the writes that have yet to land, the oldest being
// 0, and reports whether there is one.
func (f *Faulty) Land(i int) bool {
	f.mu.Lock()
	if i < 0 || i >= len(f.held) {
		f.mu.Unlock()
		return false
	}
	land := f.held[i]
	f.held = slices.Delete(f.held, i, i+1)
	f.mu.Unlock()
	land()
	return true
}

// write lets a write meet its fate.
func (f *Faulty) write(ctx context.Context, op Op, run func(ctx context.Context) error) error {
	fate := f.hook(ctx, op)
	switch fate {
	case Done:
		return run(ctx)
	case Refused:
		return fmt.Errorf("%s %s: %w", op.Kind, op.Key, ErrInjected)
	case Landed:
		_ = run(ctx) // Nobody is told.
	case Later:
		f.hold(func() { _ = run(context.WithoutCancel(ctx)) })
	case Lost:
	}
	return fmt.Errorf("%s %s: %w: %w", op.Kind, op.Key, lock.ErrUnknown, ErrInjected)
}

func (f *Faulty) hold(land func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = append(f.held, land)
}

// read lets a read meet its fate.
func (f *Faulty) read(ctx context.Context, op Op) error {
	if f.hook(ctx, op) == Done {
		return nil
	}
	return fmt.Errorf("%s %s: %w", op.Kind, op.Key, ErrInjected)
}

// Put implements lock.Store.
func (f *Faulty) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	value = slices.Clone(value) // It may land when the caller has other plans for it.
	var rev lock.Revision
	err := f.write(ctx, Op{Kind: Put, Key: key, Value: value, Condition: c}, func(ctx context.Context) error {
		r, err := f.Store.Put(ctx, key, value, c)
		rev = r
		return err
	})
	if err != nil {
		return "", err
	}
	return rev, nil
}

// Get implements lock.Store.
func (f *Faulty) Get(ctx context.Context, key string) (lock.Item, error) {
	if err := f.read(ctx, Op{Kind: Get, Key: key}); err != nil {
		return lock.Item{}, err
	}
	return f.Store.Get(ctx, key)
}

// Scan implements lock.Store.
func (f *Faulty) Scan(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
	if err := f.read(ctx, Op{Kind: Scan, Key: prefix}); err != nil {
		return nil, err
	}
	return f.Store.Scan(ctx, prefix, after, limit)
}

// Delete implements lock.Store.
func (f *Faulty) Delete(ctx context.Context, key string) error {
	return f.write(ctx, Op{Kind: Delete, Key: key}, func(ctx context.Context) error { return f.Store.Delete(ctx, key) })
}
