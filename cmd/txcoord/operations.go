package main

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/internal/number"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

type tablesWhy struct{ tableArg }

func (c *tablesWhy) Run(ctx context.Context, s *session) error {
	return s.call(ctx, "looking at "+c.Table, func(ctx context.Context, api *client.Client) error {
		a, err := api.Operations.ExplainTable(ctx, &txcoordv1.ExplainTableRequest{Table: c.Table})
		if err != nil {
			return err
		}
		codes := []string{}
		for _, f := range a.GetFindings() {
			codes = append(codes, word(f.GetCode()))
		}
		return s.show(a, codes, func(g *grid) { whyGrid(g, a) })
	})
}

func whyGrid(g *grid, a *txcoordv1.ExplainTableResponse) {
	name := a.GetTable().GetName()
	blocked := false
	for _, f := range a.GetFindings() {
		blocked = blocked || f.GetBlocks()
	}
	switch {
	case blocked:
		g.row(fmt.Sprintf("Table %s does not take commits, or does not publish them:", name))
	case len(a.GetFindings()) > 0:
		g.row(fmt.Sprintf("Nothing stands in the way of table %s. Good to know:", name))
	default:
		g.row(fmt.Sprintf("Nothing stands in the way of table %s.", name))
	}
	for _, f := range a.GetFindings() {
		g.row()
		g.row(fmt.Sprintf("%s: %s", strings.ToUpper(strings.ReplaceAll(word(f.GetCode()), "_", " ")), f.GetText()))
		for _, more := range findingMore(f) {
			g.row("  " + more)
		}
	}
}

