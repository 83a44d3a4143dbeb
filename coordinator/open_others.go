package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// watchBeats is how many heartbeats lie between looks for transactions that begin at
// other replicas.
const watchBeats = 6

// watch takes up transactions of other replicas now and then, so that they are listed
// here, and expire when theirs is gone.
func (o *openTxns) watch(ctx context.Context) {
	if !o.c.cfg.SharedStore {
		return
	}
	every(ctx, watchBeats*o.c.cfg.Limits.Heartbeat, func(ctx context.Context) {
		if err := o.records(ctx, o.observe); err != nil && ctx.Err() == nil {
			o.c.log.Warn("look for transactions of other replicas", "error", err)
		}
	})
}

// observe takes up a transaction that another replica has noted. Its time to live
// counts on this one's clock, from when it was first seen with this deadline (R16).
func (o *openTxns) observe(id twophase.TxnID, rec *openRecord) {
	o.mu.Lock()
	t := o.m[id]
	known := t != nil && !t.lessThan(rec)
	o.mu.Unlock()
	switch {
	case known:
	case o.c.decided(id):
		o.mu.Lock()
		o.markLocked(id) // its record was left behind
		o.mu.Unlock()
	default:
		seen := *rec
		seen.Deadline = o.c.cfg.Now().Add(rec.Deadline.Sub(rec.Begun))
		o.take(id, &seen, rec.Deadline)
	}
}

// lessThan reports whether a record says more than is known here: of one that was only found
// by what it has staged, who it is; else a later deadline. What was found says nothing to who
// knows it.
func (t *openTxn) lessThan(rec *openRecord) bool {
	if t.adopted != rec.Adopted {
		return t.adopted
	}
	return rec.Deadline.After(t.ref.deadline)
}

// take makes a transaction of another replica one that is open here, without writing
// about it.
func (o *openTxns) take(id twophase.TxnID, rec *openRecord, deadline time.Time) {
	staged := o.stagedIn(rec)
	ref := txnRef{id: id, key: rec.Key, attempt: rec.Attempt, begun: twophase.Position(rec.Position), deadline: rec.Deadline}
	_, _ = o.insert(quota.Caller{}, ref, rec.Client, false) // nobody's here: is not refused
	o.mu.Lock()
	if t := o.m[id]; t != nil {
		if t.adopted && !rec.Adopted {
			t.ref, t.client, t.expires = ref, rec.Client, o.c.cfg.Boot()+rec.Deadline.Sub(o.c.cfg.Now())
		}
		t.ref.deadline, t.begun, t.counted, t.adopted = deadline, rec.Begun, true, rec.Adopted
		t.noted = true // it has a record, which goes when it is decided
		for table, st := range staged {
			t.tables[table] = st
		}
	}
	o.mu.Unlock()
	if o.c.decided(id) { // meanwhile, so nobody else takes it out
		o.done([]twophase.TxnID{id})
	}
}

// stagedIn says what is staged, as a record has it. It reads the fold.
func (o *openTxns) stagedIn(rec *openRecord) map[twophase.TableID]*StagedTable {
	staged := map[twophase.TableID]*StagedTable{}
	if len(rec.Bytes) != len(rec.Tables) || len(rec.Parts) != len(rec.Tables) {
		return staged
	}
	for i, table := range rec.Tables {
		id := twophase.TableID(table)
		staged[id] = &StagedTable{Table: id, Name: o.c.row(id).Name, Bytes: rec.Bytes[i], Parts: rec.Parts[i]}
	}
	return staged
}

// find is an open transaction. One that is not known here may have been noted by another
// replica since the last look.
func (o *openTxns) find(ctx context.Context, id twophase.TxnID) (OpenTxn, bool) {
	o.mu.Lock()
	t := o.m[id]
	o.mu.Unlock()
	if t == nil && o.c.cfg.SharedStore {
		var rec openRecord
		if item, err := o.c.cfg.Store.Get(ctx, openKey(id)); err == nil && json.Unmarshal(item.Value, &rec) == nil {
			o.observe(id, &rec)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if t = o.m[id]; t == nil {
		return OpenTxn{}, false
	}
	return t.row(), true
}

// extended reports whether another replica has given a transaction a later deadline
// than is known here: asked before it is aborted for that.
func (o *openTxns) extended(ctx context.Context, id twophase.TxnID) bool {
	if !o.c.cfg.SharedStore {
		return false
	}
	item, err := o.c.cfg.Store.Get(ctx, openKey(id))
	var rec openRecord
	if err != nil || json.Unmarshal(item.Value, &rec) != nil {
		return false
	}
	o.observe(id, &rec)
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.m[id]
	return t != nil && t.expires >= o.c.cfg.Boot()
}

// adopt takes up a piece that was staged before this process, of a transaction that
// is not decided. It is listed, and expires like others: its record keeps the deadline
// over the next start, which would find the piece anew. One that has begun here or at another
// replica since the last look is not adopted: it expires when it said.
func (o *openTxns) adopt(ctx context.Context, id located, bytes int64) {
	o.find(ctx, id.Txn)
	name := o.c.row(id.Table).Name
	if o.piece(id, name, bytes) {
		return
	}
	ref := txnRef{id: id.Txn, begun: id.Begun, deadline: o.c.cfg.Now().Add(o.c.cfg.Limits.MaxTTL)}
	o.staged(ref, "", id, name, bytes, true)
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.m[id.Txn]; t != nil {
		t.adopted = true
		o.markLocked(id.Txn)
	}
}

// piece notes one of a transaction that is known, whose record may have counted it already.
func (o *openTxns) piece(id located, name string, bytes int64) (known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch t := o.m[id.Txn]; {
	case t == nil:
		return false
	case !t.counted:
		o.countPieceLocked(t, id, name, bytes)
	case !slices.Contains(t.pieces, id):
		t.pieces = append(t.pieces, id)
	}
	return true
}

// saveAdopted writes the record of one that was adopted, but not over that of a replica which
// knows more of it, and has written since the last look.
func (o *openTxns) saveAdopted(ctx context.Context, id twophase.TxnID, b []byte) error {
	cond := lock.IfAbsent()
	item, err := o.c.cfg.Store.Get(ctx, openKey(id))
	switch {
	case errors.Is(err, lock.ErrNotFound):
	case err != nil:
		return err
	default:
		var rec openRecord
		if json.Unmarshal(item.Value, &rec) == nil && !rec.Adopted {
			o.observe(id, &rec)
			return nil
		}
		cond = lock.IfRevision(item.Revision)
	}
	_, err = o.c.cfg.Store.Put(ctx, openKey(id), b, cond)
	return err
}

// orphaned: of an undecided transaction nothing is known but what it has staged.
func (o *openTxns) orphaned(id twophase.TxnID) bool {
	o.mu.Lock()
	t := o.m[id]
	orphan := t == nil || t.adopted
	o.mu.Unlock()
	return orphan && !o.c.decided(id)
}
