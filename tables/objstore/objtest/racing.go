package objtest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/txcoord/txcoord/tables/objstore"
)

func racingCases() []Case {
	return []Case{
		{Name: "RacingPutsHaveOneWinner", Run: racingPutsHaveOneWinner},
		{Name: "ReadersNeverSeeAPart", Run: readersNeverSeeAPart},
		{Name: "LosersSeeTheWinner", Run: losersSeeTheWinner},
	}
}

const (
	racers = 32
	rounds = 25
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

// racingPutsHaveOneWinner races half of the writers through another handle.
func racingPutsHaveOneWinner(t T, c Config) {
	s := c.New(t)
	handles := []objstore.Store{s, c.second(t, s)}
	for round := range rounds {
		key := fmt.Sprintf("_delta_log/%020d.json", round)
		errs := make([]error, racers)
		race(racers, func(i int) {
			errs[i] = handles[i%2].PutIfAbsent(t.Context(), key, content(i))
		})
		if winner, ok := oneWinner(t, key, errs); ok {
			wantObject(t, s, key, content(winner))
		}
	}
}

// content is of a length and of bytes that only one writer writes.
func content(writer int) []byte {
	return bytes.Repeat([]byte{byte('A' + writer)}, 1000+writer)
}

func oneWinner(t T, key string, errs []error) (winner int, ok bool) {
	t.Helper()
	won := 0
	for i, err := range errs {
		switch {
		case err == nil:
			winner = i
			won++
		case !errors.Is(err, objstore.ErrExists):
			t.Errorf("%s: writer %d: got %v, want %v", key, i, err, objstore.ErrExists)
		}
	}
	if won != 1 {
		t.Errorf("%s: %d of %d writers won", key, won, len(errs))
	}
	return winner, won == 1
}

// losersSeeTheWinner: a refusal means that the object can be read.
func losersSeeTheWinner(t T, c Config) {
	s := c.New(t)
	for round := range rounds {
		key := fmt.Sprintf("k/%d", round)
		race(8, func(i int) {
			err := s.PutIfAbsent(t.Context(), key, content(i))
			if _, _, getErr := s.Get(t.Context(), key, objstore.Range{}); getErr != nil {
				t.Errorf("%s: writer %d was answered %v, and then reads %v", key, i, err, getErr)
			}
		})
	}
}

// readersNeverSeeAPart reads while objects appear and while one is replaced.
func readersNeverSeeAPart(t T, c Config) {
	s := c.New(t)
	other := c.second(t, s)
	must(t, s.Put(t.Context(), "replaced", content(0)))
	for round := range rounds {
		fresh := fmt.Sprintf("fresh/%d", round)
		race(6, func(i int) {
			switch i {
			case 0:
				reportErr(t, s.Put(t.Context(), "replaced", content(round%20)))
			case 1:
				reportErr(t, s.PutIfAbsent(t.Context(), fresh, content(round%20)))
			default:
				for range 10 {
					wantWhole(t, other, "replaced")
					wantWhole(t, other, fresh)
				}
			}
		})
	}
}

func reportErr(t T, err error) {
	if err != nil {
		t.Errorf("%v", err)
	}
}

// wantWhole accepts any writer's content, or nothing at all.
func wantWhole(t T, s objstore.Store, key string) {
	data, info, err := s.Get(t.Context(), key, objstore.Range{})
	if errors.Is(err, objstore.ErrNotFound) {
		return
	}
	if err != nil || len(data) == 0 || !bytes.Equal(data, content(int(data[0]-'A'))) || info.Size != int64(len(data)) {
		t.Errorf("get %s: %s, info %+v, %v: not what any writer wrote", key, brief(data), info, err)
	}
}
