package coordinator

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// decidedOutcome is what the fold says of a transaction, if it is decided.
func (c *Catalog) decidedOutcome(id twophase.TxnID) (out Outcome, ok bool) {
	c.ledger.read(func(s *twophase.State) {
		if o := s.Outcome(id); o != nil {
			out, ok = c.outcomeOf(s, id, o), true
		}
	})
	return out, ok
}

// decided reports whether the fold says anything of a transaction.
func (c *Catalog) decided(id twophase.TxnID) (ok bool) {
	c.ledger.read(func(s *twophase.State) { ok = s.Outcome(id) != nil })
	return ok
}

func (c *Catalog) outcomeOf(s *twophase.State, id twophase.TxnID, o *twophase.Outcome) Outcome {
	out := Outcome{Txn: id, DecidedAt: o.Time.Std(), Position: o.Position}
	if a := o.Abort; a != nil {
		out.Key, out.Attempt = a.Key, a.Attempt
		out.Aborted = &ConflictDetail{
			Txn: id, Attempt: a.Attempt, TableID: a.Table, Table: nameOf(s, a.Table), Version: a.Version, Rule: a.Rule,
			Path: a.Path, Winner: a.Winner, Detail: a.Detail,
		}
		return out
	}
	out.Key, out.Attempt = o.Commit.Key, o.Commit.Attempt
	done := &Committed{Snapshot: o.Snapshot}
	for i := range o.Parts {
		p, table := &o.Parts[i], o.Commit.Parts[i].Table
		d := Delivery{Table: table, Name: nameOf(s, table), Status: p.Status, Version: p.Version, Place: p.Place}
		if p.Conflict.Rule != twophase.RuleNone {
			d.Conflict = &ConflictDetail{
				Txn: id, Attempt: o.Commit.Attempt, Table: d.Name, TableID: table, Version: twophase.NoVersion,
				Rule: p.Conflict.Rule, Path: p.Conflict.Path, Detail: p.Conflict.Detail,
			}
		}
		done.Tables = append(done.Tables, d)
	}
	out.Committed = done
	return out
}

// named adds the key that a transaction was asked for by: one that a rebuild found in the
// logs is known by its id, which is made of the key, and no log says the key itself.
func (o Outcome) named(key string, attempt uint32) Outcome {
	if o.Key == "" {
		o.Key, o.Attempt = key, attempt
	}
	return o
}

func nameOf(s *twophase.State, id twophase.TableID) string {
	if t, ok := s.Table(id); ok {
		return t.Name
	}
	return string(id)
}

// Outcome says what became of a transaction. Open and "not found" are said only
// after the journal's head was read, and are never final; with Resolve an abort
// record makes the answer final (R5).
func (c *Catalog) Outcome(ctx context.Context, r OutcomeRequest) (Outcome, time.Time, error) {
	since := c.rememberedSince()
	ref, err := c.find(r)
	if err != nil {
		return Outcome{}, since, err
	}
	about(ctx, ref.id)
	if o, ok := c.decidedOutcome(ref.id); ok {
		o, err := c.unlessDoubtful(ctx, o.named(ref.key, ref.attempt))
		return o, since, err
	}
	if err := c.catchUp(ctx); err != nil {
		return Outcome{}, since, err
	}
	if o, ok := c.decidedOutcome(ref.id); ok {
		o, err := c.unlessDoubtful(ctx, o.named(ref.key, ref.attempt))
		return o, since, err
	}
	if r.Resolve {
		o, err := c.resolve(ctx, ref, r)
		return o, since, err
	}
	if r.Token != "" {
		if err := c.stillOpen(ref); err != nil {
			return Outcome{}, since, err
		}
		return Outcome{Txn: ref.id, Key: ref.key, Attempt: ref.attempt, Deadline: ref.deadline}, since, nil
	}
	if open, ok := c.openTxns.find(ctx, ref.id); ok {
		return Outcome{Txn: ref.id, Key: cmp.Or(open.Key, ref.key), Attempt: cmp.Or(open.Attempt, ref.attempt), Deadline: open.Deadline}, since, nil
	}
	return Outcome{}, since, &Error{Reason: TransactionNotFound, Message: "the transaction is not known here; that is no final answer, ask with resolve for one"}
}

