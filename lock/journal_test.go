package lock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
	"github.com/txcoord/txcoord/lock/locktest"
	"github.com/txcoord/txcoord/lock/memstore"
	"github.com/txcoord/txcoord/twophase"
)

func open(t testing.TB, s lock.Store, slots int) *lock.Journal {
	t.Helper()
	j, err := lock.OpenJournal(t.Context(), s, slots)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// entry is what a writer puts at a position; writers differ in their bytes. Every other
// one is packed in the store.
func entry(j *lock.Journal, pos twophase.Position, writer string) []byte {
	e := twophase.Entry{Header: twophase.Header{Catalog: j.Meta().Catalog, Incarnation: j.Meta().Incarnation, Position: pos, Writer: writer}}
	if pos%2 == 1 {
		e.Records = slices.Repeat([]twophase.Record{&twophase.Released{Table: "6f1e4a6c-6f5b-4f53-9b5e-0d8f4a1f8a52"}}, 5)
	}
	return e.Encode()
}

// fill appends n entries from a position on.
func fill(t testing.TB, j *lock.Journal, from twophase.Position, n int) {
	t.Helper()
	for i := range n {
		pos := from + twophase.Position(i)
		want := entry(j, pos, "filler")
		got, err := j.Append(t.Context(), pos, want)
		if err != nil || string(got) != string(want) {
			t.Fatalf("append %d: %q, %v", pos, got, err)
		}
	}
}

func ring(t testing.TB, s lock.Store) []lock.Item {
	t.Helper()
	items, err := s.Scan(t.Context(), "ring/", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	return items
}

func TestRingGoesRound(t *testing.T) {
	const slots = 4
	s := memstore.New(memstore.Config{})
	j := open(t, s, slots)
	for pos := range twophase.Position(6*slots + 1) {
		fill(t, j, pos, 1)
		if _, err := j.Read(t.Context(), pos); err != nil {
			t.Fatalf("read %d: %v", pos, err)
		}
		if _, err := j.Read(t.Context(), pos+1); !errors.Is(err, lock.ErrNotFilled) {
			t.Fatalf("read %d, the next one: %v", pos+1, err)
		}
		if pos >= slots {
			if _, err := j.Read(t.Context(), pos-slots); !errors.Is(err, lock.ErrBehind) {
				t.Fatalf("read %d, a lap behind %d: %v", pos-slots, pos, err)
			}
		}
	}
	if n := len(ring(t, s)); n != slots {
		t.Errorf("the ring has %d keys, want %d", n, slots)
	}
}

func TestHeadIsFoundAtEveryLength(t *testing.T) {
	for _, slots := range []int{1, 2, 3, 5, 8, 40} {
		s := memstore.New(memstore.Config{})
		j := open(t, s, slots)
		for pos := range twophase.Position(3*slots + 2) {
			for name, j := range map[string]*lock.Journal{"writer": j, "newcomer": open(t, s, 0)} {
				if got, err := j.Next(t.Context()); err != nil || got != pos {
					t.Fatalf("%d slots, %d entries, %s: next is %d, %v", slots, pos, name, got, err)
				}
			}
			fill(t, j, pos, 1)
		}
	}
}

// distant is a store behind a network: a read takes 10 ms.
type distant struct{ lock.Store }

func (d distant) Get(ctx context.Context, key string) (lock.Item, error) {
	time.Sleep(10 * time.Millisecond)
	return d.Store.Get(ctx, key)
}

// A start waits for five reads before it knows where the journal ends.
func TestHeadIsFoundInFewRoundTrips(t *testing.T) {
	s := memstore.New(memstore.Config{})
	j := open(t, s, lock.DefaultSlots)
	fill(t, j, 0, 5000) // outside the bubble: compressors are shared by all tests
	if _, err := j.Read(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		j := open(t, distant{s}, 0)
		began := time.Now()
		next, err := j.Next(t.Context())
		if took := time.Since(began); err != nil || next != 5000 || took > 50*time.Millisecond {
			t.Errorf("next is %d, after %s: %v", next, took, err)
		}
	})
}

func TestReopenedJournalGoesOn(t *testing.T) {
	s := memstore.New(memstore.Config{})
	first := open(t, s, 4)
	fill(t, first, 0, 10)
	second := open(t, s, 64)
	if diff := cmp.Diff(first.Meta(), second.Meta()); diff != "" {
		t.Errorf("meta of the reopened journal (-first +second):\n%s", diff)
	}
	fill(t, second, 10, 9)
	if _, err := first.Append(t.Context(), 10, entry(first, 10, "late")); !errors.Is(err, lock.ErrBehind) {
		t.Errorf("append at a position that was passed: %v", err)
	}
}

func TestOpenersAgreeOnOneJournal(t *testing.T) {
	s := memstore.New(memstore.Config{})
	var wg sync.WaitGroup
	metas := make([]lock.Meta, 8)
	for i := range metas {
		wg.Go(func() {
			j, err := lock.OpenJournal(t.Context(), s, 4+i)
			if err != nil {
				t.Error(err)
				return
			}
			metas[i] = j.Meta()
		})
	}
	wg.Wait()
	for _, m := range metas[1:] {
		if m != metas[0] {
			t.Errorf("%+v and %+v", metas[0], m)
		}
	}
}

func TestForeignStoreIsRefused(t *testing.T) {
	other, _ := json.Marshal(lock.Meta{Format: 1, Catalog: "c", Incarnation: "i", Slots: 4, Codec: twophase.CodecVersion + 1})
	for name, c := range map[string]struct {
		meta string
		want error
	}{
		"other codec": {string(other), lock.ErrOtherCodec},
		"other key":   {`{"meta":"of something else"}`, nil},
		"no JSON":     {"\x00\x01", nil},
	} {
		s := memstore.New(memstore.Config{})
		if _, err := s.Put(t.Context(), lock.MetaKey, []byte(c.meta), lock.Always()); err != nil {
			t.Fatal(err)
		}
		_, err := lock.OpenJournal(t.Context(), s, 0)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(ring(t, s)); n != 0 {
			t.Errorf("%s: %d entries were written", name, n)
		}
	}
}

func TestGarbageInASlotIsNoEntry(t *testing.T) {
	s := memstore.New(memstore.Config{})
	j := open(t, s, 4)
	fill(t, j, 0, 2)
	for _, it := range ring(t, s) {
		if _, err := s.Put(t.Context(), it.Key, it.Value[:len(it.Value)/2], lock.Always()); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := j.Read(t.Context(), 1); err == nil || errors.Is(err, lock.ErrNotFilled) {
		t.Errorf("read of a cut entry: %q, %v", got, err)
	}
	if got, err := j.Next(t.Context()); err == nil {
		t.Errorf("head of a damaged ring: %d", got)
	}
}

func TestLoserGetsTheWinner(t *testing.T) {
	s := memstore.New(memstore.Config{})
	a, b := open(t, s, 4), open(t, s, 4)
	for pos := range twophase.Position(13) {
		mine, theirs := entry(a, pos, "a"), entry(b, pos, "b")
		if got, err := a.Append(t.Context(), pos, mine); err != nil || string(got) != string(mine) {
			t.Fatalf("append %d: %v", pos, err)
		}
		if got, err := b.Append(t.Context(), pos, theirs); err != nil || string(got) != string(mine) {
			t.Fatalf("lost append %d: %q, %v", pos, got, err)
		}
	}
}

// TestAppendersRace lets writers of two processes append as fast as they can, through
// a store that loses answers, over a ring so small that laps overtake them.
func TestAppendersRace(t *testing.T) {
	s := memstore.New(memstore.Config{})
	var calls atomic.Uint64
	var unanswered sync.Map // positions at which a put landed and was not answered
	faulty := locktest.NewFaulty(s, func(_ context.Context, op locktest.Op) locktest.Fate {
		if op.Kind != locktest.Put || !strings.HasPrefix(op.Key, "ring/") {
			return locktest.Done
		}
		switch calls.Add(1) % 7 {
		case 2:
			return locktest.Lost
		case 5:
			if pos, err := twophase.EntryPosition(op.Value); err == nil {
				unanswered.Store(pos, true)
			}
			return locktest.Landed
		}
		return locktest.Done
	})
	journals := []*lock.Journal{open(t, faulty, 4), open(t, faulty, 4)}
	const writers, length = 6, 300
	var mu sync.Mutex
	filled := map[twophase.Position]string{}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			j := journals[w%2]
			for pos := twophase.Position(0); pos < length; {
				got, err := j.Append(t.Context(), pos, entry(j, pos, fmt.Sprint("writer ", w)))
				switch {
				case errors.Is(err, lock.ErrBehind):
					if pos, err = j.Next(t.Context()); err != nil {
						t.Error(err)
						return
					}
				case err != nil:
					t.Errorf("append %d: %v", pos, err)
					return
				default:
					mu.Lock()
					if was, ok := filled[pos]; ok && was != string(got) {
						t.Errorf("position %d was %q, and is %q", pos, was, got)
					}
					filled[pos] = string(got)
					mu.Unlock()
					pos++
				}
			}
		})
	}
	wg.Wait()
	// Whoever filled a position without hearing of it may find that the ring has gone
	// on a whole lap when it looks; every other position was seen by its writer.
	for pos := range twophase.Position(length) {
		if _, ok := unanswered.Load(pos); filled[pos] == "" && !ok {
			t.Errorf("nobody saw position %d filled", pos)
		}
	}
}

