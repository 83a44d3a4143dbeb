package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// What errors.Is compares an error of this package with. Several may fit: a
// conflict is both ErrConflict and ErrAborted.
var (
	// ErrInvalid: the request has to be mended; Error.Field or Error.Limit says where.
	ErrInvalid = ofCode(codes.InvalidArgument)
	// ErrNotFound: no such catalog, table or snapshot; or a transaction that is not
	// known at that server, which is never a final negative.
	ErrNotFound = ofCode(codes.NotFound)
	// ErrAborted: the transaction is aborted, for ever; it lost a conflict, its
	// deadline passed, or somebody aborted it.
	ErrAborted = ofCode(codes.Aborted)
	// ErrConflict: it is aborted because of Error.Conflict.
	ErrConflict = ofReason(codes.Aborted, txcoordv1.ErrorReason_ERROR_REASON_CONFLICT)
	// ErrExpired: it is aborted because its deadline passed.
	ErrExpired = ofReason(codes.Aborted, txcoordv1.ErrorReason_ERROR_REASON_EXPIRED)
	// ErrAlreadyExists: it is done already, or the name is taken. Never repeat it.
	ErrAlreadyExists = ofCode(codes.AlreadyExists)
	// ErrPrecondition: something else has to be done first; Error.Reason says what.
	ErrPrecondition = ofCode(codes.FailedPrecondition)
	// ErrFrozen: a table takes no commits; Error.Frozen says why.
	ErrFrozen = ofReason(codes.FailedPrecondition, txcoordv1.ErrorReason_ERROR_REASON_TABLE_FROZEN)
	// ErrOutcomeExpired: the transaction is older than what the catalog remembers.
	ErrOutcomeExpired = ofReason(codes.FailedPrecondition, txcoordv1.ErrorReason_ERROR_REASON_OUTCOME_EXPIRED)
	// ErrOutOfRange: the read point, or the snapshot, is too old.
	ErrOutOfRange = ofCode(codes.OutOfRange)
	// ErrExhausted: a quota is used up; Error.RetryAfter says how long to wait.
	ErrExhausted = ofCode(codes.ResourceExhausted)
	// ErrUnavailable: no server answered, or the outcome is unknown.
	ErrUnavailable = ofCode(codes.Unavailable)
	// ErrUnreached: nobody listens at any address, and none has before (Options.FailFast): no
	// server was asked for anything.
	ErrUnreached = errors.New("txcoord: no server was reached")
	// ErrDataLoss: a log or the journal is damaged; an operator has to look.
	ErrDataLoss = ofCode(codes.DataLoss)
	// ErrUnauthenticated and ErrDenied: not without other credentials.
	ErrUnauthenticated = ofCode(codes.Unauthenticated)
	ErrDenied          = ofCode(codes.PermissionDenied)
	// ErrInternal: a bug of the server.
	ErrInternal = ofCode(codes.Internal)
)

// class is a set of errors: all of a code, or those of one reason.
type class struct {
	code   codes.Code
	reason txcoordv1.ErrorReason
}

func ofCode(c codes.Code) error { return class{code: c} }

func ofReason(c codes.Code, r txcoordv1.ErrorReason) error { return class{code: c, reason: r} }

func (c class) Error() string {
	if c.reason == 0 {
		return "txcoord: " + c.code.String()
	}
	return "txcoord: " + reasonName(c.reason)
}

// Error is what a server answered. Details that do not apply are nil.
type Error struct {
	// Code is the gRPC code.
	Code codes.Code
	// Reason is the stable name of what went wrong (ErrorReason in errors.proto,
	// without its prefix). Empty: the error is not from a txcoord server.
	Reason string
	// Message is for people.
	Message string

	Conflict    *txcoordv1.ConflictDetail
	Limit       *txcoordv1.LimitDetail
	Field       *txcoordv1.FieldDetail
	Frozen      *txcoordv1.FrozenDetail
	Feature     *txcoordv1.FeatureDetail
	Transaction *txcoordv1.TransactionDetail
	Table       *txcoordv1.TableDetail
	Owner       *txcoordv1.OwnerDetail
	// RetryAfter is how long the server asks to wait; 0 if it does not.
	RetryAfter time.Duration

	unmet     error // why client and server did not meet: an error about TLS, or ErrUnreached
	tokenless bool  // the client that was refused has no token
	status    *status.Status
}

func (e *Error) Error() string {
	name, more := e.Reason, ""
	if name == "" {
		name = e.Code.String()
	}
	if e.tokenless {
		more = "; this client shows no token: Options.Token"
	}
	return fmt.Sprintf("%s: %s%s", name, e.Message, more)
}

// Is makes errors.Is find the classes above. A broken connection, which no server
// of ours reported, is ErrUnavailable whatever gRPC calls it.
func (e *Error) Is(target error) bool {
	c, ok := target.(class)
	if !ok {
		return e.unmet != nil && target == e.unmet
	}
	if e.lost() {
		return c.code == codes.Unavailable
	}
	return c.code == e.Code && (c.reason == 0 || reasonName(c.reason) == e.Reason)
}

// lost reports whether the answer of the server, if there was one, did not come
// through: no server of ours made the error, so the call may have been carried out.
func (e *Error) lost() bool {
	if e.Reason != "" {
		return false
	}
	switch e.Code {
	case codes.Unavailable, codes.Unknown, codes.Canceled, codes.DeadlineExceeded:
		return true
	case codes.Internal:
		// gRPC's word for a torn stream, and for a request that it cannot encode.
		return !strings.Contains(e.Message, "error while marshaling")
	default:
		return false
	}
}

// Unwrap lets errors.Is see that it was the caller's context that ended.
func (e *Error) Unwrap() error {
	switch e.Code {
	case codes.Canceled:
		return context.Canceled
	case codes.DeadlineExceeded:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// GRPCStatus returns the status that the error was made from.
func (e *Error) GRPCStatus() *status.Status { return e.status }

const domain = "txcoord"

// FromStatus turns a status with its details into an Error. Details that this
// build does not know are left out.
func FromStatus(s *status.Status) *Error {
	e := &Error{Code: s.Code(), Message: s.Message(), status: s}
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == domain {
				e.Reason = d.GetReason()
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = d.GetRetryDelay().AsDuration()
		case *txcoordv1.ConflictDetail:
			e.Conflict = d
		case *txcoordv1.LimitDetail:
			e.Limit = d
		case *txcoordv1.FieldDetail:
			e.Field = d
		case *txcoordv1.FrozenDetail:
			e.Frozen = d
		case *txcoordv1.FeatureDetail:
			e.Feature = d
		case *txcoordv1.TransactionDetail:
			e.Transaction = d
		case *txcoordv1.TableDetail:
			e.Table = d
		case *txcoordv1.OwnerDetail:
			e.Owner = d
		}
	}
	return e
}

// fromRPC turns what gRPC returned into an Error. The end of a stream stays io.EOF.
func fromRPC(err error) error {
	var e *Error
	if err == nil || errors.Is(err, io.EOF) || errors.As(err, &e) {
		return err
	}
	return FromStatus(status.Convert(err))
}

func hasReason(err error, r txcoordv1.ErrorReason) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == reasonName(r)
}

const reasonPrefix = "ERROR_REASON_"

func reasonName(r txcoordv1.ErrorReason) string { return r.String()[len(reasonPrefix):] }
