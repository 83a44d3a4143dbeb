package coordinator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// fsck looks at the world's catalog, which may be running.
func (w *world) fsck(table string) *coordinator.FsckReport {
	w.t.Helper()
	cfg := w.cfg
	cfg.Store, cfg.Warehouse, cfg.ReadCheckpoint = w.store, "file://"+w.dir, checkpoint.Read
	cfg.Objects = bare{w}
	r, err := coordinator.Fsck(w.ctx(), cfg, table)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// bare sees the world's objects as they are.
type bare struct{ w *world }

func (b bare) Open(uri string) (objstore.Store, string, error) {
	_, key, err := b.w.Open(uri)
	return b.w.objects, key, err
}

// findings are those of a report, as "code table version transaction".
func findings(r *coordinator.FsckReport) []string {
	var out []string
	for _, f := range r.Findings {
		line := string(f.Code)
		if f.Table != "" {
			line += " " + f.Table
		}
		if f.Version >= 0 {
			line += fmt.Sprint(" ", f.Version)
		}
		if f.Snapshot > 0 {
			line += fmt.Sprint(" snapshot ", f.Snapshot)
		}
		if !f.Txn.IsZero() {
			line += " " + f.Txn.String()
		}
		out = append(out, line)
	}
	return out
}

func (w *world) wantFindings(name string, r *coordinator.FsckReport, want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, findings(r)); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", name, diff)
		for _, f := range r.Findings {
			w.t.Logf("%+v", f)
		}
	}
}

