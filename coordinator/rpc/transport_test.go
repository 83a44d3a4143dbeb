package rpc_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/rpc"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// On a Unix socket the kernel says who calls.
func TestTheOtherEndOfASocket(t *testing.T) {
	asked := make(chan string, 1)
	f := &fake{begin: func(_ context.Context, q coordinator.BeginRequest) (coordinator.Begun, error) {
		asked <- q.Client
		return coordinator.Begun{}, nil
	}}
	s, err := rpc.NewServer(rpc.Config{Catalogs: map[string]rpc.Catalog{"default": f}})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "s") // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient("unix:"+filepath.Join(dir, "s"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pb.NewTransactionServiceClient(conn).Begin(t.Context(), &pb.BeginRequest{Key: "k"}); err != nil {
		t.Fatal(err)
	}
	if got, want := <-asked, "unix:"+strconv.Itoa(os.Getuid()); got[:len(want)] != want {
		t.Errorf("the client is %q, want %s", got, want)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s.Stop(ctx)
	if err := <-served; err != nil {
		t.Error(err)
	}
}
