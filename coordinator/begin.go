package coordinator

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/txcoord/txcoord/coordinator/quota"
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
	about(ctx, ref.id)
	if ref, err = c.openTxns.add(quota.CallerOf(ctx), ref, r.Client); err != nil {
		return Begun{}, err
	}
	return c.begun(ref)
}

// newRef is a transaction that begins now.
func (c *Catalog) newRef(key string, attempt uint32, ttl time.Duration) (txnRef, error) {
	l := c.cfg.Limits
	def(&ttl, l.TTL)
	if ttl < 0 || ttl > l.MaxTTL {
		return txnRef{}, ttlError("transaction_ttl", ttl, l.MaxTTL)
	}
	if len(key) > l.KeyBytes {
		return txnRef{}, limitError("key_bytes", int64(len(key)), int64(l.KeyBytes))
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
	if err := c.attemptFits(ref); err != nil {
		return txnRef{}, err
	}
	if why := notText(key); why != "" && !(utf8.ValidString(key) && c.decided(ref.id)) { // an old key gets its old answer
		return txnRef{}, fieldError("key", key, why, "use text of one line, in UTF-8")
	}
	return ref, nil
}

func (c *Catalog) next() (n twophase.Position) {
	c.ledger.read(func(s *twophase.State) { n = s.Next() })
	return n
}

// begun also says what is known of the key, and that only where the journal still counts
// for it: a job that hears that its work is committed is done.
func (c *Catalog) begun(ref txnRef) (Begun, error) {
	meta := c.journal.Meta()
	b := Begun{
		Token: c.tokenOf(ref), Txn: ref.id, Key: ref.key, Attempt: ref.attempt, CatalogID: meta.Catalog,
		Incarnation: meta.Incarnation, Position: ref.begun, Deadline: ref.deadline,
	}
	c.ledger.read(func(s *twophase.State) {
		_, since := s.Floor()
		b.RememberedSince = since.Std()
		if ref.key != "" {
			b.Known = c.attempts(s, ref.key, ref.attempt)
		}
	})
	for _, o := range b.Known {
		if err := c.doubt(o); err != nil {
			return Begun{}, err
		}
	}
	return b, nil
}

// attemptFits refuses an attempt past the limit: whoever counts one up looks at those
// below it. One that was decided when the limit was higher keeps its answer.
func (c *Catalog) attemptFits(ref txnRef) error {
	limit := c.cfg.Limits.KeyAttempts
	if int64(ref.attempt) <= int64(limit) || c.decided(ref.id) {
		return nil
	}
	return fieldError("attempt", fmt.Sprint(ref.attempt), fmt.Sprintf("is past the limit key_attempts of %d", limit),
		"give the attempt after the last aborted one of the key, or a new key; attempt n commits only when all before it are aborted")
}

// attempts are the decided attempts of a key: all up to one, those after it as far as
// they follow each other, and a committed one behind a gap: what is forgotten, or was
// lost with a journal. That one is looked for from the attempt that would be committed next,
// as far as the commit looks. Those past the limit key_attempts are left out, but for that
// one: the fold is locked meanwhile.
func (c *Catalog) attempts(s *twophase.State, key string, upTo uint32) []Outcome {
	var out []Outcome
	look := func(n uint32) bool {
		id := twophase.DeriveTxnID(s.Catalog(), key, n)
		o := s.Outcome(id)
		if o != nil {
			out = append(out, c.outcomeOf(s, id, o).named(key, n))
		}
		return o != nil
	}
	limit := uint32(min(int64(c.cfg.Limits.KeyAttempts), math.MaxUint32-1))
	upTo = max(upTo, 1)
	next := uint32(0) // the first from upTo on that is not decided
	for n := uint32(1); n <= limit; n++ {
		if look(n) || n < upTo {
			continue
		}
		if next == 0 {
			next = n
		}
		if n > upTo {
			if _, later, ok := s.CommittedAbove(key, next); ok && later > n {
				look(later)
			}
			return out
		}
	}
	if upTo > limit {
		look(upTo)
	}
	return out
}

func (c *Catalog) extend(ctx context.Context, r BeginRequest) (Begun, error) {
	if r.Key != "" || r.Attempt != 0 {
		return Begun{}, fieldError("key", r.Key, "is set beside a token", "leave key and attempt out to extend")
	}
	ref, err := c.open(r.Token)
	if err != nil {
		return Begun{}, err
	}
	about(ctx, ref.id)
	ttl := r.TTL
	def(&ttl, c.cfg.Limits.TTL)
	if ttl < 0 || ttl > c.cfg.Limits.MaxTTL {
		return Begun{}, ttlError("transaction_ttl", ttl, c.cfg.Limits.MaxTTL)
	}
	if err := c.stillOpen(ref); err != nil {
		return Begun{}, err
	}
	ref.deadline = c.cfg.Now().Add(ttl)
	if _, err := c.openTxns.add(quota.CallerOf(ctx), ref, r.Client); err != nil {
		return Begun{}, err
	}
	return c.begun(ref)
}

// ttlError is a time to live past its limit; the detail is in milliseconds.
func ttlError(name string, ttl, limit time.Duration) error {
	e := limitError(name, ttl.Milliseconds(), limit.Milliseconds())
	e.Message = fmt.Sprintf("%s is %s, the limit is %s; ask for less time, or raise the server's limit %s", name, InUnits(ttl), InUnits(limit), name)
	return e
}

// InUnits is a duration as one writes it: 720h, not 720h0m0s.
func InUnits(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
