// Package self is the benchmarks' own server: the parts that `txcoord serve` is
// made of, with stores that count their requests and a profile of its processor.
// The benchmark's binary starts itself again as this server where requests are to
// be seen; times are taken with the real one.
package self

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/bench/sim"
	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/rpc"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
	"github.com/txcoord/txcoord/lock/etcdstore"
	"github.com/txcoord/txcoord/lock/memstore"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
)

// Command is the first argument that makes the benchmark's binary this server.
const Command = "serve-itself"

// options are the flags after it.
type options struct {
	listen, counts, dir string
	Options
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet(Command, flag.ContinueOnError)
	f.StringVar(&o.listen, "listen", "", "address for gRPC")
	f.StringVar(&o.counts, "counts", "", "address that answers the counts of requests in JSON")
	f.StringVar(&o.dir, "dir", "", "the warehouse, which holds the store as well")
	f.StringVar(&o.Profile, "profile", "", "file for a profile of the processor")
	f.BoolVar(&o.Simulated, "simulated", false, "stores that are as slow as those behind a network")
	f.BoolVar(&o.KeysAlong, "keys-along", false, "a simulated key-value store that takes keys along with an entry")
	f.BoolVar(&o.Kept, "kept", false, "simulated keys that outlive the process, and the limits of a server that maintains tables")
	f.BoolVar(&o.Stalls, "stalls", false, "an object store that can be made to fail")
	f.StringVar(&o.Etcd, "etcd", "", "host:port of an etcd for the store")
	f.BoolVar(&o.Ungathered, "ungathered", false, "waits before no entry for those whom the one before has answered")
	f.DurationVar(&o.Hedge, "hedge", 0, "when a put to simulated stores is sent once more; 0 never")
	return o, f.Parse(args)
}

