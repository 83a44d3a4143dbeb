package coordinator

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// Forward sends the call that is under way to the replica at an address. It does not
// matter what comes of it: the call stays here too, both may append, and the first
// record counts (R15).
type Forward func(ctx context.Context, address string) error

type forwardKey struct{}

// WithForward lets a commit be sent on, should this replica keep losing the race for
// positions in the journal to another one that is nearer to the store.
func WithForward(ctx context.Context, f Forward) context.Context {
	return context.WithValue(ctx, forwardKey{}, f)
}

func forwardOf(ctx context.Context) Forward {
	f, _ := ctx.Value(forwardKey{}).(Forward)
	return f
}

const (
	// forwards are at most so many at a time.
	forwards = 64
	// forwardLimit ends a call that was sent on: by then it is decided, here or there.
	forwardLimit = 10 * time.Second
)

// handOver sends a group that lost two positions in a row to the writer of the entry
// that won the last one, and keeps it. Each call is sent on once.
func (s *sequencer) handOver(group []*submission, last []byte) {
	e, err := twophase.DecodeEntry(last)
	if err != nil || e.Writer == "" || e.Writer == s.c.replicas.writer() || strings.HasPrefix(e.Writer, unreachable) {
		return
	}
	for _, sub := range group {
		if sub.forward == nil {
			continue
		}
		select {
		case s.forwards <- struct{}{}:
		default:
			return // enough are under way
		}
		forward, of := sub.forward, slog.Attr{}
		sub.forward = nil
		if sub.request.Commit != nil {
			of = TxnAttr(sub.request.Commit.Record.Txn)
		}
		if !s.c.spawn(func(ctx context.Context) { s.forwardTo(ctx, forward, of, e.Writer) }) {
			<-s.forwards
		}
	}
}

func (s *sequencer) forwardTo(ctx context.Context, forward Forward, of slog.Attr, address string) {
	defer func() { <-s.forwards }()
	ctx, cancel := context.WithTimeout(ctx, forwardLimit)
	defer cancel()
	if err := forward(ctx, address); err != nil && ctx.Err() == nil {
		s.c.log.Debug("a commit that was sent on to another replica", of, "address", address, "error", err)
	}
}
