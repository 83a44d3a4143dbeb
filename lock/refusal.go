package lock

import "github.com/txcoord/txcoord/internal/refusal"

// Refusal is an error of a store that answers, and does not do what it is asked. Its Reason is
// ErrDenied or ErrMissing.
type Refusal = refusal.Refusal
