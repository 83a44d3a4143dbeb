package rpc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/txcoord/txcoord/coordinator"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// Domain stands in the ErrorInfo of every error.
const Domain = "txcoord"

// What goes into a status is cut, because it travels in a trailer, and clients
// refuse long ones (8 KiB in some).
const (
	maxText  = 1024
	maxValue = 256
)

// defaultRetry is the RetryInfo of a RESOURCE_EXHAUSTED that names no time.
const defaultRetry = time.Second

// codeOf is the table of CONTRACT.md section 4. A reason that is not in it is a
// broken invariant.
func codeOf(r coordinator.Reason) codes.Code {
	switch r {
	case coordinator.InvalidRequest, coordinator.InvalidAction, coordinator.LimitExceeded, coordinator.InvalidToken:
		return codes.InvalidArgument
	case coordinator.CatalogNotFound, coordinator.TableNotFound, coordinator.TransactionNotFound,
		coordinator.SnapshotNotFound, coordinator.LeaseNotFound:
		return codes.NotFound
	case coordinator.Conflicted, coordinator.Expired, coordinator.Aborted:
		return codes.Aborted
	case coordinator.OtherDigests, coordinator.KeyCommitted, coordinator.AppVersionApplied, coordinator.TableExists,
		coordinator.LeaseExists:
		return codes.AlreadyExists
	case coordinator.PartNotStaged, coordinator.PartUnreadable, coordinator.FeatureUnsupported,
		coordinator.DecidedNotOffered, coordinator.TableFrozen, coordinator.OutcomeExpired, coordinator.WrongMode,
		coordinator.AttemptUndecided, coordinator.TokenStale, coordinator.TableOwned, coordinator.TableProperty,
		coordinator.ChangesPending, coordinator.NotATable, coordinator.NothingToResolve,
		coordinator.TooEarly, coordinator.PlanChanged, coordinator.MaintenanceOff, coordinator.ObjectsUnsuitable:
		return codes.FailedPrecondition
	case coordinator.ReadPointTooOld, coordinator.SnapshotOutOfRange:
		return codes.OutOfRange
	case coordinator.QuotaExceeded:
		return codes.ResourceExhausted
	case coordinator.StoreUnavailable, coordinator.ObjectsUnavailable, coordinator.OutcomeUnknown,
		coordinator.ReplicaBehind, coordinator.ShuttingDown, coordinator.TableReserved:
		return codes.Unavailable
	case coordinator.LogContradiction, coordinator.JournalContradiction:
		return codes.DataLoss
	case coordinator.Unauthenticated:
		return codes.Unauthenticated
	case coordinator.PermissionDenied:
		return codes.PermissionDenied
	default:
		return codes.Internal
	}
}

// faults turns errors into statuses. What a client may not see goes to the log.
type faults struct {
	log *slog.Logger
}

// status is the one way of an error to the wire. A status stays what it is: it
// was made here before, or came from the transport.
func (f faults) status(ctx context.Context, err error) error {
	var e *coordinator.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return f.domain(ctx, e, err)
	case isContext(err):
		return f.context(ctx, err)
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return f.broken(ctx, err)
}

func (f faults) domain(ctx context.Context, e *coordinator.Error, err error) error {
	code := codeOf(e.Reason)
	if code == codes.Internal {
		return f.broken(ctx, err)
	}
	return build(code, string(e.Reason), e.Message, details(e, code))
}

// context: the caller went away or its deadline passed, which it knows itself. If
// neither is so, something inside was given up, and only the same call can tell
// what became of it.
func (f faults) context(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(err).Err()
	}
	f.log.LogAttrs(ctx, slog.LevelWarn, "an operation was given up inside the server", append(noteOf(ctx).where(), slog.Any("error", err))...)
	return build(codes.Unavailable, string(coordinator.OutcomeUnknown),
		"the operation was given up; the same call finds out what became of it", nil)
}

