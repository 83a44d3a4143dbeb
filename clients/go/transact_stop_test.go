package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// What a further run cannot heal is not run further.
func TestTransactStopsWhereRunningAgainDoesNotHelp(t *testing.T) {
	for name, c := range map[string]struct {
		rule  txcoordv1.Rule
		stage func(context.Context) func(*client.Tx) error
		runs  int
	}{
		"the same bytes, the same conflict":  {txcoordv1.Rule_RULE_DELETE_DELETE, stageTwo, 2},
		"other bytes, the file is there":     {txcoordv1.Rule_RULE_PATH_EXISTS, stageAnew, 2},
		"other bytes, any other conflict":    {txcoordv1.Rule_RULE_APPEND_READ, stageAnew, 5},
		"the same bytes, another table read": {txcoordv1.Rule_RULE_APPEND_READ, stageBeside, 5},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{}
			loseFirst(s, 100, "CONFLICT", c.rule)
			cl := start(t, s, client.Options{})
			_, err := cl.Transact(t.Context(), "k", c.stage(t.Context()), client.MaxRuns(5))
			var te *client.TransactionError
			if !errors.As(err, &te) || !errors.Is(err, client.ErrConflict) || te.Runs != c.runs || s.count("Commit") != c.runs {
				t.Errorf("%d commits, error %v", s.count("Commit"), err)
			}
			if c.runs == 2 && !strings.Contains(err.Error(), "no further run would change") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// stageBeside stages the same bytes each time, and declares what it read elsewhere.
func stageBeside(ctx context.Context) func(*client.Tx) error {
	return func(tx *client.Tx) error {
		tx.ReadOnly("customers", client.AtVersion(int64(tx.Attempt()), client.WholeTable()))
		return stageTwo(ctx)(tx)
	}
}

// A deadline that cuts a repeated call short does not hide why it was repeated,
// even where the server's timer is quicker than the context's own.
func TestTheDeadlineKeepsTheLastAnswer(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late timer %t", late), func(t *testing.T) {
			intime(t, 200*time.Millisecond, func(limit time.Duration) bool {
				s := &server{onCall: func(_ string, n int) error {
					if n > 1 {
						time.Sleep(limit + 100*time.Millisecond) // past the deadline
					}
					return fail(codes.Unavailable, "REPLICA_BEHIND")
				}}
				c := start(t, s, client.Options{})
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				if late {
					end, _ := ctx.Deadline()
					ctx = lateTimer{Context: t.Context(), end: end}
				}
				_, err := c.Outcome(ctx, "k/1")
				if s.count("GetOutcome") < 2 {
					return false // nothing was answered before the deadline
				}
				var e *client.Error
				if !errors.As(err, &e) || e.Reason != "REPLICA_BEHIND" || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, client.ErrUnavailable) {
					t.Errorf("error %v", err)
				}
				return true
			})
		})
	}
}

// intime tries with longer and longer deadlines, until one is long enough for this
// machine to get as far as the test wants before it passes.
func intime(t *testing.T, first time.Duration, try func(limit time.Duration) bool) {
	t.Helper()
	for limit := first; !try(limit); limit *= 2 {
		if limit > time.Minute {
			t.Fatalf("not in time with a deadline of %s", limit)
		}
	}
}

// lateTimer is a context whose deadline has passed before it says so.
type lateTimer struct {
	context.Context
	end time.Time
}

func (c lateTimer) Deadline() (time.Time, bool) { return c.end, true }
