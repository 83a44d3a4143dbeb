package coordinator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// ResolveRequest is an operator's word on a frozen table.
type ResolveRequest struct {
	Table string
	// Preview writes nothing.
	Preview bool
	// Reason in words; recorded.
	Reason string
	// Plan of a preview; nothing is done if it is another one now.
	Plan string
	// GiveUp a table whose contradiction cannot be mended, or changes whose staged parts
	// are lost.
	GiveUp bool
}

// Resolution says what is done about a frozen table, or would be.
type Resolution struct {
	Table TableInfo
	// Plan names what follows by its content.
	Plan string
	// Steps are the records to be appended, in order.
	Steps []ResolveStep
	// GivenUp are the changes that the table will not get.
	GivenUp []ResolvedChange
	// Freed are the names of the tables that may be written again.
	Freed []string
	// StillFrozenBy are the names of tables that have to be resolved next.
	StillFrozenBy []string
	// NotBefore is when it may be done; zero if it may be done now.
	NotBefore time.Time
	// at is the table that does not get them.
	at twophase.TableID
}

// ResolveStep is a record to be appended, or a version to be put into a table's log.
type ResolveStep struct {
	Kind, Table, Text string
	record            twophase.Record
	barrier           *barrierStep
}

// ResolvedChange is a change that a table will not get.
type ResolvedChange struct {
	Table     string
	Number    twophase.ChangeNumber
	Txn       twophase.TxnID
	Key       string
	Conflict  twophase.Conflict
	Elsewhere []ResolvedElsewhere
}

// ResolvedElsewhere says what becomes of another table of the transaction.
type ResolvedElsewhere struct{ Table, State string }

// Resolve is the operator's word on a frozen table (R12): what was given up stays so,
// and the table may be written again. What is planned under the fold's lock is what is
// appended, and a plan that was previewed is appended only if it is still the same.
func (c *Catalog) Resolve(ctx context.Context, q ResolveRequest) (Resolution, error) {
	if err := checkText("reason", q.Reason); err != nil {
		return Resolution{}, err
	}
	row, err := c.table(q.Table)
	if err != nil {
		return Resolution{}, err
	}
	if err := c.catchUp(ctx); err != nil {
		return Resolution{}, err
	}
	c.lookFor(ctx, c.row(row.ID))
	lost, err := c.lostOf(ctx, row.ID)
	if err != nil {
		return Resolution{}, err
	}
	found, err := c.isMended(ctx, row.ID)
	switch {
	case err != nil && !q.GiveUp:
		return Resolution{}, lookFirst(row, err)
	case len(found.damaged) > 0 && !q.GiveUp:
		return Resolution{}, damagedError(row, found.damaged)
	}
	// Given up without a look, or over what could be mended.
	found.whole = found.whole || err != nil || len(found.damaged) > 0
	out, err := c.planResolve(row.ID, q, lost, found.whole)
	c.namePaths(ctx, out.at, out.GivenUp)
	switch {
	case err != nil || q.Preview:
		return out, err
	case q.Plan != "" && q.Plan != out.Plan:
		return Resolution{}, &Error{
			Reason:  PlanChanged,
			Message: fmt.Sprintf("what would be done about table %s is not what the preview said; nothing was done, look at a new preview", row.Name),
		}
	case !out.NotBefore.IsZero():
		return Resolution{}, c.tooEarly(row, out.NotBefore)
	}
	for _, step := range out.Steps {
		if err := c.carryOutStep(ctx, row, step, q.Reason); err != nil {
			return Resolution{}, err
		}
	}
	out.Table = c.full(row.ID)
	return out, nil
}

func (c *Catalog) carryOutStep(ctx context.Context, row TableInfo, step ResolveStep, reason string) error {
	if step.barrier != nil {
		return c.giveUpLost(ctx, row, step.barrier, reason)
	}
	if err := c.adminRecord(ctx, step.record); err != nil {
		return c.notResolved(row, err)
	}
	return nil
}

// notResolved: somebody was faster, and the plan does not fit any more.
func (c *Catalog) notResolved(row TableInfo, err error) error {
	var own *Error
	if errors.As(err, &own) && own.Reason == BrokenInvariant {
		return &Error{Reason: PlanChanged, Message: fmt.Sprintf("table %s has changed meanwhile; nothing was done, look at a new preview", row.Name), Cause: err}
	}
	return err
}