// script hands out fates for the puts on the ring, in order, and Done afterwards.
func script(fates ...locktest.Fate) func(context.Context, locktest.Op) locktest.Fate {
	var mu sync.Mutex
	return func(_ context.Context, op locktest.Op) locktest.Fate {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind != locktest.Put || !strings.HasPrefix(op.Key, "ring/") || len(fates) == 0 {
			return locktest.Done
		}
		fate := fates[0]
		fates = fates[1:]
		return fate
	}
}

func TestAppendUntilFilled(t *testing.T) {
	for name, fates := range map[string][]locktest.Fate{
		"unreachable at first":   {locktest.Refused, locktest.Refused},
		"lost":                   {locktest.Lost},
		"lost twice":             {locktest.Lost, locktest.Lost},
		"landed, answer lost":    {locktest.Landed},
		"lost, then landed":      {locktest.Lost, locktest.Landed},
		"unreachable and landed": {locktest.Refused, locktest.Landed},
	} {
		for _, pos := range []twophase.Position{0, 3, 4, 9} {
			s := memstore.New(memstore.Config{})
			fill(t, open(t, s, 4), 0, int(pos))
			counting := locktest.NewCounting(s, nil)
			j := open(t, locktest.NewFaulty(counting, script(fates...)), 4)
			want := entry(j, pos, "me")
			got, err := j.Append(t.Context(), pos, want)
			if err != nil || string(got) != string(want) {
				t.Errorf("%s, position %d: %q, %v", name, pos, got, err)
			}
			if n := counting.Counts()[locktest.Call{Kind: locktest.Put, Class: "ring"}]; n != 1 {
				t.Errorf("%s, position %d: the entry was put %d times", name, pos, n)
			}
		}
	}
}

