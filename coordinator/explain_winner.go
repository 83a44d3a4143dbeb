package coordinator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// ruleWords say what a rule means to the transaction that lost by it.
var ruleWords = map[twophase.Rule]string{
	twophase.RuleProtocol:      "the table's protocol was changed since it read, or is not supported",
	twophase.RuleMetadata:      "the table's schema or properties were changed since it read",
	twophase.RuleDeleteDelete:  "somebody else removed a file that it removes",
	twophase.RuleDeleteRead:    "somebody else removed a file that it had read",
	twophase.RuleAppendRead:    "somebody else added a file to what it had read",
	twophase.RuleAppVersion:    "its application has already reached that txn version, or another one than it had read",
	twophase.RuleDomain:        "somebody else wrote the same metadata domain",
	twophase.RuleSchema:        "its columns do not fit the table's present ones",
	twophase.RuleAppendOnly:    "it removes rows, and the table is append-only",
	twophase.RulePathExists:    "a file that it adds is in the table already, or is added by another transaction",
	twophase.RulePathMissing:   "a file that it removes is not in the table",
	twophase.RuleTableReplaced: "the table is not the one that it was staged against",
	twophase.RuleExpired:       "it was not committed before its deadline",
	twophase.RuleClient:        "its client ended it",
	twophase.RuleOperator:      "an operator ended it",
	twophase.RuleResolved:      "somebody asked for a final answer while it was undecided, and that ended it",
	twophase.RuleTableReleased: "a table left the catalog",
	twophase.RuleTableExists:   "the name or the place of a table that it creates is another one's",
}

// ruleRemedies say what the client does next; without one it reads again and retries.
var ruleRemedies = map[twophase.Rule]string{
	twophase.RuleAppVersion:    "the work is most likely done: compare the application's version in the table; do not repeat it",
	twophase.RuleSchema:        "read the table's schema again, and write the files anew",
	twophase.RuleAppendOnly:    "nothing may be removed from this table; take delta.appendOnly off, if that is wrong",
	twophase.RulePathExists:    "the files are there already: it is most likely done; otherwise write them under other names",
	twophase.RuleTableReplaced: "describe the table again, and stage against the new one",
	twophase.RuleExpired:       "give it more time: a longer --ttl at tx begin, or tx begin --extend TOKEN before the deadline",
	twophase.RuleTableReleased: "take the table out of the transaction, or register it again",
	twophase.RuleTableExists:   "use another name or place for the new table",
}

func conflictWords(d *ConflictDetail) string {
	if d == nil {
		return "the reason is not recorded"
	}
	return ruleText(d.Rule, d.Path, d.Detail)
}

// ruleText says in words by what a change was lost, on which file.
func ruleText(rule twophase.Rule, path, detail string) string {
	switch {
	case rule != twophase.RuleOperator:
	case detail == twophase.LostWithJournal:
		return "no log had it when the catalog was rebuilt"
	case detail == givenUpDetail:
		return detail
	}
	text := ruleWords[rule]
	if text == "" {
		text = rule.String()
	}
	if path != "" {
		text += ": " + path
	}
	if detail != "" {
		text += " (" + detail + ")"
	}
	return text
}

func (x *txnExplainer) aborted(ctx context.Context) {
	x.State = TxnAborted
	a := x.Outcome.Aborted
	x.Text = fmt.Sprintf("aborted at %s, without effect, for good", x.Outcome.DecidedAt.UTC().Format(time.RFC3339))
	if a.Table != "" && !x.sees(a.Table) {
		x.Text += ": by the rule " + a.Rule.String()
		return
	}
	x.Text += ": " + conflictWords(a)
	if a.Table != "" {
		x.Text += ", on table " + a.Table
	}
	x.Winner = x.winner(ctx, a)
	if x.Winner != nil {
		x.Text += ". It lost to " + x.Winner.String()
	}
	x.Remedy = ruleRemedies[a.Rule]
	if x.Remedy == "" {
		x.Remedy = "read again what the change depends on, and commit as the next attempt"
	}
	first := x.c.reservationOf(x.Outcome.Key)
	if i := slices.IndexFunc(x.Attempts, func(o Outcome) bool { return o.Committed != nil }); i >= 0 {
		x.Remedy = fmt.Sprintf("nothing: attempt %d of the key is committed", x.Attempts[i].Attempt)
	} else if n := len(x.Attempts); n > 0 {
		x.Remedy += fmt.Sprintf("; the next attempt of the key is %d", x.Attempts[n-1].Attempt+1)
		if first != nil {
			x.Remedy += fmt.Sprintf(", and it goes first on its tables, until position %d of the journal at most, as the key has lost so often", first.Until)
		}
	}
}

