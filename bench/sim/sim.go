// Package sim makes stores slow, as those behind a network are: each request takes a
// time of its own, drawn from a log-normal distribution. What is measured over them is
// mostly waiting, so that the noise of a shared machine hardly matters. An object
// store can also be made to answer 503 to everything.
package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/remote"
)

// Latency is how long requests take: half of them at most P50, and 99 of 100 at most P99.
type Latency struct{ P50, P99 time.Duration }

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263478740408408

// Draw is the time of one request.
func (l Latency) Draw() time.Duration {
	if l.P50 <= 0 {
		return 0
	}
	sigma := 0.0
	if l.P99 > l.P50 {
		sigma = math.Log(float64(l.P99)/float64(l.P50)) / z99
	}
	return time.Duration(float64(l.P50) * math.Exp(sigma*rand.NormFloat64()))
}

// wait takes the time of one request.
func (l Latency) wait(ctx context.Context) error {
	t := time.NewTimer(l.Draw())
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Profile is the times of the requests to an object store and to a key-value store.
type Profile struct{ Put, Get, Key Latency }

// S3 is what a general purpose bucket of S3 takes, and DynamoDB in the same region.
func S3() Profile {
	return Profile{
		Put: Latency{60 * time.Millisecond, 200 * time.Millisecond},
		Get: Latency{20 * time.Millisecond, 70 * time.Millisecond},
		Key: Latency{8 * time.Millisecond, 20 * time.Millisecond},
	}
}

// ErrUnavailable is what an object store answers that is out.
var ErrUnavailable = errors.New("503 Slow Down")

// Objects is an object store that takes its time. A put whose context ends is unknown,
// and lands all the same.
type Objects struct {
	store   objstore.Store
	profile Profile
	out     atomic.Bool
	hedge   time.Duration
	twice   func(key string)
}

var _ objstore.Store = (*Objects)(nil)

// NewObjects makes a store slow.
func NewObjects(s objstore.Store, p Profile) *Objects { return &Objects{store: s, profile: p} }

// Hedge has each put if absent sent once more if it is not answered by then, as stores
// behind a network do that are told to; twice is told of each time. Call it first.
func (o *Objects) Hedge(after time.Duration, twice func(key string)) { o.hedge, o.twice = after, twice }

// Out makes every request fail from now on, or no more.
func (o *Objects) Out(out bool) { o.out.Store(out) }

func (o *Objects) ask(ctx context.Context, l Latency) error {
	if err := l.wait(ctx); err != nil {
		return err
	}
	if o.out.Load() {
		return ErrUnavailable
	}
	return nil
}

// Get implements objstore.Store.
func (o *Objects) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	if err := o.ask(ctx, o.profile.Get); err != nil {
		return nil, objstore.Info{}, fmt.Errorf("get %s: %w", key, err)
	}
	return o.store.Get(ctx, key, r)
}

// Stat implements objstore.Store.
func (o *Objects) Stat(ctx context.Context, key string) (objstore.Info, error) {
	if err := o.ask(ctx, o.profile.Get); err != nil {
		return objstore.Info{}, fmt.Errorf("stat %s: %w", key, err)
	}
	return o.store.Stat(ctx, key)
}

