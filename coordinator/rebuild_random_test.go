package coordinator_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/memstore"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

var (
	rebuildRuns = flag.Int("rebuild.runs", 5, "catalogs that lose their journals at random moments")
	rebuildSeed = flag.Uint64("rebuild.seed", 1, "first seed of them")
)

// A catalog that loses its journal at any moment, time and again, loses nothing that a
// client was told is published, does nothing twice, however clients repeat their calls, and
// names what is torn; also while a server of a life before runs on, and while puts of it land
// whenever they like. The sequence of operations follows from the seed.
func TestRebuildAtAnyMoment(t *testing.T) {
	t.Parallel()
	for i := range *rebuildRuns {
		seed := *rebuildSeed + uint64(i)
		t.Run(fmt.Sprintf("rebuild.seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			l := newLives(t, seed)
			for range 2 + l.rng.IntN(2) {
				l.live()
				l.loseJournal()
			}
			l.live()
			l.heal()
			l.verify()
		})
	}
}

// lives is a catalog that loses its journal.
type lives struct {
	*world // of the life that is on
	rng    *rand.Rand
	holds  *heldPuts
	jobs   []*lifeJob
	old    []*world     // servers of lives before that run on
	late   []objtest.Op // puts of lives before that have not landed yet
	named  map[twophase.TxnID]bool
	sick   bool                     // something of a life before is in a log that this one does not know
	first  twophase.SnapshotVersion // from which this life went on
	id     string
	// Not for the verdict: what has happened.
	counts map[string]int
}

// lifeJob is what a client wants done once, in each of its tables.
type lifeJob struct {
	key, path string
	tables    []string
	attempt   uint32
	lost      uint32 // attempts that were aborted before it
	txn       twophase.TxnID
	published bool // its client was told
	unknown   bool // by a server of a life before, when this life had begun
}

func newLives(t *testing.T, seed uint64) *lives {
	l := &lives{rng: rand.New(rand.NewPCG(seed, 7)), named: map[twophase.TxnID]bool{}, counts: map[string]int{}}
	w := &world{objects: memobj.New()}
	w.cfg.Limits.ManifestSnapshots = 1
	w.cfg.Limits.InlineBytes = []int{1, 1 << 14}[l.rng.IntN(2)]
	w.cfg.Limits.OwnerInterval = 5 * time.Millisecond
	l.begin(w)
	w.open(t)
	for _, name := range []string{"a", "b", "c"} {
		w.create(name, []twophase.Mode{twophase.ModeOpen, twophase.ModeExclusive}[l.rng.IntN(2)])
	}
	l.id = w.status().CatalogID
	t.Cleanup(func() { t.Log(l.counts) })
	return l
}

// begin makes w the life that is on.
func (l *lives) begin(w *world) {
	l.world, l.holds = w, &heldPuts{}
	w.wrapObjects = l.holds.over
}

// live is some time in which everything is as it should be, or nearly.
func (l *lives) live() {
	for range 4 + l.rng.IntN(8) {
		switch n := l.rng.IntN(10); {
		case n < 5:
			l.ask(l.job(1 + l.rng.IntN(3)))
		case n < 6 && !l.sick && l.info("b").Mode == twophase.ModeOpen:
			l.counts["foreign"]++
			l.foreign("b", l.versions("b"), add(fmt.Sprint("theirs", l.versions("b"))))
		case n < 7:
			l.landOne()
		case len(l.jobs) > 0:
			l.again(l.jobs[l.rng.IntN(len(l.jobs))])
		}
	}
}

// job is a new one; some come to their call after attempts that were aborted.
func (l *lives) job(tables int) *lifeJob {
	names := []string{"a", "b", "c"}
	l.rng.Shuffle(3, func(i, j int) { names[i], names[j] = names[j], names[i] })
	key := fmt.Sprint("job", len(l.jobs))
	j := &lifeJob{key: key, path: key, tables: names[:tables], attempt: 1}
	if l.rng.IntN(3) == 0 {
		j.lost = uint32(1 + l.rng.IntN(4))
		l.loseAttempts(j)
	}
	l.jobs = append(l.jobs, j)
	return j
}

