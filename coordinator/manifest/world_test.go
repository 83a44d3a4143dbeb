package manifest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/txcoord/txcoord/coordinator/manifest"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/twophase"
)

const folder = "w/_txcoord/default/manifests/"

// history is the truth: what each snapshot of a catalog changed, from 1 on.
type history []manifest.Delta

func table(i int, v twophase.Version) manifest.Table {
	return manifest.Table{ID: twophase.TableID(fmt.Sprint("t-", i)), Name: fmt.Sprint("n", i), URI: fmt.Sprint("file:///", i), Version: v}
}

// newHistory changes one of four tables with each snapshot, and lets one leave and come back
// under another id now and then.
func newHistory(n int) history {
	h := make(history, n)
	for i := range h {
		d := manifest.Delta{
			Snapshot: twophase.SnapshotVersion(i + 1), Timestamp: twophase.Time(1000 + 10*(i/2)), Kind: "publication",
			Transactions: []string{fmt.Sprintf("%032x", i)}, Tables: []manifest.Table{table(i%4, twophase.Version(i))},
		}
		if i%7 == 6 {
			d.Kind, d.Transactions, d.Tables, d.Removed = "release", []string{}, []manifest.Table{}, []string{fmt.Sprint("t-", i%4)}
		}
		h[i] = d
	}
	return h
}

// at is the map of a snapshot.
func (h history) at(k twophase.SnapshotVersion) map[string]twophase.Version {
	out := map[string]twophase.Version{}
	for _, d := range h[:k] {
		for _, t := range d.Tables {
			out[string(t.ID)] = t.Version
		}
		for _, id := range d.Removed {
			delete(out, id)
		}
	}
	return out
}

func (h history) full(head manifest.Head, k twophase.SnapshotVersion) *manifest.File {
	d := h[k-1]
	d.Tables, d.Removed = []manifest.Table{}, nil
	for id, v := range h.at(k) {
		d.Tables = append(d.Tables, manifest.Table{ID: twophase.TableID(id), Name: "n", URI: "file:///x", Version: v})
	}
	head.Full = true
	return &manifest.File{Head: head, Deltas: []manifest.Delta{d}}
}

// errStopped: the actor is dead.
var errStopped = errors.New("stopped")

// world is one folder, and actors whose every request may be the last one before another
// actor goes on.
type world struct {
	t       *rapid.T
	h       history
	closed  twophase.SnapshotVersion // snapshots that there are by now
	objects objstore.Store
	late    []func() // puts that land later
	actors  []*actor
	faults  bool
	fate    int // of the put that comes next
}

// actor is a coroutine; each request to its store lets the world go on in between.
type actor struct {
	name    string
	next    func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool
	stopped bool
}

func (w *world) start(name string, run func(a *actor)) *actor {
	a := &actor{name: name}
	a.next, a.stop = iter.Pull(func(yield func(struct{}) bool) {
		a.yield = yield
		if a.pause() == nil {
			run(a)
		}
	})
	w.actors = append(w.actors, a)
	return a
}

func (a *actor) pause() error {
	if a.stopped || !a.yield(struct{}{}) {
		a.stopped = true
		return errStopped
	}
	return nil
}

// step lets one actor go on to its next request.
func (w *world) step(a *actor) {
	if w.fate = 0; w.faults { // not in the coroutine: rapid has to see what is drawn
		w.fate = rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1, 2, 3}).Draw(w.t, "fate")
	}
	if _, alive := a.next(); !alive {
		w.actors = slices.DeleteFunc(w.actors, func(b *actor) bool { return a == b })
	}
}

// store is what one actor sees. Conditional puts are done, lost, done without an answer,
// or land later; a listing comes in pages of two names, between which others go on.
type store struct {
	objstore.Store
	w *world
	a *actor
}

func (s store) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	if err := s.a.pause(); err != nil {
		return nil, objstore.Info{}, err
	}
	return s.Store.Get(ctx, key, r)
}

