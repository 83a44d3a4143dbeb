package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// openTxns are the transactions that this process saw begin and not end. Advisory:
// for lists, and for expiry (R16). Kept in the store too, in the background, so
// that a restart still knows whom to expire.
type openTxns struct {
	c  *Catalog
	mu sync.Mutex
	m  map[twophase.TxnID]*openTxn
	// dirty are ids whose advisory record has to be written or removed.
	dirty map[twophase.TxnID]bool
	ready chan struct{}
}

// openTxn is one of them; expires is on the boot clock, counted from when this
// process first saw the transaction.
type openTxn struct {
	ref     txnRef
	client  string
	begun   time.Time
	expires time.Duration
	tables  map[twophase.TableID]*StagedTable
	pieces  []located
	// adopted: only what it has staged is known of it, and from when it was found.
	adopted bool
	// noted: it has an advisory record. Calls that stage and commit in one make none.
	noted bool
	// by is the principal for whom it counts; empty if it counts for nobody here. charged
	// is what of its bytes does, reserved what of that is on its way into the store.
	by       string
	charged  int64
	reserved map[payloadID]int64
	// counted: tables counts pieces that are not in pieces, from before a restart.
	counted bool
}

// openRecord is the advisory record.
type openRecord struct {
	Txn      string `json:"txn"`
	Key      string `json:"key,omitempty"`
	Attempt  uint32 `json:"attempt,omitempty"`
	Position uint64 `json:"position"`
	Client   string `json:"client,omitempty"`
	// Principal and Writer: for whom it counts, and at which replica.
	Principal string    `json:"principal,omitempty"`
	Writer    string    `json:"writer,omitempty"`
	Begun     time.Time `json:"begun"`
	Deadline  time.Time `json:"deadline"`
	Adopted   bool      `json:"adopted,omitempty"`
	// Tables, and how many bytes and parts are staged for each.
	Tables []string `json:"tables,omitempty"`
	Bytes  []int64  `json:"bytes,omitempty"`
	Parts  []int    `json:"parts,omitempty"`
}

func newOpenTxns(c *Catalog) *openTxns {
	return &openTxns{c: c, m: map[twophase.TxnID]*openTxn{}, dirty: map[twophase.TxnID]bool{}, ready: make(chan struct{}, 1)}
}

// add notes an open transaction, or a later deadline of one. It returns the reference
// to go on with: a transaction that is open here keeps the position of its first
// Begin, so that what was staged under it is found.
func (o *openTxns) add(by quota.Caller, ref txnRef, client string) (txnRef, error) {
	return o.hold(by, ref, client, true)
}

func (o *openTxns) hold(by quota.Caller, ref txnRef, client string, note bool) (txnRef, error) {
	if o.c.decided(ref.id) {
		return ref, nil
	}
	ref, err := o.insert(by, ref, client, note)
	if err == nil && o.c.decided(ref.id) { // meanwhile, so nobody else takes it out
		o.done([]twophase.TxnID{ref.id})
	}
	return ref, err
}

// insert refuses what would be one more than its principal may have open.
func (o *openTxns) insert(by quota.Caller, ref txnRef, client string, note bool) (txnRef, error) {
	floor := o.c.floor()
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.m[ref.id]
	if t != nil && t.ref.begun < floor {
		o.dropLocked(t)
		t = nil
	}
	if t == nil || t.by == "" {
		if err := o.c.book.Take(by, quota.OpenTransactions, 1); err != nil {
			return ref, OverQuota(err)
		}
	}
	if t == nil {
		t = &openTxn{ref: ref, client: client, begun: o.c.cfg.Now(), tables: map[twophase.TableID]*StagedTable{}}
		o.m[ref.id] = t
	}
	if t.by == "" {
		t.by = by.Name
	}
	if left := ref.deadline.Sub(o.c.cfg.Now()); o.c.cfg.Boot()+left > t.expires {
		t.expires, t.ref.deadline = o.c.cfg.Boot()+left, ref.deadline
	}
	if note {
		t.noted, t.adopted = true, false
	}
	o.changedLocked(t)
	ref.begun = t.ref.begun
	return ref, nil
}