func (c *Catalog) tooEarly(row TableInfo, at time.Time) error {
	wait := max(at.Sub(c.cfg.Now()), time.Second)
	return &Error{
		Reason: TooEarly, RetryAfter: wait,
		Message: fmt.Sprintf("table %s was replaced less than the store's grace ago: a put that was sent before may still land; resolve it at %s or later",
			row.Name, at.UTC().Format(time.RFC3339)),
		Table: &TableDetail{Table: row.Name, TableID: row.ID, URI: row.URI, Version: row.Version, Detail: "the grace has not passed"},
	}
}

// planResolve is what an operator's word on a table means now.
func (c *Catalog) planResolve(id twophase.TableID, q ResolveRequest, lost []*lack, whole bool) (out Resolution, err error) {
	c.ledger.read(func(s *twophase.State) {
		t, ok := s.Table(id)
		if !ok {
			err = &Error{Reason: TableNotFound, Message: fmt.Sprintf("table %s is not in the catalog any more", id)}
			return
		}
		out.Table = infoOf(t)
		thaw, ok := s.Thawing(id)
		contradiction := ok && thaw.Origin.Frozen.Cause == twophase.CauseContradiction
		switch {
		case q.GiveUp && !contradiction && len(lost) > 0:
			out.planLost(s, lost, q.Reason)
			return
		case !ok:
			err = c.nothingToResolve(t, lost)
			return
		case whole && !q.GiveUp:
			out.planMended(s, id, q.Reason)
			return
		case q.GiveUp && !contradiction && !whole:
			err = fieldError("give_up", "true", "is for a contradiction, a lost part or one that cannot be written, and this is "+thaw.Origin.Frozen.Cause.String(), "leave it out")
			return
		case q.GiveUp && contradiction:
			out.planReplaced(s, thaw.Origin, thaw.GivenUp, q.Reason)
		default:
			out.planThaw(s, thaw, q.Reason)
		}
		for _, id := range thaw.Left {
			out.StillFrozenBy = append(out.StillFrozenBy, nameOf(s, id))
		}
		if thaw.Origin.Frozen.Cause == twophase.CauseReplaced {
			out.NotBefore = c.graceOf(thaw.Origin)
		}
	})
	if err != nil {
		return Resolution{}, err
	}
	c.fill(&out.Table)
	out.Plan = out.digest()
	return out, nil
}

func (c *Catalog) nothingToResolve(t *twophase.Table, lost []*lack) error {
	why := "is not frozen"
	switch f := t.Frozen; {
	case len(lost) > 0 && isUnwritable(lost[0]):
		why = fmt.Sprintf("waits for what cannot be written: %s. A build that can publishes it by itself; or give the change up with --give-up", c.lackText(lost[0]))
	case len(lost) > 0:
		why = fmt.Sprintf("waits for a lost part: %s. Put it back, and the table goes on by itself; or give the change up with --give-up", c.lackText(lost[0]))
	case f == nil && t.Held != nil:
		why = "is frozen by an operator, and nothing else is wrong with it: txcoord tables unfreeze " + t.Name + " --reason TEXT"
	case f == nil:
	case f.Resolved:
		why = "was resolved: the log at its place is another table's, and it is never written again; release it"
	default:
		why = "thaws by itself, when its round is published"
	}
	return &Error{Reason: NothingToResolve, Message: fmt.Sprintf("table %s %s", t.Name, why)}
}

func (r *Resolution) planThaw(s *twophase.State, t twophase.Thawing, reason string) {
	name := t.Origin.Name
	r.give(s, t.Origin, t.GivenUp)
	for _, id := range t.Freed {
		r.Freed = append(r.Freed, nameOf(s, id))
	}
	slices.Sort(r.Freed)
	text := fmt.Sprintf("table %s may be written again", name)
	switch t.Origin.Frozen.Cause {
	case twophase.CauseReplaced:
		text = fmt.Sprintf("table %s is closed for good: what stands at its place is never written. Release it, and register what is there if you want that", name)
	case twophase.CauseContradiction:
		text += "; if its log and the journal still contradict each other, it is frozen again at the next look"
	default:
	}
	if n := len(t.GivenUp); n > 0 {
		text += "; " + changesAre(n) + " given up on it for good"
	}
	r.Steps = append(r.Steps, ResolveStep{
		Kind: "thaw", Table: name, Text: text, record: &twophase.Thawed{Table: t.Origin.Table, Detail: clip(reason, 1024)},
	})
}