func (s store) PutIfAbsent(ctx context.Context, key string, b []byte) error {
	if err := s.a.pause(); err != nil {
		return err
	}
	switch s.w.fate {
	case 1: // lost
		return objstore.ErrUnknown
	case 2: // landed, and nobody knows
		_ = s.w.land(ctx, key, b)
		return objstore.ErrUnknown
	case 3:
		s.w.late = append(s.w.late, func() { _ = s.w.land(ctx, key, b) })
		return objstore.ErrUnknown
	}
	err := s.w.land(ctx, key, b)
	if stopped := s.a.pause(); stopped != nil {
		return stopped // done, and nobody there to hear of it
	}
	return err
}

func (s store) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		for {
			if err := s.a.pause(); err != nil {
				yield(objstore.Entry{}, err)
				return
			}
			page := 0
			for e, err := range s.Store.List(ctx, o) {
				if !yield(e, err) || err != nil {
					return
				}
				o.StartAfter = e.Key
				if page++; page == 2 {
					break
				}
			}
			if page < 2 {
				return
			}
		}
	}
}

// land lets a put take effect. There is one chain at any moment: each file begins where
// another ends, or is the first; a full map lies where a file ends.
func (w *world) land(ctx context.Context, key string, b []byte) error {
	err := w.objects.PutIfAbsent(ctx, key, b)
	if err != nil {
		return err
	}
	ends := map[twophase.SnapshotVersion]bool{0: true}
	for name, file := range w.files() {
		if file.Full {
			continue
		}
		last := file.Snapshots[len(file.Snapshots)-1].Snapshot
		if ends[last] {
			w.t.Fatalf("two files end with snapshot %d, one is %s", last, name)
		}
		ends[last] = true
	}
	for name, file := range w.files() {
		first := file.Snapshots[0].Snapshot
		if file.Full && !ends[first] || !file.Full && !ends[first-1] {
			w.t.Fatalf("%s begins where no file ends", name)
		}
	}
	return nil
}

// document is a file as docs/manifest.md has it, read without the product's code.
type document struct {
	Format    int
	Full      bool
	Snapshots []struct {
		Snapshot  twophase.SnapshotVersion
		Timestamp int64
		Tables    []struct {
			ID      string
			Version twophase.Version
		}
		Removed []string
	}
}

func parse(b []byte) (d document, err error) {
	err = json.Unmarshal(b, &d)
	if err == nil && (d.Format != 2 || len(d.Snapshots) == 0) {
		err = fmt.Errorf("format %d, %d snapshots", d.Format, len(d.Snapshots))
	}
	return d, err
}

func (d document) apply(to map[string]twophase.Version, upTo twophase.SnapshotVersion) (last twophase.SnapshotVersion) {
	for _, s := range d.Snapshots {
		if last = s.Snapshot; last > upTo {
			continue
		}
		for _, t := range s.Tables {
			to[t.ID] = t.Version
		}
		for _, id := range s.Removed {
			delete(to, id)
		}
	}
	return last
}