// dropLocked takes a transaction out, and gives back what its principal had taken for
// it: the one place where that is done.
func (o *openTxns) dropLocked(t *openTxn) {
	delete(o.m, t.ref.id)
	if t.by != "" {
		o.c.book.Give(t.by, quota.StagedBytes, t.charged)
		o.c.book.Give(t.by, quota.OpenTransactions, 1)
	}
}

// staged notes a piece of an open transaction; with an advisory record, if note is set.
func (o *openTxns) staged(ref txnRef, client string, id located, name string, bytes int64, note bool) {
	_, _ = o.hold(quota.Caller{}, ref, client, note) // nobody's: is not refused
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.m[ref.id]; t != nil {
		o.countPieceLocked(t, id, name, bytes)
	}
}

// countPieceLocked counts a piece once.
func (o *openTxns) countPieceLocked(t *openTxn, id located, name string, bytes int64) {
	if slices.Contains(t.pieces, id) {
		return
	}
	if _, ok := t.reserved[id.payloadID]; ok {
		delete(t.reserved, id.payloadID)
	} else if t.by != "" {
		t.charged += bytes
		o.c.book.Add(t.by, quota.StagedBytes, bytes)
	}
	t.pieces = append(t.pieces, id)
	st := t.tables[id.Table]
	if st == nil {
		st = &StagedTable{Table: id.Table, Name: name}
		t.tables[id.Table] = st
	}
	st.Bytes += bytes
	st.Parts++
	o.changedLocked(t)
}

// holds reports whether a transaction that is open here has staged something for a table.
func (o *openTxns) holds(txn twophase.TxnID, table twophase.TableID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.m[txn]
	return t != nil && t.tables[table] != nil
}

// known is a reference with the begin of the transaction that is open here under its
// id, if there is one: what was staged under it is found, and not staged again.
func (o *openTxns) known(ref txnRef) txnRef {
	floor := o.c.floor()
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.m[ref.id]; t != nil && t.ref.begun >= floor {
		ref.begun = t.ref.begun
	}
	return ref
}

// done takes decided transactions out. It returns the pieces that were staged for
// them here.
func (o *openTxns) done(ids []twophase.TxnID) []located {
	o.mu.Lock()
	defer o.mu.Unlock()
	var pieces []located
	for _, id := range ids {
		if t, ok := o.m[id]; ok {
			pieces = append(pieces, t.pieces...)
			o.dropLocked(t)
			o.changedLocked(t)
		}
	}
	return pieces
}

// changedLocked has the advisory record written or removed, if there is one.
func (o *openTxns) changedLocked(t *openTxn) {
	if t.noted {
		o.markLocked(t.ref.id)
	}
}

func (o *openTxns) markLocked(id twophase.TxnID) {
	o.dirty[id] = true
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// overdue are the transactions whose deadline has passed here.
func (o *openTxns) overdue() []txnRef {
	now := o.c.cfg.Boot()
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []txnRef
	for _, t := range o.m {
		if t.expires < now {
			out = append(out, t.ref)
		}
	}
	return out
}

func (o *openTxns) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.m)
}

// oldest is the begin of the longest open transaction.
func (o *openTxns) oldest() (p twophase.Position, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.m {
		if !ok || t.ref.begun < p {
			p, ok = t.ref.begun, true
		}
	}
	return p, ok
}

// row is the transaction as lists have it. The lock is held.
func (t *openTxn) row() OpenTxn {
	row := OpenTxn{Txn: t.ref.id, Key: t.ref.key, Attempt: t.ref.attempt, Client: t.client, Begun: t.begun, Deadline: t.ref.deadline}
	for _, st := range t.tables {
		row.Tables = append(row.Tables, *st)
	}
	slices.SortFunc(row.Tables, func(a, b StagedTable) int { return compare(a.Name, b.Name) })
	return row
}

