package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/txcoord/txcoord/lock"
)

func answerCases() []Case {
	return []Case{
		{Name: "CancelledDoesNothing", Run: cancelledDoesNothing},
		{Name: "CancelledInFlightIsUnknown", Run: cancelledInFlightIsUnknown},
		{Name: "OwnLandedWriteIsNotRefused", Needs: []Capability{LosingReplies}, Run: ownLandedWriteIsNotRefused},
		{Name: "UnknownIsNotRefused", Needs: []Capability{LosingReplies}, Run: unknownIsNotRefused},
		{Name: "AcknowledgedWritesSurviveReopen", Needs: []Capability{Reopening}, Run: acknowledgedWritesSurviveReopen},
		{Name: "RevisionsSurviveReopen", Needs: []Capability{Reopening}, Run: revisionsSurviveReopen},
		{Name: "ClosedStoreCarriesNothingOut", Run: closedStoreCarriesNothingOut},
	}
}

func cancelledDoesNothing(t T, c Config) {
	s := c.New(t)
	rev := put(t, s, "there", "x", lock.IfAbsent())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, absentErr := s.Put(ctx, "new", []byte("y"), lock.IfAbsent())
	_, revErr := s.Put(ctx, "there", []byte("y"), lock.IfRevision(rev))
	_, getErr := s.Get(ctx, "there")
	_, scanErr := s.Scan(ctx, "", "", 0)
	for what, err := range map[string]error{
		"put if absent": absentErr, "put if revision": revErr, "get": getErr, "scan": scanErr, "delete": s.Delete(ctx, "there"),
	} {
		wantErr(t, what, err, context.Canceled)
	}
	wantMissing(t, s, "new")
	wantItem(t, s, "there", "x", rev)
}

// cancelledInFlightIsUnknown ends contexts at all moments of a put. One that says
// neither "done" nor "unknown" has not happened, and does not happen later.
func cancelledInFlightIsUnknown(t T, c Config) {
	s := c.New(t)
	const writers, each = 8, 40
	outcomes := make([]outcome, writers*each)
	race(writers, func(w int) {
		for i := w * each; i < (w+1)*each; i++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(2000))*time.Microsecond)
			key := fmt.Sprintf("k/%d", i)
			rev, err := s.Put(ctx, key, []byte(key), lock.IfAbsent())
			outcomes[i] = outcome{key, rev, err}
			cancel()
		}
	})
	for _, o := range outcomes {
		wantConsistent(t, s, o)
	}
}

// wantConsistent holds what a sole writer of a key was told against the key.
func wantConsistent(t T, s lock.Store, o outcome) {
	t.Helper()
	item, err := s.Get(t.Context(), o.value)
	switch {
	case err != nil && !errors.Is(err, lock.ErrNotFound):
		t.Errorf("get %s: %v", o.value, err)
	case o.err == nil && (err != nil || item.Revision != o.rev):
		t.Errorf("put %s was acknowledged at %q, and get says %s, %v", o.value, o.rev, show(item), err)
	case o.err != nil && err == nil && !errors.Is(o.err, lock.ErrUnknown):
		t.Errorf("put %s was answered %v, and it is there", o.value, o.err)
	case errors.Is(o.err, lock.ErrConflict):
		t.Errorf("put %s had no rival and was answered %v", o.value, o.err)
	}
}

// lostReply is a write that landed and whose answer was lost.
type lostReply struct {
	what, key, value string
	err              error
}

// lostReplies makes one of every kind of write, each on a key of its own.
func lostReplies(t T, s lock.Store, lose func()) []lostReply {
	rev := put(t, s, "if revision", "before", lock.IfAbsent())
	put(t, s, "always", "before", lock.IfAbsent())
	put(t, s, "delete", "before", lock.IfAbsent())
	var replies []lostReply
	for key, c := range map[string]lock.Condition{"if absent": lock.IfAbsent(), "if revision": lock.IfRevision(rev), "always": lock.Always()} {
		lose()
		_, err := s.Put(t.Context(), key, []byte("after"), c)
		replies = append(replies, lostReply{"put " + key, key, "after", err})
	}
	lose()
	return append(replies, lostReply{"delete", "delete", "", s.Delete(t.Context(), "delete")})
}