// givenUpDetail begins the detail of a table that counts as replaced by an operator's word.
const givenUpDetail = "given up by an operator"

func (r *Resolution) planReplaced(s *twophase.State, o *twophase.Table, givenUp []*twophase.Change, reason string) {
	r.give(s, o, append(givenUp, o.Pending...))
	detail := givenUpDetail
	if reason != "" {
		detail += ": " + reason
	}
	r.Steps = append(r.Steps, ResolveStep{
		Kind: "replaced", Table: o.Name,
		Text: fmt.Sprintf("table %s counts as replaced and is never written again. A second resolve, after the store's grace, gives up the changes below and frees the other tables",
			o.Name),
		record: &twophase.Replaced{Table: o.Table, Recorded: o.Recorded, Detail: clip(detail, 1024), GivenUp: true},
	})
}

func (r *Resolution) give(s *twophase.State, t *twophase.Table, changes []*twophase.Change) {
	r.at = t.Table
	for _, ch := range changes {
		r.GivenUp = append(r.GivenUp, resolvedChange(s, t, ch))
	}
	slices.SortFunc(r.GivenUp, func(a, b ResolvedChange) int { return compare(a.Number, b.Number) })
}

func resolvedChange(s *twophase.State, t *twophase.Table, ch *twophase.Change) ResolvedChange {
	out := ResolvedChange{Table: t.Name, Number: ch.Number, Txn: ch.Txn, Conflict: twophase.Conflict{Rule: twophase.RuleTableReplaced}}
	o := s.Outcome(ch.Txn)
	if o == nil || o.Commit == nil {
		return out
	}
	out.Key = o.Commit.Key
	for i := range o.Parts {
		if table := o.Commit.Parts[i].Table; table != t.Table {
			out.Elsewhere = append(out.Elsewhere, ResolvedElsewhere{nameOf(s, table), stateOfPart(&o.Parts[i])})
		} else if o.Parts[i].Conflict.Rule != twophase.RuleNone {
			out.Conflict = o.Parts[i].Conflict
		}
	}
	return out
}

func stateOfPart(p *twophase.PartOutcome) string {
	switch p.Status {
	case twophase.StatusPublished:
		return fmt.Sprintf("published as version %d", p.Version)
	case twophase.StatusDelivered:
		return fmt.Sprintf("in version %d, and in snapshots once the round is closed", p.Version)
	case twophase.StatusDiverged:
		return "given up there, too; not yet resolved"
	case twophase.StatusNotApplied:
		return "given up there, too"
	case twophase.StatusPending:
	}
	return "will be published"
}

// digest names the plan by what it does. Reasons and times are not part of it.
func (r *Resolution) digest() string {
	type change struct {
		Table  string
		Number twophase.ChangeNumber
		Txn    string
	}
	var what struct {
		Steps   [][2]string
		GivenUp []change
		Freed   []string
		Left    []string
	}
	for _, s := range r.Steps {
		what.Steps = append(what.Steps, [2]string{s.Kind, s.Table})
	}
	for _, g := range r.GivenUp {
		what.GivenUp = append(what.GivenUp, change{g.Table, g.Number, g.Txn.String()})
	}
	what.Freed, what.Left = r.Freed, r.StillFrozenBy
	b, _ := json.Marshal(what)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// clockMargin is what the clocks of two replicas may be apart (R16 allows 5 s).
const clockMargin = time.Minute

// graceOf is when a replaced table may be resolved (R4, R10): not before a put that
// was sent ahead of the freeze can have landed. Zero if that time has passed. How long
// ago the freeze was is known from this process's own boot clock if it saw the record
// come, and otherwise from the entry's time with a margin for its writer's clock.
func (c *Catalog) graceOf(t *twophase.Table) time.Time {
	grace := c.cfg.Limits.PutDeadline + c.cfg.Limits.StoreGrace
	now := c.cfg.Now()
	ago := now.Sub(t.Frozen.Since.Std()) - clockMargin
	if seen, ok := c.replacements.Load(t.Table); ok {
		ago = max(ago, c.cfg.Boot()-seen.(time.Duration))
	}
	if ago >= grace {
		return time.Time{}
	}
	return now.Add(grace - ago)
}