func findingMore(f *txcoordv1.Finding) (out []string) {
	say := func(name, value string) {
		if value != "" {
			out = append(out, name+": "+value)
		}
	}
	say("transaction", f.GetTransactionId())
	say("key", f.GetKey())
	say("probably lost to", f.GetWinner())
	if word(f.GetCode()) != "change_given_up" {
		out = out[:len(out)-boolToInt(f.GetWinner() != "")]
	}
	say("file", f.GetFile())
	say("other tables", strings.Join(f.GetTables(), ", "))
	say("what to do", f.GetRemedy())
	return out
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

type tablesFreeze struct {
	tableArg
	Reason string `required:"" help:"Why, in words; recorded, and told to whoever is refused." placeholder:"TEXT"`
}

func (c *tablesFreeze) Run(ctx context.Context, s *session) error {
	return s.call(ctx, "freezing "+c.Table, func(ctx context.Context, api *client.Client) error {
		a, err := api.Operations.FreezeTable(ctx, &txcoordv1.FreezeTableRequest{Table: c.Table, Reason: c.Reason})
		if err != nil {
			return err
		}
		if f := a.GetTable().GetFreeze(); f.GetCause() == txcoordv1.FreezeCause_FREEZE_CAUSE_OPERATOR && len(c.Reason) <= maxReason && f.GetReason() != c.Reason {
			s.note("table %s was frozen before, since %s, and keeps its reason %q: unfreeze it first for another", c.Table, f.GetSince().AsTime().Format(time.RFC3339), f.GetReason())
		}
		return s.showTable(a, a.GetTable())
	})
}

// maxReason is how much of a reason is recorded.
const maxReason = 1024

type tablesUnfreeze struct {
	tableArg
	Reason string `required:"" help:"Why, in words; recorded." placeholder:"TEXT"`
}

func (c *tablesUnfreeze) Run(ctx context.Context, s *session) error {
	return s.call(ctx, "unfreezing "+c.Table, func(ctx context.Context, api *client.Client) error {
		a, err := api.Operations.UnfreezeTable(ctx, &txcoordv1.UnfreezeTableRequest{Table: c.Table, Reason: c.Reason})
		if err != nil {
			return err
		}
		if f := a.GetTable().GetFreeze(); f != nil {
			s.note("table %s is still frozen, by something else (%s): txcoord tables why %s", a.GetTable().GetName(), word(f.GetCause()), shellWord(a.GetTable().GetName()))
		}
		return s.showTable(a, a.GetTable())
	})
}

type tablesResolve struct {
	tableArg
	Yes    bool   `help:"Do it. Without it the plan is shown, and on a terminal you are asked."`
	GiveUp bool   `help:"Give up changes whose staged parts are lost; or a table whose log and journal contradict each other for good, which is never written again."`
	Reason string `help:"Why, in words; recorded."`
}

// Run shows the plan, and then carries out exactly that plan: the server refuses if it
// is another one by then.
func (c *tablesResolve) Run(ctx context.Context, s *session) error {
	q := &txcoordv1.ResolveTableRequest{Table: c.Table, Preview: true, Reason: c.Reason, GiveUp: c.GiveUp}
	var plan *txcoordv1.ResolveTableResponse
	err := s.call(ctx, "looking at "+c.Table, func(ctx context.Context, api *client.Client) (err error) {
		plan, err = api.Operations.ResolveTable(ctx, q)
		return err
	})
	if err != nil {
		return err
	}
	if !c.Yes {
		if err := s.show(plan, []string{plan.GetPlan()}, func(g *grid) { resolveGrid(g, plan, true) }); err != nil {
			return err
		}
		if plan.GetNotBefore() != nil {
			s.note("not before %s: a put that was sent ahead of the freeze may still land", clock(plan.GetNotBefore()))
			return nil
		}
		if !s.confirmed("Do it?") {
			s.note("nothing was done; with --yes it is")
			return nil
		}
	}
	q.Preview, q.Plan = false, plan.GetPlan()
	return s.call(ctx, "resolving "+c.Table, func(ctx context.Context, api *client.Client) error {
		a, err := api.Operations.ResolveTable(ctx, q)
		if err != nil {
			return err
		}
		return s.show(a, []string{a.GetPlan()}, func(g *grid) { resolveGrid(g, a, false) })
	})
}

// confirmed asks on a terminal. Where there is none the answer is no.
func (s *session) confirmed(question string) bool {
	if s.Output != "table" || !isTerminal(s.in) || !isTerminal(s.err) {
		return false
	}
	fmt.Fprintf(s.err, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(s.in).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

func resolveGrid(g *grid, a *txcoordv1.ResolveTableResponse, preview bool) {
	head := "Was appended to the journal:"
	if preview {
		head = "Would be appended to the journal:"
	}
	g.row(head)
	for _, st := range a.GetSteps() {
		g.row(fmt.Sprintf("  %s of %s: %s", st.GetKind(), st.GetTable(), st.GetText()))
	}
	if preview && slices.ContainsFunc(a.GetSteps(), func(st *txcoordv1.ResolveStep) bool { return st.GetKind() == "mended" }) {
		g.row("To close it for good all the same: --give-up")
	}
	if len(a.GetGivenUp()) > 0 {
		g.gap()
		g.row("CHANGE", "TRANSACTION", "KEY", "GIVEN UP ON", "BECAUSE", "ITS OTHER TABLES")
		for _, u := range a.GetGivenUp() {
			because := strings.TrimSpace(word(u.GetRule()) + " " + u.GetPath())
			g.row(u.GetChangeNumber(), u.GetTransactionId(), orDash(u.GetKey()), u.GetTable(), because, orDash(elsewhere(u)))
		}
	}
	g.gap()
	g.pair("may be written again", strings.Join(a.GetFreed(), ", "))
	g.pair("resolve next", strings.Join(a.GetStillFrozenBy(), ", "))
}

func elsewhere(u *txcoordv1.ResolvedChange) string {
	var out []string
	for _, e := range u.GetElsewhere() {
		out = append(out, e.GetTable()+": "+e.GetState())
	}
	return strings.Join(out, "; ")
}

type tablesMaintain struct {
	Tables []string `arg:"" optional:"" name:"table" help:"The tables, by name, id or URI."`
	All    bool     `help:"All tables of the catalog."`
	DryRun bool     `help:"Only say what would be done."`
}

// besideOthers is how long --all repeats the call of a table that cannot be maintained now,
// as where its place cannot be read.
const besideOthers = 3 * time.Second

// Run maintains one table after the other, and goes on after one that fails: together they are
// waited for no longer than one would be. With -o json each answer is a line.
func (c *tablesMaintain) Run(ctx context.Context, s *session) error {
	names, err := c.names(ctx, s)
	if err != nil {
		return err
	}
	var answers []*txcoordv1.MaintainTableResponse
	var failed error
	left := retryFor(s.Timeout)
	for _, name := range names {
		began, patience := time.Now(), left
		if c.All {
			patience = min(left, besideOthers)
		}
		err := s.call(ctx, "maintaining "+name, func(ctx context.Context, api *client.Client) error {
			a, err := api.Operations.MaintainTable(ctx, &txcoordv1.MaintainTableRequest{Table: name, DryRun: c.DryRun}, client.RetryFor(patience))
			if err != nil {
				return err
			}
			answers = append(answers, a)
			if s.Output == "json" {
				s.quiet()
				return s.showJSON(a, "")
			}
			return nil
		})
		if err == nil {
			continue
		}
		if failed == nil {
			failed = err
		}
		left = max(left-time.Since(began), 0)
		switch {
		case len(names) == 1:
		case s.Output == "json":
			reportJSON(s.err, exitCode(err), fmt.Errorf("%s: %w", name, err))
		default:
			s.note("%s: %v", name, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if s.Output != "json" && len(answers) > 0 {
		g := newGrid(s.out)
		maintainGrid(g, answers)
		if err := g.flush(); err != nil {
			return err
		}
	}
	return failed
}

func (c *tablesMaintain) names(ctx context.Context, s *session) (names []string, err error) {
	switch {
	case c.All && len(c.Tables) > 0:
		return nil, usage("--all", "", "name tables, or say --all")
	case !c.All && len(c.Tables) == 0:
		return nil, usage("table", "", "name a table, or say --all")
	case !c.All:
		return c.Tables, nil
	}
	err = s.call(ctx, "listing tables", func(ctx context.Context, api *client.Client) error {
		token := ""
		for {
			a, err := api.Tables.ListTables(ctx, &txcoordv1.ListTablesRequest{PageSize: maxPage, PageToken: token})
			if err != nil {
				return err
			}
			for _, t := range a.GetTables() {
				names = append(names, t.GetName())
			}
			if token = a.GetNextPageToken(); token == "" {
				return nil
			}
		}
	})
	return names, err
}

func maintainGrid(g *grid, all []*txcoordv1.MaintainTableResponse) {
	g.row("TABLE", "VERSION", "CHECKPOINT", "LOG", "STAGED PARTS", "READ", "WRITTEN", "TOOK")
	for _, a := range all {
		g.row(a.GetTable().GetName(), a.GetVersion(), checkpointText(a), cleanUpText(a), payloadText(a),
			bytesText(a.GetBytesRead()), bytesText(a.GetBytesWritten()), a.GetTook().AsDuration().Round(1e6))
	}
}

// done is a verb for what was done, or would be.
func done(dry bool, was, would string) string {
	if dry {
		return would
	}
	return was
}

func checkpointText(a *txcoordv1.MaintainTableResponse) string {
	c := a.GetCheckpoint()
	text := "none: " + c.GetSkipped()
	if c.GetWritten() {
		text = done(a.GetDryRun(), "written", "would be written")
	}
	if c.GetFiles() > 0 {
		text += fmt.Sprintf(", %s, %s", number.Of(c.GetFiles(), "file"), bytesText(c.GetBytes()))
	}
	for _, bad := range c.GetPassedOver() {
		text += "; not used: " + bad
	}
	return text
}

func cleanUpText(a *txcoordv1.MaintainTableResponse) string {
	c := a.GetCleanUp()
	text := ""
	if n := c.GetCommits() + c.GetCheckpoints() + c.GetSidecars() + c.GetOthers(); n > 0 {
		text = fmt.Sprintf("%s: %s, %s, %s, %s; oldest is %d",
			done(a.GetDryRun(), "removed", "would be removed"), number.Of(c.GetCommits(), "commit"), number.Of(c.GetCheckpoints()+c.GetSidecars(), "checkpoint file"), number.Of(c.GetOthers(), "other"), bytesText(c.GetBytes()), c.GetCut())
	} else {
		text = "kept: " + or(c.GetSkipped(), "nothing has expired")
	}
	if c.GetHeldBy() != "" {
		text += "; held by " + c.GetHeldBy()
	}
	return text
}

func payloadText(a *txcoordv1.MaintainTableResponse) string {
	if a.GetPayloadParts() == 0 {
		return "-"
	}
	return fmt.Sprintf("%s: %d, %s", done(a.GetDryRun(), "removed", "would be removed"), a.GetPayloadParts(), bytesText(a.GetPayloadBytes()))
}

// bytesText is a size for people.
func bytesText(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for ; f >= 1024 && i < len(units)-1; i++ {
		f /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}
