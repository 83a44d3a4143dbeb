package lock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/memstore"
	"github.com/txcoord/txcoord/twophase"
)

// damages are what may stand in a slot of a ring of 4 instead of what was written there:
// no entry at all, or one whose header says another lap, so that it looks like the entry
// to be replaced, or like one of the future.
func damages(j *lock.Journal, pos twophase.Position) map[string][]byte {
	lap := func(at twophase.Position) []byte {
		b := slices.Clone(lock.Pack(entry(j, at, "filler")))
		b[len(b)-1] ^= 1
		return b
	}
	out := map[string][]byte{"garbage": []byte("garbage"), "nothing": {}, "a lap on": lap(pos + 4), "another slot": lap(pos + 1)}
	if pos >= 4 {
		out["a lap back"] = lap(pos - 4)
	}
	return out
}

// A damaged slot ends an append and a read at once, at whatever length, whether it is
// the position's own entry that is damaged or the one it replaces; nothing is written
// over it. Without an end the append would go on for as long as its context lives.
func TestDamagedSlotEndsAnAppend(t *testing.T) {
	for length := range twophase.Position(11) {
		s := memstore.New(memstore.Config{})
		running := open(t, s, 4)
		fill(t, running, 0, int(length)+1) // another writer has put the last one
		key := ringKey(running, length)
		whole, err := s.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range damages(running, length) {
			putAny(t, s, key, value)
			before := ring(t, s)
			for who, j := range map[string]*lock.Journal{"running": running, "reopened": open(t, s, 4)} {
				// Once for the damaged entry itself, once for the one that replaces it.
				for _, pos := range []twophase.Position{length, length + 4} {
					wantDamaged(t, name+" "+who, j, pos)
				}
			}
			if diff := cmp.Diff(before, ring(t, s)); diff != "" {
				t.Errorf("%s at %d: the ring was written:\n%s", name, length, diff)
			}
		}
		putAny(t, s, key, whole.Value)
		fill(t, running, length+1, 6)
	}
}

func wantDamaged(t *testing.T, name string, j *lock.Journal, pos twophase.Position) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := decoded(j.Append(ctx, pos, entry(j, pos, "me"))); !errors.Is(err, twophase.ErrDamaged) {
		t.Fatalf("%s: append at %d: %v", name, pos, err)
	}
	if err := decoded(j.Read(ctx, pos)); !errors.Is(err, twophase.ErrDamaged) {
		t.Errorf("%s: read at %d: %v", name, pos, err)
	}
}

// decoded is what whoever folds an entry makes of it.
func decoded(raw []byte, err error) error {
	if err == nil {
		_, err = twophase.DecodeEntry(raw)
	}
	return err
}

// No start takes damage for the journal's end: the head is found where it is, or damage
// is told, at once or of one of the two entries that every start reads then: the last
// one, and what stands at the head.
func TestHeadIsNotBeforeDamage(t *testing.T) {
	for length := twophase.Position(1); length < 12; length++ {
		s := memstore.New(memstore.Config{})
		j := open(t, s, 4)
		fill(t, j, 0, int(length))
		for pos := max(length, 4) - 4; pos < length; pos++ {
			whole := entry(j, pos, "filler")
			for name, value := range damages(j, pos) {
				putAny(t, s, ringKey(j, pos), value)
				head, err := j.Next(t.Context())
				if err == nil && head != length {
					err = errors.Join(decoded(j.Read(t.Context(), head-1)), decoded(j.Read(t.Context(), head)))
				}
				if (err != nil || head != length) && !errors.Is(err, twophase.ErrDamaged) {
					t.Errorf("length %d, %s at %d: head %d, %v", length, name, pos, head, err)
				}
			}
			putAny(t, s, ringKey(j, pos), whole)
		}
	}
}

func ringKey(j *lock.Journal, pos twophase.Position) string {
	return j.Prefix() + "0000000" + string(rune('0'+pos%4))
}

func putAny(t *testing.T, s lock.Store, key string, value []byte) {
	t.Helper()
	if _, err := s.Put(t.Context(), key, value, lock.Always()); err != nil {
		t.Fatal(err)
	}
}
