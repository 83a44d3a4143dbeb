package tables

import (
	"context"
	"errors"

	"github.com/txcoord/txcoord/twophase"
)

// badCheckpoint is one that was found to be bad in itself. Its file stays: the keeper makes
// nothing of it, and takes what older files say.
type badCheckpoint struct {
	key string // of its first file
	why *LogError
}

// judged passes an error on that came of a reading. If it says that the checkpoint that was
// read is a bad one, the keeper goes by what is older from then on.
func (k *Keeper) judged(of *ListedCheckpoint, err error) error {
	bad, ok := errors.AsType[*LogError](err)
	if ok && bad.Fault == BadCheckpoint && of != nil && !k.isBad(*of) {
		k.bad = append(k.bad, badCheckpoint{of.Files[0].Key, bad})
	}
	return err
}

// instead is what is wrong where nothing but a bad checkpoint covers the commits that are
// missing: that one.
func (k *Keeper) instead(err error) error {
	gap, ok := errors.AsType[*LogError](err)
	if ok && gap.Fault == Gap && len(k.bad) > 0 {
		return k.bad[0].why
	}
	return err
}

// PassedOver says what is wrong with the checkpoints that were not used, in the order in
// which they were found.
func (k *Keeper) PassedOver() []*LogError {
	var out []*LogError
	for _, b := range k.bad {
		out = append(out, b.why)
	}
	return out
}

func (k *Keeper) isBad(c ListedCheckpoint) bool { return k.badAt(c.Files[0].Key) }

func (k *Keeper) badAt(key string) bool {
	for _, b := range k.bad {
		if b.key == key {
			return true
		}
	}
	return false
}

// badBelow reports whether a checkpoint below a version was found to be bad.
func (k *Keeper) badBelow(v twophase.Version) bool {
	for _, b := range k.bad {
		if b.why.Version < v {
			return true
		}
	}
	return false
}

// sound is a listing without the checkpoints that are known to be bad.
func (k *Keeper) sound(listing *Listing) *Listing {
	if len(k.bad) == 0 {
		return listing
	}
	out := *listing
	out.Checkpoints = nil
	for _, c := range listing.Checkpoints {
		if !k.isBad(c) {
			out.Checkpoints = append(out.Checkpoints, c)
		}
	}
	return &out
}

// list lists what a version is replayed from. The pointer may name a bad checkpoint, so with
// one all is listed.
func (k *Keeper) list(ctx context.Context, at twophase.Version) (*Listing, error) {
	if len(k.bad) == 0 {
		return k.log.ListFor(ctx, at)
	}
	return k.log.List(ctx, 0)
}
