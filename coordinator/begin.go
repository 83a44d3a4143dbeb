package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// Begin hands out a transaction, or extends the one of a token. It writes an
// advisory record, on which nothing depends. The same key and attempt give the
// same transaction at every replica (CONTRACT.md section 1).
func (c *Catalog) Begin(ctx context.Context, r BeginRequest) (Begun, error) {
	if r.Token != "" {
		return c.extend(ctx, r)
	}
	ref, err := c.newRef(r.Key, r.Attempt, r.TTL)
	if err != nil {
		return Begun{}, err
	}
	c.openTxns.add(ref, r.Client)
	return c.begun(ref), nil
}

// newRef is a transaction that begins now.
func (c *Catalog) newRef(key string, attempt uint32, ttl time.Duration) (txnRef, error) {
	l := c.cfg.Limits
	def(&ttl, l.TTL)
	if ttl < 0 || ttl > l.MaxTTL {
		return txnRef{}, limitError("transaction_ttl", ttl.Milliseconds(), l.MaxTTL.Milliseconds())
	}
	if len(key) > l.KeyBytes {
		return txnRef{}, limitError("key_bytes", int64(len(key)), int64(l.KeyBytes))
	}
	if !utf8.ValidString(key) {
		return txnRef{}, fieldError("key", "", "is not valid UTF-8", "send text")
	}
	ref := txnRef{key: key, attempt: attempt, begun: c.next(), deadline: c.cfg.Now().Add(ttl)}
	if key == "" {
		if attempt != 0 {
			return txnRef{}, fieldError("attempt", fmt.Sprint(attempt), "is set without a key", "leave it out, or give a key")
		}
		ref.id = twophase.TxnID(uuid.New())
		return ref, nil
	}
	def(&ref.attempt, 1)
	ref.id = twophase.DeriveTxnID(c.journal.Meta().Catalog, key, ref.attempt)
	return ref, nil
}

func (c *Catalog) next() (n twophase.Position) {
	c.ledger.read(func(s *twophase.State) { n = s.Next() })
	return n
}

func (c *Catalog) begun(ref txnRef) Begun {
	meta := c.journal.Meta()
	b := Begun{Token: c.tokenOf(ref), Txn: ref.id, Key: ref.key, Attempt: ref.attempt, CatalogID: meta.Catalog,
		Incarnation: meta.Incarnation, Position: ref.begun, Deadline: ref.deadline}
	c.ledger.read(func(s *twophase.State) {
		_, since := s.Floor()
		b.RememberedSince = since.Std()
		if ref.key != "" {
			b.Known = c.attempts(s, ref.key, ref.attempt)
		}
	})
	return b
}

// attempts are the decided attempts of a key: all up to one, and those after it as
// far as they follow each other.
func (c *Catalog) attempts(s *twophase.State, key string, upTo uint32) []Outcome {
	var out []Outcome
	for n := uint32(1); ; n++ {
		id := twophase.DeriveTxnID(s.Catalog(), key, n)
		o := s.Outcome(id)
		if o == nil && n > upTo {
			return out
		}
		if o != nil {
			out = append(out, c.outcomeOf(s, id, o))
		}
	}
}

func (c *Catalog) extend(ctx context.Context, r BeginRequest) (Begun, error) {
	if r.Key != "" || r.Attempt != 0 {
		return Begun{}, fieldError("key", r.Key, "is set beside a token", "leave key and attempt out to extend")
	}
	ref, err := c.open(r.Token)
	if err != nil {
		return Begun{}, err
	}
	ttl := r.TTL
	def(&ttl, c.cfg.Limits.TTL)
	if ttl < 0 || ttl > c.cfg.Limits.MaxTTL {
		return Begun{}, limitError("transaction_ttl", ttl.Milliseconds(), c.cfg.Limits.MaxTTL.Milliseconds())
	}
	if o, ok := c.decidedOutcome(ref.id); ok && o.Aborted != nil {
		return Begun{}, abortedError(o)
	}
	ref.deadline = c.cfg.Now().Add(ttl)
	c.openTxns.add(ref, r.Client)
	return c.begun(ref), nil
}

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
	pieces  []payloadID
}

// openRecord is the advisory record.
type openRecord struct {
	Txn      string    `json:"txn"`
	Key      string    `json:"key,omitempty"`
	Attempt  uint32    `json:"attempt,omitempty"`
	Position uint64    `json:"position"`
	Client   string    `json:"client,omitempty"`
	Begun    time.Time `json:"begun"`
	Deadline time.Time `json:"deadline"`
	Tables   []string  `json:"tables,omitempty"`
	Bytes    []int64   `json:"bytes,omitempty"`
}

func newOpenTxns(c *Catalog) *openTxns {
	return &openTxns{c: c, m: map[twophase.TxnID]*openTxn{}, dirty: map[twophase.TxnID]bool{}, ready: make(chan struct{}, 1)}
}