// String is the winner in words.
func (w *TxnWinner) String() string {
	text := "transaction " + w.Txn.String()
	switch {
	case w.Txn.IsZero():
		text = author{engine: w.Engine, operation: w.Operation}.String()
	case w.Key != "":
		text += fmt.Sprintf(" (key %s)", w.Key)
	}
	if w.Version != twophase.NoVersion {
		text += fmt.Sprintf(", version %d of the table", w.Version)
	}
	if w.Txn.IsZero() {
		text += author{at: w.At}.when()
	}
	if w.Probable {
		text = "probably " + text
	}
	return text
}

// winner is what an aborted transaction lost to; nil for what nobody won.
func (x *txnExplainer) winner(ctx context.Context, a *ConflictDetail) *TxnWinner {
	if !a.Winner.IsZero() {
		w := &TxnWinner{Txn: a.Winner, Version: a.Version}
		x.c.ledger.read(func(s *twophase.State) { x.delivered(s, w, a.TableID) })
		return w
	}
	if a.Version == twophase.NoVersion || a.TableID == "" {
		return nil
	}
	w := &TxnWinner{Version: a.Version}
	if x.fromLog(ctx, w, a.TableID) {
		return w
	}
	x.c.ledger.read(func(s *twophase.State) {
		if t, ok := s.Table(a.TableID); ok {
			i := slices.IndexFunc(t.Guests, func(g twophase.Guest) bool { return g.Version == a.Version })
			if i >= 0 {
				w.Engine = t.Guests[i].Engine
				return
			}
			w.Engine, w.Probable = engineBelow(t), true
		}
	})
	return w
}

// delivered fills in key and version of a winner that the fold remembers. What was decided
// since is another, whose key was used again.
func (x *txnExplainer) delivered(s *twophase.State, w *TxnWinner, table twophase.TableID) {
	w.Key = keyOf(s, w.Txn)
	o := s.Outcome(w.Txn)
	if o == nil || o.Commit == nil || o.Position > x.Outcome.Position {
		return
	}
	for i := range o.Parts {
		if o.Commit.Parts[i].Table == table && o.Parts[i].Version != twophase.NoVersion {
			w.Version = o.Parts[i].Version
		}
	}
}

// fromLog asks the version itself who wrote it, where it is still in the log.
func (x *txnExplainer) fromLog(ctx context.Context, w *TxnWinner, table twophase.TableID) bool {
	t, err := x.c.tables.of(table)
	if err != nil {
		return false
	}
	commit, err := t.log.ReadCommit(ctx, w.Version)
	if err != nil {
		return false
	}
	a := authorOf(commit)
	w.Engine, w.Operation, w.At = a.engine, a.operation, a.at
	tags, err := commit.Tags(x.c.journal.Meta().Catalog)
	if err != nil || tags == nil {
		return true
	}
	if txns := tags.Txns(); len(txns) == 1 {
		w.Txn = txns[0]
		x.c.ledger.read(func(s *twophase.State) { w.Key = keyOf(s, w.Txn) })
	}
	return true
}

// probable is the engine whose commit is the newest on a table: most likely the one that
// made a decided change impossible. The journal does not say which it was.
func (x *txnExplainer) probable(ctx context.Context, table twophase.TableID) (w *TxnWinner) {
	x.c.ledger.read(func(s *twophase.State) {
		if t, ok := s.Table(table); ok && len(t.Guests) > 0 {
			g := t.Guests[len(t.Guests)-1]
			w = &TxnWinner{Engine: g.Engine, Version: g.Version, Probable: true}
		}
	})
	if w != nil {
		x.fromLog(ctx, w, table)
	}
	return w
}