func (l *lives) loseAttempts(j *lifeJob) {
	l.t.Helper()
	for ; j.attempt <= j.lost; j.attempt++ {
		b, err := l.catalog.Begin(l.ctx(), coordinator.BeginRequest{Key: j.key, Attempt: j.attempt})
		if err != nil {
			l.t.Fatal(err)
		}
		if _, err := l.catalog.Abort(l.ctx(), coordinator.OutcomeRef{Token: b.Token}, "lost"); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (j *lifeJob) request() coordinator.OnceRequest {
	r := coordinator.OnceRequest{Key: j.key, Attempt: j.attempt}
	for _, name := range j.tables {
		r.Tables = append(r.Tables, blind(name, j.path))
	}
	return r
}

// ask makes a job's call at the life that is on, and says what is wrong with the answer.
func (l *lives) ask(j *lifeJob) {
	l.t.Helper()
	err := l.askAt(l.world, j)
	if own, ok := errors.AsType[*coordinator.Error](err); ok {
		switch own.Reason {
		case coordinator.AttemptUndecided: // its aborts are lost: as the manual says, it begins anew
			l.counts["attempts lost"]++
			j.attempt = 1
			l.ask(j)
			return
		case coordinator.OtherDigests:
			if l.named[l.txnOf(j)] {
				l.counts["torn and known"]++
				return
			}
		default:
		}
	}
	if err != nil && !l.sick {
		l.t.Fatalf("%s/%d on %v: %v", j.key, j.attempt, j.tables, err)
	}
}

func (l *lives) txnOf(j *lifeJob) twophase.TxnID { return twophase.DeriveTxnID(l.id, j.key, j.attempt) }

// askAt makes the call at a server, which may be of a life before.
func (l *lives) askAt(w *world, j *lifeJob) error {
	o, _, err := w.catalog.CommitOnce(w.ctx(), j.request())
	switch {
	case err != nil:
		return err
	case o.Committed == nil:
		return errors.New("it is not committed")
	case j.published && o.Txn != j.txn:
		l.t.Fatalf("%s was published as %s, and now as %s", j.key, j.txn, o.Txn)
	}
	for _, p := range o.Committed.Tables {
		if p.Status != twophase.StatusPublished {
			return fmt.Errorf("on %s it is %v", p.Name, p.Status)
		}
	}
	l.counts["published"]++
	j.txn, j.published = o.Txn, true
	return nil
}

// again is a client that does not know what became of its job. One that was published is
// known by its key, with whatever attempt the client begins.
func (l *lives) again(j *lifeJob) {
	l.t.Helper()
	if !j.published || j.unknown {
		l.ask(j)
		return
	}
	l.counts["asked again"]++
	b, err := l.catalog.Begin(l.ctx(), coordinator.BeginRequest{Key: j.key})
	if err != nil {
		l.t.Fatal(err)
	}
	if !slices.ContainsFunc(b.Known, func(o coordinator.Outcome) bool { return o.Committed != nil && o.Txn == j.txn }) {
		l.t.Fatalf("%s was published as attempt %d, and a job that begins again hears of %+v", j.key, j.attempt, b.Known)
	}
	r := j.request()
	r.Attempt = 1
	o, _, err := l.catalog.CommitOnce(l.ctx(), r)
	if j.attempt == 1 {
		if err != nil && !l.sick || err == nil && o.Txn != j.txn {
			l.t.Fatalf("%s again: %+v, %v", j.key, o, err)
		}
		return
	}
	if err != nil && l.sick {
		return // its tables may be closed, or its log not to be looked at
	}
	own, ok := errors.AsType[*coordinator.Error](err)
	if !ok || own.Reason != coordinator.KeyCommitted && own.Reason != coordinator.Aborted {
		l.t.Fatalf("%s was published as attempt %d, and attempt 1 answers %+v, %v", j.key, j.attempt, o, err)
	}
}

// loseJournal ends a life in the midst of something, and begins another one.
func (l *lives) loseJournal() {
	l.t.Helper()
	var calls sync.WaitGroup
	if l.rng.IntN(3) > 0 {
		l.leaveTorn(&calls)
	} else if !l.sick {
		l.rest()
	}
	was, shown := l.world, l.catalog.Shown()
	runsOn, supersedes := l.rng.IntN(3) == 0, l.rng.IntN(3) == 0
	if !runsOn {
		was.stop()
		l.loseManifests(shown)
	} else {
		l.counts["runs on"]++
		l.old = append(l.old, was)
	}
	l.late = append(l.late, l.holds.taken()...)
	l.rebuildOver(was, supersedes, shown)
	if runsOn && l.rng.IntN(2) == 0 {
		l.counts["asked a life before"]++
		j := l.job(2)
		err := l.askAt(was, j) // it may not know yet
		l.t.Logf("a server of the life before answers %s: %v", j.key, err)
		l.sick, j.unknown = true, j.published
	}
	if runsOn {
		was.eventually("the server of the life before has stopped", func() bool { return was.tag(was.catalog.Tag(was.ctx(), "x", 0)) != nil })
	}
	for range len(l.late) * l.rng.IntN(2) {
		l.landOne()
	}
	calls.Wait()
	l.everybodyAsks()
}

// leaveTorn has calls under way that no server ends: one table's log takes nothing any more.
func (l *lives) leaveTorn(calls *sync.WaitGroup) {
	l.counts["torn at the end"]++
	first := l.job(2 + l.rng.IntN(2))
	held := first.tables[0]
	l.holds.hold(held + "/_delta_log/")
	before := map[string]int{}
	for _, name := range first.tables[1:] {
		before[name] = l.versions(name)
	}
	w := l.world
	catalog, ctx := w.catalog, w.ctx()
	call := func(j *lifeJob) { calls.Go(func() { _, _, _ = catalog.CommitOnce(ctx, j.request()) }) }
	call(first)
	l.eventually("a put is on its way, and the others are there", func() bool {
		if l.sick {
			return true
		}
		for name, n := range before {
			if l.versions(name) == n {
				return false
			}
		}
		return l.holds.any()
	})
	for range l.rng.IntN(3) {
		call(l.job(1 + l.rng.IntN(3))) // may be decided, may wait for the first one's round
	}
}

// loseManifests takes the newest ones away, as if they had not been written yet; but none of those
// that the rebuild before has made up, which it wrote itself.
func (l *lives) loseManifests(shown twophase.SnapshotVersion) {
	if l.rng.IntN(3) > 0 || shown < max(8, l.first+3) {
		return
	}
	l.counts["manifests lost"]++
	for k := shown; k > shown-twophase.SnapshotVersion(1+l.rng.IntN(3)); k-- {
		l.drop(manifestKey(int(k)))
	}
}

// rebuildOver makes a new life, in a new store or in that of the life before.
func (l *lives) rebuildOver(was *world, supersedes bool, shown twophase.SnapshotVersion) {
	l.t.Helper()
	w := &world{t: l.t, dir: was.dir, objects: was.objects, cfg: was.cfg, store: memstore.New(memstore.Config{})}
	opts := coordinator.RebuildOptions{Write: true, Look: []string{"file://" + w.dir}, Accept: []coordinator.RebuildCode{coordinator.RebuildTorn}}
	if supersedes {
		meta, _, err := lock.Present(w.ctx(), was.store)
		if err != nil {
			l.t.Fatal(err)
		}
		w.store, opts.Supersede = was.store, meta.Incarnation
		l.counts["superseded"]++
	}
	l.begin(w)
	var report *coordinator.RebuildReport
	l.eventually("no server of the life before is at work", func() bool {
		var err error
		report, err = w.rebuild(w.store, opts)
		if err != nil && !strings.Contains(err.Error(), "is still running") {
			l.t.Fatal(err)
		}
		return err == nil
	})
	if !report.Written || report.Snapshot <= shown {
		l.t.Fatalf("written %t, it goes on from snapshot %d after %d: %v", report.Written, report.Snapshot, shown, rebuildFindings(report))
	}
	for _, torn := range report.Torn {
		l.counts["torn"]++
		l.named[torn.Txn] = true
	}
	l.sick, l.first = false, report.Snapshot
	for _, j := range l.jobs {
		j.unknown = false
	}
	w.start()
	l.t.Cleanup(w.stop)
}

// rest waits until everything is published. What was staged in lives before stays for a day.
func (l *lives) rest() {
	l.t.Helper()
	l.eventually("everything is published", func() bool {
		st := l.status()
		return st.ManifestSnapshot == st.Shown && len(st.Rounds) == 0
	})
}

// landOne lets a put of a life before land now.
func (l *lives) landOne() {
	if len(l.late) == 0 {
		return
	}
	op := l.late[0]
	l.late = l.late[1:]
	switch err := l.objects.PutIfAbsent(l.ctx(), op.Key, op.Data); {
	case err == nil:
		l.counts["landed late"]++
		l.sick = true
	case errors.Is(err, objstore.ErrExists):
		l.counts["came too late"]++
	default:
		l.t.Fatal(err)
	}
}

// everybodyAsks: all clients make their calls again, and somebody completes what is torn.
func (l *lives) everybodyAsks() {
	l.t.Helper()
	all := slices.Clone(l.jobs)
	l.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, j := range all {
		l.again(j)
	}
	for _, j := range all {
		if in := l.in(j); l.named[l.txnOf(j)] && len(in) < len(j.tables) && l.rng.IntN(2) == 0 {
			l.counts["completed"]++
			rest := slices.DeleteFunc(slices.Clone(j.tables), func(name string) bool { return in[name] > 0 })
			fix := &lifeJob{key: fmt.Sprint("rest of ", j.key, " ", len(l.jobs)), path: j.path, tables: rest, attempt: 1}
			l.jobs = append(l.jobs, fix)
			l.ask(fix)
		}
	}
}

// in counts, by table, in how many versions a job's path is added.
func (l *lives) in(j *lifeJob) map[string]int {
	out := map[string]int{}
	for _, name := range []string{"a", "b", "c"} {
		for v := range l.versions(name) {
			if n := strings.Count(l.read(name, v), fmt.Sprintf(`"add":{"path":%q`, j.path)); n > 0 {
				out[name] += n
			}
		}
	}
	return out
}

// heal ends what is left of lives before, and takes in what they have put.
func (l *lives) heal() {
	l.t.Helper()
	for _, w := range l.old {
		w.stop()
	}
	for len(l.late) > 0 {
		l.landOne()
	}
	for l.sick {
		l.counts["healed"]++
		was, shown := l.world, l.catalog.Shown()
		was.stop()
		l.rebuildOver(was, l.rng.IntN(2) == 0, shown)
		l.everybodyAsks()
	}
}

// verify looks at the logs.
func (l *lives) verify() {
	l.t.Helper()
	l.rest()
	for _, j := range l.jobs {
		in := l.in(j)
		for name, n := range in {
			if n > 1 {
				l.t.Errorf("%s is %d times in %s", j.path, n, name)
			}
		}
		missing := slices.DeleteFunc(slices.Clone(j.tables), func(name string) bool { return in[name] > 0 })
		switch {
		case j.published && len(missing) > 0:
			l.t.Errorf("%s was published, and is not in %v", j.key, missing)
		case len(in) > 0 && len(missing) > 0 && !l.named[l.txnOf(j)]:
			l.t.Errorf("%s is in %v and not in %v, and nothing names it", j.key, slices.Collect(maps.Keys(in)), missing)
		}
	}
	if r := l.fsck(""); !r.Proven() {
		l.t.Errorf("fsck: %v", findings(r))
	}
}

// heldPuts holds puts below a folder up until their server ends, and keeps them.
type heldPuts struct {
	mu     sync.Mutex
	folder string
	kept   []objtest.Op
}

func (h *heldPuts) hold(folder string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.folder = folder
}

func (h *heldPuts) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.kept) > 0
}

func (h *heldPuts) taken() []objtest.Op {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.kept)
}

func (h *heldPuts) over(s objstore.Store) objstore.Store {
	return objtest.Faulty{Store: s, Hook: func(ctx context.Context, op objtest.Op) objtest.Fate {
		if !h.keeps(op) {
			return objtest.Done()
		}
		<-ctx.Done()
		return objtest.Lost()
	}}
}

func (h *heldPuts) keeps(op objtest.Op) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.folder == "" || op.Kind != objtest.PutIfAbsent || objtest.Layout(op.Key) != "commit" || !strings.HasPrefix(op.Key, h.folder) {
		return false
	}
	op.Data = slices.Clone(op.Data)
	h.kept = append(h.kept, op)
	return true
}
