//go:build unix

package main

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/e2e/servers"
)

// TestBucketTakenAway: the credentials are revoked, or the bucket of everything is gone,
// under a running server. Status and the table's explanation say which, and what
// to do; nothing that was answered as decided is lost, nothing is frozen, and all goes on by
// itself when it is back.
func TestBucketTakenAway(t *testing.T) {
	s := servers.StartVersity(t)
	awsEnvironment(t, s.AccessKey, s.SecretKey)
	for _, c := range []struct {
		name string
		// journal lies in the bucket too; else only the tables and the manifests are there.
		journal bool
		answer  *servers.Reply
		says    []string
	}{
		{"revoked", false, servers.S3Error(403, "InvalidAccessKeyId"), []string{"does not accept the credentials", "AWS_ACCESS_KEY_ID", "goes on by itself"}},
		{"revoked, with the journal", true, servers.S3Error(403, "AccessDenied"), []string{"lack a permission on bucket", "s3:PutObject", "goes on by itself"}},
		{"gone", false, servers.S3Error(404, "NoSuchBucket"), []string{"there is no bucket", "bring it back with all that was in it"}},
		{"gone, with the journal", true, servers.S3Error(404, "NoSuchBucket"), []string{"there is no bucket", "bring it back with all that was in it"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bucket := s.Bucket(t)
			// In the server's place: versitygw's listings come out empty while its folder is
			// being renamed, which no bucket's do.
			var away atomic.Bool
			proxy := servers.NewHTTPFaults(t, s.Endpoint)
			proxy.Decide(func(servers.Request) servers.Fate {
				if away.Load() {
					return servers.Fate{Instead: c.answer}
				}
				return servers.Fate{}
			})
			store := "mem"
			if c.journal {
				store = "s3://" + bucket + "/journal"
			}
			places := []string{"--warehouse", "s3://" + bucket, "--store", store, "--bucket", "s3://*?region=" + s.Region + "&endpoint=" + proxy.URL}
			one := &server{t: t, env: map[string]string{"TXCOORD_SERVER": serving(t, append(places, "--limit", "owner_interval=20ms")...)}}
			one.ok("tables", "create", "orders", "s3://"+bucket+"/orders", "--schema", schema)
			one.ok("tables", "create", "stock", "s3://"+bucket+"/stock", "--schema", schema)
			one.with(twoAppends("first"), "commit", "-")
			away.Store(true)
			ended := make(chan outputs, 1)
			go func() { ended <- txcoord(t, one.env, twoAppends("second"), "commit", "-") }() // tries again until it is back
			one.eventuallySays(c.says, "status")
			one.eventuallySays(c.says, "tables", "why", "orders")
			away.Store(false)
			<-ended
			one.with(twoAppends("second"), "commit", "-") // it was committed, or is now: once
			if out := one.ok("snapshot", "get", "-o", "json"); strings.Count(out, `"version": 2`) != 2 {
				t.Errorf("the tables are not at version 2: %s", out)
			}
			if out := one.ok("tables", "why", "orders"); strings.Contains(out, "FROZEN") {
				t.Errorf("%s", out)
			}
			if c.journal {
				wantCode(t, []string{"fsck"}, txcoord(t, nil, "", append([]string{"fsck"}, places...)...), 0)
			}
		})
	}
}

// eventuallySays runs a command until it says all of it.
func (s *server) eventuallySays(says []string, args ...string) {
	s.t.Helper()
	out := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		o := txcoord(s.t, s.env, "", args...)
		out = fmt.Sprintf("exit code %d\n%s%s", o.code, o.out, o.stderr)
		missing := false
		for _, say := range says {
			missing = missing || !strings.Contains(o.out, say)
		}
		if !missing {
			return
		}
	}
	s.t.Fatalf("%s does not say %q:\n%s", strings.Join(args, " "), says, out)
}
