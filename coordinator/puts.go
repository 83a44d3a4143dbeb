package coordinator

import (
	"context"
	"strings"
)

// putPlaces hold a token for each put in flight. Tables in local folders share a disk, which
// gets nothing more done when more puts are on it, while they take the processor from
// decisions; those in buckets mostly wait for the network.
type putPlaces struct{ files, buckets chan struct{} }

func newPutPlaces(l Limits) putPlaces {
	return putPlaces{files: make(chan struct{}, l.FilePutParallel), buckets: make(chan struct{}, l.PutParallel)}
}

// take waits for a place to put into a table.
func (p putPlaces) take(ctx context.Context, uri string) (leave func(), err error) {
	places := p.buckets
	if strings.HasPrefix(uri, "file://") {
		places = p.files
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