// broken hides the error behind an id, by which the operator finds it.
func (f faults) broken(ctx context.Context, err error) error {
	id := rand.Text()
	f.log.LogAttrs(ctx, slog.LevelError, "broken invariant", append(noteOf(ctx).where(), slog.String("id", id), slog.Any("error", err))...)
	return build(codes.Internal, string(coordinator.BrokenInvariant),
		fmt.Sprintf("internal error; the server's log has the detail under id %s", id), nil)
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func build(code codes.Code, reason, message string, more []protoadapt.MessageV1) error {
	st := status.New(code, text(message, maxText))
	info := &errdetails.ErrorInfo{Reason: reason, Domain: Domain}
	full, err := st.WithDetails(append([]protoadapt.MessageV1{info}, more...)...)
	if err != nil { // cannot happen: the code is not OK and our messages marshal
		return st.Err()
	}
	return full.Err()
}

// details are the typed details that the error carries.
func details(e *coordinator.Error, code codes.Code) []protoadapt.MessageV1 {
	var all []protoadapt.MessageV1
	add := func(present bool, make func() protoadapt.MessageV1) {
		if present {
			all = append(all, make())
		}
	}
	add(e.Conflict != nil, func() protoadapt.MessageV1 { return conflictToProto(e.Conflict) })
	add(e.Limit != nil, func() protoadapt.MessageV1 { return limitToProto(e.Limit) })
	add(e.Field != nil, func() protoadapt.MessageV1 { return fieldToProto(e.Field) })
	add(e.Frozen != nil, func() protoadapt.MessageV1 { return frozenToProto(e.Frozen) })
	add(e.Feature != nil, func() protoadapt.MessageV1 { return featureToProto(e.Feature) })
	add(e.Txn != nil, func() protoadapt.MessageV1 { return txnToProto(e.Txn) })
	add(e.Table != nil, func() protoadapt.MessageV1 { return tableDetailToProto(e.Table) })
	add(e.Owner != nil, func() protoadapt.MessageV1 { return ownerToProto(e.Owner) })
	add(code == codes.ResourceExhausted || e.RetryAfter > 0, func() protoadapt.MessageV1 { return retry(e.RetryAfter) })
	return all
}

func retry(after time.Duration) protoadapt.MessageV1 {
	if after <= 0 {
		after = defaultRetry
	}
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(after)}
}

func conflictToProto(c *coordinator.ConflictDetail) *pb.ConflictDetail {
	if c == nil {
		return nil
	}
	return &pb.ConflictDetail{
		Table: text(c.Table, maxText), TableId: text(string(c.TableID), maxText), Version: int64(c.Version),
		Rule: ruleToProto(c.Rule), Path: text(c.Path, maxText), Winner: txnID(c.Winner),
		Detail: text(c.Detail, maxText), TransactionId: txnID(c.Txn), Attempt: c.Attempt,
	}
}

func limitToProto(l *coordinator.LimitDetail) *pb.LimitDetail {
	return &pb.LimitDetail{Name: l.Name, Value: l.Value, Limit: l.Limit}
}

func fieldToProto(d *coordinator.FieldDetail) *pb.FieldDetail {
	return &pb.FieldDetail{
		Field: text(d.Field, maxText), Line: int64(d.Line), Value: text(d.Value, maxValue),
		Remedy: text(d.Remedy, maxText), Table: text(d.Table, maxText),
	}
}

func frozenToProto(d *coordinator.FrozenDetail) *pb.FrozenDetail {
	return &pb.FrozenDetail{
		Table: text(d.Table, maxText), TableId: text(string(d.TableID), maxText), Cause: causeToProto(d.Cause),
		TransactionId: txnID(d.Txn), Reason: text(d.Detail, maxText), Since: timestamp(d.Since),
	}
}

func featureToProto(d *coordinator.FeatureDetail) *pb.FeatureDetail {
	return &pb.FeatureDetail{Table: text(d.Table, maxText), Feature: text(d.Feature, maxText)}
}

func txnToProto(d *coordinator.TxnDetail) *pb.TransactionDetail {
	return &pb.TransactionDetail{TransactionId: txnID(d.Txn), Key: text(d.Key, maxText), Attempt: d.Attempt}
}

func tableDetailToProto(d *coordinator.TableDetail) *pb.TableDetail {
	return &pb.TableDetail{
		Table: text(d.Table, maxText), TableId: text(string(d.TableID), maxText), Version: int64(d.Version),
		File: text(d.File, maxText), Reason: text(d.Detail, maxText), Uri: text(d.URI, maxText), OutOfReach: d.OutOfReach,
	}
}

func ownerToProto(d *coordinator.OwnerDetail) *pb.OwnerDetail {
	return &pb.OwnerDetail{
		Uri: text(d.URI, maxText), CatalogId: text(d.Catalog, maxText), Incarnation: text(d.Incarnation, maxText),
		Since: timestamp(d.Since),
	}
}
