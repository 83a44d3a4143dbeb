package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// ErrNothingStaged: the function returned nil and had staged nothing.
var ErrNothingStaged = errors.New("nothing staged")

// Result is a committed transaction. On most days that is all: each of its tables has, or
// gets, its change. NotApplied names the exceptions.
type Result struct {
	// Outcome is COMMITTED; it says which versions of which tables hold the change.
	Outcome *txcoordv1.Outcome
	// AlreadyCommitted: an earlier run of the same key did it. What this run has
	// staged is not part of it, and files that it wrote are used by nobody.
	AlreadyCommitted bool
	// Token asks for the outcome again; empty if AlreadyCommitted.
	Token string
}

// Snapshot is the first snapshot that contains the change; 0 while tables are
// pending.
func (r *Result) Snapshot() uint64 { return r.Outcome.GetCommitted().GetSnapshotVersion() }

// NotApplied are the tables on which the change was given up for good, by an operator's
// word on a frozen table: it is on the others of the transaction, and never on these. A
// repeated commit of the key answers the same. Make that part of the work anew, under
// another key.
func (r *Result) NotApplied() []*txcoordv1.TableDelivery { return NotApplied(r.Outcome) }

// NotApplied is Result.NotApplied for any outcome; empty for one that is not COMMITTED.
func NotApplied(o *txcoordv1.Outcome) (out []*txcoordv1.TableDelivery) {
	for _, t := range o.GetCommitted().GetTables() {
		if t.GetState() == txcoordv1.DeliveryState_DELIVERY_STATE_NOT_APPLIED {
			out = append(out, t)
		}
	}
	return out
}

// TransactionError says which transaction an error of Transact is about. With an
// ErrUnavailable inside, it may or may not be committed: Outcome and Resolve tell,
// and Transact with the same key finds out by itself.
type TransactionError struct {
	TransactionID string
	Key           string
	Attempt       uint32
	Token         string
	// Runs is how often the function ran.
	Runs int
	// Open: the attempt was given up, and no answer to its abort came in five seconds.
	// What it has staged is kept until its deadline then, or until Resolve with the
	// token ends it; nothing but the same key run again may still commit it.
	Open bool
	Err  error

	stopped string // why it was not run again, where it might have been
}

func (e *TransactionError) Error() string {
	open := ""
	if e.Open {
		open = ", given up but perhaps open until its deadline,"
	}
	return fmt.Sprintf("transaction %s (key %q, attempt %d)%s%s: %v", e.TransactionID, e.Key, e.Attempt, open, e.stopped, e.Err)
}

// Unwrap returns what went wrong.
func (e *TransactionError) Unwrap() error { return e.Err }

// TransactOption changes how Transact works.
type TransactOption func(*settings)

type settings struct {
	ttl, waitLimit time.Duration
	runs           int
	verify         bool
	wait           txcoordv1.Wait
}

// TTL bounds how long each attempt may stay open; the server's default is an hour.
func TTL(d time.Duration) TransactOption { return func(s *settings) { s.ttl = d } }

// MaxRuns bounds how often the function runs; the default is 10.
func MaxRuns(n int) TransactOption { return func(s *settings) { s.runs = n } }

// WaitLimit bounds the wait for all tables after the decision: the transaction is
// committed then, and tables may still be pending.
func WaitLimit(d time.Duration) TransactOption { return func(s *settings) { s.waitLimit = d } }

// WaitDecided has the commit answered when it is decided: durable and ordered, before
// its versions are in the tables' logs. That is offered only where every table is
// fenced and its fence counts; elsewhere the commit is refused with an ErrPrecondition.
// The result has no snapshot then, and its tables are pending.
func WaitDecided() TransactOption {
	return func(s *settings) { s.wait = txcoordv1.Wait_WAIT_DECIDED }
}

// VerifyFiles has the server look for each added file before it decides.
func VerifyFiles() TransactOption { return func(s *settings) { s.verify = true } }

