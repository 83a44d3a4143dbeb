// Package quota bounds what each principal takes of what all share: it counts what they
// hold, and refuses what is more than theirs. It knows nothing of transactions or calls.
package quota

import "context"

// Caller is who is counted, and up to where. The zero value is the server itself, which
// is not.
type Caller struct {
	Name   string
	Limits Limits
}

type callerKey struct{}

// WithCaller says on whose behalf something is done. c does not change from then on.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf is on whose behalf something is done.
func CallerOf(ctx context.Context) Caller {
	if c, ok := ctx.Value(callerKey{}).(*Caller); ok {
		return *c
	}
	return Caller{}
}
