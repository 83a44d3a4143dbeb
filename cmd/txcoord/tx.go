package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

type txCommands struct {
	Begin      txBegin      `cmd:"" help:"Begin a transaction, or extend one. Prints its token."`
	Stage      txStage      `cmd:"" help:"Store Delta actions for one table, durably and invisibly. Prints their digest."`
	Create     txCreate     `cmd:"" help:"Make a new table part of a transaction, with or without rows. Prints its digest."`
	Alter      txAlter      `cmd:"" help:"Make a change of schema, properties or comments part of a transaction. Prints its digest."`
	Add        txAdd        `cmd:"" help:"Add Parquet files that lie in a table's folder to the table."`
	Commit     txCommit     `cmd:"" help:"Commit what was staged: all of it, or nothing."`
	Abort      txAbort      `cmd:"" help:"End a transaction without effect."`
	Show       txShow       `cmd:"" help:"What became of a transaction."`
	List       txList       `cmd:"" help:"List open transactions, and decided ones."`
	Why        txWhy        `cmd:"" help:"What became of a transaction, what blocked or beat it, and what to do next."`
	ForceAbort txForceAbort `cmd:"" help:"End somebody's undecided transaction, as an operator."`
}

type txBegin struct {
	Key     string         `help:"Names the piece of work: over all its attempts a key commits once." xor:"what" type:"given"`
	Attempt uint32         `help:"Attempt of the key, from 1. The next one may commit once all before are aborted."`
	TTL     *time.Duration `help:"How long the transaction may stay open." placeholder:"DURATION"`
	Extend  string         `help:"Extend the transaction of this token instead." placeholder:"TOKEN" xor:"what" type:"given"`
}

func (c *txBegin) Run(ctx context.Context, s *session) error {
	req := &txcoordv1.BeginRequest{Key: c.Key, Attempt: c.Attempt, Token: c.Extend}
	var err error
	if req.Ttl, err = ttlOf(c.TTL); err != nil {
		return err
	}
	return s.call(ctx, "beginning", func(ctx context.Context, api *client.Client) error {
		a, err := api.Transactions.Begin(ctx, req)
		if err != nil {
			return err
		}
		s.noteKnown(a)
		return s.show(a, []string{a.GetToken()}, func(g *grid) {
			g.pair("transaction", a.GetTransactionId())
			if c.Key != "" {
				g.pair("attempt", a.GetAttempt())
			}
			g.pair("deadline", a.GetDeadline())
			g.pair("keys unique since", since(a.GetRememberedSince()))
			g.pair("token", a.GetToken())
		})
	})
}

// noteKnown says what became of the key's attempts, where this one cannot commit.
func (s *session) noteKnown(a *txcoordv1.BeginResponse) {
	var aborted *txcoordv1.Outcome
	next := a.GetAttempt()
	for _, o := range a.GetKnown() {
		if o.GetCommitted() != nil {
			s.note("the work of this key is committed already, as attempt %d (transaction %s)", o.GetAttempt(), o.GetTransactionId())
			if text := notAppliedText(o); text != "" {
				s.note("%s", text)
			}
			return
		}
		if o.GetAttempt() == a.GetAttempt() {
			aborted = o
		}
		next = max(next, o.GetAttempt()+1)
	}
	if aborted != nil {
		s.note("warning: attempt %d of this key is aborted and can never commit (%s); use --attempt %d",
			aborted.GetAttempt(), conflictText(aborted.GetAborted().GetConflict()), next)
	}
}

type txStage struct {
	Token string `required:"" help:"The transaction's token, from tx begin." placeholder:"TOKEN" type:"given"`
	tableArg
	Actions string `arg:"" optional:"" default:"-" help:"File with Delta actions, one JSON object a line; - is standard input."`
	readFlags
}

func (c *txStage) Run(ctx context.Context, s *session) error {
	actions, err := s.readInput(c.Actions)
	if err != nil {
		return err
	}
	read, err := c.declaration(actions)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(actions)) == 0 {
		return errNoAction
	}
	return s.call(ctx, "staging "+c.Table, func(ctx context.Context, api *client.Client) error {
		part, err := stage(ctx, api, c.Token, c.Table, read, actions)
		if err != nil {
			return err
		}
		return s.showPart(c.Table, part)
	})
}

// readInput reads a file, or standard input if it is "-".
func (s *session) readInput(name string) ([]byte, error) {
	b, err := s.readAll(name)
	if err != nil {
		return nil, err
	}
	return b, checkText("input", inputName(name), b)
}

func (s *session) readAll(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(s.in)
	}
	return os.ReadFile(name)
}

// inputName is what an input is called in errors.
func inputName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

func (s *session) showPart(table string, part *txcoordv1.StagedPart) error {
	if h := part.GetHint(); h != nil {
		s.note("warning: as things stand the commit would fail: %s", conflictText(h))
	}
	return s.show(part, []string{table + "=" + part.GetDigest()}, func(g *grid) {
		g.pair("table", table)
		g.pair("lines", part.GetLines())
		g.pair("bytes", part.GetBytes())
		g.pair("digest", part.GetDigest())
	})
}

