package rpc_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/coordinator/rpc"
	"github.com/txcoord/txcoord/lock/memstore"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/twophase"
)

// overQuota checks a refusal as it is on the wire: the code, and all three details.
func overQuota(t *testing.T, err error, name string, value, limit int64) {
	t.Helper()
	st := status.Convert(err)
	if st.Code() != codes.ResourceExhausted {
		t.Fatalf("%v", err)
	}
	details := map[string]any{}
	for _, d := range st.Details() {
		details[fmt.Sprintf("%T", d)] = d
	}
	if info, _ := details["*errdetails.ErrorInfo"].(*errdetails.ErrorInfo); info.GetReason() != "QUOTA_EXCEEDED" {
		t.Errorf("reason: %v", info)
	}
	if retry, _ := details["*errdetails.RetryInfo"].(*errdetails.RetryInfo); retry.GetRetryDelay().AsDuration() <= 0 {
		t.Errorf("retry: %v", retry)
	}
	got, _ := details["*txcoordv1.LimitDetail"].(*pb.LimitDetail)
	if diff := cmp.Diff(&pb.LimitDetail{Name: name, Value: value, Limit: limit}, got, protocmp.Transform()); diff != "" {
		t.Errorf("limit: %s", diff)
	}
}

// TestCallsAndStreamsAreCounted: as many of one principal as it may have, in each
// catalog, whatever others do; and when they end there is room again.
func TestCallsAndStreamsAreCounted(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	f := &fake{
		status: func() (coordinator.Status, error) {
			entered <- struct{}{}
			<-release
			return coordinator.Status{}, nil
		},
		watch: func(ctx context.Context, _ *twophase.SnapshotVersion, _ func(coordinator.SnapshotChange) error) error {
			entered <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		},
		tables: func() ([]coordinator.TableInfo, error) { return nil, nil },
	}
	a, tokens := accessFile(t)
	c := dial(t, rpc.Config{
		Catalogs: map[string]rpc.Catalog{"default": f, "other": f}, Access: a, Quota: quota.Limits{Calls: 2, Streams: 1},
	})
	full, root := as(t.Context(), tokens["full"]), as(t.Context(), tokens["root"])
	ended := make(chan error, 4)
	for range 2 {
		go func() { _, err := c.GetStatus(full, &pb.GetStatusRequest{}); ended <- err }()
		<-entered
	}
	watching, cancel := context.WithCancel(full)
	watch := func(ctx context.Context) error {
		s, err := c.WatchSnapshots(ctx, &pb.WatchSnapshotsRequest{})
		if err == nil {
			_, err = s.Recv()
		}
		return err
	}
	go func() { ended <- watch(watching) }()
	<-entered
	list := func(ctx context.Context, catalog string) error {
		_, err := c.ListTables(ctx, &pb.ListTablesRequest{Catalog: catalog})
		return err
	}
	overQuota(t, list(full, ""), "principal_calls", 3, 2)
	overQuota(t, watch(full), "principal_streams", 2, 1)
	s, err := c.StageStream(full)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Send(&pb.StageStreamRequest{Message: &pb.StageStreamRequest_Header{Header: &pb.StageHeader{Token: "t", Table: "in", Read: client.Blind()}}})
	_, err = s.CloseAndRecv()
	overQuota(t, err, "principal_streams", 2, 1)
	for _, catalog := range []string{"default", "other"} {
		if err := list(root, catalog); err != nil {
			t.Errorf("another principal in %s: %v", catalog, err)
		}
	}
	close(release)
	cancel()
	for range 3 {
		if err := <-ended; err != nil && status.Code(err) != codes.Canceled {
			t.Error(err)
		}
	}
	// The client hears of the end of a call before the server counts it out.
	for end := time.Now().Add(time.Minute); list(full, "") != nil; {
		if time.Now().After(end) {
			t.Fatal("calls that have ended are counted")
		}
	}
}

// memory are the objects of a catalog in memory.
type memory struct{ store objstore.Store }

// Open implements coordinator.Objects.
func (m memory) Open(uri string) (objstore.Store, string, error) {
	return m.store, filepath.ToSlash(filepath.Clean(uri[len("file:///"):])), nil
}

