//go:build unix

package dynamostore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/dynamostore"
)

// meaning of an answer to a write.
type meaning string

const (
	done     meaning = "done"
	unknown  meaning = "unknown"
	refused  meaning = "refused"
	tooLarge meaning = "too large"
	certain  meaning = "certainly not carried out"
)

func meaningOf(err error) meaning {
	switch {
	case err == nil:
		return done
	case errors.Is(err, lock.ErrUnknown):
		return unknown
	case errors.Is(err, lock.ErrConflict):
		return refused
	case errors.Is(err, lock.ErrTooLarge):
		return tooLarge
	default:
		return certain
	}
}

func instead(status int, name, message string) servers.Fate {
	return servers.Fate{Instead: servers.DynamoError(status, name, message)}
}

// quick is how long requests may take where one is to take too long: enough for a
// server on a busy machine.
const quick = 2 * time.Second

// throughProxy is a new store behind a proxy. Its requests have the time that a busy
// machine needs.
func throughProxy(t *testing.T, s *servers.Dynamo) (handle, *servers.HTTPFaults) {
	t.Helper()
	cfg := config(s)
	openNew(t, cfg)
	proxy := servers.NewHTTPFaults(t, s.Endpoint)
	cfg.Endpoint = proxy.URL
	return open(t, cfg), proxy
}

// quickly is the store again, with requests that may be quick at most. Opening it takes
// many requests, of which a busy machine may hold one up: not each time.
func quickly(t *testing.T, s handle) handle {
	t.Helper()
	s.cfg.RequestTimeout = quick
	for range 10 {
		again, err := dynamostore.Open(t.Context(), s.cfg)
		if err == nil {
			t.Cleanup(func() {
				if err := again.Close(); err != nil {
					t.Error(err)
				}
			})
			return handle{again, s.cfg}
		}
		t.Log(err)
	}
	t.Fatal("it does not open")
	return handle{}
}

// meet lets every write from now on meet a fate, and counts them.
func meet(proxy *servers.HTTPFaults, fate servers.Fate) (sent *atomic.Int32) {
	sent = &atomic.Int32{}
	proxy.Decide(func(r servers.Request) servers.Fate {
		if !isWrite(r) {
			return servers.Fate{}
		}
		sent.Add(1)
		return fate
	})
	return sent
}

// Whatever becomes of a write, its caller is told what is known, and it is sent once.
func TestAnswersToWrites(t *testing.T) {
	t.Parallel()
	s, proxy := throughProxy(t, servers.StartKumo(t))
	hurried := quickly(t, s)
	page := &servers.Reply{Status: 503, Body: "<html>upstream is gone</html>"}
	forbidden := &servers.Reply{Status: 403, Body: "<html>no</html>"}
	for i, c := range []struct {
		what   string
		fate   servers.Fate
		want   meaning
		landed bool
	}{
		{"passes", servers.Fate{}, done, true},
		{"reply lost", servers.Fate{Lost: true}, unknown, true},
		{"500 after landing", servers.Fate{After: servers.DynamoError(500, "InternalServerError", "")}, unknown, true},
		{"503 after landing", servers.Fate{After: page}, unknown, true},
		{"500 before landing", instead(500, "InternalServerError", ""), unknown, false},
		{"throttled as a fault of the server's", instead(503, "ThrottlingException", ""), unknown, false},
		{"a page of a proxy", servers.Fate{Instead: page}, unknown, false},
		{"403 of a proxy", servers.Fate{Instead: forbidden}, unknown, false},
		{"late", servers.Fate{Delay: quick + 500*time.Millisecond}, unknown, true},
		{"transaction conflict", instead(400, "TransactionConflictException", ""), certain, false},
		{"invalid", instead(400, "ValidationException", "One or more parameter values were invalid"), certain, false},
		{"item too large", instead(400, "ValidationException", "Item size has exceeded the maximum allowed size"), tooLarge, false},
		{"no permission", instead(400, "AccessDeniedException", ""), certain, false},
		{"table gone", instead(400, "ResourceNotFoundException", ""), certain, false},
		{"condition failed", instead(400, "ConditionalCheckFailedException", ""), refused, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			key := fmt.Sprint("k/", i)
			sent := meet(proxy, c.fate)
			by := s
			if c.fate.Delay > 0 {
				by = hurried
			}
			_, err := by.Put(t.Context(), key, []byte("v"), lock.IfAbsent())
			if got := meaningOf(err); got != c.want || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("put: %v is %s, want %s", err, got, c.want)
			}
			if n := sent.Load(); n != 1 {
				t.Errorf("sent %d times", n)
			}
			time.Sleep(c.fate.Delay)
			if _, err := s.Get(t.Context(), key); (err == nil) != c.landed || err != nil && !errors.Is(err, lock.ErrNotFound) {
				t.Errorf("get: %v, landed is %v", err, c.landed)
			}
			want := c.want
			if want == tooLarge || want == refused {
				return // Deletes are neither.
			}
			sent = meet(proxy, c.fate)
			if err := by.Delete(t.Context(), key); meaningOf(err) != want || sent.Load() != 1 {
				t.Errorf("delete: %v, sent %d times, want %s", err, sent.Load(), want)
			}
			time.Sleep(c.fate.Delay)
		})
	}
}

