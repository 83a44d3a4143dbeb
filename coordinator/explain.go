package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txcoord/txcoord/internal/number"
	"github.com/txcoord/txcoord/twophase"
)

// FindingCode is the stable name of what stands in a table's way; its numbers are
// those of the wire's FindingCode.
type FindingCode uint8

// What Explain finds.
const (
	FoundFrozen FindingCode = iota + 1
	FoundClosed
	FoundGivenUp
	FoundStopped
	FoundOwnedElsewhere
	FoundLocationRefused
	FoundLogUnreadable
	FoundFeatureUnsupported
	FoundTableProperty
	FoundRoundOpen
	FoundChangesPending
	FoundCatalogStopped
	FoundBacklog
	FoundUnexpectedWriter
	FoundForeignCommits
	FoundRetention
	FoundPropertyIgnored
	FoundStoreTrouble
	FoundPartLost
	FoundReserved
	FoundLogAltered
)

// Finding is one thing that stands in a table's way, or may. The wire's Finding says
// what each field means.
type Finding struct {
	Code     FindingCode
	Blocks   bool
	Text     string
	Remedy   string
	Since    time.Time
	Txn      twophase.TxnID
	Key      string
	Rule     twophase.Rule
	Path     string
	Winner   string
	Version  twophase.Version
	File     string
	Property string
	Tables   []string
	// at is the table that a change was given up on.
	at twophase.TableID
}

// Explanation is everything that stands in a table's way, the gravest first.
type Explanation struct {
	Table    TableInfo
	Findings []Finding
}

// Explain says what stands in a table's way. It reads the table's log as far as its
// profile is not known here. Other tables are named if the caller sees them; nil sees all.
func (c *Catalog) Explain(ctx context.Context, ref string, sees func(name string) bool) (Explanation, error) {
	row, err := c.table(ref)
	if err != nil {
		return Explanation{}, err
	}
	_ = c.freshLatest(ctx)               // the fold as it is says something, too
	hangs := c.troubles.hanging(row.URI) // then a look at the log would, too
	silent := !hangs && !c.lookFor(ctx, row)
	if ctx.Err() != nil {
		return Explanation{}, ctx.Err()
	}
	e := &explainer{c: c, id: row.ID, sees: sees}
	e.catalog()
	if silent {
		e.silent(row.URI)
	}
	e.lost(ctx)
	c.ledger.read(func(s *twophase.State) {
		t, ok := s.Table(row.ID)
		if !ok {
			return
		}
		row = infoOf(t)
		e.freeze(s, t)
		e.pending(s, t)
		e.reserved(s, t)
		e.guests(t)
	})
	e.named(ctx)
	c.fill(&row)
	if !hangs && !silent {
		if err := e.log(ctx, row); err != nil {
			return Explanation{}, err
		}
	}
	if !row.Frozen.found() && c.row(row.ID).Frozen.found() { // for what the log just said
		return c.Explain(ctx, ref, sees)
	}
	slices.SortStableFunc(e.found, func(a, b Finding) int {
		return compare(weight(a), weight(b))
	})
	return Explanation{row, e.found}, nil
}

// silent: nothing is known of the place but that it did not answer just now.
func (e *explainer) silent(uri string) {
	if slices.ContainsFunc(e.found, func(f Finding) bool { return f.Code == FoundStoreTrouble }) {
		return
	}
	e.add(Finding{
		Code: FoundStoreTrouble, Text: fmt.Sprintf("the object store of %s has not answered within %s, so its log was not looked at", uri, latestWait),
		Remedy: "see that it runs and can be reached, and ask again",
	})
}

// weight puts what blocks first.
func weight(f Finding) int {
	if f.Blocks {
		return 0
	}
	return 1
}

// explainer gathers findings about one table.
type explainer struct {
	c     *Catalog
	id    twophase.TableID
	found []Finding
	sees  func(name string) bool // nil: everything
}

// name is a table's, unless the caller may not see it.
func (e *explainer) name(name string) string {
	if e.visible(name) {
		return name
	}
	return "(a table that you may not see)"
}

func (e *explainer) visible(name string) bool { return e.sees == nil || e.sees(name) }

func (e *explainer) add(f Finding) {
	if f.Version == 0 {
		f.Version = twophase.NoVersion
	}
	e.found = append(e.found, f)
}

