package telemetry

import (
	"context"
	"errors"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
)

// Store is a store whose requests are noted.
func (r *Recorder) Store(s lock.Store) lock.Store {
	if r == nil {
		return s
	}
	return lock.Observe(s, func(ctx context.Context, q lock.Request) {
		r.store.record(ctx, q.Took.Seconds(), labels{string(q.Kind), storeAnswer(q.Err)})
	})
}

func storeAnswer(err error) string {
	switch {
	case err == nil:
		return answerOK
	case errors.Is(err, lock.ErrNotFound):
		return answerNotFound
	case errors.Is(err, lock.ErrConflict):
		return answerRefused
	case errors.Is(err, lock.ErrUnknown):
		return answerUnknown
	}
	return answerFailed
}

// Objects is an object store whose requests are noted.
func (r *Recorder) Objects(s objstore.Store) objstore.Store {
	if r == nil {
		return s
	}
	return objstore.Observe(s, func(ctx context.Context, q objstore.Request) {
		r.objects.record(ctx, q.Took.Seconds(), labels{string(q.Kind), objectAnswer(q.Err)})
	})
}

func objectAnswer(err error) string {
	switch {
	case err == nil:
		return answerOK
	case errors.Is(err, objstore.ErrNotFound):
		return answerNotFound
	case errors.Is(err, objstore.ErrExists), errors.Is(err, objstore.ErrChanged), errors.Is(err, objstore.ErrNoFolder), errors.Is(err, objstore.ErrMoved):
		return answerRefused
	case errors.Is(err, objstore.ErrUnknown):
		return answerUnknown
	}
	return answerFailed
}
