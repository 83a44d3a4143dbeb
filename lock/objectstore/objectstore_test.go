//go:build unix

package objectstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/e2e/servers/rivals"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/locktest"
	"github.com/txcoord/txcoord/lock/objectstore"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/azobj"
	"github.com/txcoord/txcoord/tables/objstore/gcsobj"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/tables/objstore/s3obj"
)

func TestMain(m *testing.M) {
	if rivals.Main(func(ctx context.Context, where string) (lock.Store, error) {
		var p place
		if err := json.Unmarshal([]byte(where), &p); err != nil {
			return nil, err
		}
		bucket, err := p.open(ctx)
		if err != nil {
			return nil, err
		}
		return objectstore.Open(ctx, objectstore.Config{Objects: bucket})
	}) {
		return
	}
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		_ = os.Setenv(name, os.DevNull) // Only a bad name is an error.
	}
	goleak.VerifyTestMain(m)
}

const maxValue = 100_000

// handle is a store that knows where it is, so that it can be opened again.
type handle struct {
	*objectstore.Store
	cfg objectstore.Config
}

func open(t locktest.T, cfg objectstore.Config) lock.Store {
	t.Helper()
	cfg.MaxValue = maxValue
	s, err := objectstore.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return handle{s, cfg}
}

// suite is for journals in the buckets that fresh makes.
func suite(fresh func(t locktest.T) objstore.Conditional) locktest.Config {
	return locktest.Config{
		New: func(t locktest.T) lock.Store {
			return open(t, objectstore.Config{Objects: fresh(t), Prefix: "a/journal"})
		},
		Client: func(t locktest.T, s lock.Store) lock.Store { return open(t, s.(handle).cfg) },
		Reopen: func(t locktest.T, s lock.Store) lock.Store {
			if err := s.Close(); err != nil {
				t.Fatalf("%v", err)
			}
			return open(t, s.(handle).cfg)
		},
		MaxValue: maxValue,
		Without: map[locktest.Capability]string{
			locktest.Batching: "an object store writes one object at a time",
		},
	}
}

func TestConformanceInMemory(t *testing.T) {
	c := suite(func(locktest.T) objstore.Conditional { return memobj.New() })
	c.Without[locktest.LosingReplies] = "memory loses none; the S3 API does"
	locktest.Run(t, c)
}

