package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// TxnState is what became of a transaction, in one word; its numbers are those of the
// wire's TransactionState.
type TxnState uint8

// The states that ExplainTxn tells apart.
const (
	// TxnUnknown: nothing is known here of the id, or of the key. Never a final negative.
	TxnUnknown TxnState = iota + 1
	// TxnForgotten: the token is older than what the catalog remembers.
	TxnForgotten
	TxnOpen
	// TxnOverdue: open, and its deadline has passed.
	TxnOverdue
	TxnAborted
	// TxnWaiting: committed, and not on all tables yet.
	TxnWaiting
	TxnPublished
	// TxnGivenUp: committed, and given up on a table, or about to be.
	TxnGivenUp
)

// TxnExplanation is all that is known of a transaction, and what to do next.
type TxnExplanation struct {
	State   TxnState
	Outcome Outcome
	// Text and Remedy in words.
	Text, Remedy string
	// Open is who holds an open one, and what is staged; nil if this replica does not know.
	Open *OpenTxn
	// Attempts are the decided attempts of its key.
	Attempts []Outcome
	Winner   *TxnWinner
	// Round that it is published in, Ahead the rounds that it waits for; Before and Behind
	// count the transactions that wait in front of it and for it. Waiting names some of those.
	Round          *RoundInfo
	Ahead          []RoundInfo
	Before, Behind int
	Waiting        []twophase.TxnID
	// Obstacles are tables that hold it up.
	Obstacles       []TxnObstacle
	RememberedSince time.Time
}

// TxnWinner is what a transaction lost to: a transaction, or a commit of another engine.
type TxnWinner struct {
	Txn twophase.TxnID
	Key string
	// Engine and Operation as the commit names them.
	Engine, Operation string
	// At is when, as its commit says; zero if that is not known.
	At time.Time
	// Version of the table that holds it; NoVersion if it is not in the log, or not known.
	Version twophase.Version
	// Probable: the journal does not say which commit it was, and this one is the newest.
	Probable bool
}

// TxnObstacle is a table that holds a transaction up, and all that stands in its way.
type TxnObstacle struct {
	Table    string
	Findings []Finding
}

// Bounds of what one explanation names.
const (
	obstaclesLooked = 20
	waitingNamed    = 100
)

// ExplainTxn says what became of a transaction and why: who won, which table holds it
// up, who waits for it. Other tables, and transactions on them, are named as far as the
// caller sees them; nil sees all.
func (c *Catalog) ExplainTxn(ctx context.Context, ref OutcomeRef, sees func(name string) bool) (TxnExplanation, error) {
	if sees == nil {
		sees = func(string) bool { return true }
	}
	o, since, err := c.Outcome(ctx, OutcomeRequest{OutcomeRef: ref})
	x := &txnExplainer{c: c, sees: sees, TxnExplanation: TxnExplanation{Outcome: o, RememberedSince: since}}
	switch {
	case errors.Is(err, &Error{Reason: TransactionNotFound}):
		x.unknown(ref)
	case errors.Is(err, &Error{Reason: OutcomeExpired}):
		x.forgotten()
	case err != nil:
		return TxnExplanation{}, err
	}
	x.attempts()
	if err := c.doubtAbout(x.Attempts); err != nil {
		return TxnExplanation{}, err
	}
	switch {
	case x.State != 0:
	case o.Aborted != nil:
		x.aborted(ctx)
	case o.Committed != nil:
		x.committed(ctx)
	default:
		x.open(ctx)
	}
	return x.TxnExplanation, ctx.Err()
}

type txnExplainer struct {
	TxnExplanation
	c    *Catalog
	sees func(name string) bool
}

func (x *txnExplainer) unknown(ref OutcomeRef) {
	x.State = TxnUnknown
	what := "transaction " + ref.Txn.String()
	if ref.Key != "" {
		what = fmt.Sprintf("key %q", ref.Key)
		x.Outcome.Key = ref.Key
	}
	x.Outcome.Txn = ref.Txn
	x.Text = fmt.Sprintf("%s is not known: nothing that was decided since %s has this name, and this replica has seen no open one. It was never begun, or is older than that and forgotten, or its server has not said yet that it is open; this is no final answer",
		what, sinceText(x.RememberedSince))
	x.c.ledger.read(func(s *twophase.State) {
		if at := s.RebuiltAt(); at > 0 {
			x.Text = fmt.Sprintf("%s is not known: nothing that was decided since %s has this name, and this replica has seen no open one. At that time the catalog was rebuilt from its tables' logs: "+
				"of what was before, they name what was published (since %s), and what was aborted, or was open, is not known. Or it was never begun, or its server has not said yet that it is open; this is no final answer",
				what, sinceText(at.Std()), sinceText(x.RememberedSince))
		}
	})
	x.Text += refusedLeavesNothing
	x.Remedy = "whoever has its token gets a final answer: txcoord tx show --token TOKEN --resolve"
	if ref.Key != "" {
		x.Remedy += "; without it: txcoord tx show --key " + ref.Key + " --resolve --begun-after TIME"
	}
}

