package remote

import (
	"context"
	"time"
)

// Sent is what a put that was sent once came to.
type Sent struct {
	ETag    string
	Verdict Verdict
	Err     error
}

// Hedged sends a put, and once more if there is no answer in time; after 0 it never does.
// It has landed as soon as one of them has. Where one is refused while the other is still
// under way, that one may be why, and its answer may be lost: landed looks whether the put
// is what holds the key. Otherwise it is the answer that settles least, when all have come.
func Hedged(ctx context.Context, after time.Duration, send func(context.Context) Sent, landed func(context.Context) (etag string, ok bool)) Sent {
	if after == 0 {
		return send(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan Sent, 2)
	launch := func() { answers <- send(ctx) }
	go launch()
	timer := time.NewTimer(after)
	defer timer.Stop()
	var last Sent
	for waiting := 1; waiting > 0; {
		select {
		case <-timer.C:
			waiting++
			go launch()
			continue
		case a := <-answers:
			waiting--
			timer.Stop()
			if a.Err == nil {
				return a
			}
			if last.Err == nil || last.Verdict < a.Verdict {
				last = a
			}
		}
		if waiting > 0 && last.Verdict == Refused {
			if etag, ok := landed(ctx); ok {
				return Sent{ETag: etag}
			}
		}
	}
	return last
}
