package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

var lostReply = status.Error(codes.Unavailable, "connection reset")

// stageTwo stages what does not depend on the attempt.
func stageTwo(ctx context.Context) func(*client.Tx) error {
	return func(tx *client.Tx) error {
		for _, table := range []string{"orders", "items"} {
			if _, err := tx.Stage(ctx, table, client.Blind(), []byte(`{"add":{}}`)); err != nil {
				return err
			}
		}
		return nil
	}
}

// stageAnew stages what a run makes of what it reads: other bytes each time.
func stageAnew(ctx context.Context) func(*client.Tx) error {
	return func(tx *client.Tx) error {
		_, err := tx.Stage(ctx, "orders", client.AtVersion(int64(tx.Attempt()), nil), fmt.Appendf(nil, `{"add":{"path":"%d"}}`, tx.Attempt()))
		return err
	}
}

func TestTransactCommits(t *testing.T) {
	s := &server{}
	c := start(t, s, client.Options{Catalog: "sales"})
	r, err := c.Transact(t.Context(), "k", stageTwo(t.Context()), client.TTL(time.Minute), client.WaitLimit(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if r.Snapshot() != 1 || r.AlreadyCommitted || r.Token == "" || c.LatestSnapshot() != 1 {
		t.Errorf("result %+v, latest %d", r, c.LatestSnapshot())
	}
	begin, commit := s.requests[0].(*txcoordv1.BeginRequest), s.requests[3].(*txcoordv1.CommitRequest)
	if begin.GetCatalog() != "sales" || begin.GetTtl().AsDuration() != time.Minute || begin.GetAttempt() != 1 {
		t.Errorf("begin: %v", begin)
	}
	if len(commit.GetTables()) != 2 || commit.GetTables()[0].GetTable() != "id of orders" ||
		commit.GetWaitLimit().AsDuration() != time.Second {
		t.Errorf("commit: %v", commit)
	}
}

// A reply that is lost after the server did its work, at each call in turn: the
// same call again, and one commit under one id.
func TestTransactRepeatsAfterLostReply(t *testing.T) {
	for _, call := range []string{"Begin", "Stage", "Commit"} {
		for _, lost := range []error{
			lostReply, status.Error(codes.Unknown, "proxy"), status.Error(codes.Internal, "RST_STREAM"),
			fail(codes.Unavailable, "OUTCOME_UNKNOWN"),
		} {
			t.Run(call+"/"+status.Code(lost).String(), func(t *testing.T) {
				s := &server{onAnswer: func(name string, n int) error {
					if name == call && n == 1 {
						return lost
					}
					return nil
				}}
				c := start(t, s, client.Options{})
				r, err := c.Transact(t.Context(), "k", stageTwo(t.Context()))
				if err != nil {
					t.Fatal(err)
				}
				if r.Outcome.GetTransactionId() != "k/1" || len(s.outcomes) != 1 || s.snapshot != 1 {
					t.Errorf("committed as %s; outcomes %v", r.Outcome.GetTransactionId(), s.outcomes)
				}
				if s.count("Abort") != 0 || s.count(call) < 2 {
					t.Errorf("calls %v", s.calls)
				}
			})
		}
	}
}

func TestTransactCommitUnavailableThenCommitted(t *testing.T) {
	s := &server{onCall: func(name string, n int) error {
		if name == "Commit" && n <= 3 {
			return fail(codes.Unavailable, "STORE_UNAVAILABLE")
		}
		return nil
	}}
	c := start(t, s, client.Options{})
	if _, err := c.Transact(t.Context(), "k", stageTwo(t.Context())); err != nil {
		t.Fatal(err)
	}
	if n := s.count("Commit"); n != 4 {
		t.Errorf("%d commits, want 4", n)
	}
	first, last := s.requests[3].(*txcoordv1.CommitRequest), s.requests[6].(*txcoordv1.CommitRequest)
	if first.GetToken() != last.GetToken() || !slices.EqualFunc(first.GetTables(), last.GetTables(),
		func(a, b *txcoordv1.TableParts) bool { return slices.Equal(a.GetDigests(), b.GetDigests()) }) {
		t.Errorf("not the same call: %v, then %v", first, last)
	}
}

func TestTransactGivesUpOnUnavailableWithoutAborting(t *testing.T) {
	s := &server{onCall: func(name string, _ int) error {
		if name == "Commit" {
			return lostReply
		}
		return nil
	}}
	c := start(t, s, client.Options{RetryFor: 50 * time.Millisecond})
	_, err := c.Transact(t.Context(), "k", stageTwo(t.Context()))
	var te *client.TransactionError
	if !errors.Is(err, client.ErrUnavailable) || !errors.As(err, &te) || te.Token != "k/1" {
		t.Errorf("error %v", err)
	}
	if s.count("Abort") != 0 {
		t.Error("aborted what may be committed")
	}
}

func TestTransactWaitsAsLongAsTold(t *testing.T) {
	busy, err := status.New(codes.ResourceExhausted, "busy").WithDetails(
		&errdetails.ErrorInfo{Domain: "txcoord", Reason: "QUOTA_EXCEEDED"},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(200 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{onCall: func(name string, n int) error {
		if name == "Commit" && n == 1 {
			return busy.Err()
		}
		return nil
	}}
	c := start(t, s, client.Options{})
	began := time.Now()
	if _, err := c.Transact(t.Context(), "k", stageTwo(t.Context())); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d < 200*time.Millisecond {
		t.Errorf("repeated after %v", d)
	}
}

// loseFirst answers the first n commits with a recorded abort of that rule.
func loseFirst(s *server, n int, reason string, rule txcoordv1.Rule) {
	s.onCall = func(name string, i int) error {
		if name != "Commit" || i > n {
			return nil
		}
		return fail(codes.Aborted, reason, s.abort(txnID("k", uint32(i)), uint32(i), rule))
	}
}

func TestTransactRunsAgainAfterConflict(t *testing.T) {
	for reason, rule := range map[string]txcoordv1.Rule{
		"CONFLICT": txcoordv1.Rule_RULE_DELETE_READ,
		"EXPIRED":  txcoordv1.Rule_RULE_EXPIRED,
		"ABORTED":  txcoordv1.Rule_RULE_RESOLVED,
	} {
		t.Run(reason, func(t *testing.T) {
			s := &server{}
			loseFirst(s, 2, reason, rule)
			c := start(t, s, client.Options{})
			var attempts []uint32
			r, err := c.Transact(t.Context(), "k", func(tx *client.Tx) error {
				attempts = append(attempts, tx.Attempt())
				return stageAnew(t.Context())(tx)
			})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(attempts, []uint32{1, 2, 3}) || r.Outcome.GetTransactionId() != "k/3" {
				t.Errorf("attempts %v, committed as %s", attempts, r.Outcome.GetTransactionId())
			}
		})
	}
}

func TestTransactStopsAtTheLimit(t *testing.T) {
	s := &server{}
	loseFirst(s, 100, "CONFLICT", txcoordv1.Rule_RULE_DELETE_DELETE)
	c := start(t, s, client.Options{})
	_, err := c.Transact(t.Context(), "k", stageAnew(t.Context()), client.MaxRuns(3))
	var e *client.Error
	var te *client.TransactionError
	if !errors.Is(err, client.ErrConflict) || !errors.As(err, &e) || e.Conflict.GetVersion() != 7 {
		t.Errorf("error %v", err)
	}
	if !errors.As(err, &te) || te.Runs != 3 || !strings.Contains(err.Error(), "after 3 runs, as many as MaxRuns allows") {
		t.Errorf("error %v", err)
	}
	if n := s.count("Commit"); n != 3 {
		t.Errorf("%d commits, want 3", n)
	}
}

func TestTransactDoesNotRunAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		abort  bool
		target error
	}{
		{"operator", fail(codes.Aborted, "ABORTED",
			&txcoordv1.ConflictDetail{Rule: txcoordv1.Rule_RULE_OPERATOR}), false, client.ErrAborted},
		{"app version", fail(codes.AlreadyExists, "APP_VERSION_APPLIED"), false, client.ErrAlreadyExists},
		{"frozen", fail(codes.FailedPrecondition, "TABLE_FROZEN", &txcoordv1.FrozenDetail{}), true, client.ErrFrozen},
		{"invalid", fail(codes.InvalidArgument, "INVALID_REQUEST"), true, client.ErrInvalid},
		{"broken", fail(codes.Internal, "BROKEN_INVARIANT"), true, client.ErrInternal},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &server{onCall: func(name string, _ int) error {
				if name == "Commit" {
					return c.err
				}
				return nil
			}}
			cl := start(t, s, client.Options{})
			_, err := cl.Transact(t.Context(), "k", stageTwo(t.Context()))
			if !errors.Is(err, c.target) {
				t.Errorf("error %v, want %v", err, c.target)
			}
			if s.count("Commit") != 1 || s.count("Abort") == 1 != c.abort {
				t.Errorf("calls %v", s.calls)
			}
		})
	}
}

