package logstore

// The tests of this folder are inside the package, because the weaknesses are.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
)

// world is an object store and a table of entries, with actors on them: each request
// of an actor waits until the scheduler picks it, so that a seed is a schedule. What
// is wrong is said the moment it happens.
type world struct {
	rng     *rand.Rand
	faults  bool
	objects map[string][]byte
	once    map[string][]byte // what a commit's first content was
	entries map[string]Entry
	claims  map[string]string // file name to the temporary file of the claim that counts
	void    map[string]bool   // entries that were claimed again when their commit was there
	mu      sync.Mutex        // of parked, since an actor may have several goroutines
	parked  []*request
	late    []func() // writes that land later
	actors  []*actor
	steps   int
	trace   []string
	wrongs  []string
	acked   map[string]int64 // what was said to be committed, and where
	asking  int              // Spark writers between their look and their claim
}

type request struct {
	actor  *actor
	what   string
	do     func(fate) // carried out by the scheduler
	answer chan struct{}
}

// fate of a request.
type fate int

const (
	done   fate = iota
	lost        // not carried out, error
	landed      // carried out, error
	later       // error, carried out at a later step
)

var errBroken = errors.New("connection broken")

// actor is a process. Once it is dead none of its requests does anything.
type actor struct {
	id   int
	name string
	w    *world
	dead bool
	idle bool
}

var errDead = errors.New("process is dead")

func newWorld(seed uint64) *world {
	return &world{
		rng: rand.New(rand.NewPCG(seed, 1)), faults: true, objects: map[string][]byte{}, once: map[string][]byte{},
		entries: map[string]Entry{}, claims: map[string]string{}, void: map[string]bool{}, acked: map[string]int64{},
	}
}

// start runs an actor as a goroutine.
func (w *world) start(name string, run func(*actor)) *actor {
	a := &actor{id: len(w.actors), name: fmt.Sprintf("%s-%d", name, len(w.actors)), w: w}
	w.actors = append(w.actors, a)
	go func() {
		defer func() { a.idle = true }()
		run(a)
	}()
	return a
}

// request waits its turn.
func (a *actor) request(what string, do func(fate)) error {
	if a.dead {
		return errDead
	}
	r := &request{a, what, do, make(chan struct{})}
	a.w.mu.Lock()
	a.w.parked = append(a.w.parked, r)
	a.w.mu.Unlock()
	<-r.answer
	if a.dead {
		return errDead
	}
	return nil
}

func (w *world) wrong(format string, args ...any) {
	w.wrongs = append(w.wrongs, fmt.Sprintf("step %d: ", w.steps)+fmt.Sprintf(format, args...))
}

// run picks requests until all actors are idle. It reports whether they became so.
func (w *world) run(limit int) bool {
	defer synctest.Wait()
	for ; w.steps < limit; w.steps++ {
		synctest.Wait()
		if len(w.wrongs) > 0 {
			return true
		}
		if len(w.parked) == 0 {
			if len(w.late) == 0 {
				return true
			}
			w.land()
			continue
		}
		if w.faults && w.happening() {
			continue
		}
		slices.SortStableFunc(w.parked, func(a, b *request) int {
			if a.actor != b.actor {
				return a.actor.id - b.actor.id
			}
			return strings.Compare(a.what, b.what)
		})
		i := w.rng.IntN(len(w.parked))
		r := w.parked[i]
		w.parked = slices.Delete(w.parked, i, i+1)
		w.serve(r, w.fate())
	}
	return false
}

func (w *world) fate() fate {
	if !w.faults || w.rng.IntN(100) < 85 {
		return done
	}
	return []fate{lost, landed, later}[w.rng.IntN(3)]
}

func (w *world) serve(r *request, f fate) {
	w.note("%s %s%s", r.actor.name, r.what, []string{"", " (lost)", " (landed)", " (later)"}[f])
	r.do(f)
	close(r.answer)
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%4d ", w.steps)+fmt.Sprintf(format, args...))
}