func (c *Catalog) rememberedSince() (t time.Time) {
	c.ledger.read(func(s *twophase.State) {
		_, since := s.Floor()
		t = since.Std()
	})
	return t
}

// find turns a reference into a transaction. For a key without an attempt: the
// committed one, else the newest that is known, else the first.
func (c *Catalog) find(r OutcomeRequest) (txnRef, error) {
	switch {
	case r.Token != "":
		return c.open(r.Token)
	case !r.Txn.IsZero():
		if r.Resolve {
			return txnRef{}, fieldError("transaction_id", r.Txn.String(), "cannot be resolved by its id", "give the token or the key")
		}
		return txnRef{id: r.Txn}, nil
	case r.Key == "":
		return txnRef{}, fieldError("transaction", "", "is missing", "give a token, a key or a transaction id")
	}
	attempt := r.Attempt
	if attempt == 0 {
		attempt = 1
		if !r.Resolve {
			c.ledger.read(func(s *twophase.State) {
				for _, o := range c.attempts(s, r.Key, 1) {
					attempt = o.Attempt
					if o.Committed != nil {
						break
					}
				}
			})
		}
	}
	ref := txnRef{id: twophase.DeriveTxnID(c.journal.Meta().Catalog, r.Key, attempt), key: r.Key, attempt: attempt}
	return ref, c.attemptFits(ref)
}

// resolve aborts what is undecided. It needs the token, or a time of first use that
// the catalog still remembers: else a forgotten commit would be denied (R6).
func (c *Catalog) resolve(ctx context.Context, ref txnRef, r OutcomeRequest) (Outcome, error) {
	if r.Token == "" {
		since := c.rememberedSince()
		if r.BegunAfter.IsZero() || !r.BegunAfter.After(since) {
			return Outcome{}, &Error{
				Reason:  OutcomeExpired,
				Message: fmt.Sprintf("without a token, resolve needs begun_after later than %s: older outcomes are forgotten", since.Format(time.RFC3339)),
			}
		}
		ref.begun = c.next()
	}
	return c.abort(ctx, ref, twophase.RuleResolved, "resolved by GetOutcome")
}

// Abort ends a transaction, unless it is decided: then it answers the outcome. An
// abort that arrives before the commit works by itself.
func (c *Catalog) Abort(ctx context.Context, r OutcomeRef, reason string) (Outcome, error) {
	if err := checkText("reason", reason); err != nil {
		return Outcome{}, err
	}
	if r.Token != "" {
		ref, err := c.open(r.Token)
		if err != nil {
			return Outcome{}, err
		}
		about(ctx, ref.id)
		return c.abort(ctx, ref, twophase.RuleClient, reason)
	}
	about(ctx, r.Txn)
	if err := c.catchUp(ctx); err != nil {
		return Outcome{}, err
	}
	if o, ok := c.decidedOutcome(r.Txn); ok {
		return c.unlessDoubtful(ctx, o)
	}
	if o, ok := c.openTxns.find(ctx, r.Txn); ok {
		return c.abort(ctx, txnRef{id: o.Txn, key: o.Key, attempt: o.Attempt, begun: c.next()}, twophase.RuleOperator, reason)
	}
	return Outcome{}, &Error{Reason: TransactionNotFound, Message: fmt.Sprintf("transaction %s is not known as open here", r.Txn)}
}

