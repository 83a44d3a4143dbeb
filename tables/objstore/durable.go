package objstore

import "context"

type durableKey struct{}

// Durable says of the objects that are read with the context that they are durable: what
// names them is, and was not written before. A store that makes sure of that before it
// answers (fileobj) can spare itself the work.
func Durable(ctx context.Context) context.Context { return context.WithValue(ctx, durableKey{}, true) }

// IsDurable reports whether the context comes from Durable.
func IsDurable(ctx context.Context) bool { return ctx.Value(durableKey{}) != nil }
