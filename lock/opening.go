package lock

import (
	"errors"

	"github.com/txcoord/txcoord/internal/refusal"
)

// Why a store could not be opened, for whoever has to say so in a script's terms.
// The error around it names the remedy.
var (
	// ErrMisconfigured: the configuration makes no sense. Nobody was asked.
	ErrMisconfigured = errors.New("store misconfigured")
	// ErrUnreachable: nobody answers. It may be different a moment later.
	ErrUnreachable = errors.New("store unreachable")
	// ErrDenied: the credentials are missing, wrong, or lack a permission.
	ErrDenied = errors.New("store access denied")
	// ErrMissing: the place where the journal shall stand does not exist.
	ErrMissing = errors.New("store missing")
	// ErrUnfit: a journal cannot stand there. It does not honour conditions, loses
	// what it acknowledged, or is laid out in another way.
	ErrUnfit = errors.New("store unfit")
)

// Mark makes errors.Is find a reason in an error, and leaves its text alone.
func Mark(reason, err error) error { return refusal.Mark(reason, err) }
