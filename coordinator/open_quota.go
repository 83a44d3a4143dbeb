package coordinator

import (
	"slices"

	"github.com/txcoord/txcoord/coordinator/quota"
)

// reserve counts the bytes of a piece before it is stored, for the principal for whom
// its transaction counts here: who was the first to begin or stage it at this replica.
// Then staged or unreserve is called. What goes back when the transaction is taken out
// is all that was counted for it, so nothing is left of a reservation that was under
// way then.
func (o *openTxns) reserve(by quota.Caller, ref txnRef, client string, id payloadID, bytes int64) error {
	if by.Name == "" {
		return nil
	}
	if _, err := o.hold(by, ref, client, false); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.m[id.Txn]
	if t == nil || t.by == "" || slices.Contains(t.pieces, located{payloadID: id}) {
		return nil
	}
	if _, ok := t.reserved[id]; ok {
		return nil // the same call is under way twice
	}
	if err := o.c.book.Take(quota.Caller{Name: t.by, Limits: by.Limits}, quota.StagedBytes, bytes); err != nil {
		o.unusedLocked(t)
		return OverQuota(err)
	}
	if t.reserved == nil {
		t.reserved = map[payloadID]int64{}
	}
	t.reserved[id] = bytes
	t.charged += bytes
	return nil
}

// unreserve gives the bytes of a piece back that was not stored.
func (o *openTxns) unreserve(id payloadID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.m[id.Txn]
	if t == nil {
		return
	}
	if bytes, ok := t.reserved[id]; ok {
		delete(t.reserved, id)
		t.charged -= bytes
		o.c.book.Give(t.by, quota.StagedBytes, bytes)
	}
	o.unusedLocked(t)
}

// unusedLocked takes a transaction out that is here for a reservation only.
func (o *openTxns) unusedLocked(t *openTxn) {
	if !t.noted && len(t.pieces) == 0 && len(t.tables) == 0 && len(t.reserved) == 0 {
		o.dropLocked(t)
	}
}

// countLocked counts a transaction of before a restart for its principal again, if it
// was this replica at which it counted.
func (o *openTxns) countLocked(t *openTxn, rec *openRecord) {
	if rec.Principal == "" || t.by != "" || o.c.cfg.SharedStore && rec.Writer != o.c.replicas.writer() {
		return
	}
	t.by = rec.Principal
	for _, st := range t.tables {
		t.charged += st.Bytes
	}
	o.c.book.Add(t.by, quota.OpenTransactions, 1)
	o.c.book.Add(t.by, quota.StagedBytes, t.charged)
}
