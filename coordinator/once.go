package coordinator

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// CommitOnce is Begin, Stage and Commit in one call, by key. Small payloads become
// durable together with the decision.
func (c *Catalog) CommitOnce(ctx context.Context, r OnceRequest) (Outcome, string, error) {
	if r.Key == "" {
		return Outcome{}, "", fieldError("key", "", "is missing", "give a key: by it the call can be repeated safely")
	}
	ref, err := c.newRef(r.Key, r.Attempt, 0)
	if err != nil {
		return Outcome{}, "", err
	}
	ref = c.openTxns.known(ref)
	about(ctx, ref.id)
	ctx, work := c.cfg.Telemetry.Commit(ctx, ref.id)
	o, token, err := c.commitOnce(ctx, ref, r)
	c.answered(ctx, work, ref.id, o, err)
	return o, token, err
}

func (c *Catalog) commitOnce(ctx context.Context, ref txnRef, r OnceRequest) (Outcome, string, error) {
	if r.Wait != WaitDecided {
		c.urgent.enter(ref.id)
		defer c.urgent.leave(ref.id)
	}
	want, decided, err := c.decidedOnce(ref, r)
	if err != nil {
		return Outcome{}, "", err
	}
	if decided {
		o, err := c.answer(ctx, ref, want, r.Wait, r.WaitLimit)
		return o, c.tokenOf(ref), err
	}
	want, err = c.decideOnce(ctx, ref, r)
	staged := want
	if err = c.afterHead(ctx, err); err != nil {
		if want, decided, _ = c.decidedOnce(ref, r); !decided || want.digests == nil {
			return Outcome{}, "", err
		}
	}
	o, err := c.answer(ctx, ref, want, r.Wait, r.WaitLimit)
	c.dropOnce(ref, staged)
	return want.warn(o), c.tokenOf(ref), err
}

// dropOnce removes what a call staged for a transaction that was decided without it:
// it was aborted, or another call of the same was quicker. Where that one staged the
// same, and all is published, it may have been swept before this call put it once more.
// While the outcome is open it stays.
func (c *Catalog) dropOnce(ref txnRef, staged content) {
	var due []located
	c.ledger.read(func(s *twophase.State) {
		o := s.Outcome(ref.id)
		if o == nil || o.Commit != nil && staged.landed != nil && staged.landed.Load() == uint64(o.Position)+1 {
			return // this very call: what it staged goes when it is published
		}
		swept := s.MaySweep(ref.id, ref.begun)
		for _, p := range staged.pieces {
			if o.Abort != nil || !lies(o.Commit, p) || swept {
				due = append(due, p)
			}
		}
	})
	c.sweeper.add(due)
}

// decidedOnce: a repeated call of a decided transaction is compared with what is
// decided, and not with tables that have moved on since.
func (c *Catalog) decidedOnce(ref txnRef, r OnceRequest) (content, bool, error) {
	var parts []twophase.Part
	recalled := false // by a rebuild, which may know some of its tables only
	c.ledger.read(func(s *twophase.State) {
		if o := s.Outcome(ref.id); o != nil && o.Commit != nil {
			parts, recalled = slices.Clone(o.Commit.Parts), o.Commit.Key == ""
		}
	})
	if o, ok := c.decidedOutcome(ref.id); ok && o.Aborted != nil {
		return content{}, true, c.abortedError(o)
	}
	if parts == nil {
		return content{}, false, nil
	}
	releases, err := c.releases(ref.id, r.Releases)
	if err != nil {
		return content{}, true, err
	}
	want := content{releases: releases, digests: map[twophase.TableID][]twophase.Digest{}}
	for _, t := range r.Tables {
		row, err := c.tableOf(ref.id, t.Table)
		if err != nil {
			return content{}, true, err
		}
		i := slices.IndexFunc(parts, func(p twophase.Part) bool { return p.Table == row.ID })
		switch {
		case i >= 0:
			if want.digests[row.ID], err = c.digestOnce(ref.id, t, &parts[i]); err != nil {
				return content{}, true, err
			}
		case !recalled:
			want.digests[row.ID] = nil // one more than was committed (R8)
		}
	}
	return want, true, nil
}

// digestOnce is the digest that a repeated call has for a table.
func (c *Catalog) digestOnce(txn twophase.TxnID, t OnceTable, was *twophase.Part) ([]twophase.Digest, error) {
	if t.Alter != nil {
		return was.Digests, nil // made from a version that is gone: the key says that it is the same
	}
	in := tables.DigestInput{Table: was.Table, MetaDataID: was.MetaDataID, Read: t.Read, Actions: t.Actions}
	if t.Create != nil {
		uri, err := canonicalTable(t.Create.URI)
		if err != nil {
			return nil, inputError(t.Table, err)
		}
		in.Read, in.Options = tables.ReadDeclaration{Blind: true}, specOf(txn, t.Table, uri, t.Create).Options()
	}
	return []twophase.Digest{tables.Digest(in)}, nil
}