func (w *world) land() {
	i := w.rng.IntN(len(w.late))
	do := w.late[i]
	w.late = slices.Delete(w.late, i, i+1)
	w.note("a late write lands")
	do()
}

// happening is what befalls the world between requests: a late write lands, a process
// dies, entries expire.
func (w *world) happening() bool {
	switch n := w.rng.IntN(1000); {
	case n < 40 && len(w.late) > 0:
		w.land()
	case n < 60:
		w.kill(w.actors[w.rng.IntN(len(w.actors))])
	case n < 75 && w.asking == 0:
		w.expire()
	default:
		return false
	}
	return true
}

// kill ends a process. A request of it that is on its way may be carried out.
func (w *world) kill(a *actor) {
	if a.dead || a.idle {
		return
	}
	w.note("%s dies", a.name)
	a.dead = true
	w.parked = slices.DeleteFunc(w.parked, func(r *request) bool {
		if r.actor != a {
			return false
		}
		if w.rng.IntN(2) == 0 {
			w.note("%s %s is carried out", a.name, r.what)
			r.do(landed)
		}
		close(r.answer)
		return true
	})
}

// expire lets time go by until completed entries are removed. No request is on its
// way for so long, but a process of ours may sleep. Spark writers between their look
// and their claim are spared: their own protocol does not stand that.
func (w *world) expire() {
	for len(w.late) > 0 {
		w.land()
	}
	w.note("entries expire")
	time.Sleep(25 * time.Hour)
	maps.DeleteFunc(w.entries, func(_ string, e Entry) bool { return e.Complete && e.Expires > 0 && e.Expires <= time.Now().Unix() })
}

// set writes an object, and sees that commits keep their content.
func (w *world) set(key string, data []byte) {
	w.objects[key] = bytes.Clone(data)
	name, ok := strings.CutPrefix(key, root+logFolder)
	if _, isCommit := parseName(name); !ok || !isCommit {
		return
	}
	if was, ok := w.once[key]; ok && !bytes.Equal(was, data) {
		w.wrong("content changed: %s was %q and is %q", name, was, data)
	}
	w.once[key] = bytes.Clone(data)
	if temp, ok := w.claims[name]; ok && !bytes.Equal(w.objects[root+logFolder+temp], data) {
		w.wrong("not its claim: %s is %q, claimed was %s", name, data, temp)
	}
}

// setEntry writes an entry, and sees that it promises nothing that is not there.
func (w *world) setEntry(e Entry) {
	_, there := w.objects[root+logFolder+e.FileName]
	_, temp := w.objects[root+logFolder+e.TempPath]
	v, _ := parseName(e.FileName)
	below, ok := w.entries[fileName(v-1)]
	switch {
	case e.Complete && !there:
		w.wrong("complete without commit: %s", e.FileName)
	case !e.Complete && !temp:
		w.wrong("claimed without file: %s by %s", e.FileName, e.TempPath)
	case !e.Complete && ok && !below.Complete && !w.void[below.FileName]:
		w.wrong("claimed over a gap: %s", e.FileName)
	}
	if _, ok := w.once[root+logFolder+fileName(v-1)]; !ok && v > 0 {
		w.wrong("claimed over nothing: %s", e.FileName)
	}
	if !e.Complete {
		w.void[e.FileName] = there
	}
	if !e.Complete && !there {
		if was, ok := w.claims[e.FileName]; ok && was != e.TempPath {
			w.wrong("claimed twice: %s by %s and %s", e.FileName, was, e.TempPath)
		}
		w.claims[e.FileName] = e.TempPath
	}
	w.entries[e.FileName] = e
}

// objects is the store as one actor sees it.
type objects struct{ *actor }

var _ objstore.Store = objects{}

const root = "db/t/"

