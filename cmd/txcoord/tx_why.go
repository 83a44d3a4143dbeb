package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/internal/number"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

type txWhy struct {
	What    string `arg:"" name:"id|key|token" help:"The transaction: its id (32 hex digits), its client key, or its token."`
	As      string `help:"What it is named by, where that is not plain: id, key or token." enum:",id,key,token" default:""`
	Attempt uint32 `help:"Attempt of the key; without it the committed one, else the newest."`
}

var (
	looksLikeID    = regexp.MustCompile("^[0-9a-fA-F]{32}$")
	looksLikeToken = regexp.MustCompile("^t[0-9A-Za-z_-]{80,}$")
)

// request names the transaction by what the word looks like, unless the user says it.
func (c *txWhy) request() (*txcoordv1.ExplainTransactionRequest, error) {
	as := c.As
	switch {
	case as != "":
	case looksLikeID.MatchString(c.What) && c.Attempt == 0:
		as = "id"
	case looksLikeToken.MatchString(c.What) && c.Attempt == 0:
		as = "token"
	default:
		as = "key"
	}
	q := &txcoordv1.ExplainTransactionRequest{Attempt: c.Attempt}
	switch {
	case as != "key" && c.Attempt != 0:
		return nil, usage("--attempt", fmt.Sprint(c.Attempt), "it counts the attempts of a key; leave it out, or say --as key")
	case as == "id":
		q.Transaction = &txcoordv1.ExplainTransactionRequest_TransactionId{TransactionId: c.What}
	case as == "token":
		q.Transaction = &txcoordv1.ExplainTransactionRequest_Token{Token: c.What}
	default:
		q.Transaction = &txcoordv1.ExplainTransactionRequest_Key{Key: c.What}
	}
	return q, nil
}

func (c *txWhy) Run(ctx context.Context, s *session) error {
	q, err := c.request()
	if err != nil {
		return err
	}
	return s.call(ctx, "looking at the transaction", func(ctx context.Context, api *client.Client) error {
		a, err := api.Operations.ExplainTransaction(ctx, q)
		if err != nil {
			return err
		}
		if err := s.show(a, []string{word(a.GetState())}, func(g *grid) { txWhyGrid(g, a) }); err != nil {
			return err
		}
		if now := a.GetState(); now == txcoordv1.TransactionState_TRANSACTION_STATE_UNKNOWN || now == txcoordv1.TransactionState_TRANSACTION_STATE_FORGOTTEN {
			return &codedError{fmt.Errorf("the transaction is %s here", word(a.GetState())), exitNotFound}
		}
		return nil
	})
}

func txWhyGrid(g *grid, a *txcoordv1.ExplainTransactionResponse) {
	o := a.GetOutcome()
	g.pair("transaction", o.GetTransactionId())
	if o.GetKey() != "" {
		g.pair("key", o.GetKey())
		if o.GetAttempt() > 0 {
			g.pair("attempt", o.GetAttempt())
		}
	}
	g.pair("state", strings.ReplaceAll(word(a.GetState()), "_", " "))
	g.pair("why", a.GetText())
	g.pair("what to do", a.GetRemedy())
	if c := o.GetAborted().GetConflict(); c.GetTable() != "" {
		g.pair("rule", word(c.GetRule()))
		g.pair("table", c.GetTable())
		g.pair("path", c.GetPath())
	}
	g.pair("lost to", a.GetWinner().GetText())
	openPairs(g, a.GetOpen())
	if r := a.GetRound(); r != nil {
		g.pair("round", fmt.Sprintf("%s, open since %s, of %s on %s", r.GetId(), clock(r.GetOpenedAt()), number.Of(r.GetTransactions(), "transaction"), strings.Join(r.GetTables(), ", ")))
	}
	for _, r := range a.GetAhead() {
		g.pair("waits for round", fmt.Sprintf("%s, open since %s, on %s", r.GetId(), clock(r.GetOpenedAt()), strings.Join(r.GetTables(), ", ")))
	}
	if a.GetBefore() > 0 {
		g.pair("in front of it", number.Of(a.GetBefore(), "transaction"))
	}
	if a.GetBehind() > 0 {
		g.pair("waiting for it", fmt.Sprintf("%s: %s", number.Of(a.GetBehind(), "transaction"), strings.Join(a.GetWaiting(), ", ")))
	}
	txWhyTables(g, a)
	for _, b := range a.GetObstacles() {
		for _, f := range b.GetFindings() {
			g.gap()
			g.row(fmt.Sprintf("%s: %s: %s", b.GetTable(), strings.ToUpper(strings.ReplaceAll(word(f.GetCode()), "_", " ")), f.GetText()))
			for _, more := range findingMore(f) {
				g.row("  " + more)
			}
		}
	}
}

