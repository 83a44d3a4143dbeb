package remote

import (
	"context"
	"time"
)

type attempt struct {
	etag    string
	verdict Verdict
	err     error
}

// hedged sends a put, and once more if there is no answer in time. It has landed as
// soon as one of them has; otherwise the verdict is the one that settles least, when
// all have answered.
func (s *Store) hedged(ctx context.Context, send func(ctx context.Context) (string, Verdict, error)) (string, Verdict, error) {
	if s.cfg.HedgeAfter == 0 {
		return send(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan attempt, 2)
	launch := func() {
		etag, verdict, err := send(ctx)
		answers <- attempt{etag, verdict, err}
	}
	go launch()
	timer := time.NewTimer(s.cfg.HedgeAfter)
	defer timer.Stop()
	var last attempt
	for waiting := 1; waiting > 0; {
		select {
		case <-timer.C:
			waiting++
			go launch()
		case a := <-answers:
			waiting--
			timer.Stop()
			if a.err == nil {
				return a.etag, a.verdict, nil
			}
			if last.err == nil || last.verdict < a.verdict {
				last = a
			}
		}
	}
	return last.etag, last.verdict, last.err
}
