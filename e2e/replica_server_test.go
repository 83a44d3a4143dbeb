package e2e_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/rpc"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/dynamostore"
	"github.com/txcoord/txcoord/lock/etcdstore"
	"github.com/txcoord/txcoord/lock/objectstore"
	"github.com/txcoord/txcoord/tables/objstore/s3obj"
)

// requestTimeout is after how long a replica takes a request for lost. Proxies lose some
// for good, so it is short; on a machine with more to do than it can, one that were
// shorter would give everything up shortly before it is done, and ask for it anew.
const requestTimeout = 3 * time.Second

// sharedStore is a store that several servers share: an etcd cluster, a table, or a
// bucket.
type sharedStore struct {
	Endpoints                        []string
	Table, Bucket                    string
	Region, Endpoint, Access, Secret string
	// Timeout of a request; requestTimeout if it is zero.
	Timeout time.Duration
}

func (s *sharedStore) open(ctx context.Context) (lock.Store, error) {
	switch {
	case len(s.Endpoints) > 0:
		return etcdstore.Open(ctx, etcdstore.Config{Endpoints: s.Endpoints, Prefix: "storm/", RequestTimeout: cmp.Or(s.Timeout, requestTimeout)})
	case s.Table != "":
		return dynamostore.Open(ctx, s.dynamo())
	}
	bucket, err := s3obj.New(ctx, s3obj.Config{
		Bucket: s.Bucket, Region: s.Region, Endpoint: s.Endpoint, AccessKey: s.Access, SecretKey: s.Secret, RequestTimeout: cmp.Or(s.Timeout, requestTimeout),
	})
	if err != nil {
		return nil, err
	}
	return objectstore.Open(ctx, objectstore.Config{Objects: bucket, Prefix: "storm", RequestTimeout: cmp.Or(s.Timeout, requestTimeout)})
}

func (s *sharedStore) dynamo() dynamostore.Config {
	return dynamostore.Config{
		Table: s.Table, Region: s.Region, Endpoint: s.Endpoint, AccessKey: s.Access, SecretKey: s.Secret, RequestTimeout: cmp.Or(s.Timeout, requestTimeout),
	}
}

// replica is one server of several; its catalog is opened anew when the journal has
// gone past it.
type replica struct {
	open func(context.Context) (*coordinator.Catalog, error)

	mu      sync.Mutex
	catalog *coordinator.Catalog
}

func (r *replica) current() *coordinator.Catalog {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.catalog
}

func (r *replica) set(c *coordinator.Catalog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catalog = c
}

func (r *replica) find(string) (rpc.Catalog, error) {
	if c := r.current(); c != nil {
		return c, nil
	}
	return nil, &coordinator.Error{Reason: coordinator.ReplicaBehind, Message: "starts again", RetryAfter: 100 * time.Millisecond}
}

// lapped is what a server prints when the journal has gone past it.
const lapped = "LAPPED"

func (r *replica) keepUp(ctx context.Context) error {
	for {
		c := r.current()
		select {
		case <-c.Behind():
		case <-ctx.Done():
			return nil
		}
		fmt.Fprintln(os.Stderr, lapped)
		r.set(nil)
		err := c.Close(ctx)
		if err == nil {
			c, err = r.open(ctx)
		}
		if err != nil {
			return err
		}
		r.set(c)
	}
}

// serveReplica serves from a shared store until ctx ends, and then in order.
func serveReplica(ctx context.Context, c serverConfig) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	g, err := newGate(c)
	if err != nil {
		return err
	}
	store, err := c.Shared.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	r := &replica{open: func(ctx context.Context) (*coordinator.Catalog, error) {
		return openCatalog(ctx, c, store, g, l.Addr().String())
	}}
	if r.catalog, err = r.open(ctx); err != nil {
		return err
	}
	s, err := rpc.NewServer(rpc.Config{Find: r.find, Version: "e2e", Dial: func(address string) (*grpc.ClientConn, error) {
		return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}})
	if err != nil {
		return err
	}
	up, down := context.WithCancel(ctx)
	kept := make(chan error, 1)
	go func() {
		defer down()
		kept <- r.keepUp(up)
	}()
	go func() {
		<-up.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		s.Stop(grace)
	}()
	fmt.Println(l.Addr())
	err = s.Serve(l)
	down()
	return errors.Join(err, <-kept, r.end(context.WithoutCancel(ctx)))
}

func (r *replica) end(ctx context.Context) error {
	c := r.current()
	if c == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_ = c.Drain(ctx) // another replica goes on
	return c.Close(context.WithoutCancel(ctx))
}