func bucket(t locktest.T, cfg s3obj.Config) *s3obj.Store {
	t.Helper()
	s, err := s3obj.New(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return s
}

func config(t testing.TB, s *servers.S3) s3obj.Config {
	return s3obj.Config{Bucket: s.Bucket(t), Region: s.Region, Endpoint: s.Endpoint, AccessKey: s.AccessKey, SecretKey: s.SecretKey}
}

func TestConformanceOnS3(t *testing.T) {
	t.Parallel()
	s := servers.StartVersity(t)
	c := suite(func(lt locktest.T) objstore.Conditional { return bucket(lt, config(t, s)) })
	// Every reply about the put is lost, those to the look for what became of it, too.
	c.Lossy = func(lt locktest.T) (lock.Store, func()) {
		cfg := config(t, s)
		proxy := servers.NewHTTPFaults(t, s.Endpoint)
		cfg.Endpoint = proxy.URL
		store := open(lt, objectstore.Config{Objects: bucket(lt, cfg)})
		var armed, looking atomic.Bool
		proxy.Decide(func(r servers.Request) servers.Fate {
			switch r.Operation {
			case http.MethodPut, http.MethodDelete:
				looking.Store(armed.Swap(false))
				return servers.Fate{Lost: looking.Load()}
			case http.MethodHead:
				return servers.Fate{Lost: looking.Load()}
			}
			return servers.Fate{}
		})
		return store, func() { armed.Store(true) }
	}
	runAll(t, c)
}

// runAll is locktest.Run without the slow cases.
func runAll(t *testing.T, c locktest.Config) {
	for _, kase := range locktest.Cases() {
		if slices.ContainsFunc(kase.Needs, func(need locktest.Capability) bool { return c.Without[need] != "" }) {
			continue
		}
		t.Run(kase.Name, func(t *testing.T) {
			t.Parallel()
			if slices.Contains(slow, kase.Name) && !*full {
				t.Skip("runs with -full: the servers read everything for each page")
			}
			kase.Run(t, c)
		})
	}
}

func TestConformanceOnGCS(t *testing.T) {
	t.Parallel()
	g := servers.StartGCS(t)
	c := suite(func(lt locktest.T) objstore.Conditional {
		s, err := gcsobj.New(lt.Context(), gcsobj.Config{Bucket: g.Bucket(t), Endpoint: g.Endpoint, Anonymous: true})
		return closing(lt, s, err)
	})
	c.Without[locktest.LosingReplies] = "the suite on S3 loses them; what becomes of a put is settled in one place for all"
	runAll(t, c)
}

func TestConformanceOnAzure(t *testing.T) {
	t.Parallel()
	a := servers.StartAzure(t)
	c := suite(func(lt locktest.T) objstore.Conditional {
		s, err := azobj.New(lt.Context(), azobj.Config{Account: a.Account, Container: a.Container(t), Endpoint: a.Endpoint, Key: a.Key})
		return closing(lt, s, err)
	})
	c.Without[locktest.LosingReplies] = "the suite on S3 loses them; what becomes of a put is settled in one place for all"
	runAll(t, c)
}

// closing is a bucket that is closed with the test.
func closing(t locktest.T, s interface {
	objstore.Conditional
	Close() error
}, err error,
) objstore.Conditional {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return s
}

var full = flag.Bool("full", false, "run the slow cases too")

// slow are cases with many pages, which memory and the bucket's own suite show as well.
var slow = []string{"ScanMissesNothing", "ScanIsOrdered"}

// place is a bucket that other processes can find. One field is set.
type place struct {
	S3    *s3obj.Config  `json:",omitempty"`
	GCS   *gcsobj.Config `json:",omitempty"`
	Azure *azobj.Config  `json:",omitempty"`
}

func (p place) open(ctx context.Context) (objects interface {
	objstore.Conditional
	Close() error
}, err error,
) {
	switch {
	case p.GCS != nil:
		return gcsobj.New(ctx, *p.GCS)
	case p.Azure != nil:
		return azobj.New(ctx, *p.Azure)
	}
	return s3obj.New(ctx, *p.S3)
}

func TestProcessesRace(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(*testing.T) place{
		"S3": func(t *testing.T) place {
			cfg := config(t, servers.StartVersity(t))
			return place{S3: &cfg}
		},
		"GCS": func(t *testing.T) place {
			g := servers.StartGCS(t)
			return place{GCS: &gcsobj.Config{Bucket: g.Bucket(t), Endpoint: g.Endpoint, Anonymous: true}}
		},
		"Azure": func(t *testing.T) place {
			a := servers.StartAzure(t)
			return place{Azure: &azobj.Config{Account: a.Account, Container: a.Container(t), Endpoint: a.Endpoint, Key: a.Key}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := at(t)
			where, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			objects, err := p.open(t.Context())
			store := open(t, objectstore.Config{Objects: closing(t, objects, err)})
			rivals.Race(t, store, string(where), rivals.Config{Processes: 4, Writers: 4, Keys: 25, Increments: 3})
		})
	}
}

func TestProbe(t *testing.T) {
	if err := lock.Probe(t.Context(), open(t, objectstore.Config{Objects: memobj.New()})); err != nil {
		t.Error(err)
	}
}

// What is not a journal of this format is left alone.
func TestForeignObjectsAreRefused(t *testing.T) {
	objects := memobj.New()
	ctx := t.Context()
	if err := objects.Put(ctx, "j/layout.json", []byte(`{"format":2}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := objectstore.Open(ctx, objectstore.Config{Objects: objects, Prefix: "j"}); !errors.Is(err, lock.ErrUnfit) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("a newer format: %v", err)
	}
	if _, err := objectstore.Open(ctx, objectstore.Config{}); !errors.Is(err, lock.ErrMisconfigured) {
		t.Errorf("no bucket: %v", err)
	}
	s := open(t, objectstore.Config{Objects: objects, Prefix: "mine"})
	if err := objects.Put(ctx, "mine/items/k", []byte("somebody's")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, "k"); err == nil || !strings.Contains(err.Error(), "prefix of its own") {
		t.Errorf("an object of somebody else's: %v", err)
	}
	if err := objects.Put(ctx, "mine/items/a/b", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Scan(ctx, "", "", 0); err == nil || !strings.Contains(err.Error(), "prefix of its own") {
		t.Errorf("a name of somebody else's: %v", err)
	}
}

// unknowing is a bucket that never knows whether a put has landed.
func TestUnknownStaysUnknown(t *testing.T) {
	s := open(t, objectstore.Config{Objects: unknowing{memobj.New()}})
	if _, err := s.Put(t.Context(), "k", nil, lock.IfAbsent()); !errors.Is(err, lock.ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

type unknowing struct{ objstore.Conditional }

func (u unknowing) PutIf(context.Context, string, []byte, objstore.Condition) (string, error) {
	return "", errors.Join(objstore.ErrUnknown, objtest.ErrInjected)
}

// mute gives no answer once it is open.
type mute struct{ objstore.Conditional }

func (mute) PutIf(ctx context.Context, _ string, _ []byte, _ objstore.Condition) (string, error) {
	<-ctx.Done()
	return "", fmt.Errorf("%w: %w", objstore.ErrUnknown, ctx.Err())
}

// An operation that has no answer in its own time says that, and not that its caller's
// deadline has passed.
func TestNoAnswerIsTold(t *testing.T) {
	s, err := objectstore.Open(t.Context(), objectstore.Config{Objects: mute{memobj.New()}, RequestTimeout: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Put(t.Context(), "k", []byte("v"), lock.Always())
	if !errors.Is(err, lock.ErrUnknown) || !errors.Is(err, objstore.ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
