package main

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/txcoord/txcoord/coordinator"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// TestWhatPeopleGet of states that a healthy server does not show.
func TestWhatPeopleGet(t *testing.T) {
	at := timestamppb.New(time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC))
	frozen := &txcoordv1.Table{
		Id: "t-1", Name: "orders", Uri: "file:///d/orders", Mode: txcoordv1.TableMode_TABLE_MODE_OPEN, Version: 7, PendingChanges: 1,
		OneTxnPerVersion: true, Stopped: "gap in the log",
		Freeze: &txcoordv1.Freeze{Cause: txcoordv1.FreezeCause_FREEZE_CAUSE_DIVERGED, TransactionId: "ab", Reason: "a foreign commit"},
	}
	for name, c := range map[string]struct {
		print func(g *grid)
		want  string
	}{
		"frozen table": {func(g *grid) {
			descriptionGrid(g, &txcoordv1.DescribeTableResponse{
				Table: frozen, Pending: []*txcoordv1.PendingChange{{ChangeNumber: 3, TransactionId: "ab", GivenUp: txcoordv1.Rule_RULE_PATH_EXISTS}},
				OpenRound: &txcoordv1.Round{Id: "5.0", OpenedAt: at, Transactions: 2},
			})
		}, `name        orders
id          t-1
location    file:///d/orders
mode        open
version     7
pending     1
versions    one transaction each
frozen      diverged
frozen by   ab
reason      a foreign commit
stopped     gap in the log
open round  5.0, 2 transactions, since 2026-11-29T12:00:00Z

CHANGE  TRANSACTION  GIVEN UP
3       ab           path_exists
`},
		"transactions": {func(g *grid) {
			transactionsGrid(g, &txcoordv1.ListTransactionsResponse{
				Open: []*txcoordv1.OpenTransaction{{
					TransactionId: "ab", Key: "job-1", Attempt: 2, Client: "token:etl", BegunAt: at, Deadline: timestamppb.New(at.AsTime().Add(time.Hour)),
					Tables: []*txcoordv1.StagedTable{{Table: "orders"}, {Table: "items"}},
				}},
				Decided: []*txcoordv1.Outcome{
					{TransactionId: "cd", State: &txcoordv1.Outcome_Committed{Committed: &txcoordv1.CommittedOutcome{
						Tables: []*txcoordv1.TableDelivery{{Table: "orders", Version: 3}}, SnapshotVersion: 9, DecidedAt: at,
					}}},
					{TransactionId: "ef", State: &txcoordv1.Outcome_Aborted{Aborted: &txcoordv1.AbortedOutcome{
						Conflict: &txcoordv1.ConflictDetail{Rule: txcoordv1.Rule_RULE_DELETE_DELETE, Version: -1}, DecidedAt: at,
					}}},
				},
			})
		}, `TRANSACTION  STATE      KEY    ATTEMPT  BEGUN                 DEADLINE, DECIDED     TABLES         DETAIL
ab           open       job-1  2        2026-11-29T12:00:00Z  2026-11-29T13:00:00Z  orders, items  by token:etl
cd           committed  -      0        -                     2026-11-29T12:00:00Z  orders@3       snapshot 9
ef           aborted    -      0        -                     2026-11-29T12:00:00Z  -              delete delete
`},
		"gc": {func(g *grid) {
			garbageGrid(g, &txcoordv1.CollectGarbageResponse{
				Found: []*txcoordv1.Garbage{
					{Kind: txcoordv1.GarbageKind_GARBAGE_KIND_PART, Key: "pay/1", InStore: true, Bytes: 1536, Age: durationpb.New(30 * time.Hour), Why: "transaction ab is aborted"},
					{Kind: txcoordv1.GarbageKind_GARBAGE_KIND_FACTS, Key: "facts/2", Bytes: 1, Age: durationpb.New(100 * time.Hour), Why: "no record names it"},
				},
				Totals: []*txcoordv1.GarbageTotal{
					{Kind: txcoordv1.GarbageKind_GARBAGE_KIND_PART, Count: 1, Bytes: 1536}, {Kind: txcoordv1.GarbageKind_GARBAGE_KIND_FACTS, Count: 2, Bytes: 2},
				},
				More: true, MinAge: durationpb.New(25 * time.Hour), Young: &txcoordv1.GarbageTotal{Count: 3, Bytes: 5}, Unknown: &txcoordv1.GarbageTotal{Count: 3, Bytes: 7},
				UnknownKeys: []string{"notes.txt"},
				Skipped:     []string{"drafts of table orders"},
				Quarantines: []*txcoordv1.Quarantine{{Run: "r-1", Count: 2, Bytes: 9, Since: at}},
			})
		}, `KIND   WHERE    KEY      SIZE     AGE  WHY
part   store    pay/1    1.5 KiB  30h  transaction ab is aborted
facts  objects  facts/2  1 B      4d   no record names it

would go  part   1 thing   1.5 KiB
would go  facts  2 things  2 B
there is more than one call takes on
too young  under 25h   3 things  5 B
not known  left alone  3 things  7 B
           notes.txt
           and 2 more
left: drafts of table orders

QUARANTINE  THINGS  SIZE  SINCE
r-1         2       9 B   2026-11-29T12:00:00Z
`},
		"gc of nothing": {func(g *grid) { garbageGrid(g, &txcoordv1.CollectGarbageResponse{Removed: true}) }, `Nothing is to be removed.
`},
		"resolve": {func(g *grid) {
			resolveGrid(g, &txcoordv1.ResolveTableResponse{
				Steps: []*txcoordv1.ResolveStep{{Kind: "thaw", Table: "orders", Text: "table orders may be written again"}},
				GivenUp: []*txcoordv1.ResolvedChange{{
					Table: "orders", ChangeNumber: 4, TransactionId: "ab", Key: "k", Rule: txcoordv1.Rule_RULE_DELETE_DELETE, Path: "p",
					Elsewhere: []*txcoordv1.ResolvedElsewhere{{Table: "items", State: "published as version 3"}, {Table: "stock", State: "will be published"}},
				}},
				Freed: []string{"orders", "stock"}, StillFrozenBy: []string{"other"},
			}, true)
		}, `Would be appended to the journal:
  thaw of orders: table orders may be written again

CHANGE  TRANSACTION  KEY  GIVEN UP ON  BECAUSE          ITS OTHER TABLES
4       ab           k    orders       delete_delete p  items: published as version 3; stock: will be published

may be written again  orders, stock
resolve next          other
`},
		"why": {func(g *grid) {
			whyGrid(g, &txcoordv1.ExplainTableResponse{Table: frozen, Findings: []*txcoordv1.Finding{
				{Code: txcoordv1.FindingCode_FINDING_CODE_FROZEN, Blocks: true, Text: "frozen since then", Remedy: "resolve it", TransactionId: "ab", Tables: []string{"items"}},
				{Code: txcoordv1.FindingCode_FINDING_CODE_CHANGE_GIVEN_UP, Blocks: true, Text: "change 4", Winner: "delta-rs"},
				{Code: txcoordv1.FindingCode_FINDING_CODE_FOREIGN_COMMITS, Text: "delta-rs committed 2 times", Winner: "delta-rs"},
			}})
		}, `Table orders does not take commits, or does not publish them:

FROZEN: frozen since then
  transaction: ab
  other tables: items
  what to do: resolve it

CHANGE GIVEN UP: change 4
  probably lost to: delta-rs

FOREIGN COMMITS: delta-rs committed 2 times
`},
		"maintain": {func(g *grid) {
			maintainGrid(g, []*txcoordv1.MaintainTableResponse{
				{
					Table: frozen, DryRun: true, Version: 7, Checkpoint: &txcoordv1.CheckpointReport{Written: true}, PayloadParts: 2, PayloadBytes: 2048,
					CleanUp: &txcoordv1.CleanUpReport{Cut: 4, Commits: 4, Checkpoints: 1, Bytes: 1 << 20, HeldBy: "tag a"}, BytesRead: 10,
				},
				{Table: frozen, Version: 8, Checkpoint: &txcoordv1.CheckpointReport{Skipped: "it has one", PassedOver: []string{"7.json: why"}}, CleanUp: &txcoordv1.CleanUpReport{Cut: -1}},
			})
		}, `TABLE   VERSION  CHECKPOINT                               LOG                                                                                            STAGED PARTS                  READ  WRITTEN  TOOK
orders  7        would be written                         would be removed: 4 commits, 1 checkpoint file, 0 others, 1.0 MiB; oldest is 4; held by tag a  would be removed: 2, 2.0 KiB  10 B  0 B      0s
orders  8        none: it has one; not used: 7.json: why  kept: nothing has expired                                                                      -                             0 B   0 B      0s
`},
		"status": {func(g *grid) {
			statusGrid(g, &txcoordv1.GetStatusResponse{
				LatestSnapshot: 9, ManifestSnapshot: 7, Position: 12, Codec: 1, CheckpointPosition: 4, CatalogId: "c", Incarnation: "i",
				ServerVersion: "v1", Tables: 2, LastEntryAt: at,
				OpenRounds: []*txcoordv1.Round{{Id: "5.0", OpenedAt: at, Transactions: 2, Tables: []string{"orders", "items"}}},
				Frozen:     []*txcoordv1.FrozenTable{{Table: "orders", Freeze: frozen.GetFreeze()}},
				Reservations: []*txcoordv1.Reservation{
					{Key: "nightly", Attempt: 5, Tables: []string{"orders", "items"}, Since: at, UntilPosition: 90},
				},
				HeldBack: 3,
			})
		}, `server             v1
catalog id         c
incarnation        i
journal            12 entries, checkpoint at 4, codec 1
newest entry       2026-11-29T12:00:00Z
snapshot           9
manifest           snapshot 7, 2 behind
tables             2
open transactions  0

ROUND  OPENED                TRANSACTIONS  TABLES
5.0    2026-11-29T12:00:00Z  2             orders, items

FROZEN  SINCE  CAUSE     TRANSACTION  REASON
orders         diverged  ab           a foreign commit

GOES FIRST  SINCE                 LOST       UNTIL     TABLES
nightly     2026-11-29T12:00:00Z  attempt 5  entry 90  orders, items

held back behind them  3
`},
		"aborted": {func(g *grid) {
			outcomeGrid(g, &txcoordv1.Outcome{TransactionId: "ab", Key: "k", Attempt: 2, State: &txcoordv1.Outcome_Aborted{Aborted: &txcoordv1.AbortedOutcome{
				DecidedAt: at, Conflict: &txcoordv1.ConflictDetail{Rule: txcoordv1.Rule_RULE_DELETE_READ, Table: "orders", Version: 4, Path: "p", Detail: "gone", Winner: "cd"},
			}}})
		}, `transaction  ab
key          k
attempt      2
state        aborted
because      delete read on orders at version 4, p: gone
winner       cd
decided      2026-11-29T12:00:00Z
`},
		"status of a journal that has not begun": {func(g *grid) { statusGrid(g, &txcoordv1.GetStatusResponse{CatalogId: "c", Codec: 1}) }, `catalog id         c
journal            0 entries, checkpoint at 0, codec 1
newest entry       none yet
snapshot           0
manifest           snapshot 0, 0 behind
tables             0
open transactions  0
`},
		"pending": {func(g *grid) {
			outcomeGrid(g, &txcoordv1.Outcome{TransactionId: "ab", State: &txcoordv1.Outcome_Committed{Committed: &txcoordv1.CommittedOutcome{
				DecidedAt: at, Tables: []*txcoordv1.TableDelivery{{Table: "orders", State: txcoordv1.DeliveryState_DELIVERY_STATE_PENDING, Version: -1}},
			}}})
		}, `transaction  ab
state        committed
decided      2026-11-29T12:00:00Z

TABLE   VERSION  PLACE  STATE
orders  -        0      pending
`},
	} {
		var out bytes.Buffer
		g := newGrid(&out)
		c.print(g)
		if err := g.flush(); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Log(name)
			same(t, c.want, out.String())
		}
	}
}

// TestPendingIsSaid: a commit that did not wait for all tables is done, and says so, and
// whom a new protocol shuts out.
func TestPendingIsSaid(t *testing.T) {
	var out, stderr bytes.Buffer
	s := &session{out: &out, err: &stderr}
	o := &txcoordv1.Outcome{State: &txcoordv1.Outcome_Committed{Committed: &txcoordv1.CommittedOutcome{PendingReason: "orders is frozen", Warnings: []string{"table t: …"}}}}
	if err := s.showOutcome(&txcoordv1.CommitResponse{Outcome: o}, o); err != nil {
		t.Fatal(err)
	}
	same(t, "txcoord: committed, but not on all tables yet: orders is frozen\ntxcoord: warning: table t: …\n", stderr.String())
}

// TestExactly: a limit is not rounded.
func TestExactly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Hour: "1h", 61 * time.Minute: "1h1m", 70 * time.Minute: "1h10m", 25 * time.Hour: "25h", time.Hour + time.Second: "1h0m1s", time.Minute: "1m", 10 * time.Second: "10s", 0: "0s",
	} {
		same(t, want, coordinator.InUnits(d))
	}
}