func (o *openTxns) list() []OpenTxn {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]OpenTxn, 0, len(o.m))
	for _, t := range o.m {
		out = append(out, t.row())
	}
	slices.SortFunc(out, func(a, b OpenTxn) int {
		if d := a.Begun.Compare(b.Begun); d != 0 {
			return d
		}
		return compare(a.Txn.String(), b.Txn.String())
	})
	return out
}

// openKeys is the prefix of advisory records.
const openKeys = "open/"

func openKey(id twophase.TxnID) string { return openKeys + id.String() }

// run writes advisory records, in the background and many at a time. What could not
// be written is tried again. At the end it writes what has changed, if that is quick.
func (o *openTxns) run(ctx context.Context) {
	for {
		select {
		case <-o.ready:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = o.flush(last)
			return
		}
		if err := o.flush(ctx); err != nil && ctx.Err() == nil {
			o.c.log.Warn("write the list of open transactions", "error", err)
			pause(ctx, time.Second)
		}
	}
}

func (o *openTxns) flush(ctx context.Context) error {
	o.mu.Lock()
	dirty := o.dirty
	o.dirty = map[twophase.TxnID]bool{}
	o.mu.Unlock()
	return parallel(slices.Collect(maps.Keys(dirty)), 64, func(id twophase.TxnID) error {
		err := o.save(ctx, id)
		if err != nil {
			o.mu.Lock()
			o.markLocked(id)
			o.mu.Unlock()
		}
		return err
	})
}

func (o *openTxns) save(ctx context.Context, id twophase.TxnID) error {
	o.mu.Lock()
	t, ok := o.m[id]
	var b []byte
	adopted := ok && t.adopted
	if ok {
		rec := openRecord{
			Txn: id.String(), Key: t.ref.key, Attempt: t.ref.attempt, Position: uint64(t.ref.begun), Client: t.client,
			Begun: t.begun, Deadline: t.ref.deadline, Adopted: t.adopted,
		}
		if t.by != "" {
			rec.Principal, rec.Writer = t.by, o.c.replicas.writer()
		}
		for _, st := range t.tables {
			rec.Tables, rec.Bytes, rec.Parts = append(rec.Tables, string(st.Table)), append(rec.Bytes, st.Bytes), append(rec.Parts, st.Parts)
		}
		b, _ = json.Marshal(rec)
	}
	o.mu.Unlock()
	if !ok {
		return o.c.cfg.Store.Delete(ctx, openKey(id))
	}
	if adopted {
		return o.saveAdopted(ctx, id, b)
	}
	_, err := o.c.cfg.Store.Put(ctx, openKey(id), b, lock.Always())
	return err
}

// restore takes up what a dead process had noted.
func (o *openTxns) restore(id twophase.TxnID, rec *openRecord) {
	ref := txnRef{id: id, key: rec.Key, attempt: rec.Attempt, begun: twophase.Position(rec.Position), deadline: rec.Deadline}
	_, _ = o.add(quota.Caller{}, ref, rec.Client) // nobody's: is not refused
	staged := o.stagedIn(rec)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.markLocked(id) // decided meanwhile: the record goes
	t := o.m[id]
	if t == nil {
		return
	}
	t.begun, t.counted, t.adopted = rec.Begun, true, rec.Adopted
	for table, st := range staged {
		t.tables[table] = st
	}
	o.countLocked(t, rec)
}

// load reads the advisory records after a restart. A deadline counts anew from here
// as far as it had not passed (R16).
func (o *openTxns) load(ctx context.Context) error { return o.records(ctx, o.restore) }

func (o *openTxns) records(ctx context.Context, found func(twophase.TxnID, *openRecord)) error {
	after := ""
	for {
		items, err := o.c.cfg.Store.Scan(ctx, openKeys, after, 0)
		if err != nil {
			return fmt.Errorf("read the list of open transactions: %w", err)
		}
		if len(items) == 0 {
			return nil
		}
		for _, it := range items {
			after = it.Key
			var rec openRecord
			if json.Unmarshal(it.Value, &rec) != nil {
				continue // advisory
			}
			id, err := twophase.ParseTxnID(rec.Txn)
			if err != nil {
				continue
			}
			found(id, &rec)
		}
	}
}
