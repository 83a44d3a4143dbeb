package objtest

import (
	"context"
	"errors"
	"iter"

	"github.com/txcoord/txcoord/tables/objstore"
)

// Kind is an operation of a store.
type Kind string

// The operations.
const (
	Get         Kind = "get"
	Stat        Kind = "stat"
	PutIfAbsent Kind = "put-if-absent"
	Put         Kind = "put"
	List        Kind = "list"
	Delete      Kind = "delete"
)

// Op is one call. For a listing Key is the prefix.
type Op struct {
	Kind Kind
	Key  string
	// Data is what a put writes. It is not to be changed.
	Data []byte
}

// Fate is what becomes of a call: whether the store under the wrapper gets it, and
// what the caller is told instead of the store's answer.
type Fate struct {
	Apply bool
	Err   error
}

// ErrInjected is the cause in all errors of the fates below.
var ErrInjected = errors.New("injected")

// Done lets a call through.
func Done() Fate { return Fate{Apply: true} }

// Refused: certainly not carried out, as by a store that cannot be reached.
func Refused() Fate { return Fate{Err: ErrInjected} }

// Lost: not carried out, and the caller cannot know.
func Lost() Fate { return Fate{Err: unknown} }

// Landed: carried out, and the caller cannot know.
func Landed() Fate { return Fate{Apply: true, Err: unknown} }

var unknown = errors.Join(objstore.ErrUnknown, ErrInjected)

// Faulty lets a hook decide the fate of every call to a store.
type Faulty struct {
	// Store is the store underneath.
	Store objstore.Store
	// Hook is called before each operation, by many goroutines at once. It may block
	// to hold an operation up, and may end the process.
	Hook func(ctx context.Context, op Op) Fate
}

var _ objstore.Store = Faulty{}

// decide runs an operation if it is to be run.
func (f Faulty) decide(ctx context.Context, op Op, run func() error) error {
	fate := f.Hook(ctx, op)
	if !fate.Apply {
		return fate.Err
	}
	if err := run(); fate.Err == nil {
		return err
	}
	return fate.Err
}

// Get implements objstore.Store.
func (f Faulty) Get(ctx context.Context, key string, r objstore.Range) (data []byte, info objstore.Info, err error) {
	err = f.decide(ctx, Op{Kind: Get, Key: key}, func() error {
		data, info, err = f.Store.Get(ctx, key, r)
		return err
	})
	if err != nil {
		return nil, objstore.Info{}, err
	}
	return data, info, nil
}

// Stat implements objstore.Store.
func (f Faulty) Stat(ctx context.Context, key string) (info objstore.Info, err error) {
	err = f.decide(ctx, Op{Kind: Stat, Key: key}, func() error {
		info, err = f.Store.Stat(ctx, key)
		return err
	})
	if err != nil {
		return objstore.Info{}, err
	}
	return info, nil
}

// PutIfAbsent implements objstore.Store.
func (f Faulty) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return f.decide(ctx, Op{PutIfAbsent, key, data}, func() error { return f.Store.PutIfAbsent(ctx, key, data) })
}

// Put implements objstore.Store.
func (f Faulty) Put(ctx context.Context, key string, data []byte) error {
	return f.decide(ctx, Op{Put, key, data}, func() error { return f.Store.Put(ctx, key, data) })
}

// Delete implements objstore.Store.
func (f Faulty) Delete(ctx context.Context, key string) error {
	return f.decide(ctx, Op{Kind: Delete, Key: key}, func() error { return f.Store.Delete(ctx, key) })
}

// List implements objstore.Store. An error of the fate ends the sequence: at its
// begin, or, if the call is applied, behind its last entry.
func (f Faulty) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		fate := f.Hook(ctx, Op{Kind: List, Key: o.Prefix})
		if fate.Apply {
			for e, err := range f.Store.List(ctx, o) {
				if !yield(e, err) {
					return
				}
			}
		}
		if fate.Err != nil {
			yield(objstore.Entry{}, fate.Err)
		}
	}
}
