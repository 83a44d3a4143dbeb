package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/txcoord/txcoord/internal/number"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/logstore"
	"github.com/txcoord/txcoord/twophase"
)

// Here the errors of the packages below become the catalog's own.

func fieldError(field, value, why, remedy string) *Error {
	return &Error{
		Reason: InvalidRequest, Message: strings.TrimSpace(field+" "+quoted(value)) + " " + why + "; " + remedy,
		Field: &FieldDetail{Field: field, Value: clip(value, 256), Remedy: remedy},
	}
}

func quoted(v string) string {
	if v == "" {
		return ""
	}
	return fmt.Sprintf("%q", clip(v, 256))
}

func limitError(name string, value, limit int64) *Error {
	return &Error{
		Reason: LimitExceeded, Message: fmt.Sprintf("%s is %d, the limit is %d", name, value, limit),
		Limit: &LimitDetail{Name: name, Value: value, Limit: limit},
	}
}

func clip(s string, n int) string {
	if len(s) <= n {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.ToValidUTF8(s[:n], "")
}

func compare[T cmp.Ordered](a, b T) int { return cmp.Compare(a, b) }

// inputError is what tables says of a client's actions.
func inputError(table string, err error) error {
	var in *tables.InputError
	var limit *tables.LimitError
	var feature *tables.FeatureError
	switch {
	case errors.As(err, &in):
		reason := InvalidAction
		if in.Line == 0 {
			reason = InvalidRequest
		}
		if strings.HasPrefix(in.Field, "delta.") || strings.HasPrefix(in.Field, "metaData.configuration.") && in.Line == 0 {
			reason = TableProperty
		}
		return &Error{
			Reason: reason, Message: "table " + table + ": " + in.Error(),
			Field: &FieldDetail{Field: in.Field, Line: in.Line, Value: in.Value, Remedy: in.Remedy, Table: table},
		}
	case errors.As(err, &limit):
		return limitError(limit.Limit, limit.Value, limit.Max)
	case errors.As(err, &feature):
		return &Error{Reason: FeatureUnsupported, Message: feature.Error(), Feature: &FeatureDetail{Table: table, Feature: feature.Feature}}
	}
	return err
}

// abortedError is the final answer of an aborted transaction.
func abortedError(o Outcome) *Error {
	reason := Conflicted
	switch o.Aborted.Rule {
	case twophase.RuleExpired:
		reason = Expired
	case twophase.RuleClient, twophase.RuleOperator, twophase.RuleResolved:
		reason = Aborted
	case twophase.RuleAppVersion:
		reason = AppVersionApplied
	default:
	}
	msg := fmt.Sprintf("transaction %s is aborted: %s", o.Txn, o.Aborted.Rule)
	if o.Aborted.Table != "" {
		msg += " on table " + o.Aborted.Table
	}
	if o.Aborted.Path != "" {
		msg += ": " + o.Aborted.Path
	}
	if o.Aborted.Detail != "" {
		msg += ": " + o.Aborted.Detail
	}
	if remedy := ruleRemedies[o.Aborted.Rule]; remedy != "" && reason == Conflicted {
		msg += "; " + remedy
	}
	return &Error{Reason: reason, Message: msg, Conflict: o.Aborted}
}

// otherDigests: a transaction that was given up on some tables is not done, whatever it is
// that comes under its key now.
func otherDigests(o Outcome) error {
	msg := "the transaction is committed, with other parts than these: if this is the same work done again (a file that is written anew is another one), it is done and nothing is left to do; other work needs another key"
	if n := givenUp(o); n > 0 { // of which the caller may not know: a key can be guessed
		msg = fmt.Sprintf("the transaction is committed, with other parts than these, and was given up on %s, which its outcome names: what is missing there has to be committed under another key", number.Of(n, "table"))
	}
	return &Error{
		Reason: OtherDigests, Message: msg,
		Txn: &TxnDetail{Txn: o.Txn, Key: o.Key, Attempt: o.Attempt},
	}
}

// givenUp is on how many tables a committed transaction is not applied.
func givenUp(o Outcome) (n int) {
	if o.Committed == nil {
		return 0
	}
	for _, d := range o.Committed.Tables {
		if d.Status == twophase.StatusNotApplied {
			n++
		}
	}
	return n
}

func wrongMode(row TableInfo, remedy string) error {
	return &Error{
		Reason: WrongMode, Message: fmt.Sprintf("table %s is %s; %s", row.Name, row.Mode, remedy),
		Table: &TableDetail{Table: row.Name, TableID: row.ID, URI: row.URI, Version: twophase.NoVersion, Detail: row.Mode.String()},
	}
}

func frozenError(row TableInfo) error {
	return &Error{Reason: TableFrozen, Message: row.Frozen.Message(), Frozen: row.Frozen}
}

// restsOn is what the decision knew of the transaction that a refusal names. The fold may
// have forgotten it since.
func (c *Catalog) restsOn(ref txnRef, r *twophase.Refused) Outcome {
	out := Outcome{Txn: r.Txn}
	if r.Outcome != nil {
		c.ledger.read(func(s *twophase.State) { out = c.outcomeOf(s, r.Txn, r.Outcome) })
	}
	if r.Txn == ref.id {
		out = out.named(ref.key, ref.attempt)
	}
	return out
}

// refusal is a request that got no record.
func (c *Catalog) refusal(ref txnRef, r *twophase.Refused) error {
	row := c.row(r.Table)
	table := &TableDetail{Table: row.Name, TableID: r.Table, URI: row.URI, Version: twophase.NoVersion}
	switch r.Reason {
	case twophase.ReasonUnknownTable:
		return &Error{Reason: TableNotFound, Message: fmt.Sprintf("table %s is not in the catalog any more", r.Table), Table: table}
	case twophase.ReasonFrozen:
		if row.Frozen != nil {
			return frozenError(row)
		}
		return &Error{
			Reason: TableFrozen, Message: fmt.Sprintf("table %s was frozen when the call came, and is not any more; repeat it", row.Name),
			Frozen: &FrozenDetail{Table: row.Name, TableID: r.Table, Txn: r.Txn, Origin: r.Table},
		}
	case twophase.ReasonOtherDigests:
		return otherDigests(c.restsOn(ref, r))
	case twophase.ReasonExpiredOutcome:
		return &Error{Reason: OutcomeExpired, Message: "the transaction is older than what the catalog remembers; nothing was written"}
	case twophase.ReasonAheadOfJournal:
		return &Error{Reason: TokenStale, Message: "the token is from a part of the catalog's history that is not in its journal"}
	case twophase.ReasonEarlierAttempt:
		reason := AttemptUndecided
		if c.restsOn(ref, r).Committed != nil {
			reason = KeyCommitted
		}
		return &Error{Reason: reason, Message: r.Detail, Txn: &TxnDetail{Txn: r.Txn, Key: ref.key}}
	case twophase.ReasonPendingChanges:
		return &Error{Reason: ChangesPending, Message: fmt.Sprintf("table %s has changes that are decided and not yet published", row.Name), Table: table}
	case twophase.ReasonAlreadyRegistered:
		return &Error{Reason: TableExists, Message: "name or location are another table's: " + r.Detail, Table: table}
	case twophase.ReasonMoved:
		return &Error{Reason: StoreUnavailable, Message: "the catalog has moved to " + r.Detail + "; its servers have to be started with that store, and the same call repeated there"}
	case twophase.ReasonTooLarge:
		return limitError("max_entry_bytes", int64(c.cfg.Limits.MaxEntryBytes)+1, int64(c.cfg.Limits.MaxEntryBytes))
	default:
	}
	return &Error{Reason: BrokenInvariant, Message: r.Error()}
}

// logError is what reading a table's log ran into.
func (c *Catalog) logError(id twophase.TableID, err error) error {
	row := c.row(id)
	return c.logErrorAt(row, err)
}

func (c *Catalog) logErrorAt(row TableInfo, err error) error {
	var own *Error
	var bad *tables.LogError
	var feature *tables.FeatureError
	var entry *logstore.EntryError
	switch {
	case err == nil, errors.As(err, &own), isContext(err):
		return err
	case errors.As(err, &feature):
		return &Error{Reason: FeatureUnsupported, Message: feature.Error(), Feature: &FeatureDetail{Table: row.Name, Feature: feature.Feature}}
	case errors.As(err, &entry):
		return logStoreError(row.URI, err)
	case errors.As(err, &bad):
		reason := LogContradiction
		if bad.Fault == tables.NotATable {
			reason = NotATable
		}
		return &Error{Reason: reason, Message: bad.Error(), Table: &TableDetail{
			Table: row.Name, TableID: row.ID, URI: row.URI,
			Version: bad.Version, File: bad.File, Detail: strings.TrimSuffix(bad.Fault.String()+": "+bad.Reason, ": "),
		}}
	}
	return c.objectsError(row.URI, err)
}

func (c *Catalog) tableError(t *handle, reason Reason, msg string, cause error) error {
	row := c.row(t.id)
	return &Error{
		Reason: reason, Message: fmt.Sprintf("table %s: %s", row.Name, msg), Cause: cause,
		Table: &TableDetail{Table: row.Name, TableID: row.ID, URI: row.URI, Version: twophase.NoVersion, Detail: msg},
	}
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// objectsError is an object store that cannot be reached, or refuses.
func (c *Catalog) objectsError(uri string, err error) error {
	var own *Error
	if err == nil || errors.As(err, &own) || isContext(err) {
		return err
	}
	var entry *logstore.EntryError
	if errors.As(err, &entry) {
		return logStoreError(uri, err)
	}
	c.log.Warn("object store", "table", uri, "error", err)
	return &Error{
		Reason: ObjectsUnavailable, Message: "the object store cannot be used now" + because(err) + "; repeat the call", Cause: err,
		Table: &TableDetail{URI: uri, Version: twophase.NoVersion},
	}
}

// because is what can be told of a failure's cause; empty if that is nothing.
func because(err error) string {
	if text, remedy := ailment(err); text != unknownAilment {
		return " (" + text + "; " + remedy + ")"
	}
	return ""
}

// storeError is the catalog's own store.
func (c *Catalog) storeError(err error) error {
	var own *Error
	switch {
	case err == nil, errors.As(err, &own):
		return err
	case errors.Is(err, lock.ErrUnknown):
		return &Error{Reason: OutcomeUnknown, Message: "the write may have landed" + because(err) + "; repeat the call", Cause: err}
	case c.ledger.stopped() != nil:
		return c.ledgerError(err)
	case c.life.Err() != nil:
		return &Error{Reason: ShuttingDown, Message: "the server is stopping; repeat the call", Cause: err}
	case isContext(err):
		return err
	}
	c.log.Warn("store", "error", err)
	return &Error{Reason: StoreUnavailable, Message: "the catalog's store cannot be used now" + because(err) + "; repeat the call", Cause: err}
}

// ledgerError is a wait on the fold that ended early.
func (c *Catalog) ledgerError(err error) error {
	var own *Error
	switch {
	case err == nil, errors.As(err, &own):
		return err
	case errors.Is(c.ledger.stopped(), lock.ErrBehind):
		return c.isBehind(err)
	case errors.Is(c.ledger.stopped(), twophase.ErrUnknownRecord):
		return c.isOld()
	case errors.Is(c.ledger.stopped(), twophase.ErrDamaged):
		return damagedEntry(c.ledger.stopped())
	case c.ledger.stopped() != nil:
		return &Error{Reason: JournalContradiction, Message: "the catalog takes no writes: its journal does not fit what was folded or published; an operator has to look", Cause: c.ledger.stopped()}
	case c.life.Err() != nil:
		return &Error{Reason: ShuttingDown, Message: "the server is stopping; repeat the call", Cause: err}
	}
	return err
}
