//go:build unix

package azobj_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/azobj"
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

func xmlError(status int, code string) *servers.Reply {
	return &servers.Reply{Status: status, Body: `<?xml version="1.0" encoding="utf-8"?><Error><Code>` + code + `</Code><Message>injected</Message></Error>`}
}

// Whatever becomes of a put, its caller is told what is known, and it is sent once.
func TestAnswersToPuts(t *testing.T) {
	t.Parallel()
	a := servers.StartAzure(t)
	cfg := config(t, a)
	root, account, _ := strings.Cut(a.Endpoint, "/"+a.Account)
	proxy := servers.NewHTTPFaults(t, root)
	cfg.Endpoint = proxy.URL + "/" + a.Account + account
	s := open(t, cfg)
	for i, c := range []struct {
		what, want string
		fate       servers.Fate
	}{
		{"passes", "done", servers.Fate{}},
		{"sent twice on the way", "done", servers.Fate{Twice: true}},
		{"reply lost", "done", servers.Fate{Lost: true}},
		{"503 after landing", "done", servers.Fate{After: xmlError(503, "ServerBusy")}},
		{"503 before landing", "unknown", servers.Fate{Instead: xmlError(503, "ServerBusy")}},
		{"500 before landing", "unknown", servers.Fate{Instead: xmlError(500, "OperationTimedOut")}},
		{"a page of a proxy", "unknown", servers.Fate{Instead: &servers.Reply{Status: 502, Body: "<html>no</html>"}}},
		{"no permission", "certain", servers.Fate{Instead: xmlError(403, "AuthorizationPermissionMismatch")}},
		{"no container", "certain", servers.Fate{Instead: xmlError(404, "ContainerNotFound")}},
	} {
		var sent atomic.Int32
		proxy.Decide(func(r servers.Request) servers.Fate {
			if r.Operation != http.MethodPut {
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
	a := servers.StartAzure(t)
	good := open(t, config(t, a))
	if err := good.Check(t.Context(), "a/b"); err != nil {
		t.Error(err)
	}
	if d, ok := good.Ahead(); !ok || d.Abs().Seconds() > 5 {
		t.Errorf("ahead by %v, known is %v", d, ok)
	}
	for want, change := range map[string]func(*azobj.Config){
		"create it":           func(c *azobj.Config) { c.Container = "missing" },
		"AZURE_STORAGE_KEY":   func(c *azobj.Config) { c.Key = "b3RoZXI=" },
		"correct the account": func(c *azobj.Config) { c.Endpoint = "http://127.0.0.1:1/" + a.Account },
	} {
		cfg := good.cfg
		change(&cfg)
		if err := open(t, cfg).Check(t.Context(), "p"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for want, cfg := range map[string]azobj.Config{
		"storage account":     {Container: "bucket"},
		"name of a container": {Account: "acc", Container: "B"},
		"is not a URL":        {Account: "acc", Container: "bucket", Endpoint: "localhost:1"},
		"one of them":         {Account: "acc", Container: "bucket", Key: "a", SAS: "b"},
		"below 0":             {Account: "acc", Container: "bucket", MaxRequests: -1},
		"the account's key":   {Account: "acc", Container: "bucket", Key: "%"},
	} {
		if _, err := azobj.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", cfg, err, want)
		}
	}
}
