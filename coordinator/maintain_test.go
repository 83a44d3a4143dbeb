package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// tended is a world whose tables are maintained, with a clock that the test moves.
type tended struct {
	*world
	later atomic.Int64 // what the wall clock is ahead
}

func newTended(t *testing.T) *tended {
	w := &tended{world: &world{}}
	w.cfg.Now = func() time.Time { return time.Now().Add(time.Duration(w.later.Load())) }
	w.open(t)
	return w
}

func (w *tended) maintainer(cfg coordinator.MaintainConfig) *coordinator.Maintainer {
	w.t.Helper()
	cfg.Format, cfg.TempDir = checkpoint.Format(), w.t.TempDir()
	m, err := w.catalog.NewMaintainer(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *tended) maintain(m *coordinator.Maintainer, table string, dry bool) coordinator.MaintainReport {
	w.t.Helper()
	r, err := m.Maintain(w.ctx(), coordinator.MaintainRequest{Table: table, DryRun: dry})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// grow commits so many versions.
func (w *tended) grow(table string, n int) {
	w.t.Helper()
	from := int(w.info(table).Version)
	for i := range n {
		name := fmt.Sprintf("%s-%d", table, from+i)
		w.commit(name, blind(table, name))
	}
}

// files are the names below a table's log, commits and checkpoints shortened to
// their version and kind.
func (w *tended) files(table string) (out []string) {
	w.t.Helper()
	prefix := table + "/_delta_log/"
	for e, err := range w.objects.List(w.ctx(), objstore.ListOptions{Prefix: prefix}) {
		if err != nil {
			w.t.Fatal(err)
		}
		name := strings.TrimPrefix(e.Key, prefix)
		if digits, rest, ok := strings.Cut(name, "."); ok && len(digits) == 20 {
			name = strings.TrimLeft(digits[:19], "0") + digits[19:] + "." + rest
		}
		out = append(out, name)
	}
	return out
}

// drop removes commits below a version.
func (w *tended) drop(table string, below int) {
	w.t.Helper()
	for v := range below {
		if err := w.objects.Delete(w.ctx(), fmt.Sprintf("%s/_delta_log/%020d.json", table, v)); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *tended) state(table string) *tables.State {
	w.t.Helper()
	log := tables.NewLog(tables.LogConfig{Store: w.objects, Key: table, URI: w.uri(table), ReadCheckpoint: checkpoint.Read})
	s, err := log.State(w.ctx(), tables.Latest)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

const month = 40 * 24 * time.Hour

// TestMaintainWritesACheckpoint: the commits below it may go, and the catalog goes on.
func TestMaintainWritesACheckpoint(t *testing.T) {
	for _, mode := range []twophase.Mode{twophase.ModeExclusive, twophase.ModeOpen} {
		t.Run(mode.String(), func(t *testing.T) {
			w := newTended(t)
			w.create("a", mode)
			w.grow("a", 7)
			m := w.maintainer(coordinator.MaintainConfig{})
			r := w.maintain(m, "a", false)
			c := r.Checkpoint
			if !c.Written || c.Before != twophase.NoVersion || c.Interval != 10 || c.Adds != 7 || c.Actions != 10 || r.Version != 7 || r.BytesWritten < c.Bytes || r.BytesRead == 0 {
				t.Errorf("report: %+v", r)
			}
			want := w.state("a")
			w.drop("a", 7)
			if got := w.state("a"); got.NumFiles() != 7 || got.Version() != 7 || !cmp.Equal(got.Txns(), want.Txns()) {
				t.Errorf("from the checkpoint: version %d, %d files, %v", got.Version(), got.NumFiles(), got.Txns())
			}
			if again := w.maintain(m, "a", false); again.Checkpoint.Written || again.Checkpoint.Skipped == "" || again.Checkpoint.Before != 7 {
				t.Errorf("again: %+v", again.Checkpoint)
			}
			w.restart()
			w.grow("a", 2)
			if got := w.state("a"); got.NumFiles() != 9 || got.Version() != 9 {
				t.Errorf("after a restart: version %d, %d files", got.Version(), got.NumFiles())
			}
		})
	}
}

// TestMaintainInBackground: a checkpoint whenever the table's interval is full.
func TestMaintainInBackground(t *testing.T) {
	w := newTended(t)
	w.createWith(coordinator.CreateRequest{Name: "own", Schema: schema, Mode: twophase.ModeExclusive, Properties: map[string]string{"delta.checkpointInterval": "3"}})
	w.create("open", twophase.ModeOpen)
	w.create("idle", twophase.ModeExclusive)
	w.maintainer(coordinator.MaintainConfig{Every: 5 * time.Millisecond, Pause: time.Millisecond}).Start()
	for range 12 {
		w.grow("own", 1)
		w.grow("open", 1)
	}
	w.eventually(func() bool {
		own, open := w.checkpoints("own"), w.checkpoints("open")
		return len(own) > 0 && own[len(own)-1] >= 10 && len(open) == 1
	}, "own and open tables have checkpoints")
	own := w.checkpoints("own")
	for i := 1; i < len(own); i++ {
		if own[i]-own[i-1] < 3 {
			t.Errorf("checkpoints at %v, 3 versions apart at least", own)
		}
	}
	if open := w.checkpoints("open"); open[0] < 10 {
		t.Errorf("checkpoint of the open table at %v, 10 is due", open)
	}
	if idle := w.checkpoints("idle"); idle != nil {
		t.Errorf("an idle table has checkpoints at %v", idle)
	}
}

// TestMaintainCleansInBackground: a log that has expired goes without being asked for.
func TestMaintainCleansInBackground(t *testing.T) {
	w := newTended(t)
	w.create("a", twophase.ModeExclusive)
	w.grow("a", 11)
	w.later.Store(int64(month))
	w.maintainer(coordinator.MaintainConfig{Every: 5 * time.Millisecond, Pause: time.Millisecond, CleanEvery: 10 * time.Millisecond}).Start()
	w.eventually(func() bool { return w.files("a")[0] == "11.checkpoint.parquet" }, "only the checkpoint is left")
	w.grow("a", 1)
	if s := w.state("a"); s.NumFiles() != 12 {
		t.Errorf("%d files", s.NumFiles())
	}
}

func (w *tended) checkpoints(table string) (out []int) {
	w.t.Helper()
	for _, name := range w.files(table) {
		var v int
		if digits, ok := strings.CutSuffix(name, ".checkpoint.parquet"); ok {
			if _, err := fmt.Sscan(digits, &v); err != nil {
				w.t.Fatal(err)
			}
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

func (w *tended) eventually(ok func() bool, what string) {
	w.t.Helper()
	for end := time.Now().Add(patient); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("not so after %s: %s", patient, what)
		}
	}
}

// TestMaintainLeavesOpenTables: by a setting.
func TestMaintainLeavesOpenTables(t *testing.T) {
	w := newTended(t)
	w.create("a", twophase.ModeOpen)
	w.grow("a", 12)
	m := w.maintainer(coordinator.MaintainConfig{SkipOpen: true, CleanOpen: true})
	if r := w.maintain(m, "a", false); r.Checkpoint.Written || r.Checkpoint.Skipped == "" || len(w.checkpoints("a")) > 0 {
		t.Errorf("report: %+v", r.Checkpoint)
	}
}

// TestMaintainSeesForeignCommits: they are recorded before the checkpoint is made.
func TestMaintainSeesForeignCommits(t *testing.T) {
	w := newTended(t)
	w.create("a", twophase.ModeOpen)
	w.grow("a", 1)
	if err := w.objects.Put(w.ctx(), fmt.Sprintf("a/_delta_log/%020d.json", 2), add("foreign")); err != nil {
		t.Fatal(err)
	}
	r := w.maintain(w.maintainer(coordinator.MaintainConfig{}), "a", false)
	if r.Version != 2 || r.Checkpoint.Adds != 2 {
		t.Errorf("report: %+v", r)
	}
}

func TestMaintainDryRun(t *testing.T) {
	w := newTended(t)
	w.create("a", twophase.ModeExclusive)
	w.grow("a", 3)
	m := w.maintainer(coordinator.MaintainConfig{})
	w.maintain(m, "a", false)
	w.grow("a", 3)
	w.later.Store(int64(month))
	before := w.files("a")
	dry := w.maintain(m, "a", true)
	if !dry.DryRun || !dry.Checkpoint.Written || dry.CleanUp.Cut != 3 || dry.CleanUp.Commits != 3 || dry.CleanUp.Bytes == 0 || dry.BytesWritten != 0 {
		t.Errorf("dry: %+v", dry)
	}
	if diff := cmp.Diff(before, w.files("a")); diff != "" {
		t.Errorf("a dry run did something: %s", diff)
	}
	wet := w.maintain(m, "a", false)
	if wet.CleanUp.Commits != dry.CleanUp.Commits && wet.CleanUp.Cut != 6 {
		t.Errorf("wet: %+v", wet.CleanUp)
	}
}

// TestMaintainRefuses: a log that is not what the journal says is left alone.
func TestMaintainRefuses(t *testing.T) {
	object := func(name string) string { return "a/_delta_log/" + name }
	commit := fmt.Sprintf("%020d.json", 2)
	tests := []struct {
		name   string
		spoil  func(w *tended)
		reason coordinator.Reason
		says   string
	}{
		{"no owner object", func(w *tended) {
			if err := w.objects.Delete(w.ctx(), object("_txcoord/owner.json")); err != nil {
				w.t.Fatal(err)
			}
		}, coordinator.LogContradiction, "the owner object is gone"},
		{"another owner", func(w *tended) {
			w.put(object("_txcoord/owner.json"), `{"format":1,"catalog":"x","incarnation":"y","table":"t-0000000000000000"}`)
		}, coordinator.LogContradiction, "it belongs to catalog x"},
		{"another content", func(w *tended) {
			w.put(object(commit), strings.Replace(w.get(object(commit)), `"size":1`, `"size":2`, 1))
		}, coordinator.LogContradiction, "version 2 has another content"},
		{"another table", func(w *tended) {
			w.put(object(fmt.Sprintf("%020d.json", 0)), strings.ReplaceAll(w.get(object(fmt.Sprintf("%020d.json", 0))), w.info("a").MetaDataID, "other"))
		}, coordinator.LogContradiction, "metaData.id is other"},
		{"no marker", func(w *tended) {
			w.put(object(commit), strings.Replace(w.get(object(commit)), `"appId":"txcoord/`, `"appId":"x/`, 1))
		}, coordinator.LogContradiction, "the marker is at 1, recorded is 2"},
		{"a gap", func(w *tended) { w.dropOne("a", 1) }, coordinator.LogContradiction, "gap in the log"},
		{"no such table", func(w *tended) {
			if err := w.catalog.Release(w.ctx(), "a", false); err != nil {
				w.t.Fatal(err)
			}
		}, coordinator.TableNotFound, "is not in catalog"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newTended(t)
			w.create("a", twophase.ModeExclusive)
			w.grow("a", 2)
			m := w.maintainer(coordinator.MaintainConfig{})
			tt.spoil(w)
			before := w.files("a")
			_, err := m.Maintain(w.ctx(), coordinator.MaintainRequest{Table: "a"})
			if !errors.Is(err, &coordinator.Error{Reason: tt.reason}) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %s …%s…", err, tt.reason, tt.says)
			}
			if diff := cmp.Diff(before, w.files("a")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func (w *tended) put(key, content string) {
	w.t.Helper()
	if err := w.objects.Put(w.ctx(), key, []byte(content)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *tended) get(key string) string {
	w.t.Helper()
	b, _, err := w.objects.Get(w.ctx(), key, objstore.Range{})
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func (w *tended) dropOne(table string, v int) {
	w.t.Helper()
	if err := w.objects.Delete(w.ctx(), fmt.Sprintf("%s/_delta_log/%020d.json", table, v)); err != nil {
		w.t.Fatal(err)
	}
}

func TestMaintainPastItsBudget(t *testing.T) {
	w := newTended(t)
	w.create("a", twophase.ModeExclusive)
	w.grow("a", 2)
	_, err := w.maintainer(coordinator.MaintainConfig{MaxTableBytes: 10}).Maintain(w.ctx(), coordinator.MaintainRequest{Table: "a"})
	if !errors.Is(err, &coordinator.Error{Reason: coordinator.LimitExceeded}) || !strings.Contains(err.Error(), "maintain_bytes") {
		t.Errorf("got %v", err)
	}
}

func TestMaintainConfigNeedsAFormat(t *testing.T) {
	w := newTended(t)
	if _, err := w.catalog.NewMaintainer(coordinator.MaintainConfig{}); err == nil {
		t.Error("no error")
	}
}

// TestMaintainWaitsItsTurn: one table at a time, and whoever waits can give up.
func TestMaintainWaitsItsTurn(t *testing.T) {
	w := newTended(t)
	w.create("a", twophase.ModeExclusive)
	hold, held := make(chan struct{}), make(chan struct{}, 1)
	w.wrapObjects = func(s objstore.Store) objstore.Store { return heldStore{s, hold, held} }
	w.restart()
	m := w.maintainer(coordinator.MaintainConfig{})
	first := make(chan error, 1)
	go func() {
		_, err := m.Maintain(context.Background(), coordinator.MaintainRequest{Table: "a"})
		first <- err
	}()
	<-held
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := m.Maintain(ctx, coordinator.MaintainRequest{Table: "a"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second: %v", err)
	}
	close(hold)
	if err := <-first; err != nil {
		t.Errorf("the first: %v", err)
	}
}

// heldStore holds up the put of a checkpoint.
type heldStore struct {
	objstore.Store
	hold, held chan struct{}
}

func (s heldStore) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if strings.HasSuffix(key, ".checkpoint.parquet") {
		s.held <- struct{}{}
		<-s.hold
	}
	return s.Store.PutIfAbsent(ctx, key, data)
}

// TestMaintainRemovesStagedParts: those that are of no use any more, and no others.
func TestMaintainRemovesStagedParts(t *testing.T) {
	w := newTended(t)
	w.create("a", twophase.ModeExclusive)
	w.create("b", twophase.ModeExclusive)
	m := w.maintainer(coordinator.MaintainConfig{})
	open, gone := w.begin("open"), w.begin("gone")
	for _, b := range []coordinator.Begun{open, gone} {
		if _, err := w.catalog.Stage(w.ctx(), coordinator.StageRequest{Token: b.Token, Table: "a", Read: blindRead, Actions: add(b.Txn.String())}); err != nil {
			t.Fatal(err)
		}
	}
	var late lock.Item
	for _, it := range w.staged() {
		if strings.Contains(it.Key, gone.Txn.String()) {
			late = it
		}
	}
	if _, err := w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Token: gone.Token}, ""); err != nil {
		t.Fatal(err)
	}
	w.eventually(func() bool { return len(w.staged()) == 1 }, "the sweeper removes the aborted part")
	// A slow Stage lands now, too late for the sweeper's notes; again, if the first
	// listing had removed the part before the notes did.
	w.eventually(func() bool {
		if _, err := w.store.Put(w.ctx(), late.Key, late.Value, lock.Always()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		return len(w.staged()) == 2
	}, "the late part stays")
	for _, tt := range []struct {
		table string
		dry   bool
		parts int
	}{{"b", false, 0}, {"a", true, 1}, {"a", true, 1}, {"a", false, 1}, {"a", true, 0}} {
		r := w.maintain(m, tt.table, tt.dry)
		if r.Payloads.Parts != tt.parts || (r.Payloads.Bytes > 0) != (tt.parts > 0) {
			t.Errorf("%+v: %+v", tt, r.Payloads)
		}
	}
	if left := w.staged(); len(left) != 1 || !strings.Contains(left[0].Key, open.Txn.String()) {
		t.Errorf("left are %v", left)
	}
}

func (w *tended) staged() []lock.Item {
	w.t.Helper()
	items, err := w.store.Scan(w.ctx(), "pay/", "", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return items
}