func (x *txnExplainer) forgotten() {
	x.State = TxnForgotten
	x.Text = fmt.Sprintf("its token is older than what the catalog remembers (outcomes since %s): it was decided, or expired, before that, and nothing is left of the answer", sinceText(x.RememberedSince))
	x.Remedy = "look into the tables' logs: a committed one stands there in commitInfo.tags, as txcoord.transactions. The limit outcome_retention says how long outcomes are remembered"
}

func sinceText(t time.Time) string {
	if t.Unix() <= 0 {
		return "the catalog's beginning"
	}
	return t.UTC().Format(time.RFC3339)
}

func (x *txnExplainer) attempts() {
	if x.Outcome.Key == "" {
		return
	}
	x.c.ledger.read(func(s *twophase.State) {
		x.Attempts = x.c.attempts(s, x.Outcome.Key, x.Outcome.Attempt)
	})
}

func (x *txnExplainer) open(ctx context.Context) {
	x.State = TxnOpen
	if o, ok := x.c.openTxns.find(ctx, x.Outcome.Txn); ok {
		x.Open = &o
	}
	x.Text = "nothing is decided yet"
	if x.Open != nil {
		x.Text += fmt.Sprintf("; %s began it at %s", orUnknown(x.Open.Client), x.Open.Begun.UTC().Format(time.RFC3339))
	} else {
		x.Text += ", and this replica has not seen what is staged"
	}
	deadline := x.Outcome.Deadline.UTC().Format(time.RFC3339)
	if x.c.cfg.Now().After(x.Outcome.Deadline) {
		x.State = TxnOverdue
		x.Text += fmt.Sprintf(". Its deadline passed at %s: it is aborted as expired at any moment, unless it is committed first", deadline)
		x.Remedy = "begin the next attempt, with a longer time to live"
	} else {
		x.Text += fmt.Sprintf(". It may be committed until %s, and is aborted as expired after that", deadline)
		x.Remedy = fmt.Sprintf("its client commits it, or aborts it; an operator can end it: txcoord tx force-abort %s --reason TEXT", x.Outcome.Txn)
	}
	if x.Open == nil || len(x.Open.Tables) == 0 {
		x.Text += refusedLeavesNothing
	}
	if x.Open == nil {
		return
	}
	for _, t := range x.Open.Tables[:min(len(x.Open.Tables), obstaclesLooked)] {
		x.obstacle(ctx, t.Table, t.Name)
	}
	if len(x.Obstacles) > 0 {
		x.Text += "; as things stand, a commit would be refused for a table that is named below"
	}
	if len(x.Obstacles) > 0 && x.State == TxnOpen {
		x.Remedy += fmt.Sprintf("; before it can be committed, what is named below has to be mended (txcoord tables why %s)", x.Obstacles[0].Table)
	}
}

// refusedLeavesNothing: a call that was refused, without a decision, is in no record.
const refusedLeavesNothing = ". A call that was refused (a frozen table, a limit, a bad action) leaves nothing here: its error says why, and for a table txcoord tables why NAME"

func orUnknown(who string) string {
	if who == "" {
		return "a client that this replica does not know"
	}
	return who
}

// obstacle notes what blocks a table, if anything does.
func (x *txnExplainer) obstacle(ctx context.Context, id twophase.TableID, name string) {
	if !x.sees(name) {
		return
	}
	e, err := x.c.Explain(ctx, string(id), x.sees)
	if err != nil {
		return // it left the catalog meanwhile, or the context ended
	}
	blocks := slices.DeleteFunc(e.Findings, func(f Finding) bool { return !f.Blocks })
	if len(blocks) > 0 {
		x.Obstacles = append(x.Obstacles, TxnObstacle{Table: name, Findings: blocks})
	}
}