// conflictText is a conflict in a line.
func conflictText(c *txcoordv1.ConflictDetail) string {
	text := strings.ReplaceAll(word(c.GetRule()), "_", " ")
	if c.GetTable() != "" {
		text += " on " + c.GetTable()
	}
	if c.GetVersion() >= 0 {
		text += fmt.Sprintf(" at version %d", c.GetVersion())
	}
	if c.GetPath() != "" {
		text += ", " + c.GetPath()
	}
	if c.GetDetail() != "" {
		text += ": " + c.GetDetail()
	}
	return text
}

// decideFlags are those of every command that commits.
type decideFlags struct {
	Read        []string      `help:"A table that was only read, whole, at a version: TABLE@VERSION." placeholder:"TABLE@VERSION" sep:"none"`
	WaitLimit   time.Duration `help:"How long to wait for the tables after the decision. Default: as long as the call lives." placeholder:"DURATION"`
	Wait        string        `help:"When to answer: published (readable), or decided (durable)." enum:"published,decided" default:"published"`
	VerifyFiles bool          `help:"Look for each added file before the decision."`
	Release     []string      `help:"A table that leaves the catalog with the transaction; its files stay." placeholder:"TABLE" sep:"none"`
}

func (f *decideFlags) wait() (txcoordv1.Wait, *durationpb.Duration) {
	w := txcoordv1.Wait(txcoordv1.Wait_value["WAIT_"+strings.ToUpper(f.Wait)])
	if f.WaitLimit == 0 {
		return w, nil
	}
	return w, durationpb.New(f.WaitLimit)
}

func (f *decideFlags) reads() ([]*txcoordv1.ReadParticipant, error) {
	var all []*txcoordv1.ReadParticipant
	for _, r := range f.Read {
		i := strings.LastIndexByte(r, '@')
		var version int64
		if i <= 0 {
			return nil, usage("--read", r, "write TABLE@VERSION")
		}
		if _, err := fmt.Sscanf(r[i+1:], "%d", &version); err != nil || fmt.Sprint(version) != r[i+1:] {
			return nil, usage("--read", r, "write TABLE@VERSION")
		}
		all = append(all, &txcoordv1.ReadParticipant{Table: r[:i], Read: client.AtVersion(version, client.WholeTable())})
	}
	return all, nil
}

type txCommit struct {
	Token string   `required:"" help:"The transaction's token." placeholder:"TOKEN" type:"given"`
	Parts []string `arg:"" optional:"" name:"table=digest" help:"What was staged, as tx stage and tx add print it with -o id. Parts of one table are put together in this order."`
	decideFlags
}

func (c *txCommit) Run(ctx context.Context, s *session) error {
	if len(c.Parts)+len(c.Release) == 0 {
		return usage("part", "", "list what was staged, TABLE=DIGEST, or a table to --release")
	}
	req := &txcoordv1.CommitRequest{Token: c.Token, VerifyFiles: c.VerifyFiles, Releases: c.Release}
	req.Wait, req.WaitLimit = c.wait()
	var err error
	if req.Tables, err = partsOf(c.Parts); err != nil {
		return err
	}
	if req.Reads, err = c.reads(); err != nil {
		return err
	}
	return s.call(ctx, "committing", func(ctx context.Context, api *client.Client) error {
		a, err := api.Transactions.Commit(ctx, req)
		if err != nil {
			return advise(err, commitHints(ctx, api, c.Token, err))
		}
		return s.showCommitted(a, a.GetOutcome())
	})
}

// partsOf groups TABLE=DIGEST by table, in order.
func partsOf(all []string) ([]*txcoordv1.TableParts, error) {
	var out []*txcoordv1.TableParts
	at := map[string]*txcoordv1.TableParts{}
	for _, p := range all {
		i := strings.LastIndexByte(p, '=')
		if i <= 0 || i == len(p)-1 {
			return nil, usage("part", p, "write TABLE=DIGEST, as tx stage -o id prints it")
		}
		t := at[p[:i]]
		if t == nil {
			t = &txcoordv1.TableParts{Table: p[:i]}
			at[p[:i]] = t
			out = append(out, t)
		}
		t.Digests = append(t.Digests, p[i+1:])
	}
	return out, nil
}

type txAbort struct {
	Token  string `help:"The transaction's token." placeholder:"TOKEN" xor:"which" required:"" type:"given"`
	ID     string `help:"An open transaction's id, as tx list shows it." placeholder:"ID" xor:"which" required:""`
	Reason string `help:"Why, in words; recorded."`
}

func (c *txAbort) Run(ctx context.Context, s *session) error {
	req := &txcoordv1.AbortRequest{Reason: c.Reason, Transaction: &txcoordv1.AbortRequest_Token{Token: c.Token}}
	if c.ID != "" {
		req.Transaction = &txcoordv1.AbortRequest_TransactionId{TransactionId: c.ID}
	}
	return s.call(ctx, "aborting", func(ctx context.Context, api *client.Client) error {
		a, err := api.Transactions.Abort(ctx, req)
		if err != nil {
			return err
		}
		if err := s.showOutcome(a, a.GetOutcome()); err != nil {
			return err
		}
		if a.GetOutcome().GetCommitted() != nil {
			return &codedError{errors.New("the transaction is committed: the commit came first"), exitExists}
		}
		return nil
	})
}

