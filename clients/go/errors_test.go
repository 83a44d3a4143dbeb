package client_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// classes are all of them, by code.
var classes = map[codes.Code][]error{
	codes.InvalidArgument:    {client.ErrInvalid},
	codes.NotFound:           {client.ErrNotFound},
	codes.Aborted:            {client.ErrAborted, client.ErrConflict, client.ErrExpired},
	codes.AlreadyExists:      {client.ErrAlreadyExists},
	codes.FailedPrecondition: {client.ErrPrecondition, client.ErrFrozen, client.ErrOutcomeExpired},
	codes.OutOfRange:         {client.ErrOutOfRange},
	codes.ResourceExhausted:  {client.ErrExhausted},
	codes.Unavailable:        {client.ErrUnavailable},
	codes.DataLoss:           {client.ErrDataLoss},
	codes.Unauthenticated:    {client.ErrUnauthenticated},
	codes.PermissionDenied:   {client.ErrDenied},
	codes.Internal:           {client.ErrInternal},
}

// narrow are the classes that one reason alone belongs to.
var narrow = map[string]error{
	"CONFLICT":        client.ErrConflict,
	"EXPIRED":         client.ErrExpired,
	"TABLE_FROZEN":    client.ErrFrozen,
	"OUTCOME_EXPIRED": client.ErrOutcomeExpired,
}

// contract reads the code of each reason out of the comments of errors.proto.
func contract(t *testing.T) map[string]codes.Code {
	t.Helper()
	text, err := os.ReadFile("../../proto/txcoord/v1/errors.proto")
	if err != nil {
		t.Fatal(err)
	}
	entry := regexp.MustCompile(`(?m)^  // ([A-Z_]+): (?:.*\n(?:  //.*\n)*?)  ERROR_REASON_([A-Z_]+) = `)
	all := map[string]codes.Code{}
	for _, m := range entry.FindAllStringSubmatch(string(text), -1) {
		var c codes.Code
		if err := c.UnmarshalJSON([]byte(`"` + m[1] + `"`)); err != nil {
			t.Fatal(err)
		}
		all[m[2]] = c
	}
	return all
}

func TestEveryReasonHasItsCodeAndClasses(t *testing.T) {
	reasons := contract(t)
	for name, n := range txcoordv1.ErrorReason_value {
		reason := strings.TrimPrefix(name, "ERROR_REASON_")
		code, ok := reasons[reason]
		if n == 0 {
			continue
		}
		if !ok {
			t.Errorf("errors.proto does not say which code %s has", reason)
			continue
		}
		err := client.FromStatus(status.Convert(fail(code, reason)))
		for c, all := range classes {
			for i, class := range all {
				want := c == code && (i == 0 || errors.Is(narrow[reason], class))
				if errors.Is(err, class) != want {
					t.Errorf("%s (%s) is %v: %v, want %v", reason, code, class, !want, want)
				}
			}
		}
	}
}