// write sends a write: apply carries it out and is what it answers.
func (o objects) write(what string, unknown error, apply func() error) error {
	var err error
	dead := o.request(what, func(f fate) {
		switch f {
		case done:
			err = apply()
			return
		case landed:
			_ = apply()
		case later:
			o.w.late = append(o.w.late, func() { _ = apply() })
		case lost:
		}
		err = fmt.Errorf("%w: %w", unknown, errBroken)
	})
	return errors.Join(dead, err)
}

func (o objects) PutIfAbsent(_ context.Context, key string, data []byte) error {
	return o.write("put if absent "+key, objstore.ErrUnknown, func() error {
		if _, ok := o.w.objects[key]; ok {
			return objstore.ErrExists
		}
		o.w.set(key, data)
		return nil
	})
}

func (o objects) Put(_ context.Context, key string, data []byte) error {
	return o.write("put "+key, objstore.ErrUnknown, func() error {
		o.w.set(key, data)
		return nil
	})
}

func (o objects) Delete(_ context.Context, key string) error {
	return o.write("delete "+key, objstore.ErrUnknown, func() error {
		o.w.wrong("deleted: %s", key)
		delete(o.w.objects, key)
		return nil
	})
}

// read sends a read; some are not answered.
func (a *actor) read(what string, look func() error) error {
	var err error
	dead := a.request(what, func(f fate) {
		if f != done && a.w.rng.IntN(3) == 0 {
			err = errBroken
			return
		}
		err = look()
	})
	return errors.Join(dead, err)
}

func (o objects) Get(_ context.Context, key string, _ objstore.Range) (data []byte, info objstore.Info, err error) {
	err = o.read("get "+key, func() error {
		var ok bool
		if data, ok = o.w.objects[key]; !ok {
			return objstore.ErrNotFound
		}
		return nil
	})
	return data, info, err
}

func (o objects) Stat(ctx context.Context, key string) (objstore.Info, error) {
	_, info, err := o.Get(ctx, key, objstore.Range{})
	return info, err
}

func (o objects) List(_ context.Context, opts objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		var keys []string
		err := o.read("list "+opts.Prefix, func() error {
			keys = slices.Sorted(maps.Keys(o.w.objects))
			return nil
		})
		if err != nil {
			yield(objstore.Entry{}, err)
			return
		}
		for _, k := range keys {
			if strings.HasPrefix(k, opts.Prefix) && !yield(objstore.Entry{Info: objstore.Info{Key: k}}, nil) {
				return
			}
		}
	}
}

// table of entries as one actor sees it.
type entries struct {
	*actor
	blind bool // claims have no condition
}

var _ Entries = entries{}

func (s entries) Get(_ context.Context, _, name string) (e Entry, err error) {
	err = s.read("entry "+name, func() error {
		var ok bool
		if e, ok = s.w.entries[name]; !ok {
			return ErrNoEntry
		}
		return nil
	})
	return e, err
}

func (s entries) Newest(context.Context, string) (e Entry, err error) {
	err = s.read("newest entry", func() error {
		names := slices.Sorted(maps.Keys(s.w.entries))
		if len(names) == 0 {
			return ErrNoEntry
		}
		e = s.w.entries[names[len(names)-1]]
		return nil
	})
	return e, err
}

func (s entries) Claim(_ context.Context, e Entry) (held Entry, err error) {
	err = objects{s.actor}.write("claim "+e.FileName+" "+e.TempPath, ErrUnknown, func() error {
		if was, ok := s.w.entries[e.FileName]; ok && !s.blind {
			if held = was; s.w.rng.IntN(4) == 0 {
				held = Entry{} // some servers do not say
			}
			return ErrClaimed
		}
		s.w.setEntry(e)
		return nil
	})
	return held, err
}

func (s entries) Complete(_ context.Context, e Entry, expires int64) error {
	return objects{s.actor}.write("complete "+e.FileName, ErrUnknown, func() error {
		if was, ok := s.w.entries[e.FileName]; ok && !was.Complete && was.TempPath == e.TempPath {
			was.Complete, was.Expires = true, expires
			s.w.setEntry(was)
		}
		return nil
	})
}
