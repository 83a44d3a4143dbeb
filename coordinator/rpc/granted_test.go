package rpc_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/coordinator/rpc"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/twophase"
)

// granting is an access file that can be replaced.
type granting struct {
	*access.Access
	t    *testing.T
	path string
}

func (g *granting) replace(file string) {
	g.t.Helper()
	if err := os.WriteFile(g.path+".new", []byte(file), 0o600); err != nil {
		g.t.Fatal(err)
	}
	if err := os.Rename(g.path+".new", g.path); err != nil {
		g.t.Fatal(err)
	}
	var err error
	if g.Access == nil {
		g.Access, err = access.Load(g.path)
	} else {
		_, err = g.Reload()
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

// A stream ends when the token that it was begun with is taken away, and when another access
// file is in force, which may grant less: a watch by itself, a part that is streamed in at its
// next message, and nothing of it is staged.
func TestStreamsEndWithWhatGrantsThem(t *testing.T) {
	t.Parallel()
	secret, entry := access.NewToken("etl", nil)
	tokens := "tokens: [{principal: etl, sha256: " + entry.SHA256 + "}]\n"
	roles := "roles: {r: [{catalogs: [default], tables: ['*'], actions: [read, write]}]}\nbindings: [{role: r, principals: ['token:*']}]\n"
	streams := map[string]func(t *testing.T, c clients, begun <-chan struct{}, replace func()) error{
		"a watch": func(t *testing.T, c clients, begun <-chan struct{}, replace func()) error {
			stream, err := c.WatchSnapshots(as(t.Context(), secret), &pb.WatchSnapshotsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			<-begun
			replace()
			for {
				if _, err := stream.Recv(); err != nil {
					return err
				}
			}
		},
		"a part": func(t *testing.T, c clients, begun <-chan struct{}, replace func()) error {
			stream, err := c.StageStream(as(t.Context(), secret))
			if err != nil {
				t.Fatal(err)
			}
			header := &pb.StageHeader{Token: "t", Table: "in", Read: client.Blind()}
			if err := stream.Send(&pb.StageStreamRequest{Message: &pb.StageStreamRequest_Header{Header: header}}); err != nil {
				t.Fatal(err)
			}
			<-begun
			replace()
			for stream.Send(&pb.StageStreamRequest{Message: &pb.StageStreamRequest_Chunk{Chunk: []byte(" ")}}) == nil {
				time.Sleep(10 * time.Millisecond)
			}
			_, err = stream.CloseAndRecv()
			return err
		},
	}
	for what, stream := range streams {
		for name, after := range map[string]string{"without the token": roles, "with other rights": tokens + strings.Replace(roles, "write", "ddl", 1)} {
			t.Run(what+" "+name, func(t *testing.T) {
				t.Parallel()
				g := &granting{t: t, path: filepath.Join(t.TempDir(), "access.yaml")}
				g.replace(tokens + roles)
				f, begun := inAndOut(), make(chan struct{})
				f.watch = func(ctx context.Context, _ *twophase.SnapshotVersion, _ func(coordinator.SnapshotChange) error) error {
					<-ctx.Done()
					return ctx.Err()
				}
				f.stage = func(context.Context, coordinator.StageRequest) (coordinator.Staged, error) {
					t.Error("something is staged")
					return coordinator.Staged{}, nil
				}
				found := sync.OnceFunc(func() { close(begun) })
				c := dial(t, rpc.Config{Access: g.Access, Find: func(string) (rpc.Catalog, error) { found(); return f, nil }})
				err := stream(t, c, begun, func() { g.replace(after) })
				if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "access file") {
					t.Errorf("%v, want %s", err, codes.Unavailable)
				}
			})
		}
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