// stopped is the trouble of a catalog that takes no writes here until an operator has looked.
func (c *Catalog) stopped() []Trouble {
	err := c.ledger.stopped()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, twophase.ErrDamaged):
		return []Trouble{{Place: placeStore, Text: "the whole catalog takes no writes, since its journal is damaged" + because(err), Remedy: damagedRemedy}}
	}
	return []Trouble{{
		Place: placeStore, Text: "the whole catalog takes no writes: its journal does not fit what was folded or published",
		Remedy: "look at the server's log; was the store put back to an older state?",
	}}
}

// catalog: what stands in the way of all tables.
func (e *explainer) catalog() {
	for _, t := range e.c.stopped() {
		e.add(Finding{Code: FoundCatalogStopped, Blocks: true, Text: t.Text, Remedy: t.Remedy})
	}
	for _, t := range e.c.troubles.list() {
		if t.Place == placeStore || t.Place == e.c.row(e.id).URI || t.Place == e.c.cfg.Warehouse {
			e.add(Finding{
				Code: FoundStoreTrouble, Blocks: t.Place != e.c.cfg.Warehouse, Since: t.Since, Text: t.Text, Remedy: t.Remedy,
			})
		}
	}
	bytes, limit := e.c.backlog.size()
	if bytes > limit/10*8 {
		e.add(Finding{
			Code: FoundBacklog, Blocks: bytes >= limit,
			Text:   fmt.Sprintf("%s of transactions wait to be published, new ones are refused from %d on (limit queue_bytes)", number.Of(bytes, "byte"), limit),
			Remedy: "see which rounds are open (txcoord status), and what they wait for",
		})
	}
}

func (e *explainer) freeze(s *twophase.State, t *twophase.Table) {
	f := t.Frozen
	e.held(t)
	if f == nil {
		return
	}
	out := Finding{
		Code: FoundFrozen, Blocks: true, Since: f.Since.Std(), Txn: f.Txn, Key: keyOf(s, f.Txn),
		Text: e.freezeText(s, t), Remedy: e.freezeRemedy(s, t),
	}
	if f.Resolved {
		out.Code = FoundClosed
	}
	if at := e.c.tables.tornAt(t.Table); at != nil && !f.Resolved {
		out.File, out.Version = at.file, at.version
	}
	if why := conflictOn(s, f.Txn, f.Origin); f.Cause == twophase.CauseDiverged && e.visible(nameOf(s, f.Origin)) {
		out.Rule, out.Path, out.at = why.Rule, why.Path, f.Origin
	}
	for _, o := range s.Tables() {
		if o != t && o.Frozen != nil && o.Frozen.Origin == f.Origin && e.visible(o.Name) {
			out.Tables = append(out.Tables, o.Name)
		}
	}
	e.add(out)
}

// held: an operator froze it.
func (e *explainer) held(t *twophase.Table) {
	if t.Held == nil {
		return
	}
	text := fmt.Sprintf("frozen since %s (operator): an operator froze it; reads go on, and what is decided is published", t.Held.Since.Std().Format(time.RFC3339))
	if t.Held.Detail != "" {
		text += ": " + t.Held.Detail
	}
	e.add(Finding{Code: FoundFrozen, Blocks: true, Since: t.Held.Since.Std(), Text: text, Remedy: "txcoord tables unfreeze " + t.Name + " --reason TEXT"})
}

// conflictOn is why a decided change cannot be delivered on a table.
func conflictOn(s *twophase.State, txn twophase.TxnID, id twophase.TableID) (why twophase.Conflict) {
	o := s.Outcome(txn)
	if o == nil || o.Commit == nil {
		return why
	}
	for i := range o.Parts {
		if o.Commit.Parts[i].Table == id {
			why = o.Parts[i].Conflict
		}
	}
	return why
}