func (c *Catalog) decideOnce(ctx context.Context, ref txnRef, r OnceRequest) (content, error) {
	if err := c.book.Commit(quota.CallerOf(ctx)); err != nil {
		return content{}, OverQuota(err)
	}
	rows := make([]TableInfo, len(r.Tables))
	for i, t := range r.Tables {
		var err error
		if rows[i] = newRow(createdID(ref.id, t.Table), t.Table); t.Create == nil {
			if rows[i], err = c.table(t.Table); err != nil {
				return content{}, err
			}
		}
	}
	releases, err := c.releases(ref.id, r.Releases)
	if err != nil {
		return content{}, err
	}
	if err := c.checkTables(rows, r.Reads, releases, r.Wait); err != nil {
		return content{}, err
	}
	reached := c.seq.gathering.enter()
	defer reached()
	parts := make([]*part, len(r.Tables))
	err = parallelIndex(len(r.Tables), 32, func(i int) (err error) {
		ctx, work := c.cfg.Telemetry.Stage(ctx, ref.id, r.Tables[i].Table)
		parts[i], err = c.stageOnce(ctx, ref, r.Client, r.Tables[i])
		work.Staged(failure(err))
		return err
	})
	if err != nil {
		return content{}, err
	}
	out := contentOf(parts, releases)
	out.landed = new(atomic.Uint64)
	c.ahead(ctx, parts)
	out.pieces = c.stagedOnce(ref, r, parts)
	return out, c.decide(ctx, ref, parts, r.Reads, releases, r.VerifyFiles, out.landed, reached)
}

// stageOnce stages a part that is committed in the same call. A small one becomes
// durable later, with the others of the call; one that needs an object does it here, and
// is listed like others: if the commit is refused, the next try finds it, and if there is
// none it expires.
func (c *Catalog) stageOnce(ctx context.Context, ref txnRef, client string, t OnceTable) (*part, error) {
	piece, row, _, err := c.piece(ctx, ref, t)
	if err != nil {
		return nil, err
	}
	digest := piece.digest()
	var p *part
	if t.Create != nil {
		p, err = c.joinNew(row, []twophase.Digest{digest}, []*payload{piece})
	} else {
		p, err = c.join(ctx, row, []twophase.Digest{digest}, []*payload{piece})
	}
	if err != nil {
		return nil, err
	}
	id := payloadID{Begun: ref.begun, Txn: ref.id, Table: row.ID, Digest: digest}
	large := len(t.Actions) > c.cfg.Limits.InlineBytes
	if large {
		if err := c.openTxns.reserve(quota.CallerOf(ctx), ref, client, id, int64(len(t.Actions))); err != nil {
			return nil, err
		}
	}
	p.small, err = c.payloads.prepare(ctx, id, piece)
	if large && (err != nil || p.small != nil) {
		c.openTxns.unreserve(id)
	}
	if err != nil {
		return nil, c.storeError(err)
	}
	if p.small == nil {
		c.openTxns.staged(ref, client, located{payloadID: id}, row.Name, int64(len(t.Actions)), false)
	}
	return p, nil
}

// ahead makes the small parts of a call durable, where the store cannot write them
// together with the entry: the sequencer must not wait for them, and here they are put
// while others' entries are on their way. It is tried once: what fails goes with the
// entry, whose append is repeated for as long as the store fails.
func (c *Catalog) ahead(ctx context.Context, parts []*part) {
	if _, along := c.cfg.Store.(lock.Batcher); along {
		return
	}
	cut := chunks(smallOf(parts), c.cfg.Limits.BundleBytes)
	if len(cut) == 0 {
		return
	}
	in, err := c.bundler.put(ctx, cut)
	if err != nil {
		return
	}
	for i, k := 0, 0; k < len(cut); k++ {
		for range cut[k] {
			for parts[i].small == nil {
				i++
			}
			parts[i].small, parts[i].bundle = nil, in[k]
			i++
		}
	}
}

// smallOf are the pieces that have to become durable with the entry.
func smallOf(parts []*part) (out []packed) {
	for _, p := range parts {
		if p.small != nil {
			out = append(out, *p.small)
		}
	}
	return out
}

// stagedOnce are the pieces of a call that are durable ahead of its entry. Those in bundles
// are listed, too: if the commit is refused, and is not tried again, they expire.
func (c *Catalog) stagedOnce(ref txnRef, r OnceRequest, parts []*part) (out []located) {
	for i, p := range parts {
		if p.small != nil {
			continue
		}
		at := located{payloadID{Begun: ref.begun, Txn: ref.id, Table: p.row.ID, Digest: p.record.Digests[0]}, p.bundle}
		if !p.bundle.IsZero() {
			c.openTxns.staged(ref, r.Client, at, p.row.Name, int64(len(r.Tables[i].Actions)), false)
		}
		out = append(out, at)
	}
	return out
}
