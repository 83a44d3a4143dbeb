package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/internal/number"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// server asks the server about itself and about its tables.
func (x *examination) server(ctx context.Context, configured, tables bool) {
	x.began("server")
	err := x.s.call(ctx, "asking "+x.s.Server, func(ctx context.Context, api *client.Client) error {
		asked := time.Now()
		a, err := api.Status.GetStatus(ctx, &txcoordv1.GetStatusRequest{})
		if err != nil {
			return err
		}
		x.clocks(a, asked, time.Now())
		x.replicas(a)
		x.journal(a)
		x.tablesOf(a)
		if !tables {
			return nil
		}
		return x.eachTable(ctx, api)
	})
	x.s.quiet()
	switch {
	case err == nil:
	case configured && exitCode(err) == exitUnavailable:
		x.add(severityWarning, "server", x.s.Server, err.Error(), "start it; or name another one with --server")
	default:
		x.failed("server", x.s.Server, err)
	}
}

// clocks: the server's against this machine's, the store's and the other servers'.
func (x *examination) clocks(a *txcoordv1.GetStatusResponse, asked, answered time.Time) {
	if a.GetServerTime() != nil {
		now := a.GetServerTime().AsTime()
		switch { // what the way took counts for nobody
		case now.After(answered):
			x.clock("the server", "this machine", now.Sub(answered))
		case now.Before(asked):
			x.clock("the server", "this machine", now.Sub(asked))
		default:
			x.began("clocks")
		}
		if last := a.GetLastEntryAt(); last != nil && last.AsTime().Sub(now) > skew {
			x.add(severityWarning, "clocks", "journal", fmt.Sprintf("its newest entry is %s in the future: a server's clock was wrong, and times stand still until then", last.AsTime().Sub(now).Round(time.Second)), "have the machines keep time (NTP)")
		}
	}
	if d := a.GetAheadOfStore(); d != nil {
		x.clock("the server", "its store", d.AsDuration())
	}
	for _, r := range a.GetReplicas() {
		if r.GetAlive() && !r.GetSelf() {
			x.clock("replica "+r.GetId(), "the one that answers", r.GetClockAhead().AsDuration())
		}
	}
}

// replicas: who is silent, and who is too old for what is, or could be, switched on.
func (x *examination) replicas(a *txcoordv1.GetStatusResponse) {
	x.began("replicas")
	newest := uint32(0)
	for _, r := range a.GetReplicas() {
		newest = max(newest, r.GetCodec())
	}
	for _, r := range a.GetReplicas() {
		where := fmt.Sprintf("replica %s (%s)", r.GetId(), or(r.GetAddress(), "no address"))
		switch {
		case r.GetCodec() < a.GetCodec():
			x.add(severityError, "replicas", where, fmt.Sprintf("its build (%s) knows the journal's encoding up to %d, and %d is switched on: it cannot serve", r.GetBuild(), r.GetCodec(), a.GetCodec()), "upgrade it")
		case !r.GetAlive():
			x.add(severityWarning, "replicas", where, fmt.Sprintf("nothing was heard of it for %s", r.GetSilent().AsDuration().Round(time.Second)), "start it, or wait: an hour after its end it leaves the list")
		case r.GetCodec() < newest:
			x.add(severityWarning, "replicas", where, fmt.Sprintf("it agrees to the journal's encoding up to %d, others to %d: what came with that stays off", r.GetCodec(), newest), "upgrade it, or raise its limit max_codec")
		}
	}
}

// manifestsBehind is how many snapshots may wait for a manifest without a word: a busy
// catalog makes hundreds while one is put, and one file takes so many as it is shipped.
const manifestsBehind = 1000

// stalled is how long a round may be open before it is worth a word.
const stalled = 5 * time.Minute