// ownLandedWriteIsNotRefused: a store, or an SDK, that sends a conditional write
// again when it hears nothing is refused by what it has itself written.
func ownLandedWriteIsNotRefused(t T, c Config) {
	s, lose := c.Lossy(t)
	for _, r := range lostReplies(t, s, lose) {
		item, err := s.Get(t.Context(), r.key)
		landed := err == nil && string(item.Value) == r.value
		if landed && errors.Is(r.err, lock.ErrConflict) {
			t.Errorf("%s: got %v, and its own value stands", r.what, r.err)
		}
		if !landed && r.value != "" {
			t.Errorf("%s: a write whose reply is lost is not there: got %s, %v", r.what, show(item), err)
		}
	}
}

// unknownIsNotRefused: every answer but these two says "certainly not carried out".
func unknownIsNotRefused(t T, c Config) {
	s, lose := c.Lossy(t)
	for _, r := range lostReplies(t, s, lose) {
		if r.err != nil && !errors.Is(r.err, lock.ErrUnknown) {
			t.Errorf("%s: got %v after a reply was lost, want %v, or nil from a store that found out", r.what, r.err, lock.ErrUnknown)
		}
	}
}

// acknowledgedWritesSurviveReopen: many writers at once, then the end.
func acknowledgedWritesSurviveReopen(t T, c Config) {
	s := c.New(t)
	const writers, each = 8, 20
	revs := make([]lock.Revision, writers*each)
	race(writers, func(w int) {
		for i := w * each; i < (w+1)*each; i++ {
			rev, err := s.Put(t.Context(), fmt.Sprintf("k/%d", i), fmt.Append(nil, i), lock.IfAbsent())
			if err == nil && i%5 == 0 {
				err = s.Delete(t.Context(), fmt.Sprintf("k/%d", i))
			}
			if err != nil {
				t.Errorf("%v", err)
			}
			revs[i] = rev
		}
	})
	s = c.Reopen(t, s)
	for i, rev := range revs {
		key := fmt.Sprintf("k/%d", i)
		if i%5 == 0 {
			wantMissing(t, s, key)
		} else {
			wantItem(t, s, key, fmt.Sprint(i), rev)
		}
	}
}

// revisionsSurviveReopen: they are good after it, and are not given out again.
func revisionsSurviveReopen(t T, c Config) {
	s := c.New(t)
	seen := map[lock.Revision]bool{}
	last := put(t, s, "k", "v", lock.IfAbsent())
	for range 5 {
		deleted := put(t, s, "deleted", "v", lock.IfAbsent())
		must(t, s.Delete(t.Context(), "deleted"))
		seen[deleted], seen[last] = true, true
		s = c.Reopen(t, s)
		next := put(t, s, "k", "v", lock.IfRevision(last))
		again := put(t, s, "deleted", "v", lock.IfAbsent())
		if seen[next] || seen[again] {
			t.Errorf("revision %q or %q was given out before", next, again)
		}
		wantRefused(t, s, "k", lock.IfRevision(last))
		wantRefused(t, s, "deleted", lock.IfRevision(deleted))
		must(t, s.Delete(t.Context(), "deleted"))
		last = next
	}
}

func closedStoreCarriesNothingOut(t T, c Config) {
	s := c.New(t)
	put(t, s, "k", "x", lock.IfAbsent())
	must(t, s.Close())
	must(t, s.Close())
	_, putErr := s.Put(t.Context(), "new", []byte("x"), lock.IfAbsent())
	_, getErr := s.Get(t.Context(), "k")
	_, scanErr := s.Scan(t.Context(), "", "", 0)
	for what, err := range map[string]error{"put": putErr, "get": getErr, "scan": scanErr, "delete": s.Delete(t.Context(), "k")} {
		if err == nil || errors.Is(err, lock.ErrConflict) || errors.Is(err, lock.ErrNotFound) {
			t.Errorf("%s on a closed store: got %v", what, err)
		}
	}
}
