package locktest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/txcoord/txcoord/lock"
)

func racingCases() []Case {
	return []Case{
		{Name: "RacingPutsHaveOneWinner", Run: racingPutsHaveOneWinner},
		{Name: "ConflictMeansNotWritten", Run: conflictMeansNotWritten},
		{Name: "CountersLoseNothing", Run: countersLoseNothing},
		{Name: "HistoriesAreLinearizable", Run: historiesAreLinearizable},
	}
}

const (
	racers = 32
	rounds = 15
)

// race lets n goroutines go at once and waits for them.
func race(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// outcome is what a racer was told.
type outcome struct {
	value string
	rev   lock.Revision
	err   error
}

// raceOnce races writers of different values, half of them through another client.
func raceOnce(t T, s, other lock.Store, key string, c lock.Condition) []outcome {
	outcomes := make([]outcome, racers)
	race(racers, func(i int) {
		client, value := s, fmt.Sprintf("%s by %d", key, i)
		if i%2 == 1 {
			client = other
		}
		rev, err := client.Put(t.Context(), key, []byte(value), c)
		outcomes[i] = outcome{value, rev, err}
	})
	return outcomes
}

// racingPutsHaveOneWinner races for a key that is absent, then for its revision.
func racingPutsHaveOneWinner(t T, c Config) {
	s := c.New(t)
	other := c.client(t, s)
	for round := range rounds {
		key := fmt.Sprintf("k/%d", round)
		cond := lock.IfAbsent()
		for range 3 {
			winner, ok := oneWinner(t, key, raceOnce(t, s, other, key, cond))
			if !ok {
				break
			}
			wantItem(t, s, key, winner.value, winner.rev)
			cond = lock.IfRevision(winner.rev)
		}
	}
}

func oneWinner(t T, key string, outcomes []outcome) (winner outcome, ok bool) {
	t.Helper()
	won := 0
	for _, o := range outcomes {
		switch {
		case o.err == nil:
			winner = o
			won++
		case !errors.Is(o.err, lock.ErrConflict):
			t.Errorf("%s: got %v, want %v", o.value, o.err, lock.ErrConflict)
		}
	}
	if won != 1 {
		t.Errorf("%s: %d of %d writers won", key, won, len(outcomes))
	}
	return winner, won == 1
}

// conflictMeansNotWritten: what stands after a race is not from one who was refused.
func conflictMeansNotWritten(t T, c Config) {
	s := c.New(t)
	other := c.client(t, s)
	for round := range rounds {
		key := fmt.Sprintf("k/%d", round)
		outcomes := raceOnce(t, s, other, key, lock.IfAbsent())
		item, err := s.Get(t.Context(), key)
		must(t, err)
		for _, o := range outcomes {
			if o.value == string(item.Value) && errors.Is(o.err, lock.ErrConflict) {
				t.Errorf("%q stands, and its writer was told %v", o.value, o.err)
			}
		}
	}
}

// countersLoseNothing counts by read, add, and put if the revision is still there.
func countersLoseNothing(t T, c Config) {
	s := c.New(t)
	other := c.client(t, s)
	put(t, s, "counter", "0", lock.IfAbsent())
	const writers, each = 8, 12
	var mu sync.Mutex
	done, unknown := 0, 0
	race(writers, func(i int) {
		client := s
		if i%2 == 1 {
			client = other
		}
		for range each {
			err := increment(t, client)
			mu.Lock()
			if errors.Is(err, lock.ErrUnknown) {
				unknown++
			} else if err == nil {
				done++
			}
			mu.Unlock()
		}
	})
	item, err := s.Get(t.Context(), "counter")
	must(t, err)
	if n, err := strconv.Atoi(string(item.Value)); err != nil || n < done || n > done+unknown {
		t.Errorf("the counter stands at %q after %d increments and %d unknown ones", item.Value, done, unknown)
	}
}

// increment tries until it is not refused.
func increment(t T, s lock.Store) error {
	for {
		item, err := s.Get(t.Context(), "counter")
		if err != nil {
			t.Errorf("get: %v", err)
			return err
		}
		n, err := strconv.Atoi(string(item.Value))
		if err != nil {
			t.Errorf("the counter holds %q", item.Value)
			return err
		}
		_, err = s.Put(t.Context(), "counter", []byte(strconv.Itoa(n+1)), lock.IfRevision(item.Revision))
		if err != nil && !errors.Is(err, lock.ErrConflict) && !errors.Is(err, lock.ErrUnknown) {
			t.Errorf("put: %v", err)
		}
		if !errors.Is(err, lock.ErrConflict) {
			return err
		}
	}
}