func (e *explainer) freezeText(s *twophase.State, t *twophase.Table) string {
	f := t.Frozen
	why := map[twophase.Cause]string{
		twophase.CauseStalled:       "requests on its location do not get through, while others there do",
		twophase.CauseDiverged:      "a decided change became impossible by another engine's commit",
		twophase.CauseReplaced:      "the log at its place is another table's, or an older copy",
		twophase.CauseContradiction: "its log and the journal contradict each other",
		twophase.CauseLost:          "the staged part of a decided transaction is lost",
	}[f.Cause]
	if f.Cause == twophase.CauseReplaced && givenUpTable(s, f) {
		why = "an operator gave a table up, and it counts as replaced"
	}
	detail := f.Detail
	switch groundOf(f) {
	case twophase.GroundTorn:
		why = "its log cannot be gone on with"
	case twophase.GroundUnwritable:
		why = "a decided transaction cannot be published here"
	case twophase.GroundNone, twophase.GroundGivenUp:
	}
	text := fmt.Sprintf("frozen since %s (%s): %s", f.Since.Std().Format(time.RFC3339), f.Cause, why)
	if f.Origin != t.Table {
		text += fmt.Sprintf(", on table %s, with which it shares a transaction that is not published", e.name(nameOf(s, f.Origin)))
	}
	if detail != "" && e.visible(nameOf(s, f.Origin)) {
		text += ": " + detail
	}
	if f.Resolved {
		text += "; an operator has resolved that, and the table is never written again"
	}
	return text
}

// givenUpTable reports whether a freeze began at a table that an operator has given up.
func givenUpTable(s *twophase.State, f *twophase.Freeze) bool {
	o, ok := s.Table(f.Origin)
	return ok && o.Frozen != nil && groundOf(o.Frozen) == twophase.GroundGivenUp
}

func (e *explainer) freezeRemedy(s *twophase.State, t *twophase.Table) string {
	f := t.Frozen
	ground := groundOf(f)
	switch {
	case ground == twophase.GroundTorn && !f.Resolved && !e.visible(nameOf(s, f.Origin)):
		return "whoever may see the table at which that was found asks txcoord tables why about it; this one goes on with it"
	case ground == twophase.GroundTorn && !f.Resolved:
		return cmp.Or(f.Remedy, tornRemedy+"and no engine has read that version, "+removeTorn)
	case f.Resolved:
		return fmt.Sprintf("txcoord tables release %s; then register what stands at its place, if you want that", t.Name)
	case f.Cause == twophase.CauseReplaced && givenUpTable(s, f):
		return fmt.Sprintf("txcoord tables resolve %s, once the store's grace has passed: what was given up is settled, and the other tables go on", e.name(nameOf(s, f.Origin)))
	case f.Cause == twophase.CauseStalled:
		return "make its location reachable and writable; it thaws by itself when its round is published"
	case f.Cause == twophase.CauseReplaced && t.Recorded != twophase.NoVersion && ground != twophase.GroundGivenUp:
		return fmt.Sprintf("txcoord tables resolve %s says what it would do, and does it with --yes: if the table's own log is put back first, whole, the table goes on; if a file of it is missing or altered, that is named; a log that is not its own closes it for good", t.Name)
	case ground == twophase.GroundUnwritable:
		return unwritableRemedy(e.name(nameOf(s, f.Origin)))
	case f.Cause == twophase.CauseLost:
		return fmt.Sprintf("put the part back, and the table goes on by itself; or give the change up: txcoord tables resolve %s --give-up", t.Name)
	case f.Cause == twophase.CauseContradiction:
		return fmt.Sprintf("put the file back as it was, then: txcoord tables resolve %s. If it cannot be mended: txcoord tables resolve %s --give-up", t.Name, t.Name)
	}
	return fmt.Sprintf("txcoord tables resolve %s says what would be given up, and does it with --yes", t.Name)
}

func keyOf(s *twophase.State, id twophase.TxnID) string {
	if o := s.Outcome(id); o != nil && o.Commit != nil {
		return o.Commit.Key
	}
	return ""
}

// namedAtMost bounds the findings of one kind, and the tables in one.
const namedAtMost = 100

