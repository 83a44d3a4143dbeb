package rpc_test

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log/slog"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/coordinator/rpc"
	"github.com/txcoord/txcoord/coordinator/telemetry/export"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// asking is a way to be asked who one is.
type asking struct {
	name   string
	config rpc.Config
	by     access.Proof
	// more is how many allocations a call may make more than one of nobody who is asked
	// nothing.
	more float64
}

// askings are who calls, and who looks.
func askings(t testing.TB) []asking {
	t.Helper()
	a, tokens := accessFile(t)
	token := access.Proof{Authorization: "Bearer " + tokens["full"]}
	uid := uint32(4711)
	none := 0.0
	x, err := export.Start(t.Context(), export.Config{Prometheus: true, Endpoint: "http://127.0.0.1:1", Sample: &none})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // nobody receives: what is left is dropped, at once
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = x.Shutdown(ended)
	})
	b := bound(t, "unix:4711", "cert:etl")
	return []asking{
		{"nobody is asked", rpc.Config{}, access.Proof{}, 0},
		{"a socket", rpc.Config{Access: b}, access.Proof{UID: &uid}, 3},
		{"a certificate", rpc.Config{Access: b}, access.Proof{Certificate: &x509.Certificate{Subject: pkix.Name{CommonName: "etl"}, NotAfter: time.Now().Add(time.Hour)}}, 3},
		{"a token", rpc.Config{Access: a}, token, 5},
		{"a token, audited", rpc.Config{Access: a, Audit: slog.New(slog.NewJSONHandler(io.Discard, nil))}, token, 25},
		{"a token, and telemetry", rpc.Config{Access: a, Calls: x.Calls()}, token, 9},
		{"telemetry", rpc.Config{Calls: x.Calls()}, access.Proof{}, 4},
	}
}

// direct is a call of a commit of one table, from where gRPC has read its headers.
func (a asking) direct(t testing.TB) func() {
	t.Helper()
	f := inAndOut()
	o, _, err := f.commitOnce(t.Context(), coordinator.OnceRequest{})
	if err != nil {
		t.Fatal(err)
	}
	o.Committed.Tables = o.Committed.Tables[:1]
	f.commitOnce = func(context.Context, coordinator.OnceRequest) (coordinator.Outcome, string, error) {
		return o, "tok", nil
	}
	a.config.Catalogs = map[string]rpc.Catalog{"default": f}
	direct, err := rpc.Direct(a.config)
	if err != nil {
		t.Fatal(err)
	}
	call := direct.By(a.by)
	q := &pb.CommitOnceRequest{Key: "k", Tables: []*pb.OnceTable{{
		Table: "in", Read: proto.CloneOf(whole),
		Actions: []byte(`{"add":{"path":"part-00000-3.parquet","partitionValues":{},"size":1000,"modificationTime":1,"dataChange":true}}` + "\n"),
	}}}
	return func() {
		if _, err := call(pb.TransactionService_CommitOnce_FullMethodName, q); err != nil {
			t.Fatal(err)
		}
	}
}

// What it costs to know who calls, what he may do, and how long it takes, is bounded by
// what it allocates, which is the same on any machine.
func TestWhatAskingAllocates(t *testing.T) {
	var nobody float64
	for i, a := range askings(t) {
		call, n := a.direct(t), math.Inf(1)
		for range 3 { // others of the process count too
			n = min(n, testing.AllocsPerRun(1000, call))
		}
		if i == 0 {
			nobody = n
		}
		t.Logf("%s: %v allocations, %v more", a.name, n, n-nobody)
		if n > nobody+a.more {
			t.Errorf("%s: %v allocations more than where nobody is asked, not %v at most", a.name, n-nobody, a.more)
		}
	}
}

// BenchmarkAsked is what a call costs within the server, by who calls and who looks.
func BenchmarkAsked(b *testing.B) {
	for _, a := range askings(b) {
		b.Run(a.name, func(b *testing.B) {
			call := a.direct(b)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}
