//go:build unix

package s3obj_test

import (
	"os"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
)

// What is taken from a store that runs is told by each of its operations.
func TestRefusals(t *testing.T) {
	t.Parallel()
	server := servers.StartVersity(t)
	for what, c := range map[string]struct {
		answer *servers.Reply
		says   []string
	}{
		"credentials": {servers.S3Error(403, "InvalidAccessKeyId"), []string{"does not accept the credentials", "AWS_ACCESS_KEY_ID"}},
		"policy":      {servers.S3Error(403, "AccessDenied"), []string{"lack a permission", "s3:PutObject"}},
		"of a proxy":  {&servers.Reply{Status: 403, Body: "<html>no</html>"}, []string{"forbidden", "what stands between", "s3:PutObject"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, proxy := throughProxy(t, server)
			proxy.Decide(func(servers.Request) servers.Fate { return servers.Fate{Instead: c.answer} })
			objtest.Refuses(t, s, objstore.ErrDenied, "bucket "+s.cfg.Bucket) // an answer to a HEAD does not say more
			_, _, err := s.Get(t.Context(), "k", objstore.Range{})
			for _, say := range c.says {
				if err == nil || !strings.Contains(err.Error(), say) {
					t.Errorf("%v does not say %q", err, say)
				}
			}
		})
	}
}

// A bucket that is gone is no object that is gone, also where the answer does not say so,
// and what was in it is there when it is.
func TestBucketGone(t *testing.T) {
	t.Parallel()
	server := servers.StartVersity(t)
	cfg := config(t, server)
	s := open(t, cfg)
	if err := s.PutIfAbsent(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	folder := server.Folder(cfg.Bucket)
	if err := os.Rename(folder, folder+"-away"); err != nil {
		t.Fatal(err)
	}
	objtest.Refuses(t, s, objstore.ErrMissing, "there is no bucket "+cfg.Bucket, "create it")
	if err := os.Rename(folder+"-away", folder); err != nil {
		t.Fatal(err)
	}
	if b, _, err := s.Get(t.Context(), "k", objstore.Range{}); err != nil || string(b) != "v" {
		t.Errorf("%q, %v", b, err)
	}
}