func (x *examination) journal(a *txcoordv1.GetStatusResponse) {
	x.began("journal")
	if used, slots := a.GetPosition()-min(a.GetPosition(), a.GetCheckpointPosition()), a.GetRingSlots(); slots > 0 && used >= slots/2 {
		severity := severityWarning
		if used >= slots/8*7 {
			severity = severityError
		}
		x.add(severity, "journal", "ring", fmt.Sprintf("%d of its %d slots are filled since the newest checkpoint: from half on appends slow down, near the end they stop", used, slots),
			"look why no checkpoint can be written into the warehouse: txcoord status, and the servers' logs")
	}
	if lag := a.GetLatestSnapshot() - min(a.GetLatestSnapshot(), a.GetManifestSnapshot()); lag > manifestsBehind {
		x.add(severityWarning, "journal", "manifests", fmt.Sprintf("%s without a manifest yet: who reads the warehouse alone does not see them", number.Of(lag, "snapshot")), "see whether the warehouse can be written: txcoord status")
	}
	if a.GetBacklogLimit() > 0 && a.GetBacklogBytes() >= a.GetBacklogLimit()/10*8 {
		x.add(severityWarning, "journal", "backlog", fmt.Sprintf("%s of transactions wait to be published, and new ones are refused from %s on", bytesText(a.GetBacklogBytes()), bytesText(a.GetBacklogLimit())), "see which rounds are open, and what they wait for: txcoord status")
	}
	for _, t := range a.GetTroubles() {
		x.add(severityError, "journal", t.GetPlace(), t.GetText(), t.GetRemedy())
	}
	for _, r := range a.GetOpenRounds() {
		if a.GetServerTime() != nil && a.GetServerTime().AsTime().Sub(r.GetOpenedAt().AsTime()) > stalled {
			x.add(severityWarning, "journal", "round "+r.GetId(), "open since "+clock(r.GetOpenedAt())+", on "+strings.Join(r.GetTables(), ", "), whyOne(r.GetTables())+" says what it waits for")
		}
	}
}

// whyOne is the command that explains a table of several, the first.
func whyOne(names []string) string {
	if len(names) == 0 {
		return "txcoord tables why NAME"
	}
	return "txcoord tables why " + shellWord(names[0])
}

// tablesOf are what the status says of tables.
func (x *examination) tablesOf(a *txcoordv1.GetStatusResponse) {
	x.began("tables")
	for _, f := range a.GetFrozen() {
		severity, remedy := severityError, "txcoord tables why "+shellWord(f.GetTable())
		if f.GetFreeze().GetCause() == txcoordv1.FreezeCause_FREEZE_CAUSE_OPERATOR {
			severity, remedy = severityNote, "txcoord tables unfreeze "+shellWord(f.GetTable())+" --reason TEXT, when it is time"
		}
		x.add(severity, "tables", f.GetTable(), strings.TrimSpace(fmt.Sprintf("frozen (%s) since %s: %s", freezeWord(f.GetFreeze()), clock(f.GetFreeze().GetSince()), f.GetFreeze().GetReason())), remedy)
	}
	for _, o := range a.GetOpened() {
		x.add(severityWarning, "writers", o.GetTable(), o.GetReason(), "stop that writer, then set the mode again, or fence the table")
	}
}

// eachTable asks for what stands in each table's way, or may.
func (x *examination) eachTable(ctx context.Context, api *client.Client) error {
	x.began("retention")
	x.began("writers")
	x.began("fences")
	for token := ""; ; {
		page, err := api.Tables.ListTables(ctx, &txcoordv1.ListTablesRequest{PageSize: maxPage, PageToken: token})
		if err != nil {
			return err
		}
		for _, t := range page.GetTables() {
			a, err := api.Operations.ExplainTable(ctx, &txcoordv1.ExplainTableRequest{Table: t.GetId()})
			if err != nil {
				return err
			}
			x.table(a.GetTable(), a.GetFindings())
		}
		if token = page.GetNextPageToken(); token == "" {
			return nil
		}
	}
}