func (c *Catalog) abort(ctx context.Context, ref txnRef, rule twophase.Rule, reason string) (Outcome, error) {
	if err := c.upTo(ctx, ref.begun); err != nil {
		return Outcome{}, err
	}
	rec := &twophase.Aborted{
		Txn: ref.id, Key: ref.key, Attempt: ref.attempt, Begun: ref.begun, Rule: rule,
		Version: twophase.NoVersion, Detail: clip(reason, 1024),
	}
	err := c.seq.submit(ctx, twophase.Request{Abort: rec})
	var refused *twophase.Refused
	if errors.As(err, &refused) {
		return Outcome{}, c.refusal(ref, refused)
	}
	if err != nil {
		return Outcome{}, c.storeError(err)
	}
	o, ok := c.decidedOutcome(ref.id)
	if !ok {
		return Outcome{}, &Error{Reason: OutcomeUnknown, Message: "the outcome is not known yet; repeat the call"}
	}
	if a := o.Aborted; a != nil {
		c.log.DebugContext(ctx, "aborted", TxnAttr(ref.id), "rule", a.Rule.String())
	}
	return o, nil
}

// List lists open transactions and, if asked for, decided ones; not a page with one that there
// is doubt about.
func (c *Catalog) List(_ context.Context, r ListRequest) (Listed, error) {
	size := pageSize(r.PageSize)
	var filter twophase.TableID
	if r.Table != "" {
		row, err := c.table(r.Table)
		if err != nil {
			return Listed{}, err
		}
		filter = row.ID
	}
	before, err := decodePage(r.PageToken)
	if err != nil {
		return Listed{}, err
	}
	var out Listed
	if r.PageToken == "" {
		out.Open = c.openPage(filter, r.Shows, size)
	}
	if r.IncludeDecided {
		out.Decided, out.NextPage = c.decidedPage(filter, before, size)
		if err := c.doubtAbout(out.Decided); err != nil {
			return Listed{}, err
		}
	}
	return out, nil
}

// openPage lists open transactions, oldest first.
func (c *Catalog) openPage(filter twophase.TableID, shows func(OpenTxn) bool, size int) (page []OpenTxn) {
	for _, o := range c.openTxns.list() {
		if len(page) == size {
			break
		}
		if filter != "" && !slices.ContainsFunc(o.Tables, func(t StagedTable) bool { return t.Table == filter }) {
			continue
		}
		if shows == nil || shows(o) {
			page = append(page, o)
		}
	}
	return page
}

// decidedPage lists decided transactions, newest first, below a place. Hundreds of thousands may
// be passed over for a page: nothing is folded while the state is read, so that is done some at
// a time.
func (c *Catalog) decidedPage(filter twophase.TableID, before uint64, size int) (page []Outcome, next string) {
	for more := true; more; {
		more = false
		left := c.cfg.outcomesAtOnce
		c.ledger.read(func(s *twophase.State) {
			s.OutcomesBefore(twophase.Position(before>>20), uint32(before&(1<<20-1)), func(id twophase.TxnID, o *twophase.Outcome) bool {
				if more = left == 0; more {
					return false
				}
				listed := filter == "" || writes(o, filter)
				if listed && len(page) == size {
					next = encodePage(before)
					return false
				}
				if listed {
					page = append(page, c.outcomeOf(s, id, o))
				}
				before, left = uint64(o.Position)<<20|uint64(o.Index), left-1
				return true
			})
		})
	}
	return page, next
}

func writes(o *twophase.Outcome, id twophase.TableID) bool {
	return o.Commit != nil && slices.ContainsFunc(o.Commit.Parts, func(p twophase.Part) bool { return p.Table == id })
}

func pageSize(n int) int {
	if n <= 0 {
		return 100
	}
	return min(n, 1000)
}

func encodePage(n uint64) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatUint(n, 36)))
}

// decodePage is the place that a page begins below; the largest for the first page.
func decodePage(s string) (uint64, error) {
	if s == "" {
		return 1<<64 - 1, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	n, err2 := strconv.ParseUint(string(b), 36, 64)
	if err != nil || err2 != nil {
		return 0, fieldError("page_token", s, "is not one of ours", "pass next_page_token of the page before")
	}
	return n, nil
}