// realCatalog is one in memory with a table "in". Its clock stands still, so that what
// counts by the second is exact.
func realCatalog(t *testing.T) *coordinator.Catalog {
	t.Helper()
	c, err := coordinator.Open(t.Context(), coordinator.Config{
		Warehouse: "file:///w", Store: memstore.New(memstore.Config{}), Objects: memory{memobj.New()}, ReadCheckpoint: checkpoint.Read,
		Boot: func() time.Duration { return time.Hour },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	_, _, err = c.Create(t.Context(), coordinator.CreateRequest{
		Name: "in", URI: "file:///w/in", Mode: twophase.ModeExclusive,
		Schema: `{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func addedFile(path string) []byte {
	return fmt.Appendf(nil, `{"add":{"path":%q,"partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}`, path)
}

// TestQuotasOfAPrincipal: those of the access file, over the wire, at a real catalog;
// who has another name, or none, is not in their way.
func TestQuotasOfAPrincipal(t *testing.T) {
	secret, known := access.NewToken("etl", nil)
	path := filepath.Join(t.TempDir(), "access.yaml")
	file := "tokens: [{principal: etl, sha256: " + known.SHA256 + "}]\n" + `
roles: {all: [{catalogs: ["*"], tables: ["*"], actions: [read, write, admin]}]}
bindings: [{role: all, principals: ["token:etl", anonymous]}]
quotas: [{principals: ["token:etl"], limits: {principal_open_transactions: 1, principal_staged_bytes: 150, principal_commits: 2}}]
`
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := access.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, rpc.Config{Catalogs: map[string]rpc.Catalog{"default": realCatalog(t)}, Access: a, Quota: quota.Defaults()})
	etl := as(t.Context(), secret)
	begin := func(ctx context.Context, key string) (string, error) {
		b, err := c.Begin(ctx, &pb.BeginRequest{Key: key})
		return b.GetToken(), err
	}
	token, err := begin(etl, "1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = begin(etl, "2")
	overQuota(t, err, "principal_open_transactions", 2, 1)
	for i := range 3 {
		if _, err := begin(t.Context(), fmt.Sprint("anonymous", i)); err != nil {
			t.Error(err)
		}
	}
	stage := func(file string) error {
		_, err := c.Stage(etl, &pb.StageRequest{Token: token, Table: "in", Read: client.Blind(), Actions: addedFile(file)})
		return err
	}
	if err := stage("a"); err != nil {
		t.Fatal(err)
	}
	n := int64(len(addedFile("a")))
	overQuota(t, stage("b"), "principal_staged_bytes", 2*n, 150)
	if _, err := c.Abort(etl, &pb.AbortRequest{Transaction: &pb.AbortRequest_Token{Token: token}}); err != nil {
		t.Fatal(err)
	}
	if token, err = begin(etl, "2"); err != nil {
		t.Fatal(err)
	}
	if err := stage("b"); err != nil {
		t.Error(err)
	}
	commit := func(i int) error {
		_, err := c.CommitOnce(etl, &pb.CommitOnceRequest{
			Key: fmt.Sprint("once", i), Tables: []*pb.OnceTable{{Table: "in", Read: client.Blind(), Actions: addedFile(fmt.Sprint(i))}},
		})
		return err
	}
	for i := range 2 {
		if err := commit(i); err != nil {
			t.Fatal(err)
		}
	}
	overQuota(t, commit(2), "principal_commits", 3, 2)
}

// Who looks is told of refusals, and how near to them the fullest principal is.
func TestRefusalsAreTold(t *testing.T) {
	entered, release, refused := make(chan bool), make(chan bool), make(chan string, 10)
	f := &fake{status: func() (coordinator.Status, error) {
		entered <- true
		<-release
		return coordinator.Status{}, nil
	}}
	c := dial(t, rpc.Config{
		Catalogs: map[string]rpc.Catalog{"default": f}, Quota: quota.Limits{Calls: 1}, Limits: rpc.Limits{StreamBytes: 10},
		Refused: func(limit string) { refused <- limit },
	})
	ended := make(chan error, 1)
	go func() {
		_, err := c.GetStatus(t.Context(), &pb.GetStatusRequest{})
		ended <- err
	}()
	<-entered
	if got := c.server.Quotas(); got[quota.NameCalls] != 100 || got[quota.NameStreams] != 0 {
		t.Errorf("%v", got)
	}
	_, err := c.GetStatus(t.Context(), &pb.GetStatusRequest{})
	overQuota(t, err, quota.NameCalls, 2, 1)
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := <-refused; got != quota.NameCalls || len(refused) > 0 {
		t.Errorf("told of %s, and %d more", got, len(refused))
	}
	stream, err := c.StageStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	header := &pb.StageHeader{Token: "tok", Table: "t", Read: whole}
	for _, m := range []*pb.StageStreamRequest{
		{Message: &pb.StageStreamRequest_Header{Header: header}}, {Message: &pb.StageStreamRequest_Chunk{Chunk: make([]byte, 20)}},
	} {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stream.CloseAndRecv(); err == nil {
		t.Error("20 bytes were taken, of 10")
	}
	if got := <-refused; got != quota.NameStreamBytes {
		t.Errorf("told of %s", got)
	}
}