func openPairs(g *grid, o *txcoordv1.OpenTransaction) {
	if o == nil {
		return
	}
	g.pair("held by", o.GetClient())
	g.pair("begun", fmt.Sprintf("%s, %s ago", clock(o.GetBegunAt()), time.Since(o.GetBegunAt().AsTime()).Round(time.Second)))
	g.pair("deadline", o.GetDeadline())
	for _, t := range o.GetTables() {
		g.pair("staged", fmt.Sprintf("%s: %s, %s", t.GetTable(), number.Of(t.GetParts(), "part"), bytesText(t.GetBytes())))
	}
}

func txWhyTables(g *grid, a *txcoordv1.ExplainTransactionResponse) {
	if tables := a.GetOutcome().GetCommitted().GetTables(); len(tables) > 0 {
		g.gap()
		g.row("TABLE", "VERSION", "STATE", "BECAUSE")
		for _, t := range tables {
			because := ""
			if t.GetConflict() != nil {
				because = conflictText(t.GetConflict())
			}
			g.row(t.GetTable(), versionText(t.GetVersion()), word(t.GetState()), orDash(because))
		}
	}
	if len(a.GetAttempts()) > 1 {
		g.gap()
		g.row("ATTEMPT", "TRANSACTION", "STATE", "DETAIL")
		for _, o := range a.GetAttempts() {
			g.row(o.GetAttempt(), o.GetTransactionId(), stateWord(o), outcomeDetail(o))
		}
	}
}

type txForceAbort struct {
	ID     string `arg:"" help:"The open transaction's id, as tx list shows it."`
	Reason string `required:"" help:"Why, in words; recorded, and told to its client." placeholder:"TEXT"`
}

// Run aborts as an operator. What was decided before is shown, and is an error: nothing
// can be done about it. A repeated call finds its own abort, and is done.
func (c *txForceAbort) Run(ctx context.Context, s *session) error {
	if !looksLikeID.MatchString(c.ID) {
		return usage("ID", c.ID, "give the transaction's id, 32 hex digits; txcoord tx why KEY says it")
	}
	req := &txcoordv1.AbortRequest{Reason: c.Reason, Transaction: &txcoordv1.AbortRequest_TransactionId{TransactionId: c.ID}}
	return s.call(ctx, "aborting", func(ctx context.Context, api *client.Client) error {
		a, err := api.Transactions.Abort(ctx, req)
		if err != nil {
			return err
		}
		if err := s.showOutcome(a, a.GetOutcome()); err != nil {
			return err
		}
		o := a.GetOutcome()
		switch {
		case o.GetCommitted() != nil:
			return &codedError{errors.New("nothing was aborted: the transaction is committed, for good"), exitExists}
		case o.GetAborted().GetConflict().GetRule() != txcoordv1.Rule_RULE_OPERATOR:
			return &codedError{fmt.Errorf("it was aborted already: %s", conflictText(o.GetAborted().GetConflict())), exitAborted}
		}
		return nil
	})
}
