package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/bench/measure"
)

// B4Told is the goal of B4: how long a loser waits for its answer, in ms.
const B4Told = 10.0

// B4 measures conflicts: in each race half of the writers replace one and the same
// file, of which exactly one may win, while the other half appends to the table.
func B4(ctx context.Context, c Config) (*measure.Result, error) {
	writers := slices.Max(c.Writers)
	r := &measure.Result{
		Name: "B4", Title: fmt.Sprintf("%d writers at once, every other one replaces the same file", writers),
		Columns: []string{"contender", "races", "winners", "losers", "appends", "aborted appends", "loser told ms p50", "p99", "winner ms p50", "append ms p50", "committed/s", "requests per race"},
	}
	contenders := slices.DeleteFunc(slices.Clone(c.Contenders), func(k contend.Contender) bool {
		_, ok := k.(contend.Replacer)
		return !ok
	})
	entries, err := c.openAll(ctx, "b4", contenders, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeAll(entries)) }()
	seen := make([]raced, len(entries))
	err = turns(c.Rounds, len(entries), func(round, i int) error {
		c.progress("B4, round %d of %d: %s", round+1, c.Rounds, entries[i].name)
		return seen[i].races(ctx, entries[i], writers, c.Races)
	})
	if err != nil {
		return nil, fmt.Errorf("B4: %w", err)
	}
	for i, e := range entries {
		if _, err := e.check(ctx, nil); err != nil {
			return nil, err
		}
		if err := b4Row(ctx, c, e, writers, seen[i], r); err != nil {
			return nil, err
		}
	}
	r.Note("%d races in %d rounds in turn; a race ends when all have their answer. No race may have another number of winners than one.", c.Races*c.Rounds, c.Rounds)
	return r, nil
}

// raced is what races of one contender came to.
type raced struct {
	file                     string // that the next race is for
	count, aborted           int
	winners, losers, appends measure.Samples
	elapsed                  time.Duration
}

// races runs some, after a first append that makes the file to race for.
func (s *raced) races(ctx context.Context, e *entry, writers, n int) error {
	for range n {
		if s.file == "" {
			first := e.work(0, []int{0})
			if err := e.session.Commit(ctx, first); err != nil {
				return err
			}
			s.file = first.Path()
		}
		if err := s.race(ctx, e, writers); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

func (s *raced) race(ctx context.Context, e *entry, writers int) error {
	work, errs, took := make([]contend.Work, writers), make([]error, writers), make([]time.Duration, writers)
	for w := range writers {
		work[w] = e.work(w, []int{0})
		if w%2 == 0 {
			work[w].Replaces = s.file
		}
	}
	var running sync.WaitGroup
	began := time.Now()
	for w := range writers {
		running.Go(func() {
			start := time.Now()
			errs[w] = e.session.Commit(ctx, work[w])
			took[w] = time.Since(start)
		})
	}
	running.Wait()
	s.elapsed += time.Since(began)
	s.count++
	return s.judge(work, errs, took)
}

// judge sorts the answers. Exactly one of those who replaced the file has to have won.
func (s *raced) judge(work []contend.Work, errs []error, took []time.Duration) error {
	var won []string
	for w, err := range errs {
		replaces := work[w].Replaces != ""
		switch {
		case err != nil && !errors.Is(err, contend.ErrAborted):
			return fmt.Errorf("writer %d: %w", w, err)
		case err == nil && replaces:
			won = append(won, work[w].Path())
			s.winners = append(s.winners, took[w])
		case err == nil:
			s.appends = append(s.appends, took[w])
		case replaces:
			s.losers = append(s.losers, took[w])
		default:
			s.aborted++
		}
	}
	if len(won) != 1 {
		return fmt.Errorf("%d writers replaced one file", len(won))
	}
	s.file = won[0]
	return nil
}

func b4Row(ctx context.Context, c Config, e *entry, writers int, s raced, r *measure.Result) error {
	counted := raced{} // in a session of its own
	asked, err := e.requests(ctx, c, "b4", 1, s.count, func(e *entry) (int, error) {
		err := counted.races(ctx, e, writers, 2)
		return 2, err
	})
	if err != nil {
		return fmt.Errorf("count requests of %s: %w", e.name, err)
	}
	r.Add(e.name, s.count, len(s.winners), len(s.losers), len(s.appends), s.aborted, s.losers.Median(), s.losers.Quantile(0.99),
		s.winners.Median(), s.appends.Median(), float64(len(s.winners)+len(s.appends))/s.elapsed.Seconds(), asked)
	if strings.HasPrefix(e.name, c.Judged) {
		r.AtMost(e.name+", a loser's answer, median ms", measure.Milliseconds(s.losers.Median()), B4Told)
		r.AtMost(e.name+", appends that were aborted", float64(s.aborted), 0)
	}
	return nil
}
