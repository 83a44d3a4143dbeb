//go:build unix

package s3obj_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/tables/objstore"
)

// meaning of an answer to a put.
type meaning string

const (
	done    meaning = "done"
	unknown meaning = "unknown"
	refused meaning = "refused"
	certain meaning = "certainly not carried out"
)

func meaningOf(err error) meaning {
	switch {
	case err == nil:
		return done
	case errors.Is(err, objstore.ErrUnknown):
		return unknown
	case errors.Is(err, objstore.ErrExists), errors.Is(err, objstore.ErrChanged):
		return refused
	default:
		return certain
	}
}

func instead(status int, code string) servers.Fate {
	return servers.Fate{Instead: servers.S3Error(status, code)}
}

// throughProxy is a new store behind a proxy.
func throughProxy(t *testing.T, s *servers.S3) (handle, *servers.HTTPFaults) {
	t.Helper()
	cfg := config(t, s)
	proxy := servers.NewHTTPFaults(t, s.Endpoint)
	cfg.Endpoint = proxy.URL
	return open(t, cfg), proxy
}

// meet lets every put from now on meet a fate, and counts them.
func meet(proxy *servers.HTTPFaults, fate servers.Fate) (sent *atomic.Int32) {
	sent = &atomic.Int32{}
	proxy.Decide(func(r servers.Request) servers.Fate {
		if r.Operation != http.MethodPut {
			return servers.Fate{}
		}
		sent.Add(1)
		return fate
	})
	return sent
}

// Whatever becomes of a put, its caller is told what is known, and it is sent once.
func TestAnswersToPuts(t *testing.T) {
	t.Parallel()
	s, proxy := throughProxy(t, servers.StartVersity(t))
	page := &servers.Reply{Status: 503, Body: "<html>upstream is gone</html>"}
	for i, c := range []struct {
		what   string
		fate   servers.Fate
		want   meaning
		landed bool
	}{
		{"passes", servers.Fate{}, done, true},
		{"sent twice on the way", servers.Fate{Twice: true}, done, true},
		{"reply lost", servers.Fate{Lost: true}, done, true},
		{"500 after landing", servers.Fate{After: servers.S3Error(500, "InternalError")}, done, true},
		{"503 after landing", servers.Fate{After: page}, done, true},
		{"409 after landing", servers.Fate{After: servers.S3Error(409, "ConditionalRequestConflict")}, done, true},
		{"500 before landing", instead(500, "InternalError"), unknown, false},
		{"slow down", instead(503, "SlowDown"), unknown, false},
		{"a page of a proxy", servers.Fate{Instead: page}, unknown, false},
		{"403 of a proxy", servers.Fate{Instead: &servers.Reply{Status: 403, Body: "<html>no</html>"}}, certain, false},
		{"no permission", instead(403, "AccessDenied"), certain, false},
		{"invalid", instead(400, "InvalidArgument"), certain, false},
		{"no bucket", instead(404, "NoSuchBucket"), certain, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			key := fmt.Sprint("k/", i)
			sent := meet(proxy, c.fate)
			err := s.PutIfAbsent(t.Context(), key, []byte("v"))
			if got := meaningOf(err); got != c.want {
				t.Errorf("put: %v is %s, want %s", err, got, c.want)
			}
			if n := sent.Load(); n != 1 && c.what != "409 after landing" {
				t.Errorf("sent %d times", n)
			}
			if _, err := s.Stat(t.Context(), key); (err == nil) != c.landed || err != nil && !errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("stat: %v, landed is %v", err, c.landed)
			}
		})
	}
}

// 409 says that nothing is settled, and is asked again; 412 is the answer.
func TestConflictIsNoRefusal(t *testing.T) {
	t.Parallel()
	s, proxy := throughProxy(t, servers.StartVersity(t))
	var puts atomic.Int32
	conflicts := func(n int32) {
		puts.Store(0)
		proxy.Decide(func(r servers.Request) servers.Fate {
			if r.Operation == http.MethodPut && puts.Add(1) <= n {
				return instead(409, "ConditionalRequestConflict")
			}
			return servers.Fate{}
		})
	}
	conflicts(2)
	if err := s.PutIfAbsent(t.Context(), "k", []byte("v")); err != nil || puts.Load() != 3 {
		t.Errorf("after two conflicts: %v, sent %d times", err, puts.Load())
	}
	conflicts(2)
	if err := s.PutIfAbsent(t.Context(), "k", []byte("v")); !errors.Is(err, objstore.ErrExists) || puts.Load() != 3 {
		t.Errorf("the key is taken: %v, sent %d times", err, puts.Load())
	}
	conflicts(1 << 20)
	if err := s.PutIfAbsent(t.Context(), "other", []byte("v")); meaningOf(err) != unknown {
		t.Errorf("nothing but conflicts: %v", err)
	}
}

