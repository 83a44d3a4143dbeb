package tables_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
	"github.com/txcoord/txcoord/twophase"
)

var maintainFiles = flag.Int("maintain.files", 20_000, "live files of the large table")

// The memory that a checkpoint may take above idle: so much for buffers, and so
// much for each file. A million files may take 250 MB.
const (
	memoryFixed   = 150 << 20
	memoryPerFile = 100
)

// TestCheckpointMemory makes the first checkpoint of a large table from its JSON
// commits, and a second one after 1,000 more adds.
func TestCheckpointMemory(t *testing.T) {
	if resident() == 0 || underRace {
		t.Skip("this system does not say how much memory a process has, or it would be the race detector's")
	}
	for _, policy := range []string{"classic", "v2"} {
		t.Run(policy, func(t *testing.T) {
			log, keeper := largeTable(t, policy, *maintainFiles)
			measured(t, "all of it", *maintainFiles, keeper)
			commitAdds(t, log, 1000, 1000)
			measured(t, "and 1,000 adds", *maintainFiles+1000, keeper)
		})
	}
}

const batchOfAdds = 10_000

// largeTable lies in a folder: in memory it would be what is measured.
func largeTable(t *testing.T, policy string, files int) (*tables.Log, func() *tables.Keeper) {
	t.Helper()
	store, err := fileobj.New(t.TempDir(), fileobj.Config{SettleWithin: -1})
	if err != nil {
		t.Fatal(err)
	}
	cfg := tables.LogConfig{Store: store, Key: tableKey, URI: tableURI}
	log := tables.NewLog(cfg)
	first := text(featureProtocol([]string{"v2Checkpoint"}, []string{"v2Checkpoint"}), metaOf(schemaJSON, []string{"region"}, `"delta.checkpointPolicy":"`+policy+`"`))
	if err := log.PutCommit(t.Context(), 0, first); err != nil {
		t.Fatal(err)
	}
	for v := range (files + batchOfAdds - 1) / batchOfAdds {
		commitAdds(t, log, twophase.Version(v+1), min(batchOfAdds, files-v*batchOfAdds))
	}
	return log, func() *tables.Keeper {
		return tables.NewKeeper(tables.KeeperConfig{Log: cfg, Format: checkpoint.Format(), TempDir: t.TempDir()})
	}
}

// commitAdds adds files as an engine writes them, at a version or the next free one.
func commitAdds(t *testing.T, log *tables.Log, v twophase.Version, n int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(v), 7))
	var b bytes.Buffer
	for i := range n {
		var id uuid.UUID
		for j := range id {
			id[j] = byte(r.Uint32())
		}
		region := []string{"EU", "US", "APAC"}[r.IntN(3)]
		low := r.Int64()
		fmt.Fprintf(&b, `{"add":{"path":"region=%s/part-%05d-%s.c000.snappy.parquet","partitionValues":{"region":"%s"},"size":%d,"modificationTime":%d,"dataChange":true,`+
			`"stats":"{\"numRecords\":%d,\"minValues\":{\"id\":%d,\"day\":\"2024-01-%02d\",\"amount\":%.2f,\"note\":\"%x\"},\"maxValues\":{\"id\":%d,\"day\":\"2024-02-%02d\",\"amount\":%.2f,\"note\":\"%x\"},\"nullCount\":{\"id\":0,\"day\":0,\"amount\":%d,\"note\":0}}"}}`+"\n",
			region, i, id, region, r.IntN(1<<28), 1_700_000_000_000+int64(v)*1000, r.IntN(1<<20), low, 1+r.IntN(28), r.Float64()*1000, r.Uint32(), low+r.Int64N(1000), 1+r.IntN(28), r.Float64()*1e6, r.Uint32(), r.IntN(100))
	}
	listing, err := log.List(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.PutCommit(t.Context(), min(v, listing.Last()+1), b.Bytes()); err != nil {
		t.Fatal(err)
	}
}

// measured makes a checkpoint and holds its memory against the bound.
func measured(t *testing.T, what string, files int, open func() *tables.Keeper) {
	t.Helper()
	debug.FreeOSMemory()
	idle := resident()
	done, peak := make(chan struct{}), make(chan int64)
	go func() {
		most := idle
		for {
			select {
			case <-done:
				peak <- most
				return
			case <-time.After(5 * time.Millisecond):
				most = max(most, resident())
			}
		}
	}()
	began := time.Now()
	keeper := open()
	s, err := keeper.Survey(t.Context(), tables.Latest)
	if err != nil {
		t.Fatal(err)
	}
	c, err := keeper.Checkpoint(t.Context(), s, nil)
	took := time.Since(began)
	close(done)
	used := <-peak - idle
	if err != nil || c.Adds != int64(files) {
		t.Fatalf("%s: %+v, %v; want %d adds", what, c, err, files)
	}
	read, written := keeper.Traffic()
	t.Logf("%s: %d files in %v, %d MB above idle; read %d MB, wrote %d MB, checkpoint of %d MB, sidecars %d, used again %d",
		what, files, took.Round(time.Millisecond), used>>20, read>>20, written>>20, c.Bytes>>20, c.Sidecars, c.Reused)
	if bound := int64(memoryFixed + files*memoryPerFile); used > bound {
		t.Errorf("%s: %d MB above idle, the bound is %d MB", what, used>>20, bound>>20)
	}
}

// resident is the memory that the kernel says the process has; 0 if it does not say.
func resident() int64 {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, err := strconv.ParseInt(strings.Fields(string(raw))[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