// Transact commits what fn stages, all of it or nothing, once per key. If the key
// is committed already, fn does not run and the result says so. fn runs again,
// from the start and as the next attempt of the key, when a conflict, a passed
// deadline or a read point that is too old lost the attempt; so it has to read
// again what it depends on. It does not run again when it staged the same changes
// from the same read points twice and lost them to the same conflict, or twice added
// a file that is there already. When fn returns any other error, the transaction is
// aborted and Transact returns the error.
//
// The key names the piece of work ("orders-2026-11-29"), not the try. Without one
// Transact makes a random key: safe within the call, but a job that starts anew
// cannot find it again.
//
// An error is a *TransactionError once the transaction has begun.
func (c *Client) Transact(
	ctx context.Context, key string, fn func(*Tx) error, opts ...TransactOption,
) (*Result, error) {
	s := settings{runs: 10}
	for _, o := range opts {
		o(&s)
	}
	if key == "" {
		key = uuid.NewString()
	}
	pauses := newBackOff(10*time.Millisecond, time.Second)
	var before *loss
	for attempt, run := uint32(1), 1; ; run++ {
		tx, done, err := c.begin(ctx, key, attempt, s)
		if err != nil || done != nil {
			return done, err
		}
		result, err := tx.run(ctx, fn)
		if err == nil {
			return result, nil
		}
		if !tx.lost(err) {
			return nil, tx.errorOf(err, run, "")
		}
		now := tx.lossOf(err)
		if now.again(before) {
			return nil, tx.errorOf(err, run, fmt.Sprintf(", after %d runs that lost to the same conflict with what no further run would change", run))
		}
		if before = now; run >= s.runs {
			return nil, tx.errorOf(err, run, fmt.Sprintf(", after %d runs, as many as MaxRuns allows", run))
		}
		if !sleep(ctx, pauses.NextBackOff()) {
			return nil, tx.errorOf(err, run, fmt.Sprintf(", after %d runs, when the context ended", run))
		}
		attempt = tx.attempt + 1
	}
}

// AlterTable changes schema, properties or comments of a table in a transaction of its
// own. It is made anew from the table as it is when somebody else changed that in
// between.
func (c *Client) AlterTable(
	ctx context.Context, key, table string, change *txcoordv1.TableAlteration, opts ...TransactOption,
) (*Result, error) {
	return c.Transact(ctx, key, func(tx *Tx) error {
		_, err := tx.Alter(ctx, table, change, nil)
		return err
	}, opts...)
}

// begin starts the first attempt of the key, from the given one on, that is not
// decided. A key that is committed gives a result instead.
func (c *Client) begin(ctx context.Context, key string, attempt uint32, s settings) (*Tx, *Result, error) {
	for {
		req := &txcoordv1.BeginRequest{Key: key, Attempt: attempt}
		if s.ttl > 0 {
			req.Ttl = durationpb.New(s.ttl)
		}
		begun, err := c.Transactions.Begin(ctx, req)
		if err != nil {
			return nil, nil, fmt.Errorf("begin %q: %w", key, err)
		}
		next := attempt
		for _, o := range begun.GetKnown() {
			if o.GetCommitted() != nil {
				return nil, &Result{Outcome: o, AlreadyCommitted: true}, nil
			}
			if o.GetAborted() != nil {
				next = max(next, o.GetAttempt()+1)
			}
		}
		if next == attempt {
			return newTx(c, key, attempt, begun, s), nil, nil
		}
		attempt = next
	}
}

// run is one attempt.
func (tx *Tx) run(ctx context.Context, fn func(*Tx) error) (*Result, error) {
	if err := fn(tx); err != nil {
		return tx.giveUp(ctx, err)
	}
	if len(tx.tables)+len(tx.leaves) == 0 {
		return tx.giveUp(ctx, ErrNothingStaged)
	}
	result, err := tx.commit(ctx)
	switch {
	case err == nil:
		return result, nil
	case hasReason(err, txcoordv1.ErrorReason_ERROR_REASON_OTHER_DIGESTS),
		hasReason(err, txcoordv1.ErrorReason_ERROR_REASON_KEY_COMMITTED):
		return tx.doneBefore(ctx, err)
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrAborted), errors.Is(err, ErrAlreadyExists):
		// Unknown or final. Unknown is left alone: an abort now would only guess.
		return nil, err
	default:
		return tx.giveUp(ctx, err)
	}
}

