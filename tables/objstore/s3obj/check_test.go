//go:build unix

package s3obj_test

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/s3obj"
)

func TestCheckPassesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, config(t, servers.StartVersity(t)))
	for _, prefix := range []string{"", "a/b", "a/b/"} {
		if err := s.Check(t.Context(), prefix); err != nil {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	for e := range s.List(t.Context(), objstore.ListOptions{}) {
		t.Errorf("%s is left", e.Key)
	}
}

// What is wrong with a set-up is said together with the remedy.
func TestCheckSaysWhatToDo(t *testing.T) {
	t.Parallel()
	server := servers.StartVersity(t)
	for what, c := range map[string]struct {
		change func(*s3obj.Config)
		fate   servers.Fate
		want   string
	}{
		"no bucket":      {func(c *s3obj.Config) { c.Bucket = "missing" }, servers.Fate{}, "create it"},
		"key":            {nil, instead(403, "InvalidAccessKeyId"), "does not accept the credentials"},
		"secret":         {func(c *s3obj.Config) { c.SecretKey = "other" }, servers.Fate{}, "does not accept the credentials"},
		"no credentials": {func(c *s3obj.Config) { c.AccessKey, c.SecretKey = "", "" }, servers.Fate{}, "set AWS_ACCESS_KEY_ID"},
		"region":         {func(c *s3obj.Config) { c.Region = "eu-other-1" }, servers.Fate{}, "name its region"},
		"moved":          {nil, instead(301, "PermanentRedirect"), "name its region"},
		"permission":     {nil, instead(403, "AccessDenied"), "s3:PutObject"},
		"clock":          {nil, instead(403, "RequestTimeTooSkewed"), "clock"},
		"no server":      {func(c *s3obj.Config) { c.Endpoint = "http://127.0.0.1:1" }, servers.Fate{}, "correct the endpoint"},
		"no conditions":  {nil, instead(501, "NotImplemented"), "If-None-Match"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, server)
			proxy := servers.NewHTTPFaults(t, server.Endpoint)
			proxy.Decide(func(r servers.Request) servers.Fate {
				if what == "no conditions" && r.Operation != http.MethodPut {
					return servers.Fate{}
				}
				return c.fate
			})
			cfg.Endpoint = proxy.URL
			if c.change != nil {
				c.change(&cfg)
			}
			err := open(t, cfg).Check(t.Context(), "p")
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), cfg.Bucket) {
				t.Errorf("got %v, want it to name the bucket and say %q", err, c.want)
			}
		})
	}
}

func TestBadConfigIsRefused(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]s3obj.Config{
		"name of a bucket": {Bucket: "x"},
		"directory bucket": {Bucket: "logs--use1-az4--x-s3"},
		"endpoint":         {Bucket: "bucket", Endpoint: "localhost:9000"},
		"secret key":       {Bucket: "bucket", AccessKey: "a"},
		"addressing":       {Bucket: "bucket", Addressing: "host"},
		"set AWS_REGION":   {Bucket: "bucket"},
		"below 0":          {Bucket: "bucket", MaxRequests: -1},
		`profile "none-of-this-name" is neither in`: {Bucket: "bucket", Region: "x", Profile: "none-of-this-name"},
		"not the name of a ":                        {},
	} {
		if _, err := s3obj.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", cfg, err, want)
		}
	}
}

// Buckets are found by their host, too.
func TestVirtualHost(t *testing.T) {
	t.Parallel()
	server := servers.StartVersity(t)
	u, err := url.Parse(server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t, server)
	if _, err := net.LookupHost(cfg.Bucket + "." + servers.Virtual); err != nil {
		t.Skipf("this machine does not resolve names below %s: %v", servers.Virtual, err)
	}
	cfg.Endpoint, cfg.Addressing = "http://"+servers.Virtual+":"+u.Port(), s3obj.VirtualHost
	s := open(t, cfg)
	if err := s.PutIfAbsent(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stat(t.Context(), "k"); err != nil {
		t.Error(err)
	}
}

// The clock is compared with the store's at every answer.
func TestClock(t *testing.T) {
	t.Parallel()
	s := open(t, config(t, servers.StartVersity(t)))
	if _, ok := s.Ahead(); ok {
		t.Error("a time is known before the first answer")
	}
	if _, err := s.Stat(t.Context(), "none"); !errors.Is(err, objstore.ErrNotFound) {
		t.Fatal(err)
	}
	if d, ok := s.Ahead(); !ok || d.Abs() > 5*time.Second {
		t.Errorf("ahead by %v, known is %v", d, ok)
	}
}