// A put whose answer was lost may land when a rival has the position, or when the
// ring has gone round: then its slot is not what it replaces any more (A1).
func TestLatePutNeverLands(t *testing.T) {
	for _, laps := range []int{0, 1, 3} {
		s := memstore.New(memstore.Config{})
		rival := open(t, s, 4)
		fill(t, rival, 0, 6)
		var faulty *locktest.Faulty
		late := script(locktest.Later)
		once := sync.Once{}
		faulty = locktest.NewFaulty(s, func(ctx context.Context, op locktest.Op) locktest.Fate {
			if fate := late(ctx, op); fate != locktest.Done {
				return fate
			}
			if faulty.Held() > 0 { // the look after the unknown answer
				once.Do(func() { fill(t, rival, 6, 1+4*laps) })
			}
			return locktest.Done
		})
		j := open(t, faulty, 4)
		got, err := j.Append(t.Context(), 6, entry(j, 6, "sleeper"))
		switch {
		case laps > 0 && !errors.Is(err, lock.ErrBehind), laps == 0 && (err != nil || string(got) != string(entry(j, 6, "filler"))):
			t.Errorf("%d laps: %q, %v", laps, got, err)
		}
		before := ring(t, s)
		if !faulty.Land(0) {
			t.Fatal("nothing was held")
		}
		if diff := cmp.Diff(before, ring(t, s)); diff != "" {
			t.Errorf("%d laps: a late put changed the ring:\n%s", laps, diff)
		}
	}
}

func TestAppendWaitsLongerEachTime(t *testing.T) {
	for _, fate := range []locktest.Fate{locktest.Lost, locktest.Refused} {
		synctest.Test(t, func(t *testing.T) {
			var puts atomic.Int64
			s := locktest.NewFaulty(memstore.New(memstore.Config{}), func(_ context.Context, op locktest.Op) locktest.Fate {
				if op.Kind != locktest.Put || op.Key == lock.MetaKey {
					return locktest.Done
				}
				puts.Add(1)
				return fate
			})
			j := open(t, s, 4)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := j.Append(ctx, 0, entry(j, 0, "me"), lock.Write{Key: "pay/1", Value: []byte("x")})
			if err == nil || fate == locktest.Lost && !errors.Is(err, lock.ErrUnknown) {
				t.Errorf("append that never got through: %v", err)
			}
			if n := puts.Load(); n < 1 || n > 80 {
				t.Errorf("%d puts in a minute", n)
			}
		})
	}
}