// Serve serves until ctx ends.
func Serve(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.Profile != "" {
		f, err := os.Create(o.Profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	if os.Getenv("GOMAXPROCS") == "" { // as txcoord does; simulated stores lie in folders, too
		runtime.GOMAXPROCS(fileobj.Processors(runtime.GOMAXPROCS(0)))
	}
	store, err := OpenKeys(o.dir, o.Options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	files, err := OpenObjects(o.dir, o.Simulated)
	if err != nil {
		return err
	}
	var stall *sim.Objects
	limits := byTheClock
	if o.Stalls {
		if stall, _ = files.(*sim.Objects); stall == nil {
			stall = sim.NewObjects(files, sim.Profile{})
		}
		files, limits = stall, coordinator.Limits{}
	}
	var maintain *coordinator.MaintainConfig
	if o.Kept {
		limits, maintain = coordinator.Limits{}, &coordinator.MaintainConfig{Format: checkpoint.Format()}
	}
	if o.Simulated {
		limits.FileExtractEvery, limits.FileReadAhead = max(limits.FileExtractEvery, simulatedExtracts), simulatedReads
		limits.FilePutParallel, limits.FilePutUnhurried = simulatedPuts, simulatedPuts
	}
	if o.Ungathered {
		limits.GatherAtMost = 1
	}
	counter := &contend.Counter{Aside: swept}
	if slow, ok := files.(*sim.Objects); ok && o.Hedge > 0 {
		slow.Hedge(o.Hedge, counter.Twice)
	}
	catalog, err := coordinator.Open(ctx, coordinator.Config{
		Warehouse: o.dir, Store: contend.CountKeys(store, counter), Objects: folder{o.dir, contend.CountObjects(files, counter)},
		ReadCheckpoint: checkpoint.Read, Version: "bench", Maintain: maintain, Limits: limits, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, catalog.Close(context.WithoutCancel(ctx))) }()
	if o.Kept {
		if err := catalog.StartMaintenance(); err != nil {
			return err
		}
	}
	return listen(ctx, o, catalog, answer(store, counter, stall))
}

// byTheClock puts off what a server does now and then without being asked, so that
// what is counted is the transactions': looks at owner objects, at the logs of open
// tables, and for leases that have ended, and extracts.
var byTheClock = coordinator.Limits{OwnerInterval: 24 * time.Hour, PollInterval: 24 * time.Hour, LeaseInterval: 24 * time.Hour, FileExtractEvery: 1 << 30}

// What a server has of buckets, which simulated stores stand for, although their tables lie
// in files: puts in flight, versions between extracts, and commits that are read at once.
const (
	simulatedPuts     = 256
	simulatedExtracts = 256
	simulatedReads    = 64
)

// staged is where payloads are in the store, and swept says of a request that it is
// the sweep's, which goes through all of them at the start, and lists folders of the
// catalog's own. No transaction does.
const staged = "pay/"

func swept(kind, key string) bool {
	return kind == "key scan" && key == staged || kind == "list" && strings.Contains("/"+key, "/_txcoord/")
}

// answer tells what was seen, in JSON. Its own looks are not counted. stall is nil for an
// object store that does not fail.
func answer(store lock.Store, counter *contend.Counter, stall *sim.Objects) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var s seen
		var err error
		switch what := r.URL.Path; {
		case what == askBytes:
			s.Bytes, err = liveBytes(r.Context(), store)
		case what == askOut && stall != nil, what == askBack && stall != nil:
			stall.Out(what == askOut)
		case what != "/" && what != "":
			err = fmt.Errorf("%s cannot be asked", what)
		}
		left, failed := store.Scan(r.Context(), staged, "", 1)
		if err = errors.Join(err, failed); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		s.Requests, s.Staged = counter.Requests(), len(left) > 0
		_ = json.NewEncoder(w).Encode(s)
	}
}

// liveBytes are those of all keys and values.
func liveBytes(ctx context.Context, store lock.Store) (n int64, err error) {
	const page = 1000
	for after := ""; ; {
		items, err := store.Scan(ctx, "", after, page)
		if err != nil || len(items) == 0 {
			return n, err
		}
		for _, it := range items {
			n += int64(len(it.Key) + len(it.Value))
		}
		after = items[len(items)-1].Key
	}
}

// OpenObjects opens the object store in a folder. What the checker reads is there also
// where the store is simulated.
func OpenObjects(dir string, simulated bool) (objstore.Store, error) {
	files, err := fileobj.New(dir, fileobj.Config{})
	if err != nil || !simulated {
		return files, err
	}
	return sim.NewObjects(files, sim.S3()), nil
}

// OpenKeys opens the key-value store of a folder: a file, or, simulated, memory, or keys in
// an etcd.
func OpenKeys(dir string, o Options) (lock.Store, error) {
	if o.Etcd != "" {
		return etcdstore.Open(context.Background(), etcdstore.Config{Endpoints: []string{"http://" + o.Etcd}, Prefix: EtcdPrefix(dir) + "/"})
	}
	var store sim.Batching = memstore.New(memstore.Config{})
	if !o.Simulated || o.Kept {
		var err error
		if store, err = boltstore.Open(filepath.Join(dir, "store.db"), boltstore.Config{}); err != nil {
			return nil, err
		}
	}
	switch {
	case o.Simulated && o.KeysAlong:
		return sim.KeysAlong(store, sim.S3().Key), nil
	case o.Simulated:
		return sim.Keys(store, sim.S3().Key), nil
	}
	return store, nil
}

// EtcdPrefix is where a folder's keys are in an etcd: a name for the folder, which is a fresh one.
func EtcdPrefix(dir string) string { return fmt.Sprintf("bench/%x", sha256.Sum256([]byte(dir))) }

// listen answers until ctx ends, and then finishes the calls in flight.
func listen(ctx context.Context, o options, catalog *coordinator.Catalog, answer http.HandlerFunc) error {
	server, err := rpc.NewServer(rpc.Config{Catalogs: map[string]rpc.Catalog{catalog.Name(): catalog}, Version: "bench"})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	counts := &http.Server{Addr: o.counts, ReadHeaderTimeout: answerWithin, Handler: answer}
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(l) }()
	go func() { ended <- closed(counts.ListenAndServe()) }()
	select {
	case <-ctx.Done():
	case err = <-ended:
		ended <- err
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	server.Stop(grace)
	return errors.Join(counts.Shutdown(grace), <-ended, <-ended)
}

func closed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
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