// A put whose answer was lost is refused if somebody else's object is there, and its
// own if equal bytes of another put are not.
func TestLostAnswersAreSettledByTheToken(t *testing.T) {
	t.Parallel()
	s, proxy := throughProxy(t, servers.StartVersity(t))
	if err := s.PutIfAbsent(t.Context(), "k", []byte("same")); err != nil {
		t.Fatal(err)
	}
	meet(proxy, instead(500, "InternalError"))
	if err := s.PutIfAbsent(t.Context(), "k", []byte("same")); !errors.Is(err, objstore.ErrExists) {
		t.Errorf("another put's object of equal bytes: %v", err)
	}
	held, err := s.Stat(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutIf(t.Context(), "k", []byte("new"), objstore.IfETag(held.ETag)); meaningOf(err) != unknown {
		t.Errorf("a replacement that has not landed: %v", err)
	}
	meet(proxy, servers.Fate{Lost: true})
	etag, err := s.PutIf(t.Context(), "k", []byte("new"), objstore.IfETag(held.ETag))
	if now, statErr := s.Stat(t.Context(), "k"); err != nil || statErr != nil || now.ETag != etag {
		t.Errorf("a replacement whose answer was lost: %q, %v; it is %+v, %v", etag, err, now, statErr)
	}
}

// Without a way to look, an answer that was lost stays unknown, a refusal too.
func TestLostAnswersThatCannotBeSettled(t *testing.T) {
	t.Parallel()
	s, proxy := throughProxy(t, servers.StartVersity(t))
	proxy.Decide(func(r servers.Request) servers.Fate {
		if r.Operation == http.MethodPut {
			return servers.Fate{Twice: true}
		}
		return servers.Fate{Instead: &servers.Reply{Status: 403}}
	})
	if err := s.PutIfAbsent(t.Context(), "k", []byte("v")); meaningOf(err) != unknown {
		t.Errorf("got %v", err)
	}
}

// A server that cannot be reached has certainly not carried anything out, and one that
// hangs holds nobody up for longer than a request may stall.
func TestServerThatIsGoneOrHangs(t *testing.T) {
	t.Parallel()
	server := servers.StartVersity(t)
	cfg := config(t, server)
	cfg.RequestTimeout = 2 * time.Second // enough for a busy machine
	s := open(t, cfg)
	if err := s.PutIfAbsent(t.Context(), "first", nil); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	putErr := s.PutIfAbsent(t.Context(), "k", nil)
	_, _, getErr := s.Get(t.Context(), "first", objstore.Range{})
	if meaningOf(putErr) != unknown || getErr == nil || errors.Is(getErr, context.Canceled) || errors.Is(getErr, objstore.ErrNotFound) {
		t.Errorf("a server that hangs: %v, %v", putErr, getErr)
	}
	server.Resume()
	server.Kill()
	_ = s.PutIfAbsent(t.Context(), "k", nil) // It may meet a connection that was open.
	if err := s.PutIfAbsent(t.Context(), "k", nil); meaningOf(err) != certain {
		t.Errorf("a server that is gone: %v", err)
	}
}

// Reads get over what passes.
func TestReadsAreRepeated(t *testing.T) {
	t.Parallel()
	s, proxy := throughProxy(t, servers.StartVersity(t))
	if err := s.Put(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	for _, fate := range []servers.Fate{{Lost: true}, instead(500, "InternalError"), instead(503, "SlowDown"), instead(429, "TooManyRequests")} {
		var n atomic.Int32
		proxy.Decide(func(servers.Request) servers.Fate {
			if n.Add(1)%2 == 1 {
				return fate
			}
			return servers.Fate{}
		})
		if got, _, err := s.Get(t.Context(), "k", objstore.Range{}); err != nil || string(got) != "v" {
			t.Errorf("%+v: %q, %v", fate, got, err)
		}
		for e, err := range s.List(t.Context(), objstore.ListOptions{}) {
			if err != nil || e.Key != "k" {
				t.Errorf("%+v: %+v, %v", fate, e, err)
			}
		}
	}
}

// A put that is slow is overtaken by its second self, whose landing makes the first's
// refusal its own.
func TestHedgedPuts(t *testing.T) {
	t.Parallel()
	cfg := config(t, servers.StartVersity(t))
	proxy := servers.NewHTTPFaults(t, cfg.Endpoint)
	cfg.Endpoint, cfg.HedgeAfter = proxy.URL, 20*time.Millisecond
	s := open(t, cfg)
	release := make(chan struct{})
	var puts atomic.Int32
	proxy.Decide(func(r servers.Request) servers.Fate {
		if r.Operation == http.MethodPut && puts.Add(1) == 1 {
			<-release
		}
		return servers.Fate{}
	})
	err := s.PutIfAbsent(t.Context(), "k", []byte("v"))
	close(release)
	if err != nil || puts.Load() != 2 {
		t.Errorf("%v, sent %d times", err, puts.Load())
	}
	// Both are answered, the first by a loss: the second's refusal is then the put's own.
	puts.Store(0)
	both := make(chan struct{})
	proxy.Decide(func(r servers.Request) servers.Fate {
		if r.Operation != http.MethodPut {
			return servers.Fate{}
		}
		if puts.Add(1) == 2 {
			close(both)
		}
		<-both
		return servers.Fate{Lost: true}
	})
	if err := s.PutIfAbsent(t.Context(), "other", []byte("v")); err != nil || puts.Load() != 2 {
		t.Errorf("both answers lost: %v, sent %d times", err, puts.Load())
	}
	if err := s.PutIfAbsent(t.Context(), "other", []byte("v")); !errors.Is(err, objstore.ErrExists) {
		t.Errorf("a rival: %v", err)
	}
}

// The first put lands and is never answered, nor is a timeout near: the refusal of the
// second is enough to find out. A rival's object is still somebody else's.
func TestHedgedPutIsNotAnswered(t *testing.T) {
	t.Parallel()
	cfg := config(t, servers.StartVersity(t))
	proxy := servers.NewHTTPFaults(t, cfg.Endpoint)
	cfg.Endpoint, cfg.HedgeAfter, cfg.RequestTimeout = proxy.URL, 20*time.Millisecond, time.Hour
	s := open(t, cfg)
	var puts atomic.Int32
	landed, end := make(chan struct{}), make(chan struct{})
	defer close(end)
	proxy.Decide(func(r servers.Request) servers.Fate {
		if r.Operation != http.MethodPut {
			return servers.Fate{}
		}
		if puts.Add(1) == 1 {
			return servers.Fate{Done: func() { close(landed); <-end }}
		}
		<-landed
		return servers.Fate{}
	})
	if err := s.PutIfAbsent(t.Context(), "k", []byte("v")); err != nil || puts.Load() != 2 {
		t.Errorf("%v, sent %d times", err, puts.Load())
	}
	if err := s.PutIfAbsent(t.Context(), "k", []byte("v")); !errors.Is(err, objstore.ErrExists) {
		t.Errorf("a rival: %v", err)
	}
}

// No more requests are in flight than allowed, and those that wait can be given up.
func TestRequestsAreLimited(t *testing.T) {
	t.Parallel()
	cfg := config(t, servers.StartVersity(t))
	proxy := servers.NewHTTPFaults(t, cfg.Endpoint)
	cfg.Endpoint, cfg.MaxRequests = proxy.URL, 2
	s := open(t, cfg)
	var now, most atomic.Int32
	entered, release := make(chan struct{}, 8), make(chan struct{})
	proxy.Decide(func(servers.Request) servers.Fate {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		entered <- struct{}{}
		<-release
		now.Add(-1)
		return servers.Fate{}
	})
	errs := make(chan error, 6)
	for i := range 6 {
		go func() { errs <- s.Put(t.Context(), fmt.Sprint(i), bytes.Repeat([]byte("x"), 100)) }()
	}
	<-entered
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Put(ctx, "given up", nil); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, objstore.ErrUnknown) {
		t.Errorf("a put that never left: %v", err)
	}
	close(release)
	for range 6 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if most.Load() > 2 {
		t.Errorf("%d requests at once", most.Load())
	}
}
