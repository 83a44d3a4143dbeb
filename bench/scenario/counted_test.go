package scenario_test

import (
	"context"
	"regexp"
	"testing"

	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/bench/scenario"
)

// What a session does after it has answered, such as a manifest, is the transaction's
// that asked for it: none of the warm-up's, or of opening, counts as a measured one's,
// and none of a measured one's is left out.
func TestWhatComesAfterTheAnswerCountsWhereItBelongs(t *testing.T) {
	counts(t, lazy{Contender: seq()}, map[string]string{"B1": `(?m)lazy .* \S+  +later 1$`, "B2": `(?m)lazy .* \S+  +later 1$`})
}

// One at a time means that nothing of the one before is left to be done, or a single
// manifest is that of two.
func TestOneAtATimeSharesNothing(t *testing.T) {
	counts(t, lazy{Contender: seq(), shares: true, hides: true}, map[string]string{
		"B1": `(?m)lazy .* \S+  +later 1$`, "B13": `one at a time, 1 tables +lazy +3 .* later 1 `,
	})
}

func counts(t *testing.T, of lazy, want map[string]string) {
	t.Helper()
	for name, want := range want {
		cfg := config(t, of)
		cfg.Tables, cfg.Writers = []int{1}, []int{1}
		r, err := scenario.Benchmarks()[name](t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if s := text(t, r); !regexp.MustCompile(want).MatchString(s) {
			t.Errorf("%s: %s is not in it", name, want)
		}
	}
}

// lazy is a contender that makes a thousand more requests for opening, and one for each
// transaction, only when it is waited for. If it shares, one is enough for all that wait.
type lazy struct {
	contend.Contender
	shares, hides bool
}

// Counted is the contender with requests that can be seen, if it hides them.
func (l lazy) Counted() contend.Contender {
	l.hides = false
	return l
}

func (lazy) Name() string { return "lazy" }

func (l lazy) Open(ctx context.Context, dir string, tables int) (contend.Session, error) {
	s, err := l.Contender.Open(ctx, dir, tables)
	return &lazySession{Session: s, due: 1000, lazy: l}, err
}

type lazySession struct {
	contend.Session
	lazy
	due, done int64
}

func (s *lazySession) Commit(ctx context.Context, w contend.Work) error {
	if !s.shares || s.due == 0 {
		s.due++
	}
	return s.Session.Commit(ctx, w)
}

func (s *lazySession) Settle(ctx context.Context) error {
	s.done, s.due = s.done+s.due, 0
	return s.Session.Settle(ctx)
}

func (s *lazySession) Requests() contend.Requests {
	if s.hides {
		return nil
	}
	return contend.Requests{"later": s.done}
}