func (e *explainer) pending(s *twophase.State, t *twophase.Table) {
	for i, ch := range t.Diverged {
		if i == namedAtMost {
			break
		}
		g := resolvedChange(s, t, ch)
		e.add(Finding{
			Code: FoundGivenUp, Blocks: true, at: t.Table, Txn: ch.Txn, Key: g.Key, Rule: g.Conflict.Rule, Path: g.Conflict.Path,
			Text: strings.TrimSpace(fmt.Sprintf("change %d cannot be delivered here: %s %s %s",
				ch.Number, g.Conflict.Rule, g.Conflict.Path, g.Conflict.Detail)),
			Winner: engineBelow(t), Remedy: fmt.Sprintf("accept that with txcoord tables resolve %s, and make the change again as a new transaction", t.Name),
		})
	}
	if r, ok := s.RoundOn(t.Table); ok {
		e.round(s, r)
	}
	if len(t.Pending) == 0 {
		return
	}
	oldest := t.Pending[0]
	f := Finding{Code: FoundChangesPending, Txn: oldest.Txn, Key: keyOf(s, oldest.Txn), Text: fmt.Sprintf("%s %s decided and not yet published", number.Of(len(t.Pending), "change"), number.Verb(len(t.Pending), "is", "are"))}
	if o := s.Outcome(oldest.Txn); o != nil {
		f.Since = o.Time.Std()
		f.Text += fmt.Sprintf(", the oldest since %s (transaction %s)", f.Since.Format(time.RFC3339), oldest.Txn)
	}
	if oldest.Round == nil {
		f.Text += "; they wait for the open round of a table that they share"
	}
	e.add(f)
}

// engineBelow is the engine of the newest foreign commit: most likely the one that
// won. The journal does not say which version a change lost to.
func engineBelow(t *twophase.Table) string {
	if n := len(t.Guests); n > 0 {
		return t.Guests[n-1].Engine
	}
	return ""
}

func (e *explainer) round(s *twophase.State, r *twophase.Round) {
	f := Finding{Code: FoundRoundOpen, Since: r.Time.Std()}
	var waits []string
	for _, p := range s.Plan(r) {
		if len(f.Tables) < namedAtMost && e.visible(p.Table.Name) {
			f.Tables = append(f.Tables, p.Table.Name)
		}
		switch {
		case p.Table.Frozen != nil && p.Table.Frozen.Origin == p.Table.Table && !p.Table.Frozen.Resolved:
			waits = append(waits, fmt.Sprintf("%s is frozen (%s)", e.name(p.Table.Name), p.Table.Frozen.Cause))
		case len(p.Changes) > 0:
			wait := fmt.Sprintf("%s has %s to be put", e.name(p.Table.Name), number.Of(len(p.Changes), "change"))
			if !e.c.reaches(infoOf(p.Table)) {
				wait += " by another server, since this one may not use its location"
			}
			waits = append(waits, wait)
		}
	}
	if len(waits) == 0 {
		waits = []string{"its publication record"}
	}
	more := ""
	if n := len(waits) - 10; n > 0 {
		waits, more = waits[:10], fmt.Sprintf(", and %d more", n)
	}
	f.Text = fmt.Sprintf("round %s of %s is open since %s and waits for: %s%s", r.ID, number.Of(len(r.Txns), "transaction"), f.Since.Format(time.RFC3339), strings.Join(waits, "; "), more)
	e.add(f)
}

func times[N int | int64 | uint64 | uint32](n N) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func (e *explainer) guests(t *twophase.Table) {
	for _, g := range slices.Backward(t.Guests) {
		f := Finding{
			Code: FoundForeignCommits, Since: g.Time.Std(), Version: g.Version, Winner: g.Engine,
			Text: fmt.Sprintf("%s committed %s; its newest commit is version %d, recorded %s", named(g.Engine), times(g.Count), g.Version, g.Time.Std().Format(time.RFC3339)),
		}
		e.add(f)
	}
	if o := t.Opened; o != nil {
		again := fmt.Sprintf("txcoord tables mode %s %s", t.Name, o.From)
		if o.From == twophase.ModeFenced {
			again = "txcoord tables fence " + t.Name
		}
		e.add(Finding{
			Code: FoundUnexpectedWriter, Since: o.At.Std(), Version: o.Version, Winner: o.Engine,
			Text:   fmt.Sprintf("its mode was %s, and is open because %s wrote version %d, recorded %s", o.From, named(o.Engine), o.Version, o.At.Std().Format(time.RFC3339)),
			Remedy: "stop that writer, then: " + again,
		})
	}
}

func named(engine string) string {
	if engine == "" {
		return "an engine that does not name itself"
	}
	return engine
}
