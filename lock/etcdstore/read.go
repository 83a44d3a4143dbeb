package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/txcoord/txcoord/lock"
)

// What Scan reads at once when it is asked for no number, and, so that large values
// do not pile up, about how many bytes whatever it is asked for. etcd pages by
// number alone, so a page begins with few keys and grows with what they hold.
const (
	pageKeys  = 1000
	firstKeys = 64
	pageBytes = 4 << 20
)

// Get reads a key.
func (s *Store) Get(ctx context.Context, key string) (lock.Item, error) {
	item, err := s.get(ctx, key)
	if err != nil {
		return lock.Item{}, fmt.Errorf("get %s: %w", key, err)
	}
	return item, nil
}

func (s *Store) get(ctx context.Context, key string) (lock.Item, error) {
	if err := s.ready(ctx, key); err != nil {
		return lock.Item{}, err
	}
	resp, err := s.read(ctx, s.key(key))
	if err != nil {
		return lock.Item{}, err
	}
	if len(resp.Kvs) == 0 {
		return lock.Item{}, lock.ErrNotFound
	}
	return s.item(resp.Kvs[0]), nil
}

func (s *Store) item(kv *mvccpb.KeyValue) lock.Item {
	return lock.Item{Key: strings.TrimPrefix(string(kv.Key), s.cfg.Prefix), Value: kv.Value, Revision: revision(kv.ModRevision)}
}

// read asks until it is answered, or the time of a request is over: reading again
// does no harm, and an election is over in a second or two. Each try has a part of
// the time only, since the next one goes to another member: one that hangs is found
// out by its connection much later.
func (s *Store) read(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	seen := s.mark.seen()
	var resp *clientv3.GetResponse
	err := s.request(ctx, func(ctx context.Context) (err error) {
		for wait := 25 * time.Millisecond; ; wait = min(2*wait, 400*time.Millisecond) {
			resp, err = s.readOnce(ctx, key, opts...)
			if !passing(err) {
				return err
			}
			select {
			case <-ctx.Done():
				return errors.Join(err, ctx.Err())
			case <-time.After(wait):
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return resp, s.mark.observe(seen, resp.Header)
}

func (s *Store) readOnce(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout/3)
	defer cancel()
	return s.client.Get(ctx, key, opts...)
}

// passing errors of a read are over when a leader is found or a connection made, or
// another member asked.
func passing(err error) bool {
	code := status.Code(err)
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		code = known.Code()
	}
	return code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled || errors.Is(err, context.DeadlineExceeded)
}

// Scan reads keys with the prefix that come after a key, in byte order.
func (s *Store) Scan(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
	page, err := s.scan(ctx, prefix, after, limit)
	if err != nil {
		return nil, fmt.Errorf("scan %s: %w", prefix, err)
	}
	return page, nil
}

func (s *Store) scan(ctx context.Context, prefix, after string, limit int) (page []lock.Item, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if limit <= 0 {
		limit = pageKeys
	}
	from, end := s.bounds(prefix, after)
	ask := firstKeys
	for size := 0; len(page) < limit && size < pageBytes; {
		ask = min(ask, limit-len(page))
		resp, err := s.read(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(int64(ask)))
		if err != nil {
			return nil, err
		}
		for _, kv := range resp.Kvs {
			page = append(page, s.item(kv))
			size += len(kv.Value)
			from = string(kv.Key) + "\x00"
		}
		if !resp.More {
			break
		}
		// As many as fit the rest of the page, if they are like those so far.
		ask = max(1, min(pageKeys, (pageBytes-size)/(size/len(page)+1)))
	}
	return page, nil
}

// bounds of a scan in etcd's words: from inclusive, to the end exclusive, where a
// zero byte means that there is none.
func (s *Store) bounds(prefix, after string) (from, end string) {
	from, end = s.key(prefix), clientv3.GetPrefixRangeEnd(s.key(prefix))
	if after != "" {
		from = max(from, s.key(after)+"\x00")
	}
	if from == "" {
		from = "\x00"
	}
	if end != "\x00" && from >= end {
		end = from // Nothing: etcd takes an end before the start for no range.
	}
	return from, end
}
