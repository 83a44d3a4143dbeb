package objstore

import (
	"errors"

	"github.com/txcoord/txcoord/internal/refusal"
)

// Why a store cannot be used, for whoever has to say so in a script's terms. The
// error around it names the remedy. ErrUnconditional is one, too.
var (
	// ErrMisconfigured: the configuration makes no sense. Nobody was asked.
	ErrMisconfigured = errors.New("object store misconfigured")
	// ErrUnreachable: nobody answers. It may be different a moment later.
	ErrUnreachable = errors.New("object store unreachable")
	// ErrDenied: the credentials are missing, wrong, or lack a permission.
	ErrDenied = errors.New("object store access denied")
	// ErrMissing: there is no such bucket, or not there.
	ErrMissing = errors.New("bucket missing")
)

// Mark makes errors.Is find a reason in an error, and leaves its text alone.
func Mark(reason, err error) error { return refusal.Mark(reason, err) }
