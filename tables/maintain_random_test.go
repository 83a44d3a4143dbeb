package tables_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

var (
	maintainRuns = flag.Int("maintain.runs", 8, "random tables that are checkpointed")
	maintainSeed = flag.Uint64("maintain.seed", 0, "seed of the first; 0 takes one from the clock")
)

// randomTable makes commits that keep the protocol's rules.
type randomTable struct {
	*kept
	r    *rand.Rand
	live map[string]string // path to its deletion vector's line, empty if it has none
	next int
	// config has the properties that checkpoints go by.
	config map[string]string
	all    [][]byte // every commit ever
	lost   bool
}

func newRandomTable(t *testing.T, seed uint64) *randomTable {
	x := &randomTable{kept: newKept(t), r: rand.New(rand.NewPCG(seed, 1)), live: map[string]string{}, config: map[string]string{}}
	x.cfg.SidecarRows = 3 + x.r.IntN(30)
	if x.r.IntN(2) == 0 {
		x.config["delta.deletedFileRetentionDuration"] = "interval 1 days"
	}
	x.put1(featureProtocol([]string{"v2Checkpoint", "deletionVectors"}, []string{"v2Checkpoint", "deletionVectors", "domainMetadata"}), x.metadata())
	return x
}

func (x *randomTable) put1(lines ...string) {
	x.all = append(x.all, text(lines...))
	x.commit(lines...)
}

func (x *randomTable) metadata() string {
	for _, p := range []struct{ key, value string }{
		{"delta.checkpointPolicy", "v2"}, {"delta.checkpoint.writeStatsAsStruct", "true"}, {"delta.checkpoint.writeStatsAsJson", "false"},
	} {
		delete(x.config, p.key)
		if x.r.IntN(2) == 0 {
			x.config[p.key] = p.value
		}
	}
	config, err := json.Marshal(x.config)
	if err != nil {
		x.t.Fatal(err)
	}
	return metaOf(schemaJSON, []string{"day", "region"}, string(config[1:len(config)-1]))
}

func (x *randomTable) pick() (string, bool) {
	paths := make([]string, 0, len(x.live))
	for p := range x.live {
		paths = append(paths, p)
	}
	if len(paths) == 0 {
		return "", false
	}
	slices.Sort(paths)
	return paths[x.r.IntN(len(paths))], true
}

func (x *randomTable) add(path, dv string) string {
	fields := []string{`"partitionValues":{"day":"2024-01-0` + fmt.Sprint(1+x.r.IntN(9)) + `","region":` + []string{"null", `""`, `"EU"`}[x.r.IntN(3)] + `}`}
	if x.r.IntN(3) > 0 {
		fields = append(fields, fmt.Sprintf(`"stats":"{\"numRecords\":%d,\"minValues\":{\"id\":%d}}"`, x.r.IntN(100), x.r.IntN(100)))
	}
	if x.r.IntN(5) == 0 {
		fields = append(fields, `"tags":{"a":"<&>"},"baseRowId":7,"defaultRowCommitVersion":1,"clusteringProvider":null`)
	}
	if dv != "" {
		fields = append(fields, dv)
	}
	return fmt.Sprintf(`{"add":{"path":%q,"size":%d,"modificationTime":5,"dataChange":true%s}}`, path, x.r.IntN(1000), tail(fields))
}

func (x *randomTable) removal(path string) string {
	more := []string{}
	if dv := x.live[path]; dv != "" {
		more = append(more, dv)
	}
	return removedAt(path, time.Duration(x.r.Int64N(int64(3*day))), more...)
}