func (w *world) put(key, content string) {
	w.t.Helper()
	if err := w.objects.Put(w.ctx(), key, []byte(content)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) drop(key string) {
	w.t.Helper()
	if err := w.objects.Delete(w.ctx(), key); err != nil {
		w.t.Fatal(err)
	}
}

func manifestKey(k int) string { return fmt.Sprintf("_txcoord/default/manifests/%020d.json", k) }

// Each kind of damage to a catalog that is at rest is reported for what it is, and nothing
// else is; looking writes nothing.
func TestFsckNamesWhatIsDamaged(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.ManifestSnapshots = 1
	w.open(t)
	w.create("a", twophase.ModeOpen)
	w.create("b", twophase.ModeExclusive)
	var txns []string
	for i := range 5 {
		name := fmt.Sprint("t", i)
		txns = append(txns, w.commit(name, blind("a", name), blind("b", name)).Txn.String())
	}
	w.foreign("a", 6, add("theirs"))
	txns = append(txns, w.commit("t5", blind("a", "t5"), blind("b", "t5")).Txn.String())
	w.settle()
	w.unchanged("fsck", func() { w.wantFindings("whole", w.fsck("")) })
	w.stop()
	if r := w.fsck(""); !r.Proven() || r.Tables != 2 || r.Versions != 15 || r.Transactions != 6 || r.Manifests == 0 || r.From != 0 {
		t.Errorf("%+v", r)
	}
	altered := strings.Replace(w.read("a", 2), `"path":"t1"`, `"path":"xx"`, 1)
	posing := strings.ReplaceAll(w.read("b", 1), txns[0], strings.Repeat("ab", 16))
	for name, c := range map[string]struct {
		key, content string
		want         []string
	}{
		"a commit in the middle is gone": {commitKey("a", 3), "", []string{
			"TRANSACTION_INCOMPLETE a 3 " + txns[2], "VERSION_MISSING a 3",
		}},
		"the newest commit is gone": {commitKey("b", 6), "", []string{
			"TRANSACTION_INCOMPLETE b 6 " + txns[5], "VERSION_MISSING b 6",
		}},
		"a commit has other rows":     {commitKey("a", 2), altered, []string{"VERSION_ALTERED a 2"}},
		"a foreign commit is another": {commitKey("a", 6), w.read("a", 6) + string(add("more")), []string{"VERSION_ALTERED a 6"}},
		"a commit is torn": {commitKey("b", 2), w.read("b", 2)[:90], []string{
			"TRANSACTION_INCOMPLETE b 2 " + txns[1], "VERSION_UNREADABLE b 2",
		}},
		"a foreign commit in the place of ours": {commitKey("b", 2), string(add("x")), []string{
			"TRANSACTION_INCOMPLETE b 2 " + txns[1], "VERSION_ALTERED b 2",
		}},
		"a commit that poses as ours": {commitKey("b", 7), strings.Replace(posing, `"version":1}`, `"version":7}`, 1), []string{
			"TRANSACTION_UNKNOWN b 7 " + strings.Repeat("ab", 16),
		}},
		"a copy of one of ours": {commitKey("b", 7), w.read("b", 1), []string{
			"MARKER_WRONG b 7", "TRANSACTION_MISPLACED b 7 " + txns[0],
		}},
		"another incarnation": {commitKey("b", 7), strings.Replace(w.read("b", 1), w.meta().Incarnation, "other", 1), []string{
			"OTHER_INCARNATION b 7",
		}},
		"a manifest is gone":    {manifestKey(4), "", []string{"MANIFEST_MISSING snapshot 4"}},
		"a manifest is another": {manifestKey(4), strings.Replace(w.object(manifestKey(4)), `"version":2`, `"version":1`, 1), []string{"MANIFEST_ALTERED snapshot 4"}},
		"a manifest of the future": {manifestKey(11), strings.Replace(w.object(manifestKey(9)), `"snapshot":9`, `"snapshot":11`, 1), []string{
			"MANIFEST_MISSING snapshot 10", "MANIFEST_AHEAD snapshot 11",
		}},
		"the owner is gone":    {"a/_delta_log/_txcoord/owner.json", "", []string{"OWNER_WRONG a"}},
		"the owner is another": {"a/_delta_log/_txcoord/owner.json", strings.Replace(w.object("a/_delta_log/_txcoord/owner.json"), w.meta().Catalog, "another", 1), []string{"OWNER_WRONG a"}},
	} {
		before := w.object(c.key)
		if c.content == "" {
			w.drop(c.key)
		} else if c.content == before {
			t.Fatalf("%s: nothing is changed", name)
		} else {
			w.put(c.key, c.content)
		}
		damaged := w.keys()
		w.wantFindings(name, w.fsck(""), c.want...)
		if diff := cmp.Diff(damaged, w.keys()); diff != "" {
			t.Errorf("%s: fsck wrote: %s", name, diff)
		}
		if before == "" {
			w.drop(c.key)
		} else {
			w.put(c.key, before)
		}
	}
	w.wantFindings("whole again", w.fsck(""))
	for v, recorded := range map[int]bool{2: true, 7: false} { // above what is recorded there is no file to put back
		key := commitKey("b", v)
		before := w.object(key)
		w.put(key, `{"add":{"pa`)
		r := w.fsck("")
		i := slices.IndexFunc(r.Findings, func(f coordinator.FsckFinding) bool { return f.Code == coordinator.FsckVersionUnreadable })
		if i < 0 || strings.Contains(r.Findings[i].What, "nothing is recorded of that version") == recorded {
			t.Errorf("a torn version %d: %+v", v, r.Findings)
		}
		if w.drop(key); before != "" {
			w.put(key, before)
		}
	}
	w.drop(commitKey("a", 3))
	w.wantFindings("the other table", w.fsck("b"))
	if _, err := coordinator.Fsck(w.ctx(), coordinator.Config{Store: w.store, Objects: bare{w}, Warehouse: "file://" + w.dir, ReadCheckpoint: checkpoint.Read}, "nobody"); err == nil {
		t.Error("a table that is not there was looked at")
	}
}

// A link in a table's log is not followed, and is that table's finding: what is wrong with
// others is found beside it.
func TestFsckBesideALink(t *testing.T) {
	t.Parallel()
	w := &world{files: true}
	w.open(t)
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		w.create(name, twophase.ModeExclusive)
	}
	w.commit("1", blind("a", "1"), blind("b", "1"), blind("c", "1"), blind("d", "1"))
	w.settle()
	w.stop()
	for _, link := range []string{"a", "b/_delta_log", filepath.Join("c", "_delta_log", fmt.Sprintf("%020d.json", 1))} {
		w.must(os.Rename(w.path(link), w.path("away-"+link[:1])), os.Symlink(w.path("away-"+link[:1]), w.path(link)))
	}
	w.wantFindings("links", w.fsck(""), "LOG_LINKED a", "LOG_LINKED b", "LOG_LINKED c")
	w.must(os.Remove(w.path("d/_delta_log/" + fmt.Sprintf("%020d.json", 1))))
	if got := findings(w.fsck("")); len(got) < 4 || !slices.Contains(got, "VERSION_MISSING d 1") {
		t.Errorf("a version is missing beside links: %q", got)
	}
	w.wantFindings("a table alone", w.fsck("a"), "LOG_LINKED a")
}

