package coordinator

import (
	"context"
	"strings"
	"sync"
	"time"
)

// putPlaces hold a token for each put in flight. Tables in local folders share a disk, which
// gets nothing more done when more puts are on it, while they take the processor from
// decisions; those in buckets mostly wait for the network.
//
// A place is for as long as a put may take. A folder on a disk that hangs heeds no deadline, and
// tables on it would keep the places of all others.
type putPlaces struct {
	files, buckets chan struct{}
	atMost         time.Duration
}

func newPutPlaces(l Limits) putPlaces {
	return putPlaces{files: make(chan struct{}, l.FilePutParallel), buckets: make(chan struct{}, l.PutParallel), atMost: l.PutDeadline}
}

// take waits for a place to put into a table. It is left once: by leave, or when its time is over.
func (p putPlaces) take(ctx context.Context, uri string) (leave func(), err error) {
	places := p.buckets
	if strings.HasPrefix(uri, "file://") {
		places = p.files
	}
	select {
	case places <- struct{}{}:
		left := sync.OnceFunc(func() { <-places })
		over := time.AfterFunc(p.atMost, left)
		return func() { over.Stop(); left() }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
