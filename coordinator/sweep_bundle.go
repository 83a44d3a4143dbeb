package coordinator

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/twophase"
)

// payKeys is the prefix of staged pieces and bundles in the store.
const payKeys = "pay/"

// parseItem says what lies under a key: a piece by itself, or a bundle.
func parseItem(key string) (id payloadID, in twophase.BundleID, ok bool) {
	_, name, _ := strings.Cut(strings.TrimPrefix(key, payKeys), "/") // behind the shard
	if hex, is := strings.CutPrefix(name, bundleKeys); is {
		in, err := twophase.ParseBundleID(hex)
		return id, in, err == nil && !in.IsZero()
	}
	id, ok = parsePayload(name)
	return id, in, ok
}

// removeSettled deletes those of the bundles in which nothing is needed any more. Who
// settles the last piece of a bundle has it looked at, so the others are left alone; a
// bundle may hold pieces of transactions that nobody has decided yet, so what is in it has
// to be known, and not only who is known to name it.
func (w *sweeper) removeSettled(ctx context.Context, ids []twophase.BundleID) {
	if len(ids) == 0 {
		return
	}
	err := parallelIndex(len(ids), removeAtOnce, func(i int) error {
		pieces, err := w.c.payloads.contents(ctx, ids[i])
		switch {
		case isLost(err):
			return nil // removed by somebody else; what is damaged is left to the listing
		case err != nil:
			return err
		case !w.allMayGo(ids[i], pieces):
			return nil
		}
		return w.c.payloads.removeBundle(ctx, ids[i], pieces)
	})
	if err != nil && ctx.Err() == nil {
		w.c.log.Warn("remove bundles of staged payloads", "error", err)
	}
}

func (w *sweeper) allMayGo(in twophase.BundleID, pieces []payloadID) (all bool) {
	w.c.ledger.read(func(s *twophase.State) {
		all = !slices.ContainsFunc(pieces, func(p payloadID) bool { return !mayGo(s, located{p, in}) })
	})
	return all
}

// lookInto says whether a bundle is due, and what is in it. One that cannot be read is,
// if no build could and no decided change waits for what was in it: its loss would be
// found by nobody then.
func (w *sweeper) lookInto(ctx context.Context, in twophase.BundleID, value []byte) (ids []payloadID, all bool) {
	pieces, err := unpack(value)
	if err != nil {
		return nil, errors.Is(err, errDamaged) && !w.waitedFor(in)
	}
	all = true
	for _, u := range pieces {
		ids = append(ids, u.id)
		all = w.over(ctx, located{u.id, in}, int64(len(u.raw))) && all // each undecided one is listed
	}
	return ids, all
}

// waitedFor: a decided transaction that is not settled has pieces in the bundle.
func (w *sweeper) waitedFor(in twophase.BundleID) (is bool) {
	w.c.ledger.read(func(s *twophase.State) {
		for txn, o := range s.Outcomes {
			is = is || o.Commit != nil && slices.Contains(o.Commit.Bundles, in) && !s.MaySweep(txn, o.Commit.Begun)
		}
	})
	return is
}

func (w *sweeper) removeBundles(ctx context.Context, bundles map[twophase.BundleID][]payloadID) {
	ids := slices.Collect(maps.Keys(bundles))
	err := parallelIndex(len(ids), removeAtOnce, func(i int) error {
		return w.c.payloads.removeBundle(ctx, ids[i], bundles[ids[i]])
	})
	if err != nil && ctx.Err() == nil {
		w.c.log.Warn("remove bundles of staged payloads", "error", err)
	}
}
