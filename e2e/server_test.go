package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/rpc"
	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/logstore/dynamo"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
	"github.com/txcoord/txcoord/tables/objstore/s3obj"
)

// serverVariable holds a serverConfig in JSON and makes the test binary a server.
const serverVariable = "TXCOORD_E2E_SERVER"

// serverConfig is what a server process is told.
type serverConfig struct {
	// Dir holds the store file, and the warehouse with the tables in warehouseDir.
	Dir    string
	Kill   *kill
	Slots  int
	Limits coordinator.Limits
	// Shared is a store for several servers; nil: a file in Dir, for one.
	Shared *sharedStore
	// Bucket is Dir by the S3 API, by which the server reaches the warehouse; nil: it
	// uses the folder. newWorld makes one on the test's S3 server, if it is given.
	Bucket *s3obj.Config
	s3     *servers.S3
	// LogStore is for tables of mode delta-storage; may be nil.
	LogStore *dynamo.Config
}

// The parts of serverConfig.Dir.
const (
	warehouseDir = "wh"
	traceFile    = "trace"
	armedFile    = "armed"
	logFile      = "server.log"
)

// serverMain serves until standard input ends, so that no server outlives the test
// that started it. The address that it listens on is its first line of output.
func serverMain(config string) int {
	var c serverConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := serve(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, c serverConfig) error {
	if c.Shared != nil {
		return serveReplica(ctx, c)
	}
	g, err := newGate(c)
	if err != nil {
		return err
	}
	store, err := boltstore.Open(filepath.Join(c.Dir, "store.db"), boltstore.Config{})
	if err != nil {
		return err
	}
	defer store.Close()
	catalog, err := openCatalog(ctx, c, gatedStore{store, g}, g, "")
	if err != nil {
		return err
	}
	defer catalog.Close(context.WithoutCancel(ctx))
	return listen(ctx, catalog)
}

func openCatalog(ctx context.Context, c serverConfig, store lock.Store, g *gate, address string) (*coordinator.Catalog, error) {
	root := filepath.Join(c.Dir, warehouseDir)
	objects, err := openObjects(ctx, c, root)
	if err != nil {
		return nil, err
	}
	logs, err := openLogStore(ctx, c.LogStore, g)
	if err != nil {
		return nil, err
	}
	return coordinator.Open(ctx, coordinator.Config{
		LogStore: logs, Warehouse: root, Store: store, Objects: folder{root, gatedObjects{objects, g}},
		ReadCheckpoint: checkpoint.Read, Version: "e2e", Slots: c.Slots, Limits: c.Limits,
		SharedStore: c.Shared != nil, Address: address,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
}

func openObjects(ctx context.Context, c serverConfig, root string) (objstore.Store, error) {
	if c.Bucket == nil {
		return fileobj.New(root, fileobj.Config{})
	}
	bucket, err := s3obj.New(ctx, *c.Bucket)
	if err != nil {
		return nil, err
	}
	return below{bucket, warehouseDir + "/"}, nil
}

func listen(ctx context.Context, catalog *coordinator.Catalog) error {
	s, err := rpc.NewServer(rpc.Config{Catalogs: map[string]rpc.Catalog{catalog.Name(): catalog}, Version: "e2e"})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		s.Stop(grace)
	}()
	fmt.Println(l.Addr())
	if err := s.Serve(l); err != nil {
		return err
	}
	<-stopped
	return nil
}

// folder serves everything below one local folder.
type folder struct {
	root  string
	store objstore.Store
}

// Open implements coordinator.Objects.
func (f folder) Open(uri string) (objstore.Store, string, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, "", err
	}
	key, below := strings.CutPrefix(u.Path+"/", f.root+"/")
	if u.Scheme != "file" || !below {
		return nil, "", fmt.Errorf("%s is not below %s", uri, f.root)
	}
	return f.store, strings.Trim(key, "/"), nil
}