// abortFor bounds how long somebody who gives up waits for the abort's answer.
const abortFor = 5 * time.Second

// giveUp aborts the attempt, so that the next one may commit and nothing stays
// open until its deadline. The abort is made even if the caller's context has
// ended, for abortFor; after that the attempt is left as perhaps open. Where the
// next attempt would have done the work and another run of the key was quicker, the
// work is done.
func (tx *Tx) giveUp(ctx context.Context, cause error) (*Result, error) {
	if errors.Is(cause, ErrAborted) {
		return nil, cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortFor)
	defer cancel()
	answer, err := tx.client.Transactions.Abort(ctx, &txcoordv1.AbortRequest{
		Transaction: &txcoordv1.AbortRequest_Token{Token: tx.token}, Reason: "client gave up",
	})
	if err != nil {
		tx.open = true
		return nil, cause
	}
	if o := answer.GetOutcome(); o.GetCommitted() != nil && errors.Is(cause, ErrOutOfRange) {
		return &Result{Outcome: o, AlreadyCommitted: true}, nil
	}
	tx.aborted = answer.GetOutcome().GetAborted() != nil
	return nil, cause
}

// doneBefore looks up the run of the key that was quicker.
func (tx *Tx) doneBefore(ctx context.Context, cause error) (*Result, error) {
	o, err := tx.client.OutcomeOfKey(ctx, tx.key)
	if err != nil || o.GetCommitted() == nil {
		return nil, cause
	}
	return &Result{Outcome: o, AlreadyCommitted: true}, nil
}

// lost reports whether the attempt is recorded as aborted, for a reason that the
// next one may not meet. What a person aborted is not run again.
func (tx *Tx) lost(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	if errors.Is(e, ErrOutOfRange) {
		return tx.aborted
	}
	return errors.Is(e, ErrConflict) || errors.Is(e, ErrExpired) ||
		errors.Is(e, ErrAborted) && e.Conflict.GetRule() == txcoordv1.Rule_RULE_RESOLVED
}

func (tx *Tx) errorOf(err error, runs int, stopped string) error {
	return &TransactionError{
		TransactionID: tx.id, Key: tx.key, Attempt: tx.attempt, Token: tx.token, Runs: runs, Open: tx.open, Err: err, stopped: stopped,
	}
}

// loss is a lost attempt: the conflict, and what was to be committed. Digests are
// over actions and read declaration.
type loss struct {
	conflict *txcoordv1.ConflictDetail
	commit   *txcoordv1.CommitRequest
}

// lossOf is nil for what is not a conflict: time alone may heal it.
func (tx *Tx) lossOf(err error) *loss {
	var e *Error
	if !errors.As(err, &e) || !errors.Is(e, ErrConflict) || e.Conflict == nil {
		return nil
	}
	return &loss{conflict: e.Conflict, commit: tx.commitRequest()}
}

// again reports whether the attempt was lost as the one before it was, and the next
// one would be, too.
func (l *loss) again(before *loss) bool {
	if l == nil || before == nil {
		return false
	}
	a, b := l.conflict, before.conflict
	if a.GetRule() != b.GetRule() || a.GetTableId() != b.GetTableId() || a.GetTable() != b.GetTable() || a.GetPath() != b.GetPath() {
		return false
	}
	if a.GetRule() == txcoordv1.Rule_RULE_PATH_EXISTS {
		return true
	}
	return proto.Equal(
		&txcoordv1.CommitRequest{Tables: l.commit.GetTables(), Reads: l.commit.GetReads()},
		&txcoordv1.CommitRequest{Tables: before.commit.GetTables(), Reads: before.commit.GetReads()})
}
