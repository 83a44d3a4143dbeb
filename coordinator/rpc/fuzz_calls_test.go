package rpc_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/rpc"
	"github.com/txcoord/txcoord/lock/memstore"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
)

// lake is one folder in memory.
type lake struct{ *memobj.Store }

func (l lake) Open(uri string) (objstore.Store, string, error) {
	key, ok := strings.CutPrefix(uri, "file:///w")
	if !ok || key != "" && key[0] != '/' {
		return nil, "", fmt.Errorf("%s lies outside /w", uri)
	}
	return l, strings.TrimPrefix(key, "/"), nil
}

// served is a server with a real catalog, a table and an open transaction.
type served struct {
	clients
	token string
}

const (
	fuzzSchema = `{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}`
	fuzzAdd    = `{"add":{"path":"f","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}`
	// tokenHere stands in seeds for what only the server knows.
	tokenHere = "TOKEN"
)

func fuzzDigest() string {
	sum := sha256.Sum256([]byte(fuzzAdd))
	return hex.EncodeToString(sum[:])
}

func serveLake(t *testing.T) served {
	t.Helper()
	c, err := coordinator.Open(context.Background(), coordinator.Config{
		Warehouse: "file:///w", Store: memstore.New(memstore.Config{}), Objects: lake{memobj.New()}, ReadCheckpoint: checkpoint.Read,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s := served{clients: dial(t, rpc.Config{Catalogs: map[string]rpc.Catalog{rpc.DefaultCatalog: c}})}
	_, err = s.CreateTable(t.Context(), &pb.CreateTableRequest{Name: "orders", Uri: "/w/orders", SchemaJson: fuzzSchema})
	begun, err2 := s.Begin(t.Context(), &pb.BeginRequest{Key: "open"})
	s.token = begun.GetToken()
	_, err3 := s.Stage(t.Context(), &pb.StageRequest{Token: s.token, Table: "orders", Read: client.Blind(), Actions: []byte(fuzzAdd)})
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	return s
}

// calls are all methods of the contract, in its order.
func calls() (all []protoreflect.MethodDescriptor) {
	for _, f := range []protoreflect.FileDescriptor{
		pb.File_txcoord_v1_transactions_proto, pb.File_txcoord_v1_tables_proto, pb.File_txcoord_v1_snapshots_proto,
		pb.File_txcoord_v1_status_proto, pb.File_txcoord_v1_operations_proto,
	} {
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for k := range methods.Len() {
				all = append(all, methods.Get(k))
			}
		}
	}
	return all
}

func message(t testing.TB, d protoreflect.MessageDescriptor) proto.Message {
	t.Helper()
	typ, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return typ.New().Interface()
}

// call sends one request, or in a stream those that the bytes hold one after
// another, each behind its length.
func (s served) call(t *testing.T, m protoreflect.MethodDescriptor, raw []byte) error {
	limit := 3 * time.Second // the fuzzer takes 10 for a hang
	if m.IsStreamingServer() {
		limit = 50 * time.Millisecond // there is nothing to see
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	path := fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
	d := &grpc.StreamDesc{ClientStreams: m.IsStreamingClient(), ServerStreams: m.IsStreamingServer()}
	stream, err := s.conn.NewStream(ctx, d, path)
	if err != nil {
		return err
	}
	for len(raw) > 0 || !m.IsStreamingClient() {
		next := raw
		if m.IsStreamingClient() {
			part, n := protowire.ConsumeBytes(raw)
			if n < 0 {
				break
			}
			next, raw = part, raw[n:]
		}
		q := message(t, m.Input())
		if proto.Unmarshal(next, q) != nil {
			t.Skip()
		}
		if stream.SendMsg(s.known(q)) != nil || !m.IsStreamingClient() {
			break // why it was refused comes with the answer
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return stream.RecvMsg(message(t, m.Output()))
}

// known puts the token where a request says TOKEN.
func (s served) known(q proto.Message) proto.Message {
	m := q.ProtoReflect()
	if f := m.Descriptor().Fields().ByName("token"); f != nil && m.Get(f).String() == tokenHere {
		m.Set(f, protoreflect.ValueOfString(s.token))
	}
	if f := m.Descriptor().Fields().ByName("header"); f != nil && m.Has(f) {
		s.known(m.Get(f).Message().Interface())
	}
	return q
}

// seedCalls are requests that get somewhere.
func seedCalls() []proto.Message {
	return append(requests(),
		&pb.BeginRequest{Token: tokenHere}, &pb.StageRequest{Token: tokenHere, Table: "orders", Read: client.Blind(), Actions: []byte(fuzzAdd)},
		&pb.CommitRequest{Token: tokenHere, Tables: []*pb.TableParts{parts("orders", fuzzDigest())}},
		&pb.CommitOnceRequest{Key: "k", Tables: []*pb.OnceTable{{Table: "orders", Read: client.AtVersion(0, client.WholeTable()), Actions: []byte(fuzzAdd)}}},
		&pb.CommitOnceRequest{Key: "k", Tables: []*pb.OnceTable{{
			Table: "/w/orders", Read: client.AtSnapshot(1, client.Files("f")), Actions: []byte(`{"metaData":{"id":"x","schemaString":"{}","partitionColumns":[],"format":{"provider":"parquet"}}}`),
		}}},
		&pb.StageRequest{Token: tokenHere, Table: "n", Create: &pb.NewTable{Uri: "/w/n", SchemaJson: fuzzSchema, PartitionColumns: []string{"x"}}, Actions: []byte(fuzzAdd)},
		&pb.CommitOnceRequest{Key: "n", Tables: []*pb.OnceTable{{Table: "m", Create: &pb.NewTable{Uri: "/w/m", SchemaJson: fuzzSchema}}}, Releases: []string{"orders"}},
		&pb.CommitOnceRequest{Key: "a", Tables: []*pb.OnceTable{{Table: "orders", Alter: &pb.TableAlteration{
			AddColumns: []*pb.NewColumn{{Name: "c", Type: "struct<a: array<int>, b: decimal(3,1)>"}}, WidenColumns: map[string]string{"id": "long"},
		}}}},
		&pb.AbortRequest{Transaction: &pb.AbortRequest_Token{Token: tokenHere}}, &pb.GetOutcomeRequest{Transaction: &pb.GetOutcomeRequest_Key{Key: "open"}, Resolve: true},
		&pb.RegisterTableRequest{Name: "n", Uri: "/w/orders/"}, &pb.CreateTableRequest{Name: "n", Uri: "/w/n", SchemaJson: fuzzSchema},
		&pb.DescribeTableRequest{Table: "orders"}, &pb.ReleaseTableRequest{Table: "orders"}, &pb.SetTableModeRequest{Table: "orders", Mode: 1},
		&pb.ResolveTableRequest{Table: "orders"}, &pb.ExplainTableRequest{Table: "orders"}, &pb.MaintainTableRequest{Table: "orders"}, &pb.LeaseSnapshotRequest{LeaseId: "l"},
		&pb.RenewLeaseRequest{LeaseId: "l"}, &pb.DeleteLeaseRequest{LeaseId: "l"}, &pb.ListTagsRequest{}, &pb.ListLeasesRequest{},
		&pb.CollectGarbageRequest{Remove: true, QuarantineFor: &durationpb.Duration{}}, &pb.RestoreGarbageRequest{Run: "r"},
		&pb.ListSnapshotsRequest{Table: "orders"}, &pb.TagSnapshotRequest{Tag: "x", SnapshotVersion: 1},
		&pb.DiffSnapshotsRequest{From: 0, To: 1}, &pb.GetStatusRequest{}, &pb.WatchSnapshotsRequest{},
	)
}

// FuzzCalls sends any message to any call of a server with a real catalog: none
// panics, none ends INTERNAL, and none ends without one of the contract's reasons.
func FuzzCalls(f *testing.F) {
	all := calls()
	for _, q := range seedCalls() {
		raw, err := proto.Marshal(q)
		if err != nil {
			f.Fatal(err)
		}
		for i, m := range all {
			if m.Input() == q.ProtoReflect().Descriptor() {
				f.Add(uint8(i), raw)
			}
		}
	}
	for i, m := range all {
		if m.IsStreamingClient() {
			header, err := proto.Marshal(&pb.StageStreamRequest{Message: &pb.StageStreamRequest_Header{Header: &pb.StageHeader{Token: tokenHere, Table: "orders", Read: client.Blind()}}})
			chunk, err2 := proto.Marshal(&pb.StageStreamRequest{Message: &pb.StageStreamRequest_Chunk{Chunk: []byte(fuzzAdd)}})
			if err := errors.Join(err, err2); err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), protowire.AppendBytes(protowire.AppendBytes(nil, header), chunk))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		s := serveLake(t)
		m := all[int(which)%len(all)]
		err := s.call(t, m, raw)
		switch status.Code(err) {
		case codes.OK, codes.DeadlineExceeded:
		case codes.Internal, codes.Unknown, codes.DataLoss, codes.Unimplemented:
			t.Errorf("%s: %v", m.FullName(), err)
		default:
			if e, ok := errors.AsType[*client.Error](client.FromStatus(status.Convert(err))); !ok || e.Reason == "" {
				t.Errorf("%s: refused without a reason: %v", m.FullName(), err)
			}
		}
		// Whatever it was, the server goes on, and the log with it.
		if _, err := s.DescribeTable(t.Context(), &pb.DescribeTableRequest{Table: "orders"}); err != nil && status.Code(err) != codes.NotFound {
			t.Errorf("%s: then: %v", m.FullName(), err)
		}
	})
}
