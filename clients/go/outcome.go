package client

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// CommitOnce commits a whole transaction in one call. Without a key it makes a
// random one, so that the call can be repeated within itself. After ErrConflict the
// caller reads again and calls with the next attempt of the same key.
func (c *Client) CommitOnce(
	ctx context.Context, req *txcoordv1.CommitOnceRequest,
) (*Result, error) {
	if req.GetKey() == "" {
		req = proto.CloneOf(req)
		req.Key = uuid.NewString()
	}
	answer, err := c.Transactions.CommitOnce(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("commit %q: %w", req.GetKey(), err)
	}
	return &Result{Outcome: answer.GetOutcome(), Token: answer.GetToken()}, nil
}

// Outcome says what is known of a transaction. OPEN and ErrNotFound are not final.
func (c *Client) Outcome(ctx context.Context, token string) (*txcoordv1.Outcome, error) {
	return c.outcome(ctx, &txcoordv1.GetOutcomeRequest{
		Transaction: &txcoordv1.GetOutcomeRequest_Token{Token: token},
	})
}

// OutcomeOfKey says what is known of a key: its committed attempt if there is one,
// else the newest.
func (c *Client) OutcomeOfKey(ctx context.Context, key string) (*txcoordv1.Outcome, error) {
	return c.outcome(ctx, &txcoordv1.GetOutcomeRequest{
		Transaction: &txcoordv1.GetOutcomeRequest_Key{Key: key},
	})
}

// Resolve makes the outcome final: what is undecided is aborted.
func (c *Client) Resolve(ctx context.Context, token string) (*txcoordv1.Outcome, error) {
	return c.outcome(ctx, &txcoordv1.GetOutcomeRequest{
		Transaction: &txcoordv1.GetOutcomeRequest_Token{Token: token}, Resolve: true,
	})
}

func (c *Client) outcome(
	ctx context.Context, req *txcoordv1.GetOutcomeRequest,
) (*txcoordv1.Outcome, error) {
	answer, err := c.Transactions.GetOutcome(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("outcome: %w", err)
	}
	return answer.GetOutcome(), nil
}
