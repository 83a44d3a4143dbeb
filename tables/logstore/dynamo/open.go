package dynamo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/txcoord/txcoord/internal/dynamoapi"
	"github.com/txcoord/txcoord/tables/logstore"
)

// Config says which table; the zero value of all but Table is usable.
type Config struct {
	// Table is Spark's ddb.tableName.
	Table string
	// Region of the table; that of the environment or the shared configuration if empty.
	Region string
	// Endpoint is the URL of another server of the DynamoDB API; AWS's if empty.
	Endpoint string
	// Profile of the shared configuration; the default chain of credentials if empty.
	Profile string
	// AccessKey, SecretKey and SessionToken are credentials in place of the chain's.
	AccessKey, SecretKey, SessionToken string
	// RequestTimeout bounds each request; default 3 s.
	RequestTimeout time.Duration
	// Log; discards if nil.
	Log *slog.Logger
}

// Entries are the entries in a DynamoDB table.
type Entries struct {
	table *dynamoapi.Table
	log   *slog.Logger
}

var _ logstore.Entries = (*Entries)(nil)

// Why a table of entries cannot be used. The error around it says what to do.
var (
	// ErrMisconfigured: the configuration makes no sense. Nobody was asked.
	ErrMisconfigured = errors.New("log store misconfigured")
	// ErrUnfit: it is not a table of entries, or none that protects anything.
	ErrUnfit = errors.New("log store unfit")
	// ErrMissing: there is no such table.
	ErrMissing = errors.New("log store missing")
	// ErrDenied: the credentials are missing, wrong, or lack a permission.
	ErrDenied = errors.New("log store access denied")
	// ErrUnreachable: nobody answers.
	ErrUnreachable = errors.New("log store unreachable")
)

// Open connects to a table, and looks whether entries of Spark can be in it. It makes
// nothing: who owns the table makes it.
func Open(ctx context.Context, c Config) (*Entries, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	t, err := dynamoapi.Connect(ctx, dynamoapi.Config{
		Name: c.Table, Region: c.Region, Endpoint: c.Endpoint, Profile: c.Profile,
		AccessKey: c.AccessKey, SecretKey: c.SecretKey, SessionToken: c.SessionToken, RequestTimeout: c.RequestTimeout, Log: c.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("open log store: %w: %w", ErrMisconfigured, err)
	}
	s := &Entries{t, c.Log}
	if err := s.check(ctx); err != nil {
		t.Close()
		return nil, fmt.Errorf("open log store: %w", err)
	}
	return s, nil
}

// Name of the table, for logstore.Config.
func (s *Entries) Name() string { return s.table.ID() }

// Close lets go of the connections.
func (s *Entries) Close() error {
	s.table.Close()
	return nil
}

func (s *Entries) check(ctx context.Context) error {
	d, err := s.table.Describe(ctx)
	if dynamoapi.KindOf(err) == dynamoapi.Forbidden {
		s.log.Warn("the log store was not checked: no permission dynamodb:DescribeTable", "table", s.table.Name)
		return nil
	}
	if err != nil {
		return s.explain(err)
	}
	switch {
	case !dynamoapi.HasKeys(d, tablePathAttr, fileNameAttr):
		return fmt.Errorf("%s: %w: its keys are not %s and %s, both text; name the table that Spark's log store uses", s.table.Where, ErrUnfit, tablePathAttr, fileNameAttr)
	case len(d.Replicas) > 0:
		return fmt.Errorf("%s: %w: it is a global table, whose regions do not see each other's claims; use a table in one region", s.table.Where, ErrUnfit)
	}
	if b := d.BillingModeSummary; b == nil || b.BillingMode != types.BillingModePayPerRequest {
		s.log.Warn("the log store has a fixed capacity, and commits fail beyond it; bill it on demand", "table", s.table.Name)
	}
	s.checkExpiry(ctx)
	return nil
}

// checkExpiry warns if the entries pile up, or go by another time than Spark's.
func (s *Entries) checkExpiry(ctx context.Context) {
	var out *dynamodb.DescribeTimeToLiveOutput
	err := s.table.Read(ctx, func(ctx context.Context) (err error) {
		out, err = s.table.Client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.table.Name})
		return err
	})
	if err != nil || out.TimeToLiveDescription == nil {
		return // it is a hint, and a permission of its own
	}
	switch d := out.TimeToLiveDescription; {
	case d.TimeToLiveStatus != types.TimeToLiveStatusEnabled && d.TimeToLiveStatus != types.TimeToLiveStatusEnabling:
		s.log.Warn("entries of the log store never expire; let DynamoDB remove them by "+expiresAttr, "table", s.table.Name)
	case aws.ToString(d.AttributeName) != expiresAttr:
		s.log.Error("the log store removes entries by another attribute than "+expiresAttr+", and commits may be lost; correct its time to live",
			"table", s.table.Name, "attribute", aws.ToString(d.AttributeName))
	}
}

// explain adds what can be done about an error.
func (s *Entries) explain(err error) error {
	where, table := s.table.Where, "table "+s.table.Name+" of the log store"
	switch dynamoapi.KindOf(err) {
	case dynamoapi.Missing:
		err = &logstore.Refusal{
			Reason: ErrMissing, Text: "there is no " + table, Err: err,
			Remedy: "let Spark make it, make it as the documentation says, or correct its name, the region or the account",
		}
	case dynamoapi.Denied:
		err = &logstore.Refusal{
			Reason: ErrDenied, Text: table + " does not accept the credentials", Err: err,
			Remedy: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role of the machine",
		}
	case dynamoapi.Forbidden:
		err = &logstore.Refusal{
			Reason: ErrDenied, Text: "the credentials lack a permission on " + table, Err: err,
			Remedy: "txcoord needs dynamodb:GetItem, PutItem, UpdateItem, Query and DescribeTable on it",
		}
	case dynamoapi.Unanswered:
		err = &logstore.Refusal{Reason: ErrUnreachable, Text: table + " does not answer", Err: err, Remedy: "correct the endpoint or the region"}
	case dynamoapi.Other:
	}
	return fmt.Errorf("%s: %w", where, err)
}