func (o *openTxns) add(ref txnRef, client string) {
	if _, decided := o.c.decidedOutcome(ref.id); decided {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.m[ref.id]
	if t == nil {
		t = &openTxn{ref: ref, client: client, begun: o.c.cfg.Now(), tables: map[twophase.TableID]*StagedTable{}}
		o.m[ref.id] = t
	}
	if left := ref.deadline.Sub(o.c.cfg.Now()); o.c.cfg.Boot()+left > t.expires {
		t.expires, t.ref.deadline = o.c.cfg.Boot()+left, ref.deadline
	}
	o.markLocked(ref.id)
}

// staged notes a piece of an open transaction.
func (o *openTxns) staged(ref txnRef, client string, id payloadID, name string, bytes int64) {
	o.add(ref, client)
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.m[ref.id]
	if t == nil || slices.Contains(t.pieces, id) {
		return
	}
	t.pieces = append(t.pieces, id)
	st := t.tables[id.Table]
	if st == nil {
		st = &StagedTable{Table: id.Table, Name: name}
		t.tables[id.Table] = st
	}
	st.Bytes += bytes
	st.Parts++
	o.markLocked(ref.id)
}

// done takes decided transactions out. It returns the pieces that were staged for
// them here.
func (o *openTxns) done(ids []twophase.TxnID) []payloadID {
	o.mu.Lock()
	defer o.mu.Unlock()
	var pieces []payloadID
	for _, id := range ids {
		if t, ok := o.m[id]; ok {
			pieces = append(pieces, t.pieces...)
			delete(o.m, id)
			o.markLocked(id)
		}
	}
	return pieces
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

func (o *openTxns) deadline(id twophase.TxnID) (time.Time, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t, ok := o.m[id]
	if !ok {
		return time.Time{}, false
	}
	return t.ref.deadline, true
}

func (o *openTxns) list() []OpenTxn {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]OpenTxn, 0, len(o.m))
	for _, t := range o.m {
		row := OpenTxn{Txn: t.ref.id, Key: t.ref.key, Attempt: t.ref.attempt, Client: t.client, Begun: t.begun, Deadline: t.ref.deadline}
		for _, st := range t.tables {
			row.Tables = append(row.Tables, *st)
		}
		slices.SortFunc(row.Tables, func(a, b StagedTable) int { return compare(a.Name, b.Name) })
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b OpenTxn) int {
		if d := a.Begun.Compare(b.Begun); d != 0 {
			return d
		}
		return compare(a.Txn.String(), b.Txn.String())
	})
	return out
}

func openKey(id twophase.TxnID) string { return "open/" + id.String() }

// run writes advisory records, in the background and many at a time.
func (o *openTxns) run(ctx context.Context) {
	for {
		select {
		case <-o.ready:
		case <-ctx.Done():
			return
		}
		o.mu.Lock()
		dirty := o.dirty
		o.dirty = map[twophase.TxnID]bool{}
		o.mu.Unlock()
		ids := make([]twophase.TxnID, 0, len(dirty))
		for id := range dirty {
			ids = append(ids, id)
		}
		if err := parallel(ids, 64, func(id twophase.TxnID) error { return o.save(ctx, id) }); err != nil && ctx.Err() == nil {
			o.c.log.Warn("write the list of open transactions", "error", err)
		}
	}
}

func (o *openTxns) save(ctx context.Context, id twophase.TxnID) error {
	o.mu.Lock()
	t, ok := o.m[id]
	var b []byte
	if ok {
		rec := openRecord{Txn: id.String(), Key: t.ref.key, Attempt: t.ref.attempt, Position: uint64(t.ref.begun), Client: t.client,
			Begun: t.begun, Deadline: t.ref.deadline}
		for _, st := range t.tables {
			rec.Tables, rec.Bytes = append(rec.Tables, string(st.Table)), append(rec.Bytes, st.Bytes)
		}
		b, _ = json.Marshal(rec)
	}
	o.mu.Unlock()
	if !ok {
		return o.c.cfg.Store.Delete(ctx, openKey(id))
	}
	_, err := o.c.cfg.Store.Put(ctx, openKey(id), b, lock.Always())
	return err
}

// load reads the advisory records after a restart. A deadline counts anew from here
// as far as it had not passed (R16).
func (o *openTxns) load(ctx context.Context) error {
	after := ""
	for {
		items, err := o.c.cfg.Store.Scan(ctx, "open/", after, 0)
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
			o.add(txnRef{id: id, key: rec.Key, attempt: rec.Attempt, begun: twophase.Position(rec.Position), deadline: rec.Deadline}, rec.Client)
			if _, decided := o.c.decidedOutcome(id); decided {
				o.mu.Lock()
				o.markLocked(id)
				o.mu.Unlock()
			}
		}
	}
}
