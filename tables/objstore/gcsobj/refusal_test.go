//go:build unix

package gcsobj_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
)

// What is taken from a store that runs is told by each of its operations. The library calls
// a bucket that is gone an object that is.
func TestRefusals(t *testing.T) {
	t.Parallel()
	g := servers.StartGCS(t)
	for what, c := range map[string]struct {
		answer *servers.Reply
		want   error
		says   []string
	}{
		"credentials": {servers.GCSError(401, "Invalid Credentials"), objstore.ErrDenied, []string{"does not accept the credentials", "GOOGLE_APPLICATION_CREDENTIALS"}},
		"permission":  {servers.GCSError(403, "no storage.objects.create access"), objstore.ErrDenied, []string{"lack a permission", "storage.objects.list"}},
		"bucket":      {servers.GCSError(404, "The specified bucket does not exist."), objstore.ErrMissing, []string{"there is no bucket gs://", "create it"}},
		"of a proxy":  {&servers.Reply{Status: 403, Body: "<html>no</html>"}, objstore.ErrDenied, []string{"forbidden", "what stands between"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, g)
			proxy := servers.NewHTTPFaults(t, strings.TrimSuffix(g.Endpoint, "/storage/v1/"))
			cfg.Endpoint = proxy.URL + "/storage/v1/"
			s := open(t, cfg)
			proxy.Decide(func(servers.Request) servers.Fate { return servers.Fate{Instead: c.answer} })
			objtest.Refuses(t, s, c.want, c.says...)
		})
	}
}

// What is said of an object that is not there may have any words in it: the names of bucket
// and object.
func TestObjectThatIsCalledLikeABucket(t *testing.T) {
	t.Parallel()
	g := servers.StartGCS(t)
	cfg := config(t, g)
	proxy := servers.NewHTTPFaults(t, strings.TrimSuffix(g.Endpoint, "/storage/v1/"))
	cfg.Endpoint = proxy.URL + "/storage/v1/"
	s := open(t, cfg)
	const text = "No such object: the-bucket/The specified bucket does not exist."
	for what, answer := range map[string]*servers.Reply{
		"as JSON": servers.GCSError(404, text), "as text": {Status: 404, Body: text},
	} {
		proxy.Decide(func(servers.Request) servers.Fate { return servers.Fate{Instead: answer} })
		_, _, getErr := s.Get(t.Context(), "k", objstore.Range{})
		_, statErr := s.Stat(t.Context(), "k")
		if !errors.Is(getErr, objstore.ErrNotFound) || !errors.Is(statErr, objstore.ErrNotFound) {
			t.Errorf("%s: %v, %v", what, getErr, statErr)
		}
	}
	gone := &servers.Reply{Status: 404, Body: "The specified bucket does not exist.\n"}
	proxy.Decide(func(servers.Request) servers.Fate { return servers.Fate{Instead: gone} })
	if _, _, err := s.Get(t.Context(), "k", objstore.Range{}); !errors.Is(err, objstore.ErrMissing) {
		t.Errorf("a download's answer in plain text: %v", err)
	}
}
