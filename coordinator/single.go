package coordinator

import "context"

// single is held by one at a time. Who waits for it does so no longer than his context says: what
// another one waits for may never be answered.
type single chan struct{}

func newSingle() single { return make(single, 1) }

func (s single) enter(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tryEnter is true if nobody was in.
func (s single) tryEnter() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s single) leave() { <-s }