// write carries a write out when half of its time is over, and answers after the rest.
func (o *Objects) write(ctx context.Context, key string, write func(ctx context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	answered := make(chan error, 1)
	go func() {
		half := o.profile.Put.Draw() / 2
		time.Sleep(half)
		err := ErrUnavailable
		if !o.out.Load() {
			err = write(context.WithoutCancel(ctx))
		}
		time.Sleep(half)
		answered <- err
	}()
	select {
	case err := <-answered:
		if errors.Is(err, ErrUnavailable) {
			return fmt.Errorf("put %s: %w: %w", key, objstore.ErrUnknown, err)
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("put %s: %w: %w", key, objstore.ErrUnknown, ctx.Err())
	}
}

// PutIfAbsent implements objstore.Store.
func (o *Objects) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	var sent atomic.Int32
	var ours atomic.Bool
	data = bytes.Clone(data) // what lands late is read after the answer
	send := func(ctx context.Context) remote.Sent {
		if sent.Add(1) > 1 {
			o.twice(key)
		}
		err := o.write(ctx, key, func(ctx context.Context) error {
			err := o.store.PutIfAbsent(ctx, key, data)
			if err == nil {
				ours.Store(true)
			}
			return err
		})
		return remote.Sent{Verdict: verdict(err), Err: err}
	}
	landed := func(ctx context.Context) (string, bool) { return "", o.ask(ctx, o.profile.Get) == nil && ours.Load() }
	return remote.Hedged(ctx, o.hedge, send, landed).Err
}

func verdict(err error) remote.Verdict {
	switch {
	case errors.Is(err, objstore.ErrExists):
		return remote.Refused
	case errors.Is(err, objstore.ErrUnknown):
		return remote.Unknown
	}
	return remote.Certain
}

// Put implements objstore.Store.
func (o *Objects) Put(ctx context.Context, key string, data []byte) error {
	return o.write(ctx, key, func(ctx context.Context) error { return o.store.Put(ctx, key, data) })
}

// Delete implements objstore.Store.
func (o *Objects) Delete(ctx context.Context, key string) error {
	return o.write(ctx, key, func(ctx context.Context) error { return o.store.Delete(ctx, key) })
}

// listPage is how many entries a request lists.
const listPage = 1000

// List implements objstore.Store.
func (o *Objects) List(ctx context.Context, opts objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		if err := o.ask(ctx, o.profile.Get); err != nil {
			yield(objstore.Entry{}, fmt.Errorf("list %s: %w", opts.Prefix, err))
			return
		}
		n := 0
		for e, err := range o.store.List(ctx, opts) {
			if n++; err == nil && n%listPage == 0 {
				err = o.ask(ctx, o.profile.Get)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Keys makes a key-value store slow. It writes one key per request, as DynamoDB does.
func Keys(s lock.Store, l Latency) lock.Store { return keys{s, l} }

type keys struct {
	store lock.Store
	Latency
}

// Put implements lock.Store.
func (k keys) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	if err := k.wait(ctx); err != nil {
		return "", err // It is not carried out.
	}
	return k.store.Put(ctx, key, value, c)
}

// Get implements lock.Store.
func (k keys) Get(ctx context.Context, key string) (lock.Item, error) {
	if err := k.wait(ctx); err != nil {
		return lock.Item{}, err
	}
	return k.store.Get(ctx, key)
}

// Scan implements lock.Store.
func (k keys) Scan(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
	if err := k.wait(ctx); err != nil {
		return nil, err
	}
	return k.store.Scan(ctx, prefix, after, limit)
}

// Delete implements lock.Store.
func (k keys) Delete(ctx context.Context, key string) error {
	if err := k.wait(ctx); err != nil {
		return err
	}
	return k.store.Delete(ctx, key)
}

// Close implements lock.Store.
func (k keys) Close() error { return k.store.Close() }

// KeysAlong makes a key-value store slow that takes other keys along with one that has a
// condition, in one request and its time, as etcd does.
func KeysAlong(s Batching, l Latency) lock.Store { return keysAlong{keys{s, l}, s} }

// Batching is a store that can do that.
type Batching interface {
	lock.Store
	lock.Batcher
}

type keysAlong struct {
	keys
	batches lock.Batcher
}

// PutBatch implements lock.Batcher.
func (k keysAlong) PutBatch(ctx context.Context, key string, value []byte, c lock.Condition, with []lock.Write) (lock.Revision, error) {
	if err := k.wait(ctx); err != nil {
		return "", err // It is not carried out.
	}
	return k.batches.PutBatch(ctx, key, value, c, with)
}