// OUT_OF_RANGE decides nothing: the attempt is aborted before the next one begins.
func TestTransactReadsAgainWhenTheReadPointIsTooOld(t *testing.T) {
	s := &server{onCall: func(name string, n int) error {
		if name == "Commit" && n == 1 {
			return fail(codes.OutOfRange, "READ_POINT_TOO_OLD")
		}
		return nil
	}}
	c := start(t, s, client.Options{})
	r, err := c.Transact(t.Context(), "k", stageTwo(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcome.GetTransactionId() != "k/2" || s.outcomes["k/1"].GetAborted() == nil {
		t.Errorf("committed as %s; outcomes %v", r.Outcome.GetTransactionId(), s.outcomes)
	}
}

func TestTransactFindsItsWorkDone(t *testing.T) {
	s := &server{}
	c := start(t, s, client.Options{})
	if _, err := c.Transact(t.Context(), "k", stageTwo(t.Context())); err != nil {
		t.Fatal(err)
	}
	r, err := c.Transact(t.Context(), "k", func(*client.Tx) error {
		t.Error("ran again")
		return nil
	})
	if err != nil || !r.AlreadyCommitted || r.Snapshot() != 1 {
		t.Errorf("result %+v, error %v", r, err)
	}
}

// An operator has given the change up on a table: a job that comes back learns on which.
func TestTransactFindsItsWorkNotApplied(t *testing.T) {
	s := &server{}
	c := start(t, s, client.Options{})
	r, err := c.Transact(t.Context(), "k", stageTwo(t.Context()))
	if err != nil || len(r.NotApplied()) != 0 {
		t.Fatalf("result %+v, error %v", r, err)
	}
	s.mu.Lock()
	s.outcomes["k/1"].GetCommitted().Tables = []*txcoordv1.TableDelivery{
		{Table: "orders", State: txcoordv1.DeliveryState_DELIVERY_STATE_PUBLISHED},
		{Table: "items", State: txcoordv1.DeliveryState_DELIVERY_STATE_NOT_APPLIED},
	}
	s.mu.Unlock()
	r, err = c.Transact(t.Context(), "k", stageTwo(t.Context()))
	if err != nil || !r.AlreadyCommitted || len(r.NotApplied()) != 1 || r.NotApplied()[0].GetTable() != "items" {
		t.Errorf("result %+v, error %v", r, err)
	}
	if client.NotApplied(&txcoordv1.Outcome{}) != nil {
		t.Error("an open transaction is given up")
	}
}

// A job was killed after it sent its commit; its successor begins, and only then
// does that commit land.
func TestTransactMeetsItsOwnLateCommit(t *testing.T) {
	s := &server{}
	s.onCall = func(name string, n int) error {
		if name == "Commit" && n == 1 {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.commit("k/1", "of the job that was killed")
		}
		return nil
	}
	c := start(t, s, client.Options{})
	r, err := c.Transact(t.Context(), "k", stageTwo(t.Context()))
	if err != nil || !r.AlreadyCommitted {
		t.Errorf("result %+v, error %v", r, err)
	}
}

func TestTransactGoesOnAfterAbortedAttempts(t *testing.T) {
	s := &server{}
	c := start(t, s, client.Options{})
	s.abort("k/1", 1, txcoordv1.Rule_RULE_EXPIRED)
	s.abort("k/2", 2, txcoordv1.Rule_RULE_OPERATOR)
	r, err := c.Transact(t.Context(), "k", stageTwo(t.Context()))
	if err != nil || r.Outcome.GetTransactionId() != "k/3" {
		t.Errorf("result %+v, error %v", r, err)
	}
}

func TestTransactAbortsWhenTheFunctionFails(t *testing.T) {
	s := &server{}
	c := start(t, s, client.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	sorry := errors.New("sorry")
	_, err := c.Transact(ctx, "", func(*client.Tx) error {
		cancel() // the abort is made all the same
		return sorry
	})
	var te *client.TransactionError
	if !errors.Is(err, sorry) || !errors.As(err, &te) || len(te.Key) != 36 {
		t.Errorf("error %v", err)
	}
	if s.count("Abort") != 1 || s.count("Commit") != 0 {
		t.Errorf("calls %v", s.calls)
	}
}

// An attempt whose abort was not answered may be open still, and the error says so.
func TestTransactSaysWhatItCouldNotAbort(t *testing.T) {
	s := &server{onCall: func(name string, _ int) error {
		if name == "Abort" {
			return fail(codes.Unavailable, "")
		}
		return nil
	}}
	c := start(t, s, client.Options{RetryFor: -1})
	sorry := errors.New("sorry")
	_, err := c.Transact(t.Context(), "k", func(*client.Tx) error { return sorry })
	var te *client.TransactionError
	if !errors.Is(err, sorry) || !errors.As(err, &te) || !te.Open || te.Token == "" || !strings.Contains(err.Error(), "perhaps open") {
		t.Errorf("error %v", err)
	}
	s.onCall = nil
	if _, err := c.Transact(t.Context(), "k", func(*client.Tx) error { return sorry }); !errors.As(err, &te) || te.Open {
		t.Errorf("aborted, but the error is %v", err)
	}
}

func TestTransactWithNothingStaged(t *testing.T) {
	s := &server{}
	c := start(t, s, client.Options{})
	if _, err := c.Transact(t.Context(), "k", func(*client.Tx) error { return nil }); !errors.Is(err, client.ErrNothingStaged) {
		t.Errorf("error %v", err)
	}
	if s.count("Abort") != 1 {
		t.Errorf("calls %v", s.calls)
	}
}

func TestTransactEndsWithTheContext(t *testing.T) {
	intime(t, 100*time.Millisecond, func(limit time.Duration) bool {
		s := &server{onCall: func(name string, _ int) error {
			if name == "Commit" {
				return lostReply
			}
			return nil
		}}
		c := start(t, s, client.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		_, err := c.Transact(ctx, "k", stageTwo(t.Context()))
		if s.count("Commit") < 2 {
			return false // the deadline passed before the loss was seen
		}
		if !errors.Is(err, client.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
		return true
	})
}