// files are all that there are, by name.
func (w *world) files() map[string]document {
	out := map[string]document{}
	for e, err := range w.objects.List(context.Background(), objstore.ListOptions{Prefix: folder}) {
		if err == nil {
			var b []byte
			if b, _, err = w.objects.Get(context.Background(), e.Key, objstore.Range{}); err == nil {
				out[strings.TrimPrefix(e.Key, folder)], err = parse(b)
			}
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return out
}

// durable is the newest snapshot that a file holds.
func (w *world) durable() (last twophase.SnapshotVersion) {
	for _, d := range w.files() {
		last = max(last, d.Snapshots[len(d.Snapshots)-1].Snapshot)
	}
	return last
}

// writer is a replica: it starts at what is durable, and goes on from what stands behind
// it. Its fold may lag behind the newest snapshot, and its limits are its own.
func (w *world) writer(a *actor, most, bytes int, every twophase.SnapshotVersion) {
	ctx := context.Background()
	files := manifest.Files{Store: store{w.objects, w, a}, Folder: folder}
	head := manifest.HeadOf("c", "1")
	done, err := w.begin(ctx, files)
	for err == nil {
		if done >= w.closed {
			err = a.pause()
			continue
		}
		upTo := min(done+twophase.SnapshotVersion(most), w.closed, (done/every+1)*every)
		var file *manifest.File
		if file, err = manifest.Pack(head, slices.Values(w.h[done:upTo]), bytes); err != nil {
			w.t.Fatal(err)
		}
		there, err := files.Append(ctx, file)
		if errors.Is(err, objstore.ErrUnknown) {
			continue
		}
		if err != nil {
			return
		}
		w.truth(there)
		if done = there.Last(); done%every == 0 {
			if err := files.PutFull(ctx, w.h.full(head, done)); errors.Is(err, errStopped) {
				return
			}
		}
	}
}

func (w *world) begin(ctx context.Context, files manifest.Files) (twophase.SnapshotVersion, error) {
	number, above, err := files.Newest(ctx, w.closed)
	if err != nil || number == 0 {
		return 0, err
	}
	if above > w.closed {
		w.t.Fatalf("manifest %d of %d snapshots", above, w.closed)
	}
	file, err := files.Read(ctx, manifest.Name{Snapshot: number})
	if err != nil {
		return 0, err
	}
	w.truth(file)
	return file.Last(), nil
}

// truth: whoever wrote it, a file says what the records say.
func (w *world) truth(f *manifest.File) {
	for i := range f.Deltas {
		want := w.h[f.First()-1+twophase.SnapshotVersion(i)]
		if b, err := want.Encode(); err != nil || string(b) != string(f.Deltas[i].Raw()) && f.Deltas[i].Raw() != nil {
			w.t.Fatalf("%s, want %s: %v", f.Deltas[i].Raw(), b, err)
		}
	}
}

// reader reads as docs/manifest.md says, the newest snapshot or an older one: what it gets
// is a snapshot as it was, and not older than what was durable when it began.
func (w *world) reader(a *actor, want twophase.SnapshotVersion) {
	ctx := context.Background()
	s := store{w.objects, w, a}
	began := w.durable()
	upTo := want
	if want == 0 || want > began {
		want, upTo = 0, 1<<62
	}
	var from, highest twophase.SnapshotVersion
	for e, err := range s.List(ctx, objstore.ListOptions{Prefix: folder}) {
		if err != nil {
			return
		}
		digits, rest, _ := strings.Cut(strings.TrimPrefix(e.Key, folder), ".")
		var k twophase.SnapshotVersion
		if _, err := fmt.Sscanf(digits, "%d", &k); err != nil {
			w.t.Fatal(err)
		}
		if rest == "json" {
			highest = max(highest, k)
		} else if k <= upTo {
			from = max(from, k)
		}
	}
	got, last := map[string]twophase.Version{}, from
	if from > 0 {
		b, _, err := s.Get(ctx, fmt.Sprintf("%s%020d.checkpoint.json", folder, from), objstore.Range{})
		if errors.Is(err, errStopped) {
			return
		}
		d, err := parse(b)
		if err != nil {
			w.t.Fatal(err)
		}
		d.apply(got, upTo)
	}
	for last < upTo {
		b, _, err := s.Get(ctx, fmt.Sprintf("%s%020d.json", folder, last+1), objstore.Range{})
		if errors.Is(err, errStopped) {
			return
		}
		if errors.Is(err, objstore.ErrNotFound) {
			break
		}
		d, err := parse(b)
		if err != nil {
			w.t.Fatal(err)
		}
		last = d.apply(got, upTo)
	}
	if want != 0 {
		last = min(last, want)
	}
	switch {
	case want == 0 && last < max(began, highest), want != 0 && last != want:
		w.t.Fatalf("reads snapshot %d, %d was durable, the highest file is %d, want %d: a hole", last, began, highest, want)
	case !maps.Equal(got, w.h.at(last)):
		w.t.Fatalf("snapshot %d is %v, want %v", last, got, w.h.at(last))
	}
}

func newWorld(t *rapid.T, snapshots int) *world {
	return &world{t: t, h: newHistory(snapshots), objects: memobj.New(), faults: true}
}