func (w *world) meta() (m lock.Meta) {
	w.t.Helper()
	item, err := w.store.Get(w.ctx(), lock.MetaKey)
	if err == nil {
		err = json.Unmarshal(item.Value, &m)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// What is decided and not published is named, and is no error as long as its payload is there.
func TestFsckNamesWhatIsPending(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{wrapObjects: gate.over}
	w.cfg.Limits.InlineBytes = 1 << 10
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	w.create("b", twophase.ModeExclusive)
	w.commit("1", blind("a", "1"), blind("b", "1"))
	w.settle()
	gate.refuse()
	large := coordinator.OnceTable{Table: "b", Read: blindRead, Actions: lines(add("2"), add(strings.Repeat("x", 2000)))}
	w.abandonedParts("a", once("k", blind("a", "2"), large))
	b, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	w.stop()
	txn := b.Txn.String()
	w.wantFindings("pending", w.fsck(""), "PENDING a "+txn, "PENDING b "+txn)
	items, err := w.store.Scan(w.ctx(), "pay/", "", 0)
	own := slices.IndexFunc(items, func(it lock.Item) bool { return strings.Contains(it.Key, txn) })
	if err != nil || own < 0 {
		t.Fatalf("no payload among %d, %v", len(items), err)
	}
	payload := items[own]
	if err := w.store.Delete(w.ctx(), payload.Key); err != nil {
		t.Fatal(err)
	}
	w.wantFindings("a payload is gone", w.fsck(""), "PAYLOAD_MISSING a "+txn, "PENDING a "+txn, "PENDING b "+txn)
	if _, err := w.store.Put(w.ctx(), payload.Key, payload.Value, lock.Always()); err != nil {
		t.Fatal(err)
	}
	for key := range w.keys() {
		if name, ok := strings.CutPrefix(key, "object: _txcoord/default/staged/"); ok {
			full := "_txcoord/default/staged/" + name
			w.put(full, strings.Replace(w.object(full), "xx", "yy", 1))
		}
	}
	w.wantFindings("a payload was changed", w.fsck(""), "PAYLOAD_MISSING b "+txn, "PENDING a "+txn, "PENDING b "+txn)
}

// Entries and checkpoint objects that were changed are found; the journal is a small
// ring that has gone round, and what it says of old versions is forgotten.
func TestFsckOfAJournalThatWentRound(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Slots = 32
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	w.create("b", twophase.ModeOpen)
	for i := range 60 {
		name := fmt.Sprint(i)
		w.commit(name, blind("a", name), blind("b", name))
	}
	w.settle()
	w.stop()
	if r := w.fsck(""); !r.Proven() || r.From == 0 || r.Transactions != 60 {
		t.Errorf("%+v", r)
	}
	for i, it := range w.ringItems() { // the last entry is one of them: where, is chance
		flipped := slices.Clone(it.Value)
		flipped[len(flipped)-1-i] ^= 1
		for what, broken := range map[string][]byte{"a bit is another one": flipped, "a half": it.Value[:len(it.Value)/2], "something else": []byte("{}")} {
			w.setItem(it.Key, broken)
			w.wantFindings(fmt.Sprint(it.Key, ": ", what), w.fsck(""), "JOURNAL_BROKEN")
		}
		w.setItem(it.Key, it.Value)
	}
	w.wantFindings("all was put back", w.fsck(""))
	for key := range w.keys() {
		if name, ok := strings.CutPrefix(key, "object: _txcoord/default/checkpoints/"); ok {
			w.drop("_txcoord/default/checkpoints/" + name)
		}
	}
	w.wantFindings("the checkpoint is gone", w.fsck(""), "CHECKPOINT_UNREADABLE")
}

// setItem is somebody who writes into the store by hand.
func (w *world) setItem(key string, value []byte) {
	w.t.Helper()
	if _, err := w.store.Put(w.ctx(), key, value, lock.Always()); err != nil {
		w.t.Fatal(err)
	}
}

// commitOf is the only transaction of a version.
func (w *world) commitOf(table string, v int) string {
	w.t.Helper()
	c, err := tables.ParseCommit(table, twophase.Version(v), []byte(w.read(table, v)))
	if err != nil {
		w.t.Fatal(err)
	}
	tags, err := c.Tags(w.meta().Catalog)
	if err != nil || tags == nil || len(tags.Txns()) != 1 {
		w.t.Fatalf("version %d of %s: %+v, %v", v, table, tags, err)
	}
	return tags.Txns()[0].String()
}

// Versions that others cleaned are no errors, and said to be unprovable.
func TestFsckOfACleanedLog(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeOpen)
	for i := range 6 {
		w.commit(fmt.Sprint(i), blind("t", fmt.Sprint(i)))
	}
	w.settle()
	marker := int64(4)
	w.checkpointed("t", 4, marker, "0", "1", "2", "3")
	w.stop()
	r := w.fsck("")
	w.wantFindings("cleaned", r, "CLEANED t 4")
	if !r.Proven() {
		t.Error("a cleaned log is no damage")
	}
	lost := w.commitOf("t", 6)
	w.put(commitKey("t", 6), string(add("x")))
	w.wantFindings("and another commit in the place of ours", w.fsck(""), "TRANSACTION_INCOMPLETE t 6 "+lost, "VERSION_ALTERED t 6", "CLEANED t 4")
}

// While clients commit and servers are closed at any moment, fsck finds nothing wrong
// at any time, and writes nothing.
func TestFsckBesideServers(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	names := []string{"a", "b", "c"}
	for i, name := range names {
		w.create(name, []twophase.Mode{twophase.ModeOpen, twophase.ModeExclusive, twophase.ModeOpen}[i])
	}
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	n := 0
	for range 5 {
		c := w.catalog
		var wg sync.WaitGroup
		for range 4 {
			base := n
			n += 20
			wg.Go(func() {
				for i := base; i < base+20; i++ {
					name := fmt.Sprint("txn ", i)
					r := once(name, blind(names[i%3], name), blind(names[(i+1)%3], name))
					if _, _, err := c.CommitOnce(context.Background(), r); err != nil {
						return // the catalog is closing
					}
				}
			})
		}
		for range 1 + rnd.IntN(3) {
			if r := w.fsck(""); !r.Proven() {
				t.Errorf("seed %d: %v", seed, findings(r))
			}
		}
		w.stop()
		wg.Wait()
		before := w.keys()
		if r := w.fsck(""); !r.Proven() {
			t.Errorf("seed %d, stopped: %v", seed, findings(r))
		}
		if diff := cmp.Diff(before, w.keys()); diff != "" {
			t.Errorf("fsck wrote: %s", diff)
		}
		w.start()
	}
	w.settle()
	w.wantFindings("settled", w.fsck(""))
}