func (x *examination) table(t *txcoordv1.Table, findings []*txcoordv1.Finding) {
	if f := t.GetFence(); f != nil && !f.GetCounts() {
		x.add(severityWarning, "fences", t.GetName(), "its fence does not count yet, so that DECIDED is not offered and its log is looked at before each decision; expected from "+clock(f.GetDecidedFrom())+" on",
			"wait; or, if no writer is at work that read the protocol before: txcoord tables fence "+shellWord(t.GetName())+" --no-older-writers")
	}
	for _, f := range findings {
		switch code := f.GetCode(); {
		case slices.Contains(alsoTroubles, code) && x.said(f.GetText()): // by the status, or of another table
		case code == txcoordv1.FindingCode_FINDING_CODE_STORE_TROUBLE && !f.GetBlocks():
			x.add(severityWarning, "tables", t.GetName(), f.GetText(), f.GetRemedy())
		case code == txcoordv1.FindingCode_FINDING_CODE_FROZEN,
			code == txcoordv1.FindingCode_FINDING_CODE_BACKLOG, code == txcoordv1.FindingCode_FINDING_CODE_UNEXPECTED_WRITER,
			code == txcoordv1.FindingCode_FINDING_CODE_ROUND_OPEN, code == txcoordv1.FindingCode_FINDING_CODE_CHANGES_PENDING,
			code == txcoordv1.FindingCode_FINDING_CODE_RESERVED: // said once, by the status
		case code == txcoordv1.FindingCode_FINDING_CODE_RETENTION && f.GetProperty() != "":
			// What a tag or a lease needs beyond the table's own setting. It was said when that
			// was made, and is as it was chosen.
			x.add(severityNote, "retention", t.GetName(), f.GetText(), f.GetRemedy())
		case code == txcoordv1.FindingCode_FINDING_CODE_RETENTION:
			x.add(severityWarning, "retention", t.GetName(), f.GetText(), f.GetRemedy())
		case code == txcoordv1.FindingCode_FINDING_CODE_FOREIGN_COMMITS:
			x.engine(t, f)
		case f.GetBlocks():
			x.add(severityError, "tables", t.GetName(), f.GetText(), f.GetRemedy())
		default:
			x.add(severityNote, "tables", t.GetName(), f.GetText(), f.GetRemedy())
		}
	}
}

// alsoTroubles are findings that may be troubles of the table's place, too, in the same words.
var alsoTroubles = []txcoordv1.FindingCode{
	txcoordv1.FindingCode_FINDING_CODE_STOPPED, txcoordv1.FindingCode_FINDING_CODE_LOG_ALTERED, txcoordv1.FindingCode_FINDING_CODE_LOG_UNREADABLE,
	txcoordv1.FindingCode_FINDING_CODE_STORE_TROUBLE,
}

// said reports whether something was found before.
func (x *examination) said(what string) bool {
	return slices.ContainsFunc(x.found, func(f ailment) bool { return f.what == what })
}

// engine says what is known of another writer by the name that its commits have. The log
// store that a Spark writes with is not in it.
func (x *examination) engine(t *txcoordv1.Table, f *txcoordv1.Finding) {
	name := strings.ToLower(f.GetWinner())
	spark := strings.Contains(name, "spark")
	onS3 := strings.HasPrefix(t.GetUri(), "s3://")
	logStore := t.GetMode() == txcoordv1.TableMode_TABLE_MODE_DELTA_STORAGE
	switch {
	case spark && onS3 && !logStore:
		x.add(severityWarning, "writers", t.GetName(), f.GetText()+". On S3 Spark's default log store (S3SingleDriverLogStore) can overwrite a version that this server has put, or the other way round; which one it uses does not stand in its commits",
			"use S3DynamoDBLogStore there and mode delta-storage (docs/delta-storage.md); or a bucket policy that refuses unconditional puts of commit files; or a fence")
	case f.GetWinner() == "":
		x.add(severityWarning, "writers", t.GetName(), f.GetText()+". Whether it puts versions only if they are absent cannot be told", "find out who it is; a fence keeps it out")
	default:
		x.add(severityNote, "writers", t.GetName(), f.GetText(), "")
	}
}