// Each detail comes out as it went in, and the status of an error makes an equal
// error.
func TestErrorsGoBothWays(t *testing.T) {
	details := []protoadapt.MessageV1{
		&txcoordv1.ConflictDetail{Table: "orders", Version: 12, Rule: txcoordv1.Rule_RULE_APPEND_READ, Path: "a b", Winner: "w"},
		&txcoordv1.LimitDetail{Name: "line_bytes", Value: 3, Limit: 2},
		&txcoordv1.FieldDetail{Field: "add.size", Line: 4, Value: "x", Remedy: "a number"},
		&txcoordv1.FrozenDetail{Table: "orders", Cause: txcoordv1.FreezeCause_FREEZE_CAUSE_DIVERGED},
		&txcoordv1.FeatureDetail{Table: "orders", Feature: "clustering"},
		&txcoordv1.TransactionDetail{TransactionId: "t", Key: "k", Attempt: 2},
		&txcoordv1.TableDetail{Table: "orders", File: "00000000000000000003.json"},
		&txcoordv1.OwnerDetail{CatalogId: "c"},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)},
	}
	want := &client.Error{
		Code: codes.Aborted, Reason: "CONFLICT", Message: "told by the test",
		Conflict:    details[0].(*txcoordv1.ConflictDetail),
		Limit:       details[1].(*txcoordv1.LimitDetail),
		Field:       details[2].(*txcoordv1.FieldDetail),
		Frozen:      details[3].(*txcoordv1.FrozenDetail),
		Feature:     details[4].(*txcoordv1.FeatureDetail),
		Transaction: details[5].(*txcoordv1.TransactionDetail),
		Table:       details[6].(*txcoordv1.TableDetail),
		Owner:       details[7].(*txcoordv1.OwnerDetail),
		RetryAfter:  time.Second,
	}
	opts := cmp.Options{protocmp.Transform(), cmpopts.IgnoreUnexported(client.Error{})}
	got := client.FromStatus(status.Convert(fail(codes.Aborted, "CONFLICT", details...)))
	if d := cmp.Diff(want, got, opts); d != "" {
		t.Errorf("from a status (-want +got):\n%s", d)
	}
	if d := cmp.Diff(got, client.FromStatus(status.Convert(got)), opts); d != "" {
		t.Errorf("there and back (-want +got):\n%s", d)
	}
}

func TestErrorsThatNoServerOfOursMade(t *testing.T) {
	for _, c := range []struct {
		code    codes.Code
		message string
		is      []error
		isNot   []error
	}{
		{codes.Unavailable, "connection refused", []error{client.ErrUnavailable}, nil},
		{codes.Internal, "RST_STREAM", []error{client.ErrUnavailable}, []error{client.ErrInternal}},
		{codes.Internal, "grpc: error while marshaling: bad UTF-8", []error{client.ErrInternal}, []error{client.ErrUnavailable}},
		{codes.DeadlineExceeded, "", []error{client.ErrUnavailable, context.DeadlineExceeded}, nil},
		{codes.Canceled, "", []error{client.ErrUnavailable, context.Canceled}, nil},
		{codes.Unimplemented, "", nil, []error{client.ErrUnavailable}},
	} {
		err := client.FromStatus(status.New(c.code, c.message))
		for _, class := range c.is {
			if !errors.Is(err, class) {
				t.Errorf("%v is not %v", err, class)
			}
		}
		for _, class := range c.isNot {
			if errors.Is(err, class) {
				t.Errorf("%v is %v", err, class)
			}
		}
	}
}

// A client without a token that is refused says so; one that has a token does not, nor is it
// said of other errors.
func TestARefusedClientSaysThatItHasNoToken(t *testing.T) {
	const hint = "; this client shows no token: Options.Token"
	for code, hinted := range map[codes.Code]bool{codes.PermissionDenied: true, codes.Unauthenticated: true, codes.NotFound: false} {
		refuse := func(string, int) error { return status.Error(code, "no") }
		for _, o := range []client.Options{{}, {Token: func() (string, error) { return "t", nil }, Credentials: insecure.NewCredentials()}} {
			c := start(t, &server{onCall: refuse}, o)
			_, err := c.Transactions.Begin(t.Context(), &txcoordv1.BeginRequest{Key: "k"})
			var e *client.Error
			if !errors.As(err, &e) || e.Message != "no" || strings.HasSuffix(err.Error(), hint) != (hinted && o.Token == nil) {
				t.Errorf("%s with a token %t: %v", code, o.Token != nil, err)
			}
		}
	}
}

// An empty token is a mistake, and its caller is not anonymous instead.
func TestAnEmptyTokenIsNotShown(t *testing.T) {
	s := &server{onCall: func(method string, _ int) error { t.Errorf("%s was called", method); return nil }}
	c := start(t, s, client.Options{Token: func() (string, error) { return " \n", nil }, Credentials: insecure.NewCredentials()})
	_, err := c.Transactions.Begin(t.Context(), &txcoordv1.BeginRequest{Key: "k"})
	if !errors.Is(err, client.ErrUnauthenticated) || !strings.Contains(err.Error(), "the token of Options.Token is empty") {
		t.Errorf("got %v", err)
	}
}
