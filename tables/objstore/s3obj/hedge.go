package s3obj

import (
	"context"
	"time"
)

type attempt struct {
	etag   string
	answer answer
	err    error
}

// hedged sends a put, and once more if there is no answer in time. Landed is the
// answer as soon as one of them has; otherwise the one that settles least, when all
// have answered.
func (s *Store) hedged(ctx context.Context, send func(ctx context.Context) (string, answer, error)) (string, answer, error) {
	if s.cfg.HedgeAfter == 0 {
		return send(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan attempt, 2)
	launch := func() {
		etag, answer, err := send(ctx)
		answers <- attempt{etag, answer, err}
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
			if a.answer == landed {
				return a.etag, a.answer, nil
			}
			if last.answer < a.answer {
				last = a
			}
		}
	}
	return last.etag, last.answer, last.err
}
