package coordinator

import (
	"context"
	"sync"
	"time"
)

// putPlaces hold a token for each put in flight. Tables in local folders share a disk, which
// gets little more done when more puts are on it, while they take the processor from
// decisions; those in buckets mostly wait for the network. Versions that no caller waits for
// get few places there: what is decided meanwhile shares the next version of its table, so
// that there are fewer.
//
// A place is for as long as a put may take. A folder on a disk that hangs heeds no deadline, and
// tables on it would keep the places of all others.
type putPlaces struct {
	files, unhurried, buckets chan struct{}
	atMost                    time.Duration
}

func newPutPlaces(l Limits) putPlaces {
	return putPlaces{
		files: make(chan struct{}, l.FilePutParallel), unhurried: make(chan struct{}, l.FilePutUnhurried), buckets: make(chan struct{}, l.PutParallel),
		atMost: l.PutDeadline,
	}
}

// take waits for a place to put into a table; hurry: somebody waits for it. It is left
// once: by leave, or when its time is over.
func (p putPlaces) take(ctx context.Context, uri string, hurry bool) (leave func(), err error) {
	places := []chan struct{}{p.buckets}
	switch files := inFolder(uri); {
	case files && hurry:
		places[0] = p.files
	case files: // in this order: who has a place of all holds up nobody by waiting for another
		places = []chan struct{}{p.unhurried, p.files}
	}
	for i, place := range places {
		select {
		case place <- struct{}{}:
		case <-ctx.Done():
			free(places[:i])
			return nil, ctx.Err()
		}
	}
	left := sync.OnceFunc(func() { free(places) })
	over := time.AfterFunc(p.atMost, left)
	return func() { over.Stop(); left() }, nil
}

func free(places []chan struct{}) {
	for _, place := range places {
		<-place
	}
}