type txShow struct {
	Token      string    `help:"The transaction's token." placeholder:"TOKEN" xor:"which" required:"" type:"given"`
	Key        string    `help:"The client's key." xor:"which" required:"" type:"given"`
	ID         string    `help:"The transaction's id." placeholder:"ID" xor:"which" required:""`
	Attempt    uint32    `help:"Attempt of the key; without it the committed one, else the newest."`
	Resolve    bool      `help:"Abort the transaction if it is undecided, so that the answer is final."`
	BegunAfter time.Time `help:"You are sure that the key was first used after this time; lets --resolve do without a token. For example 2026-11-29T18:30:00Z." placeholder:"RFC3339"`
}

func (c *txShow) Run(ctx context.Context, s *session) error {
	req := &txcoordv1.GetOutcomeRequest{Attempt: c.Attempt, Resolve: c.Resolve}
	switch {
	case c.Token != "":
		req.Transaction = &txcoordv1.GetOutcomeRequest_Token{Token: c.Token}
	case c.Key != "":
		req.Transaction = &txcoordv1.GetOutcomeRequest_Key{Key: c.Key}
	default:
		req.Transaction = &txcoordv1.GetOutcomeRequest_TransactionId{TransactionId: c.ID}
	}
	if !c.BegunAfter.IsZero() {
		req.BegunAfter = timestamppb.New(c.BegunAfter)
	}
	return s.call(ctx, "asking", func(ctx context.Context, api *client.Client) error {
		a, err := api.Transactions.GetOutcome(ctx, req)
		if err != nil {
			return advise(err, showHints)
		}
		if text := notAppliedText(a.GetOutcome()); text != "" {
			s.note("%s", text)
		}
		return s.showOutcome(a, a.GetOutcome())
	})
}

// showCommitted prints the answer of a commit. One that is not applied on all of its
// tables, for good, is not what was asked for.
func (s *session) showCommitted(answer proto.Message, o *txcoordv1.Outcome) error {
	if err := s.showOutcome(answer, o); err != nil {
		return err
	}
	if text := notAppliedText(o); text != "" {
		return &codedError{errors.New(text), exitNotApplied}
	}
	return nil
}

// notAppliedText says on which tables a committed transaction was given up; empty if on
// none.
func notAppliedText(o *txcoordv1.Outcome) string {
	var on []string
	for _, t := range client.NotApplied(o) {
		text := t.GetTable()
		if c := t.GetConflict(); c != nil {
			text += fmt.Sprintf(" (%s)", strings.TrimSpace(strings.ReplaceAll(word(c.GetRule()), "_", " ")+" "+c.GetPath()))
		}
		on = append(on, text)
	}
	if len(on) == 0 {
		return ""
	}
	return fmt.Sprintf("transaction %s is committed, but its change was given up for good on %s; make that part anew, under another key",
		o.GetTransactionId(), strings.Join(on, ", "))
}

// showOutcome prints an answer that is about one transaction.
func (s *session) showOutcome(answer proto.Message, o *txcoordv1.Outcome) error {
	if why := o.GetCommitted().GetPendingReason(); why != "" {
		s.note("committed, but not on all tables yet: %s", why)
	}
	s.warnings(o.GetCommitted().GetWarnings())
	return s.show(answer, []string{o.GetTransactionId()}, func(g *grid) { outcomeGrid(g, o) })
}

func outcomeGrid(g *grid, o *txcoordv1.Outcome) {
	g.pair("transaction", o.GetTransactionId())
	if o.GetKey() != "" {
		g.pair("key", o.GetKey())
		g.pair("attempt", o.GetAttempt())
	}
	g.pair("state", stateWord(o))
	if a := o.GetAborted(); a != nil {
		g.pair("because", conflictText(a.GetConflict()))
		g.pair("winner", a.GetConflict().GetWinner())
		g.pair("decided", a.GetDecidedAt())
	}
	if p := o.GetOpen(); p != nil {
		g.pair("deadline", p.GetDeadline())
	}
	if c := o.GetCommitted(); c != nil {
		g.pair("decided", c.GetDecidedAt())
		if c.GetSnapshotVersion() != 0 {
			g.pair("snapshot", c.GetSnapshotVersion())
		}
		g.gap()
		g.row("TABLE", "VERSION", "PLACE", "STATE")
		for _, t := range c.GetTables() {
			g.row(t.GetTable(), versionText(t.GetVersion()), t.GetPlace(), word(t.GetState()))
		}
	}
}

func stateWord(o *txcoordv1.Outcome) string {
	switch {
	case o.GetCommitted() != nil:
		return "committed"
	case o.GetAborted() != nil:
		return "aborted"
	default:
		return "open"
	}
}
