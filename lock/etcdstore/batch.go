package etcdstore

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/txcoord/txcoord/lock"
)

// PutBatch writes all of with and, under its condition, the key in one transaction.
// What does not fit one is written before, in parallel.
func (s *Store) PutBatch(ctx context.Context, key string, value []byte, c lock.Condition, with []lock.Write) (lock.Revision, error) {
	rev, err := s.putBatch(ctx, key, value, c, with)
	if err != nil {
		return "", fmt.Errorf("put %s and %d beside it: %w", key, len(with), err)
	}
	return rev, nil
}

func (s *Store) putBatch(ctx context.Context, key string, value []byte, c lock.Condition, with []lock.Write) (lock.Revision, error) {
	if err := s.ready(ctx, key); err != nil {
		return "", err
	}
	with, err := s.distinct(ctx, key, with)
	if err != nil {
		return "", err
	}
	if len(value) > s.maxValue {
		return "", tooLarge(len(value), s.maxValue)
	}
	cond, err := s.compare(key, c)
	if err != nil {
		return "", err
	}
	before, along := s.split(len(value)+len(key), with)
	if err := s.putAll(ctx, before); err != nil {
		return "", err
	}
	puts, size := s.puts(along)
	inner := clientv3.OpTxn(cond, []clientv3.Op{clientv3.OpPut(s.key(key), string(value))}, nil)
	return s.guarded(ctx, key, c, func(gs guards) plan {
		return plan{ifs: gs.compare(), then: append(puts[:len(puts):len(puts)], inner), elses: gs.look(), size: size + len(value), batch: true}
	})
}

// distinct checks the writes and leaves the last of those to one key: etcd refuses
// a transaction that writes a key twice.
func (s *Store) distinct(ctx context.Context, key string, with []lock.Write) ([]lock.Write, error) {
	last := make(map[string]int, len(with))
	for i, w := range with {
		if w.Key == key {
			return nil, fmt.Errorf("%s stands beside itself", key)
		}
		if err := s.ready(ctx, w.Key); err != nil {
			return nil, err
		}
		if len(w.Value) > s.maxValue {
			return nil, fmt.Errorf("%s: %w", w.Key, tooLarge(len(w.Value), s.maxValue))
		}
		last[w.Key] = i
	}
	var kept []lock.Write
	for i, w := range with {
		if last[w.Key] == i {
			kept = append(kept, w)
		}
	}
	return kept, nil
}

// split says what goes into the transaction of the conditional put, which takes up
// so many bytes, and what has to go into others: groups that fit one each.
func (s *Store) split(taken int, with []lock.Write) (before [][]lock.Write, along []lock.Write) {
	// The transaction within counts on top of the one around it: three for the put
	// with its comparison, and one to spare.
	ops, room := s.cfg.MaxOps-4, s.maxValue
	used := taken
	for _, w := range with {
		size := s.size(w)
		if len(along) == ops || used+size > room {
			if len(along) > 0 {
				before = append(before, along)
			}
			along, used = nil, taken
		}
		if used+size > room {
			before = append(before, []lock.Write{w})
			continue
		}
		along = append(along, w)
		used += size
	}
	return before, along
}

// size is what a write takes of a request, with what stands around it.
func (s *Store) size(w lock.Write) int {
	return len(s.cfg.Prefix) + len(w.Key) + len(w.Value) + 32
}

func (s *Store) puts(with []lock.Write) (ops []clientv3.Op, size int) {
	for _, w := range with {
		ops = append(ops, clientv3.OpPut(s.key(w.Key), string(w.Value)))
		size += len(w.Value)
	}
	return ops, size
}

// putAll makes groups of writes durable.
func (s *Store) putAll(ctx context.Context, groups [][]lock.Write) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(4)
	for _, group := range groups {
		all.Go(func() error {
			puts, size := s.puts(group)
			_, err := s.commit(ctx, plan{then: puts, size: size})
			return err
		})
	}
	return all.Wait()
}
