package rpc

// From the domain to the wire. Nothing here can fail: what the wire cannot carry
// (text that is not UTF-8, an unset time) is mended or left out.

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/txcoord/txcoord/coordinator"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/twophase"
)

// text makes a string fit for the wire and at most limit bytes long. Paths are
// decoded, so they may hold any bytes.
func text(s string, limit int) string {
	if len(s) > limit {
		for limit > 0 && !utf8.RuneStart(s[limit]) {
			limit--
		}
		s = s[:limit]
	}
	return whole(s)
}

// whole is text without a limit.
func whole(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func wholes(all []string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = whole(s)
	}
	return out
}

func sorted(all []string) []string {
	out := wholes(all)
	slices.Sort(out)
	return out
}

func each[A, B any](all []A, f func(A) B) []B {
	if len(all) == 0 {
		return nil
	}
	out := make([]B, len(all))
	for i, a := range all {
		out[i] = f(a)
	}
	return out
}

func txnID(id twophase.TxnID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// ruleToProto relies on both lists being append-only with the same numbers; a
// test holds them together.
func ruleToProto(r twophase.Rule) pb.Rule { return pb.Rule(r) }

func causeToProto(c twophase.Cause) pb.FreezeCause { return pb.FreezeCause(c) }

func modeToProto(m twophase.Mode) pb.TableMode { return pb.TableMode(m) }

// ---- transactions

func begunToProto(b coordinator.Begun) *pb.BeginResponse {
	return &pb.BeginResponse{
		Token: b.Token, TransactionId: txnID(b.Txn), Attempt: b.Attempt, CatalogId: whole(b.CatalogID),
		Incarnation: whole(b.Incarnation), Position: uint64(b.Position), Deadline: timestamp(b.Deadline),
		RememberedSince: timestamp(b.RememberedSince), Known: each(b.Known, outcomeToProto),
	}
}

func stagedToProto(s coordinator.Staged) *pb.StagedPart {
	return &pb.StagedPart{
		Digest: s.Digest.String(), TableId: whole(string(s.Table)), MetadataId: whole(s.MetaDataID),
		Bytes: uint64(s.Bytes), Lines: uint64(s.Lines), Hint: conflictToProto(s.Hint),
	}
}

func outcomeToProto(o coordinator.Outcome) *pb.Outcome {
	out := &pb.Outcome{TransactionId: txnID(o.Txn), Key: whole(o.Key), Attempt: o.Attempt}
	switch {
	case o.Committed != nil:
		out.State = &pb.Outcome_Committed{Committed: committedToProto(o)}
	case o.Aborted != nil:
		out.State = &pb.Outcome_Aborted{Aborted: &pb.AbortedOutcome{
			Conflict: conflictToProto(o.Aborted), DecidedAt: timestamp(o.DecidedAt),
		}}
	default:
		out.State = &pb.Outcome_Open{Open: &pb.OpenOutcome{Deadline: timestamp(o.Deadline)}}
	}
	return out
}

func committedToProto(o coordinator.Outcome) *pb.CommittedOutcome {
	return &pb.CommittedOutcome{
		Tables:          each(o.Committed.Tables, deliveryToProto),
		SnapshotVersion: uint64(o.Committed.Snapshot),
		DecidedAt:       timestamp(o.DecidedAt),
		Position:        uint64(o.Position),
		PendingReason:   text(o.Committed.PendingReason, maxText),
		Warnings:        wholes(o.Committed.Warnings),
	}
}

// deliveryToProto: a version counts only once it is PUBLISHED.
func deliveryToProto(d coordinator.Delivery) *pb.TableDelivery {
	out := &pb.TableDelivery{
		TableId: whole(string(d.Table)), Table: whole(d.Name), State: deliveryState(d.Status),
		Version: int64(twophase.NoVersion), Conflict: conflictToProto(d.Conflict),
	}
	if out.GetState() == pb.DeliveryState_DELIVERY_STATE_PUBLISHED {
		out.Version, out.Place = int64(d.Version), d.Place
	}
	return out
}

func deliveryState(s twophase.Status) pb.DeliveryState {
	switch s {
	case twophase.StatusPending, twophase.StatusDelivered:
		return pb.DeliveryState_DELIVERY_STATE_PENDING
	case twophase.StatusPublished:
		return pb.DeliveryState_DELIVERY_STATE_PUBLISHED
	case twophase.StatusDiverged:
		return pb.DeliveryState_DELIVERY_STATE_DIVERGED
	case twophase.StatusNotApplied:
		return pb.DeliveryState_DELIVERY_STATE_NOT_APPLIED
	default:
		return pb.DeliveryState_DELIVERY_STATE_UNSPECIFIED
	}
}

func listedToProto(l coordinator.Listed) *pb.ListTransactionsResponse {
	return &pb.ListTransactionsResponse{
		Open: each(l.Open, openToProto), Decided: each(l.Decided, outcomeToProto), NextPageToken: l.NextPage,
	}
}

func openToProto(o coordinator.OpenTxn) *pb.OpenTransaction {
	return &pb.OpenTransaction{
		TransactionId: txnID(o.Txn), Key: whole(o.Key), Attempt: o.Attempt, Client: whole(o.Client),
		BegunAt: timestamp(o.Begun), Deadline: timestamp(o.Deadline),
		Tables: each(o.Tables, func(t coordinator.StagedTable) *pb.StagedTable {
			return &pb.StagedTable{
				TableId: whole(string(t.Table)), Table: whole(t.Name), Bytes: uint64(t.Bytes), Parts: uint32(t.Parts),
			}
		}),
	}
}

// ---- tables

func tableToProto(t coordinator.TableInfo) *pb.Table {
	return &pb.Table{
		Id: whole(string(t.ID)), Name: whole(t.Name), Uri: whole(t.URI), MetadataId: whole(t.MetaDataID),
		Mode: modeToProto(t.Mode), Version: int64(t.Version), Marker: int64(t.Marker),
		OneTxnPerVersion: t.OneTxnPerVersion, Freeze: freezeToProto(t.Frozen), PendingChanges: uint32(t.Pending),
		Stopped: text(t.Stopped, maxText), Fence: fenceToProto(t.Fence), ModeReason: text(t.ModeReason, maxText),
		Trouble: text(t.Trouble, maxText), Unseen: t.Unseen,
	}
}

func fenceToProto(f *coordinator.FenceInfo) *pb.Fence {
	if f == nil {
		return nil
	}
	return &pb.Fence{
		Version: int64(f.Version), Since: timestamp(f.Since.Std()), Counts: f.Counts,
		DecidedFrom: timestamp(f.DecidedFrom.Std()), ByOperator: f.Operator,
	}
}

func freezeToProto(f *coordinator.FrozenDetail) *pb.Freeze {
	if f == nil {
		return nil
	}
	return &pb.Freeze{Cause: causeToProto(f.Cause), TransactionId: txnID(f.Txn), Reason: text(f.Detail, maxText), Since: timestamp(f.Since), Held: f.Held}
}

func descriptionToProto(d coordinator.TableDescription) *pb.DescribeTableResponse {
	return &pb.DescribeTableResponse{
		Table: tableToProto(d.TableInfo), Pending: each(d.Changes, pendingToProto),
		OpenRound: roundToProto(d.Round), State: stateToProto(d.State), Warnings: wholes(d.Warnings),
	}
}

func pendingToProto(p coordinator.PendingChange) *pb.PendingChange {
	return &pb.PendingChange{
		ChangeNumber: int64(p.Number), TransactionId: txnID(p.Txn), GivenUp: ruleToProto(p.GivenUp),
	}
}

// maxRoundTables is what Round.tables holds at most.
const maxRoundTables = 100

func roundToProto(r *coordinator.RoundInfo) *pb.Round {
	if r == nil {
		return nil
	}
	return &pb.Round{
		Id: r.ID.String(), OpenedAt: timestamp(r.Opened), Transactions: uint32(r.Txns),
		Tables: wholes(r.Tables[:min(len(r.Tables), maxRoundTables)]),
	}
}

func stateToProto(s *coordinator.TableState) *pb.TableState {
	if s == nil {
		return nil
	}
	out := &pb.TableState{
		Version: int64(s.Version), Files: uint64(s.Files), Bytes: uint64(s.Bytes),
		LogRetention: durationpb.New(s.LogRetention), DeletedFileRetention: durationpb.New(s.DeletedFileRetention),
	}
	if p := s.Profile; p != nil {
		out.MinReaderVersion, out.MinWriterVersion = int32(p.Protocol.MinReader), int32(p.Protocol.MinWriter)
		out.ReaderFeatures, out.WriterFeatures = sorted(p.Protocol.ReaderFeatures), sorted(p.Protocol.WriterFeatures)
		out.SchemaJson, out.PartitionColumns = whole(p.MetaData.Schema), wholes(p.MetaData.PartitionColumns)
		out.Properties = properties(p.MetaData.Configuration)
	}
	return out
}

func properties(all map[string]string) map[string]string {
	out := make(map[string]string, len(all))
	for k, v := range all {
		out[whole(k)] = whole(v)
	}
	return out
}

// ---- snapshots

func snapshotToProto(s coordinator.Snapshot) *pb.Snapshot {
	return &pb.Snapshot{
		Version: uint64(s.Version), Timestamp: timestamp(s.Time), Tags: wholes(s.Tags), Added: uint32(s.Added),
		Tables: each(s.Tables, func(t coordinator.SnapshotTable) *pb.SnapshotTable {
			return &pb.SnapshotTable{
				Id: whole(string(t.ID)), Name: whole(t.Name), Uri: whole(t.URI), Version: int64(t.Version),
				Frozen: t.Frozen,
			}
		}),
	}
}

func changeToProto(c coordinator.SnapshotChange) *pb.SnapshotChange {
	return &pb.SnapshotChange{
		Version: uint64(c.Version), Timestamp: timestamp(c.Time), Kind: whole(c.Kind),
		Tables: each(c.Tables, tableChangeToProto), Transactions: each(c.Txns, snapshotTxnToProto),
	}
}

func tableChangeToProto(c coordinator.TableChange) *pb.TableChange {
	return &pb.TableChange{
		Id: whole(string(c.ID)), Name: whole(c.Name), Uri: whole(c.URI),
		FromVersion: int64(c.From), ToVersion: int64(c.To),
	}
}

func snapshotTxnToProto(t coordinator.SnapshotTxn) *pb.SnapshotTransaction {
	return &pb.SnapshotTransaction{
		TransactionId: txnID(t.Txn), Key: whole(t.Key), SnapshotVersion: uint64(t.Snapshot),
		TableIds: each(t.Tables, func(id twophase.TableID) string { return whole(string(id)) }),
	}
}

func pageToProto(p coordinator.SnapshotPage) *pb.ListSnapshotsResponse {
	return &pb.ListSnapshotsResponse{Snapshots: each(p.Snapshots, changeToProto), NextPageToken: p.NextPage}
}

func diffToProto(d coordinator.Diff) *pb.DiffSnapshotsResponse {
	return &pb.DiffSnapshotsResponse{
		From: uint64(d.From), To: uint64(d.To), Tables: each(d.Tables, tableChangeToProto),
		Transactions: each(d.Txns, snapshotTxnToProto),
	}
}

// ---- status

func statusToProto(s coordinator.Status, version string) *pb.GetStatusResponse {
	var ahead *durationpb.Duration
	if s.AheadOfStore != nil {
		ahead = durationpb.New(*s.AheadOfStore)
	}
	return &pb.GetStatusResponse{
		ServerTime: timestamp(s.Now), AheadOfStore: ahead, RingSlots: uint64(s.Slots), Waiting: uint32(s.Waiting),
		BacklogBytes: uint64(max(s.Backlog, 0)), BacklogLimit: uint64(max(s.BacklogLimit, 0)),
		Committed: s.Counts.Committed, Aborted: s.Counts.Aborted, Conflicts: s.Counts.Conflicts,
		ServerVersion: whole(version), CatalogId: whole(s.CatalogID), Incarnation: whole(s.Incarnation),
		Codec: s.Codec, Position: uint64(s.Position), LastEntryAt: timestamp(s.LastEntry), CheckpointPosition: uint64(s.Checkpoint),
		ManifestSnapshot: uint64(s.ManifestSnapshot), RememberedSince: timestamp(s.RememberedSince),
		Tables: uint32(s.Tables), OpenTransactions: uint32(s.OpenTransactions),
		OpenRounds: each(s.Rounds[:min(len(s.Rounds), maxRounds)], func(r coordinator.RoundInfo) *pb.Round {
			return roundToProto(&r)
		}),
		Frozen: each(s.Frozen, func(f coordinator.FrozenDetail) *pb.FrozenTable {
			return &pb.FrozenTable{TableId: whole(string(f.TableID)), Table: whole(f.Table), Freeze: freezeToProto(&f)}
		}),
		Opened: each(s.Opened, func(o coordinator.OpenedTable) *pb.OpenedTable {
			return &pb.OpenedTable{TableId: whole(string(o.ID)), Table: whole(o.Name), Reason: text(o.Reason, maxText)}
		}),
		Replicas: each(s.Replicas, func(r coordinator.ReplicaInfo) *pb.Replica {
			return &pb.Replica{
				Id: whole(r.ID), Address: whole(r.Address), Build: whole(r.Build), Codec: uint32(r.Codec), Position: uint64(r.Position),
				Snapshot: uint64(r.Snapshot), StartedAt: timestamp(r.Started), Silent: durationpb.New(r.Silent), Alive: r.Alive, Self: r.Self,
				ClockAhead: durationpb.New(r.ClockAhead),
			}
		}),
		HeldBack: uint32(s.HeldBack),
		Reservations: each(s.Reserved, func(r coordinator.ReservedTables) *pb.Reservation {
			return &pb.Reservation{Key: text(r.Key, maxText), Attempt: r.Attempt, Tables: each(r.Tables, whole), Since: timestamp(r.Since), UntilPosition: uint64(r.Until)}
		}),
		Troubles: each(s.Troubles, func(t coordinator.Trouble) *pb.Trouble {
			return &pb.Trouble{Place: whole(t.Place), Text: text(t.Text, maxText), Remedy: text(t.Remedy, maxText), Since: timestamp(t.Since)}
		}),
	}
}

// maxRounds is what GetStatusResponse.open_rounds holds at most.
const maxRounds = 100