// step makes one commit.
func (x *randomTable) step() {
	var lines []string
	touched := map[string]bool{}
	for range 1 + x.r.IntN(6) {
		path, ok := x.pick()
		if ok && touched[path] {
			continue
		}
		switch n := x.r.IntN(10); {
		case n < 4 || !ok:
			path = fmt.Sprintf("p%d/special%%20%d", x.r.IntN(3), x.next)
			x.next++
			lines = append(lines, x.add(path, ""))
			x.live[path] = ""
		case n < 6:
			lines = append(lines, x.removal(path))
			delete(x.live, path)
		case n < 8:
			dv := vector(fmt.Sprintf("v%d", x.r.IntN(1_000_000)))
			lines = append(lines, x.removal(path), x.add(path, dv))
			x.live[path] = dv
		default:
			lines = append(lines, x.add(path, x.live[path]))
		}
		touched[path] = true
	}
	switch x.r.IntN(8) {
	case 0:
		lines = append(lines, txnLine(fmt.Sprint("app", x.r.IntN(3)), x.r.Int64N(1000)))
	case 1:
		lines = append(lines, fmt.Sprintf(`{"domainMetadata":{"domain":"d%d","configuration":"%d","removed":%v}}`, x.r.IntN(3), x.r.IntN(9), x.r.IntN(2) == 0))
	case 2:
		lines = append(lines, x.metadata())
	case 3:
		lines = append(lines, `{"commitInfo":{"timestamp":1}}`, txnLine("txcoord/c", int64(x.next)))
	}
	x.put1(lines...)
}

// TestRandomTables: whatever checkpoint is made from whatever is left of the log, it
// holds what the JSON commits from the beginning say, and the log that is left
// replays to what they replay to.
func TestRandomTables(t *testing.T) {
	seed := *maintainSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	for i := range *maintainRuns {
		s := seed + uint64(i)
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			runRandom(t, s)
			if t.Failed() {
				t.Logf("again with -maintain.seed=%d -maintain.runs=1", s)
			}
		})
	}
}

func runRandom(t *testing.T, seed uint64) {
	x := newRandomTable(t, seed)
	for range 4 + x.r.IntN(4) {
		for range x.r.IntN(9) {
			x.step()
		}
		x.compareWithJSON()
		c := x.checkpoint()
		if c.Existed {
			continue
		}
		x.compareContent(c)
		x.loseSome(c)
		x.compareWithJSON()
	}
}

func (x *randomTable) compareContent(c *tables.Checkpoint) {
	x.t.Helper()
	keep := 7 * day
	if x.config["delta.deletedFileRetentionDuration"] != "" {
		keep = day
	}
	want, got := reconciled(x.t, x.all, now.Add(-keep).UnixMilli()), x.content(c.Name)
	// Once they were left out, or came from columns, statistics are not what was written.
	if x.lost = x.lost || x.config["delta.checkpoint.writeStatsAsJson"] == "false"; x.lost {
		want, got = withoutStats(x.t, want), withoutStats(x.t, got)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		x.t.Fatalf("checkpoint at %d: %s", c.Version, diff)
	}
}

func withoutStats(t testing.TB, rows []string) (out []string) {
	t.Helper()
	for _, row := range rows {
		var v map[string]map[string]any
		if err := json.Unmarshal([]byte(row), &v); err != nil {
			t.Fatal(err)
		}
		if add := v["add"]; add != nil {
			delete(add, "stats")
		}
		out = append(out, marshal(t, v))
	}
	slices.Sort(out)
	return out
}

// loseSome removes a part of what the checkpoint made superfluous.
func (x *randomTable) loseSome(c *tables.Checkpoint) {
	switch upTo := fmt.Sprintf("%020d.json", c.Version); x.r.IntN(3) {
	case 0:
		x.without(func(n string) bool { return isCommit(n) && n <= upTo })
	case 1:
		x.without(func(n string) bool { return isCommit(n) && n < upTo })
		x.drop("_last_checkpoint")
	}
}

// compareWithJSON replays the log as it is, and one with all commits and nothing else.
func (x *randomTable) compareWithJSON() {
	x.t.Helper()
	whole := newKept(x.t)
	for v, raw := range x.all {
		if err := whole.log.PutCommit(x.t.Context(), twophase.Version(v), raw); err != nil {
			x.t.Fatal(err)
		}
	}
	want, got := whole.seen(), x.seen()
	if x.lost {
		want.Adds, got.Adds = withoutStats(x.t, want.Adds), withoutStats(x.t, got.Adds)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		x.t.Fatalf("after version %d: %s", len(x.all)-1, diff)
	}
}
