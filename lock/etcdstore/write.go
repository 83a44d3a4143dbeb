package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/txcoord/txcoord/lock"
)

// Put writes a key under a condition and returns its new revision.
func (s *Store) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	rev, err := s.put(ctx, key, value, c)
	if err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	return rev, nil
}

func (s *Store) put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	if err := s.ready(ctx, key); err != nil {
		return "", err
	}
	if len(value) > s.maxValue {
		return "", tooLarge(len(value), s.maxValue)
	}
	cond, err := s.compare(key, c)
	if err != nil {
		return "", err
	}
	return s.guarded(ctx, key, c, func(gs guards) plan {
		return plan{
			ifs:   append(cond, gs.compare()...),
			then:  []clientv3.Op{clientv3.OpPut(s.key(key), string(value))},
			elses: gs.look(),
			size:  len(value),
		}
	})
}

func tooLarge(size, limit int) error {
	return fmt.Errorf("%d bytes, limit %d: %w", size, limit, lock.ErrTooLarge)
}

// compare is the condition in etcd's words; nothing for Always.
func (s *Store) compare(key string, c lock.Condition) ([]clientv3.Cmp, error) {
	if c.Absent() {
		return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(s.key(key)), "=", 0)}, nil
	}
	rev, ok := c.Revision()
	if !ok {
		return nil, nil
	}
	n, err := strconv.ParseInt(string(rev), 10, 64)
	if err != nil || n <= 0 {
		return nil, fmt.Errorf("revision %q is not one of this store: %w", rev, lock.ErrConflict)
	}
	return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(s.key(key)), "=", n)}, nil
}

// look reads a key's revision without its value.
func look(key string) clientv3.Op { return clientv3.OpGet(key, clientv3.WithKeysOnly()) }

// plan is one transaction.
type plan struct {
	ifs         []clientv3.Cmp
	then, elses []clientv3.Op
	size        int
	// batch: the condition of the key is in a transaction within this one, so that
	// the guard alone decides between then and elses.
	batch bool
}

// guarded commits a put whose transaction also compares the guards. A guard that
// someone deleted says nothing; then it is done without, nothing having been written.
func (s *Store) guarded(ctx context.Context, key string, c lock.Condition, with func(guards) plan) (lock.Revision, error) {
	gs := s.guards(c)
	for {
		p := with(gs)
		resp, err := s.commit(ctx, p)
		if err != nil {
			return "", err
		}
		held := resp.Succeeded
		if held && p.batch {
			held = resp.Responses[len(resp.Responses)-1].GetResponseTxn().Succeeded
		}
		if held {
			rev := resp.Header.Revision
			if _, conditional := c.Revision(); conditional || c.Absent() {
				s.mark.remember(s.key(key), rev)
			}
			return revision(rev), nil
		}
		if resp.Succeeded || len(gs) == 0 {
			return "", lock.ErrConflict
		}
		there, err := s.judge(gs, resp)
		if err != nil {
			return "", err
		}
		if len(there) == len(gs) {
			return "", lock.ErrConflict
		}
		gs = there
	}
}

// judge looks at what was read of the guards instead: they stand, some are gone, or the
// cluster went back. It returns those that stand.
func (s *Store) judge(gs guards, resp *clientv3.TxnResponse) (there guards, err error) {
	for i, g := range gs {
		kvs := resp.Responses[i].GetResponseRange().Kvs
		switch {
		case len(kvs) == 0 && g.kept:
			return nil, s.mark.fail(fmt.Errorf("%s is not there, and was written at revision %d", g.key, g.at))
		case len(kvs) == 0:
			s.mark.forget(g)
		case kvs[0].ModRevision < g.at:
			return nil, s.mark.fail(fmt.Errorf("%s stands at revision %d, and was written at %d", g.key, kvs[0].ModRevision, g.at))
		default:
			there = append(there, g)
		}
	}
	return there, nil
}

// commit sends a transaction once.
func (s *Store) commit(ctx context.Context, p plan) (*clientv3.TxnResponse, error) {
	s.wrote(p.size)
	seen := s.mark.seen()
	var resp *clientv3.TxnResponse
	err := s.request(ctx, func(ctx context.Context) (err error) {
		resp, err = s.client.Txn(ctx).If(p.ifs...).Then(p.then...).Else(p.elses...).Commit()
		return err
	})
	if err != nil {
		return nil, uncertain(err)
	}
	return resp, s.mark.observe(seen, resp.Header)
}

// Delete removes a key; a missing one is no error.
func (s *Store) Delete(ctx context.Context, key string) error {
	err := s.ready(ctx, key)
	if err == nil {
		err = s.delete(ctx, key)
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

func (s *Store) delete(ctx context.Context, key string) error {
	seen := s.mark.seen()
	var resp *clientv3.DeleteResponse
	err := s.request(ctx, func(ctx context.Context) (err error) {
		resp, err = s.client.Delete(ctx, s.key(key))
		return err
	})
	if err != nil {
		return uncertain(err)
	}
	return s.mark.observe(seen, resp.Header)
}

// request bounds a request in time, and repeats it where a token had expired: such
// a request is refused before anything else is done with it, and the client has a
// new token by then.
func (s *Store) request(ctx context.Context, send func(ctx context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	err := send(bounded)
	if errors.Is(err, rpctypes.ErrInvalidAuthToken) {
		err = send(bounded)
	}
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		// The caller's own time is not over.
		return fmt.Errorf("%w in %v", errNoAnswer, s.cfg.RequestTimeout)
	}
	return refused(s.cfg, err)
}

var errNoAnswer = errors.New("etcd gave no answer")

func revision(n int64) lock.Revision { return lock.Revision(strconv.FormatInt(n, 10)) }
