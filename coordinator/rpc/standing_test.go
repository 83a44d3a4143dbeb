package rpc_test

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/coordinator/rpc"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// What somebody may do, and up to where, is what the file in force says: with the next call
// after a change, to more and to less, also of who is known since long.
func TestAChangeCountsAtOnce(t *testing.T) {
	secret, entry := access.NewToken("etl", nil)
	path := filepath.Join(t.TempDir(), "access.yaml")
	tokens := "tokens: [{principal: etl, sha256: " + entry.SHA256 + "}]\n"
	role := func(actions string) string {
		return "roles: {r: [{catalogs: [default], tables: [in], actions: [" + actions + "]}]}\nbindings: [{role: r, principals: ['token:*']}]\n"
	}
	write := func(file string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(tokens + role("read, write"))
	a, err := access.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	f, limit := inAndOut(), int64(0)
	f.begin = func(ctx context.Context, _ coordinator.BeginRequest) (coordinator.Begun, error) {
		limit = quota.CallerOf(ctx).Limits.Commits
		return coordinator.Begun{}, nil
	}
	c := dial(t, rpc.Config{Catalogs: map[string]rpc.Catalog{"default": f}, Access: a, Quota: quota.Limits{Commits: 7}})
	for _, step := range []struct {
		file  string
		want  codes.Code
		limit int64
	}{
		{tokens + role("read, write"), codes.OK, 7},
		{tokens + role("read"), codes.PermissionDenied, 0},
		{tokens + role("read,  write"), codes.OK, 7},
		{tokens + role("write") + "quotas: [{principals: ['token:etl'], limits: {principal_commits: 3}}]\n", codes.OK, 3},
		{tokens + "roles: {}\n", codes.PermissionDenied, 0},
		{role("write"), codes.Unauthenticated, 0},
		{tokens + role("write"), codes.OK, 7},
	} {
		write(step.file + "# " + time.Now().String() + fmt.Sprintf("%*s\n", len(step.file)%50, "")) // of another length
		if _, err := a.Reload(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			limit = 0
			_, err := c.Begin(as(t.Context(), secret), &pb.BeginRequest{})
			if status.Code(err) != step.want || limit != step.limit {
				t.Errorf("%v, limit %d; want %s and %d, by\n%s", err, limit, step.want, step.limit, step.file)
			}
		}
	}
}

// Callers whose first names are the same are told apart by the others.
func TestNobodyHasTheRightsOfANamesake(t *testing.T) {
	a := bound(t, "cert:writers")
	config := rpc.Config{Catalogs: map[string]rpc.Catalog{"default": inAndOut()}, Access: a}
	u := &url.URL{Scheme: "spiffe", Host: "corp", Path: "/etl"}
	certificate := func(cn string) access.Proof {
		return access.Proof{Certificate: &x509.Certificate{URIs: []*url.URL{u}, Subject: pkix.Name{CommonName: cn}, NotAfter: time.Now().Add(time.Hour)}}
	}
	call, err := rpc.Direct(config)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for cn, want := range map[string]codes.Code{"writers": codes.OK, "readers": codes.PermissionDenied, "": codes.PermissionDenied} {
			if _, err := call.By(certificate(cn))(pb.TransactionService_Begin_FullMethodName, &pb.BeginRequest{}); status.Code(err) != want {
				t.Errorf("%q: %v, want %s", cn, err, want)
			}
		}
	}
}

// Callers and catalogs without end take no room without end, and are judged as ever.
func TestStandingsAreBounded(t *testing.T) {
	a := bound(t, "unix:*")
	config := rpc.Config{Catalogs: map[string]rpc.Catalog{"default": inAndOut()}, Access: a}
	call, err := rpc.Direct(config)
	if err != nil {
		t.Fatal(err)
	}
	for uid := range uint32(rpc.StandingsMost + 10) {
		for catalog, want := range map[string]codes.Code{"": codes.OK, fmt.Sprint("none-", uid): codes.NotFound} {
			if _, err := call.By(access.Proof{UID: &uid})(pb.TransactionService_Begin_FullMethodName, &pb.BeginRequest{Catalog: catalog}); status.Code(err) != want {
				t.Fatalf("%d in %q: %v", uid, catalog, err)
			}
		}
		if n := call.Standings(); n > rpc.StandingsMost || n > int(uid)+1 {
			t.Fatalf("%d are kept, of %d callers of one catalog", n, uid+1)
		}
	}
}

// A connection ends with the certificate that it was made with.
func TestAConnectionEndsWithItsCertificate(t *testing.T) {
	for name, ended := range map[string]bool{"good": false, "ended": true} {
		ours, theirs := net.Pipe()
		end := time.Now().Add(time.Hour)
		if ended {
			end = time.Now().Add(-time.Second)
		}
		conn := rpc.EndWith(ours, &x509.Certificate{NotAfter: end})
		wrote := make(chan error, 1)
		go func() {
			_, err := conn.Write([]byte("x"))
			wrote <- err
		}()
		if ended {
			if n, err := theirs.Read(make([]byte, 1)); err == nil { // it was quicker; the end comes all the same
				_, err = theirs.Read(make([]byte, 1))
				if !errors.Is(err, io.EOF) {
					t.Errorf("%s: %d bytes, %v", name, n, err)
				}
			}
		} else if _, err := io.ReadFull(theirs, make([]byte, 1)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := <-wrote; err != nil && !ended {
			t.Errorf("%s: %v", name, err)
		}
		_, _ = conn.Close(), theirs.Close()
	}
}
