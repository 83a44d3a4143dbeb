package rpc_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/coordinator/rpc"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/twophase"
)

// A stream ends when the token that it was begun with is taken away, and when another access
// file is in force, which may grant less.
func TestStreamsEndWithWhatGrantsThem(t *testing.T) {
	t.Parallel()
	secret, entry := access.NewToken("etl", nil)
	tokens := "tokens: [{principal: etl, sha256: " + entry.SHA256 + "}]\n"
	roles := "roles: {r: [{catalogs: [default], tables: ['*'], actions: [read]}]}\nbindings: [{role: r, principals: ['token:*']}]\n"
	for name, c := range map[string]struct {
		after string
		want  codes.Code
	}{
		"without the token":  {roles, codes.Unavailable},
		"with another right": {tokens + strings.Replace(roles, "[read]", "[read, write]", 1), codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "access.yaml")
			write := func(file string) {
				t.Helper()
				if err := os.WriteFile(path+".new", []byte(file), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(path+".new", path); err != nil {
					t.Fatal(err)
				}
			}
			write(tokens + roles)
			a, err := access.Load(path)
			if err != nil {
				t.Fatal(err)
			}
			f, begun := inAndOut(), make(chan struct{})
			f.watch = func(ctx context.Context, _ *twophase.SnapshotVersion, _ func(coordinator.SnapshotChange) error) error {
				close(begun)
				<-ctx.Done()
				return ctx.Err()
			}
			clients := dial(t, rpc.Config{Catalogs: map[string]rpc.Catalog{"default": f}, Access: a})
			stream, err := clients.WatchSnapshots(as(t.Context(), secret), &pb.WatchSnapshotsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				for {
					if _, err := stream.Recv(); err != nil {
						ended <- err
						return
					}
				}
			}()
			<-begun
			write(c.after)
			if _, err := a.Reload(); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; status.Code(err) != c.want || !strings.Contains(err.Error(), "access file") {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// However much a call reads, the audit log has what it does besides, and says where a list
// was cut.
func TestAuditOfLargeCalls(t *testing.T) {
	t.Parallel()
	a := bound(t, "unix:*")
	var log bytes.Buffer
	f := inAndOut()
	f.commitOnce = func(context.Context, coordinator.OnceRequest) (coordinator.Outcome, string, error) {
		return coordinator.Outcome{Txn: id1}, "tok", nil
	}
	call, err := rpc.Direct(rpc.Config{Catalogs: map[string]rpc.Catalog{"default": f}, Access: a, Audit: slog.New(slog.NewJSONHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	uid := uint32(7)
	by := call.By(access.Proof{UID: &uid})
	q := &pb.CommitOnceRequest{Key: "k", Releases: []string{"in"}}
	for n := range 70 {
		q.Reads = append(q.Reads, &pb.ReadParticipant{Table: fmt.Sprint("t", n), Read: whole})
	}
	_, err = by(pb.TransactionService_CommitOnce_FullMethodName, q)
	if got := log.String(); !strings.Contains(got, `"ddl:in"`) || !strings.Contains(got, `"asked_more":6`) {
		t.Errorf("answered %v; the audit log has %q", err, got)
	}
	log.Reset()
	if _, err := by(pb.TransactionService_Begin_FullMethodName, &pb.BeginRequest{Key: "k"}); err != nil || !strings.Contains(log.String(), `"asked":["write:"]`) {
		t.Errorf("answered %v; the audit log has %q", err, log.String())
	}
}
