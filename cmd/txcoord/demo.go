package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/tables/datafile"
)

type demoCommand struct {
	Folder       string `arg:"" optional:"" help:"Where to put the tables; must not exist or be empty. Default: txcoord-demo here, or the next free txcoord-demo-2, -3, …."`
	Writers      int    `help:"Writers at once." default:"8"`
	Transactions int    `help:"Transactions, at least." default:"400"`
}

// Validate refuses what makes no demo.
func (c *demoCommand) Validate() error {
	if c.Writers < 1 || c.Transactions < c.Writers {
		return usage("--transactions", fmt.Sprint(c.Transactions), "give at least one writer, and a transaction for each")
	}
	return nil
}

// Run tells the story in order: tables, writers, a kill in the middle of
// publishing, a new server, and what became of it all.
func (c *demoCommand) Run(ctx context.Context, s *session) (err error) {
	warehouse, err := freshFolder(c.Folder)
	if err != nil {
		return err
	}
	d := &demo{session: s, warehouse: warehouse, another: c.Folder == "" && filepath.Base(warehouse) != demoFolder, start: time.Now(), paths: newPathReader(warehouse)}
	if d.server, err = newDemoServer(warehouse); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.open(ctx); err != nil {
		return err
	}
	customers, err := d.load(ctx)
	if err != nil {
		return err
	}
	if err := d.storm(ctx, c, customers); err != nil {
		return err
	}
	return d.account(ctx)
}

// demoFolder is where the demo goes if nobody says where.
const demoFolder = "txcoord-demo"

// freshFolder makes the folder. What lies in another one is never touched.
func freshFolder(name string) (string, error) {
	if name != "" {
		if err := os.MkdirAll(name, 0o755); err != nil {
			return "", err
		}
		if all, err := os.ReadDir(name); err != nil || len(all) > 0 {
			return "", errors.Join(err, usage("folder", name, "it is not empty; name one that does not exist"))
		}
		return filepath.Abs(name)
	}
	for i := 1; ; i++ {
		name = demoFolder
		if i > 1 {
			name = fmt.Sprintf("%s-%d", demoFolder, i)
		}
		if err := os.Mkdir(name, 0o755); !errors.Is(err, fs.ErrExist) {
			absolute, abs := filepath.Abs(name)
			return absolute, errors.Join(err, abs)
		}
	}
}

// demo is one run of the demo.
type demo struct {
	*session
	warehouse string
	another   bool // the folder has a number: there are demos before it
	start     time.Time
	server    *demoServer
	api       *client.Client
	writers   *writers
	paths     *pathReader
	crash     crash
	// seen are the snapshots in order, by Watch; watched is the last of them.
	seen    []*txcoordv1.SnapshotChange
	watched atomic.Uint64
}

// crash is what was found when the server was killed.
type crash struct {
	shown bool
	kills int
	// back is how long the new server took until it answered.
	back time.Duration
	// down is how long there was no server.
	down time.Duration
}

func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "%5.1f s  %s\n", time.Since(d.start).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) more(format string, args ...any) {
	fmt.Fprintf(d.out, "         %s\n", fmt.Sprintf(format, args...))
}

func (d *demo) close() error {
	var err error
	if d.api != nil {
		err = d.api.Close()
	}
	return errors.Join(err, d.server.close())
}

// reconnect is quick: the demo's server is away for less than a second.
var reconnect = grpc.WithConnectParams(grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.3, Jitter: 0.2, MaxDelay: 100 * time.Millisecond},
	MinConnectTimeout: time.Second,
})

func (d *demo) open(ctx context.Context) (err error) {
	if err := d.server.start(); err != nil {
		return err
	}
	d.api, err = client.Dial(d.server.address, client.Options{DialOptions: []grpc.DialOption{reconnect}})
	if err != nil {
		return err
	}
	d.say("server %d serves on %s; its store is one file, %s", d.server.pid(), d.server.address,
		filepath.Join(d.warehouse, "_txcoord", "default.db"))
	return nil
}

// load creates the tables and fills them in one transaction.
func (d *demo) load(ctx context.Context) (customers []int64, err error) {
	for i := range shopTables {
		t := &shopTables[i]
		_, err := d.api.Tables.CreateTable(ctx, &txcoordv1.CreateTableRequest{
			Name: t.name, Uri: filepath.Join(d.warehouse, t.name), SchemaJson: datafile.SchemaString(t.columns),
		})
		if err != nil {
			return nil, fmt.Errorf("create %s: %w", t.name, err)
		}
	}
	first := newShop(0, 1_000, nil)
	b := first.orders(2_000, 0.2)
	d.writers = &writers{api: d.api, warehouse: d.warehouse}
	if err := d.writers.sell(ctx, "first-load", b); err != nil {
		return nil, err
	}
	d.say("created orders, order_items and customers, and loaded %d, %d and %d rows in one transaction",
		len(b.rows[ordersTable]), len(b.rows[itemsTable]), len(b.rows[customersTable]))
	return first.customers, nil
}