func TestEndedContextIsUnknown(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := locktest.NewFaulty(memstore.New(memstore.Config{}), func(_ context.Context, op locktest.Op) locktest.Fate {
		if op.Kind == locktest.Put && op.Key != lock.MetaKey {
			cancel()
			return locktest.Lost
		}
		return locktest.Done
	})
	j := open(t, s, 4)
	if _, err := j.Append(ctx, 0, entry(j, 0, "me")); !errors.Is(err, lock.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("append whose context ended: %v", err)
	}
}

func TestTooLargeIsFinal(t *testing.T) {
	s := memstore.New(memstore.Config{MaxValue: 300})
	j := open(t, s, 4)
	if _, err := j.Append(t.Context(), 0, entry(j, 0, strings.Repeat("x", 400))); !errors.Is(err, lock.ErrTooLarge) {
		t.Errorf("append of an entry past the store's limit: %v", err)
	}
	fill(t, j, 0, 1)
}

// A store that was put back to an older state must not be appended to (R7).
func TestShortJournalIsNoticed(t *testing.T) {
	s := memstore.New(memstore.Config{})
	j := open(t, s, 4)
	fill(t, j, 0, 6)
	older := ring(t, s)
	fill(t, j, 6, 5)
	for _, it := range older {
		if _, err := s.Put(t.Context(), it.Key, it.Value, lock.Always()); err != nil {
			t.Fatal(err)
		}
	}
	restored := ring(t, s)
	for name, j := range map[string]*lock.Journal{"running": j, "reopened": open(t, s, 4)} {
		if _, err := j.Append(t.Context(), 11, entry(j, 11, "me")); !errors.Is(err, lock.ErrShort) {
			t.Errorf("%s: append at 11 where the journal ends at 6: %v", name, err)
		}
		if _, err := j.Read(t.Context(), 11); !errors.Is(err, lock.ErrShort) {
			t.Errorf("%s: read at 11 where the journal ends at 6: %v", name, err)
		}
	}
	if diff := cmp.Diff(restored, ring(t, s)); diff != "" {
		t.Errorf("the ring was written:\n%s", diff)
	}
}

// What goes along with an entry is durable when the entry is, whatever became of it.
func TestWritesAlongAreDurableFirst(t *testing.T) {
	with := []lock.Write{{Key: "pay/1", Value: []byte("one")}, {Key: "pay/2", Value: []byte("two")}}
	bolt, err := boltstore.Open(t.TempDir()+"/store.db", boltstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer bolt.Close()
	mem := memstore.New(memstore.Config{})
	lost := map[string]bool{}
	var mu sync.Mutex
	checked := locktest.NewFaulty(mem, func(ctx context.Context, op locktest.Op) locktest.Fate {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case strings.HasPrefix(op.Key, "pay/") && !lost[op.Key]:
			lost[op.Key] = true
			return locktest.Lost // once each
		case op.Kind == locktest.Put && strings.HasPrefix(op.Key, "ring/"):
			for _, w := range with {
				if _, err := mem.Get(ctx, w.Key); err != nil {
					t.Errorf("%s when the entry is put: %v", w.Key, err)
				}
			}
		}
		return locktest.Done
	})
	for name, s := range map[string]lock.Store{"one by one": checked, "together": bolt} {
		j := open(t, s, 4)
		if _, err := j.Append(t.Context(), 0, entry(j, 0, "me"), with...); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		more := []lock.Write{{Key: "pay/3", Value: []byte("three")}}
		if got, err := j.Append(t.Context(), 0, entry(j, 0, "loser"), more...); err != nil || string(got) != string(entry(j, 0, "me")) {
			t.Errorf("%s: lost append: %q, %v", name, got, err)
		}
		for _, w := range append(with, more...) {
			if it, err := s.Get(t.Context(), w.Key); err != nil || string(it.Value) != string(w.Value) {
				t.Errorf("%s: %s: %q, %v", name, w.Key, it.Value, err)
			}
		}
	}
}