// committed: published, given up somewhere, or still on its way.
func (x *txnExplainer) committed(ctx context.Context) {
	done := x.Outcome.Committed
	var lost, resolve []string
	var rebuilt bool
	for i := range done.Tables {
		d := &done.Tables[i]
		if d.Status != twophase.StatusDiverged && d.Status != twophase.StatusNotApplied {
			continue
		}
		if x.sees(d.Name) {
			if d.Conflict != nil && d.Conflict.Detail == twophase.LostWithJournal {
				rebuilt = true
			} else {
				resolve = append(resolve, "txcoord tables resolve "+d.Name)
			}
			lost = append(lost, fmt.Sprintf("%s (%s)", d.Name, conflictWords(d.Conflict)))
			x.Winner = x.probable(ctx, d.Table)
		}
	}
	waits := x.standing(ctx)
	switch {
	case len(lost) > 0:
		x.State = TxnGivenUp
		x.Text = "committed, but its change cannot be, or was not, applied on " + strings.Join(lost, ", ")
		x.Remedy = x.givenUpRemedy(rebuilt, resolve)
		return
	case done.Snapshot != 0 || !waits:
		x.State = TxnPublished
		x.Text = fmt.Sprintf("committed at %s, and on all its tables; snapshot %d is the first that shows it", x.Outcome.DecidedAt.UTC().Format(time.RFC3339), done.Snapshot)
		return
	}
	x.State = TxnWaiting
	x.Text = fmt.Sprintf("committed at %s, durably, and not on all its tables yet: %s", x.Outcome.DecidedAt.UTC().Format(time.RFC3339), x.waitsFor())
	x.Remedy = "nothing has to be repeated: it is published without any further call"
	if len(x.Obstacles) > 0 {
		x.Remedy += ", once what is named below is mended"
	}
}

// givenUpRemedy: what was lost with a journal freezes no table, and there is nothing that an
// operator could resolve.
func (x *txnExplainer) givenUpRemedy(rebuilt bool, resolve []string) string {
	var all []string
	if len(resolve) > 0 {
		all = append(all, fmt.Sprintf("an operator accepts that with %s, if the table is frozen; make that part anew, as a new transaction under another key", strings.Join(resolve, ", or ")))
	}
	if rebuilt {
		all = append(all, fmt.Sprintf("of what was lost at the rebuild nothing waits any more, and the key stays done: commit what is missing as a new transaction under another key, "+
			"from the job's data or from what was staged, if the warehouse has it in _txcoord/%s/lost/%s/; or take the rows out of the tables that have them (docs/operations.md, When the journal is lost)",
			x.c.cfg.Name, x.Outcome.Txn))
	}
	return strings.Join(all, ". ")
}

// standing says where a committed transaction stands, and what holds its round up; false
// if it waits for none.
func (x *txnExplainer) standing(ctx context.Context) (waits bool) {
	type held struct {
		id   twophase.TableID
		name string
	}
	var look []held
	x.c.ledger.read(func(s *twophase.State) {
		var st twophase.Standing
		if st, waits = s.Standing(x.Outcome.Txn); !waits {
			return
		}
		rounds := st.Ahead
		if st.Round != nil {
			x.Round = x.roundInfo(s, st.Round)
			rounds = []*twophase.Round{st.Round}
		}
		for _, r := range st.Ahead {
			x.Ahead = append(x.Ahead, *x.roundInfo(s, r))
		}
		x.Before, x.Behind = len(st.Before), len(st.Behind)
		for _, id := range st.Behind {
			if len(x.Waiting) < waitingNamed && x.seesOne(s, id) {
				x.Waiting = append(x.Waiting, id)
			}
		}
		for _, r := range rounds {
			for _, p := range s.Plan(r) {
				if len(p.Changes) > 0 || p.Table.Frozen != nil {
					look = append(look, held{p.Table.Table, p.Table.Name})
				}
			}
		}
	})
	for _, h := range look[:min(len(look), obstaclesLooked)] {
		x.obstacle(ctx, h.id, h.name)
	}
	return waits
}

func (x *txnExplainer) seesOne(s *twophase.State, id twophase.TxnID) bool {
	o := s.Outcome(id)
	return o != nil && o.Commit != nil && slices.ContainsFunc(o.Commit.Parts, func(p twophase.Part) bool { return x.sees(nameOf(s, p.Table)) })
}

func (x *txnExplainer) roundInfo(s *twophase.State, r *twophase.Round) *RoundInfo {
	info := roundInfo(s, r)
	info.Tables = slices.DeleteFunc(info.Tables, func(name string) bool { return !x.sees(name) })
	return &info
}

func (x *txnExplainer) waitsFor() string {
	if x.Round == nil && len(x.Ahead) == 0 && x.Before == 0 {
		return "its round opens with the next entry of the journal"
	}
	if x.Round == nil {
		text := "it waits for "
		if n := len(x.Ahead); n > 0 {
			text += fmt.Sprintf("%s on tables that it shares (%s)", counted(n, "open round"), x.Ahead[0].ID)
		}
		if x.Before > 0 && len(x.Ahead) > 0 {
			text += ", and "
		}
		if x.Before > 0 {
			text += counted(x.Before, "transaction") + " in front of it"
		}
		return text
	}
	text := fmt.Sprintf("round %s of %s is open since %s", x.Round.ID, counted(x.Round.Txns, "transaction"), x.Round.Opened.UTC().Format(time.RFC3339))
	if len(x.Obstacles) == 0 {
		return text + ", and nothing that this replica sees holds it up"
	}
	var names []string
	for _, o := range x.Obstacles {
		names = append(names, o.Table)
	}
	return text + ", and held up by " + strings.Join(names, ", ")
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
