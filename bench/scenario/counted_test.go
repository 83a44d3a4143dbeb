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
	for name, want := range map[string]string{"B1": `(?m)lazy .* \S+  +later 1$`, "B2": `(?m)lazy .* \S+  +later 1$`} {
		cfg := config(t, lazy{seq()})
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
// transaction, only when it is waited for.
type lazy struct{ contend.Contender }

func (lazy) Name() string { return "lazy" }

func (l lazy) Open(ctx context.Context, dir string, tables int) (contend.Session, error) {
	s, err := l.Contender.Open(ctx, dir, tables)
	return &lazySession{Session: s, due: 1000}, err
}

type lazySession struct {
	contend.Session
	due, done int64
}

func (s *lazySession) Commit(ctx context.Context, w contend.Work) error {
	s.due++
	return s.Session.Commit(ctx, w)
}

func (s *lazySession) Settle(ctx context.Context) error {
	s.done, s.due = s.done+s.due, 0
	return s.Session.Settle(ctx)
}

func (s *lazySession) Requests() contend.Requests { return contend.Requests{"later": s.done} }