// A server that cannot be reached has certainly not carried anything out.
func TestServerThatIsGone(t *testing.T) {
	t.Parallel()
	server := servers.StartKumo(t)
	cfg := config(server)
	cfg.RequestTimeout = quick
	s := openNew(t, cfg)
	server.Kill()
	for met := unknown; met == unknown; { // it meets connections that were open, one after the other
		_, err := s.Put(t.Context(), "first", nil, lock.IfAbsent())
		if met = meaningOf(err); met == done {
			t.Fatal("a put without a server succeeds")
		}
	}
	_, putErr := s.Put(t.Context(), "k", nil, lock.IfAbsent())
	_, getErr := s.Get(t.Context(), "k")
	_, scanErr := s.Scan(t.Context(), "", "", 0)
	for _, err := range []error{putErr, getErr, scanErr, s.Delete(t.Context(), "k")} {
		if meaningOf(err) != certain || errors.Is(err, lock.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	}
}

// A server that hangs holds nobody up for longer than a request may take.
func TestServerThatHangs(t *testing.T) {
	t.Parallel()
	server := servers.StartKumo(t)
	cfg := config(server)
	cfg.RequestTimeout = quick
	s := openNew(t, cfg)
	server.Pause()
	began := time.Now()
	_, putErr := s.Put(t.Context(), "k", nil, lock.IfAbsent())
	_, getErr := s.Get(t.Context(), "k")
	if took := time.Since(began); meaningOf(putErr) != unknown || getErr == nil || errors.Is(getErr, lock.ErrNotFound) || took > 10*quick {
		t.Errorf("after %v: %v, %v", took, putErr, getErr)
	}
	server.Resume()
	if _, err := s.Put(t.Context(), "other", nil, lock.IfAbsent()); err != nil {
		t.Errorf("it goes on, and a put gets %v", err)
	}
}

// What was refused for its rate is sent again until it is taken, and in the end is
// certainly not carried out.
func TestThrottling(t *testing.T) {
	t.Parallel()
	s, proxy := throughProxy(t, servers.StartKumo(t))
	for _, name := range []string{"ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded"} {
		var sent atomic.Int32
		proxy.Decide(func(r servers.Request) servers.Fate {
			if sent.Add(1) > 3 {
				return servers.Fate{}
			}
			return instead(400, name, "slow down")
		})
		if _, err := s.Put(t.Context(), name, nil, lock.IfAbsent()); err != nil || sent.Load() != 4 {
			t.Errorf("put: %v, sent %d times", err, sent.Load())
		}
		sent.Store(0)
		if _, err := s.Get(t.Context(), name); err != nil || sent.Load() != 4 {
			t.Errorf("get: %v, sent %d times", err, sent.Load())
		}
	}
	proxy.Decide(func(servers.Request) servers.Fate { return servers.Fate{} })
	hurried := quickly(t, s)
	meet(proxy, instead(400, "ThrottlingException", ""))
	// A machine with other things to do may hold a put up, but not all of them.
	quickest := time.Hour
	for range 5 {
		began := time.Now()
		if _, err := hurried.Put(t.Context(), "k", nil, lock.IfAbsent()); meaningOf(err) != certain {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if quickest = min(quickest, time.Since(began)); quickest <= 3*time.Second {
			break
		}
	}
	if quickest > 3*time.Second {
		t.Errorf("the quickest of five puts gave up after %v", quickest)
	}
}

// Reads get over what passes.
func TestReadsAreRepeated(t *testing.T) {
	t.Parallel()
	s, proxy := throughProxy(t, servers.StartKumo(t))
	rev, err := s.Put(t.Context(), "k", []byte("v"), lock.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	for _, fate := range []servers.Fate{{Lost: true}, instead(500, "InternalServerError", ""), {Delay: 250 * time.Millisecond}} {
		var n atomic.Int32
		proxy.Decide(func(servers.Request) servers.Fate {
			if n.Add(1) == 1 {
				return fate
			}
			return servers.Fate{}
		})
		if item, err := s.Get(t.Context(), "k"); err != nil || item.Revision != rev {
			t.Errorf("%+v: %v, %v", fate, item, err)
		}
		n.Store(0)
		if page, err := s.Scan(t.Context(), "k", "", 0); err != nil || len(page) != 1 {
			t.Errorf("%+v: %v, %v", fate, page, err)
		}
	}
}

// A request that somebody on the way sends twice is not refused by itself, where the
// server returns the item with the failed condition, as AWS does.
func TestRequestSentTwice(t *testing.T) {
	t.Parallel()
	s, proxy := throughProxy(t, moto(t))
	proxy.Decide(func(r servers.Request) servers.Fate { return servers.Fate{Twice: isWrite(r)} })
	rev, err := s.Put(t.Context(), "k", []byte("first"), lock.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	if rev, err = s.Put(t.Context(), "k", []byte("second"), lock.IfRevision(rev)); err != nil {
		t.Fatal(err)
	}
	if item, err := s.Get(t.Context(), "k"); err != nil || item.Revision != rev {
		t.Errorf("%v, %v", item, err)
	}
	if _, err := s.Put(t.Context(), "k", []byte("third"), lock.IfAbsent()); !errors.Is(err, lock.ErrConflict) {
		t.Errorf("a rival: %v", err)
	}
}

// What the servers here do not distinguish is looked at on the way: all reads are
// consistent, and every conditional put asks for the item that stands in its way.
func TestRequestsSayWhatTheyNeed(t *testing.T) {
	t.Parallel()
	s, proxy := throughProxy(t, servers.StartKumo(t))
	reads, puts := 0, 0
	var mu sync.Mutex
	proxy.Decide(func(r servers.Request) servers.Fate {
		mu.Lock()
		defer mu.Unlock()
		switch r.Operation {
		case "GetItem", "Query":
			reads++
			if !bytes.Contains(r.Body, []byte(`"ConsistentRead":true`)) {
				t.Errorf("%s is not consistent: %s", r.Operation, r.Body)
			}
		case "PutItem":
			puts++
			if !bytes.Contains(r.Body, []byte(`"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`)) {
				t.Errorf("does not ask for the old item: %s", r.Body)
			}
		}
		return servers.Fate{}
	})
	rev, err := s.Put(t.Context(), "k", nil, lock.IfAbsent())
	if err == nil {
		_, err = s.Put(t.Context(), "k", nil, lock.IfRevision(rev))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "k"); err != nil {
		t.Error(err)
	}
	if page, err := s.Scan(t.Context(), "", "", 0); err != nil || len(page) != 1 {
		t.Errorf("%v, %v", page, err)
	}
	open(t, s.cfg)
	mu.Lock()
	defer mu.Unlock()
	if reads < 4 || puts < 4 {
		t.Errorf("%d reads and %d puts were seen", reads, puts)
	}
}

// What is taken from a store that runs is told by each of its operations: the credentials
// were revoked, a permission, or the table is gone. It is no answer about a key.
func TestRefusals(t *testing.T) {
	t.Parallel()
	server := servers.StartKumo(t)
	for name, c := range map[string]struct {
		want error
		says string
	}{
		"ExpiredTokenException":     {lock.ErrDenied, "does not accept the credentials; set AWS_ACCESS_KEY_ID"},
		"AccessDeniedException":     {lock.ErrDenied, "lack a permission on table "},
		"ResourceNotFoundException": {lock.ErrMissing, "there is no table "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, proxy := throughProxy(t, server)
			proxy.Decide(func(servers.Request) servers.Fate { return instead(400, name, "injected") })
			_, getErr := s.Get(t.Context(), "k")
			_, scanErr := s.Scan(t.Context(), "k", "", 0)
			_, putErr := s.Put(t.Context(), "k", nil, lock.IfAbsent())
			_, swapErr := s.Put(t.Context(), "k", nil, lock.IfRevision("r"))
			for what, err := range map[string]error{
				"get": getErr, "scan": scanErr, "put": putErr, "replace": swapErr, "delete": s.Delete(t.Context(), "k"),
			} {
				refusal, ok := errors.AsType[*lock.Refusal](err)
				if !ok || !errors.Is(err, c.want) || errors.Is(err, lock.ErrNotFound) || meaningOf(err) != certain {
					t.Errorf("%s: %v is not told as %q", what, err, c.want)
					continue
				}
				if told := refusal.Text + "; " + refusal.Remedy; !strings.Contains(told, c.says) || strings.Contains(told, "injected") {
					t.Errorf("%s: %q, want %q in it", what, told, c.says)
				}
			}
		})
	}
}
