//go:build unix

package gcsobj_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/gcsobj"
)

func meaningOf(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, objstore.ErrUnknown):
		return "unknown"
	case errors.Is(err, objstore.ErrExists):
		return "refused"
	default:
		return "certain"
	}
}

// Whatever becomes of a put, its caller is told what is known, and it is sent once.
func TestAnswersToPuts(t *testing.T) {
	t.Parallel()
	g := servers.StartGCS(t)
	cfg := config(t, g)
	proxy := servers.NewHTTPFaults(t, strings.TrimSuffix(g.Endpoint, "/storage/v1/"))
	cfg.Endpoint = proxy.URL + "/storage/v1/"
	s := open(t, cfg)
	for i, c := range []struct {
		what, want string
		fate       servers.Fate
	}{
		{"passes", "done", servers.Fate{}},
		{"sent twice on the way", "done", servers.Fate{Twice: true}},
		{"reply lost", "done", servers.Fate{Lost: true}},
		{"503 after landing", "done", servers.Fate{After: servers.GCSError(503, "backend error")}},
		{"503 before landing", "unknown", servers.Fate{Instead: servers.GCSError(503, "backend error")}},
		{"a page of a proxy", "unknown", servers.Fate{Instead: &servers.Reply{Status: 403, Body: "<html>no</html>"}}},
		{"too many", "certain", servers.Fate{Instead: servers.GCSError(429, "rate limit")}},
		{"no permission", "certain", servers.Fate{Instead: servers.GCSError(403, "no storage.objects.create access")}},
		{"no bucket", "certain", servers.Fate{Instead: servers.GCSError(404, "The specified bucket does not exist.")}},
	} {
		var sent atomic.Int32
		proxy.Decide(func(r servers.Request) servers.Fate {
			if r.Operation != http.MethodPost {
				return servers.Fate{}
			}
			sent.Add(1)
			return c.fate
		})
		key := fmt.Sprint("k/", i)
		err := s.PutIfAbsent(t.Context(), key, []byte("v"))
		_, statErr := s.Stat(t.Context(), key)
		if got := meaningOf(err); got != c.want || sent.Load() != 1 || (statErr == nil) != (c.want == "done") {
			t.Errorf("%s: %v is %s, want %s; sent %d times; stat: %v", c.what, err, got, c.want, sent.Load(), statErr)
		}
	}
	proxy.Decide(func(servers.Request) servers.Fate { return servers.Fate{} })
	if err := s.PutIfAbsent(t.Context(), "k/0", []byte("v")); meaningOf(err) != "refused" {
		t.Errorf("equal bytes of another put: %v", err)
	}
}

func TestCheckSaysWhatToDo(t *testing.T) {
	t.Parallel()
	g := servers.StartGCS(t)
	good := open(t, config(t, g))
	if err := good.Check(t.Context(), "a/b"); err != nil {
		t.Error(err)
	}
	if d, ok := good.Ahead(); !ok || d.Abs().Seconds() > 5 {
		t.Errorf("ahead by %v, known is %v", d, ok)
	}
	for want, change := range map[string]func(*gcsobj.Config){
		"create it":            func(c *gcsobj.Config) { c.Bucket = "missing" },
		"correct the endpoint": func(c *gcsobj.Config) { c.Endpoint = "http://127.0.0.1:1/storage/v1/" },
	} {
		cfg := config(t, g)
		change(&cfg)
		if err := open(t, cfg).Check(t.Context(), "p"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for want, cfg := range map[string]gcsobj.Config{
		"name of a bucket": {Bucket: "X"},
		"is not a URL":     {Bucket: "bucket", Endpoint: "localhost:1"},
		"one of them":      {Bucket: "bucket", Anonymous: true, CredentialsFile: "f"},
		"below 0":          {Bucket: "bucket", MaxRequests: -1},
		"GOOGLE_APPLICATION_CREDENTIALS": {
			Bucket: "bucket", CredentialsFile: "/nowhere",
		},
	} {
		if _, err := gcsobj.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", cfg, err, want)
		}
	}
}
