package rpc

// From the wire to the domain. Every function returns a valid value or a
// *coordinator.Error that names the field, the value and what would do instead.
// What needs the catalog to judge it (does the table exist, is the key too long)
// is the domain's.

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/txcoord/txcoord/coordinator"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/twophase"
)

// refuse names what has to be mended. The remedy is a whole clause.
func refuse(field string, value any, remedy string) error {
	shown := text(fmt.Sprint(value), maxValue)
	return &coordinator.Error{
		Reason:  coordinator.InvalidRequest,
		Message: fmt.Sprintf("%s: %q: %s", field, shown, remedy),
		Field:   &coordinator.FieldDetail{Field: field, Value: shown, Remedy: remedy},
	}
}

func tooMany(name string, value, limit int) error {
	return &coordinator.Error{
		Reason:  coordinator.LimitExceeded,
		Message: fmt.Sprintf("%s is %d, the limit is %d", name, value, limit),
		Limit:   &coordinator.LimitDetail{Name: name, Value: int64(value), Limit: int64(limit)},
	}
}

func required(field, value string) error {
	if value == "" {
		return refuse(field, value, "it is required")
	}
	return nil
}

// duration: unset is 0, negative or out of range is refused.
func duration(field string, d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil || d.AsDuration() < 0 {
		return 0, refuse(field, fmt.Sprintf("%ds %dns", d.GetSeconds(), d.GetNanos()), "give a duration of 0 or more, or leave it out")
	}
	return d.AsDuration(), nil
}

// instant: unset is the zero time.
func instant(field string, t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	if t.CheckValid() != nil || t.AsTime().IsZero() {
		return time.Time{}, refuse(field, fmt.Sprintf("%ds %dns", t.GetSeconds(), t.GetNanos()), "give a time between the years 1 and 9999, or leave it out")
	}
	return t.AsTime(), nil
}

// ---- transactions

func beginFromProto(q *pb.BeginRequest, client string) (coordinator.BeginRequest, error) {
	ttl, err := duration("ttl", q.GetTtl())
	switch {
	case err != nil:
		return coordinator.BeginRequest{}, err
	case q.GetToken() != "" && q.GetKey() != "":
		return coordinator.BeginRequest{}, refuse("key", q.GetKey(), "leave it out with a token: the token names the transaction")
	case q.GetToken() != "" && q.GetAttempt() != 0:
		return coordinator.BeginRequest{}, refuse("attempt", q.GetAttempt(), "leave it out with a token: the token names the transaction")
	case q.GetToken() == "" && q.GetKey() == "" && q.GetAttempt() != 0:
		return coordinator.BeginRequest{}, refuse("attempt", q.GetAttempt(), "it counts the attempts of a key, so give a key or leave it out")
	}
	return coordinator.BeginRequest{
		Key: q.GetKey(), Attempt: attempt(q.GetKey(), q.GetAttempt()), TTL: ttl, Token: q.GetToken(), Client: client,
	}, nil
}

// attempt: with a key, 0 means 1.
func attempt(key string, n uint32) uint32 {
	if key != "" && n == 0 {
		return 1
	}
	return n
}

func stageFromProto(q *pb.StageRequest, client string) (coordinator.StageRequest, error) {
	out, err := headerFromProto(q, client)
	out.Actions = q.GetActions()
	return out, err
}

// header is what StageRequest and StageHeader share.
type header interface {
	GetToken() string
	GetTable() string
	GetRead() *pb.ReadDeclaration
	GetCreate() *pb.NewTable
	GetAlter() *pb.TableAlteration
}

func headerFromProto(q header, client string) (coordinator.StageRequest, error) {
	if err := required("token", q.GetToken()); err != nil {
		return coordinator.StageRequest{}, err
	}
	if err := required("table", q.GetTable()); err != nil {
		return coordinator.StageRequest{}, err
	}
	t, err := changeFromProto("", q)
	if err != nil {
		return coordinator.StageRequest{}, err
	}
	return coordinator.StageRequest{Token: q.GetToken(), Table: t.Table, Read: t.Read, Client: client, Create: t.Create, Alter: t.Alter}, nil
}

func commitFromProto(q *pb.CommitRequest, client string) (coordinator.CommitRequest, error) {
	out := coordinator.CommitRequest{Token: q.GetToken(), VerifyFiles: q.GetVerifyFiles(), Client: client}
	if err := required("token", q.GetToken()); err != nil {
		return out, err
	}
	if len(q.GetTables())+len(q.GetReleases()) == 0 {
		return out, refuse("tables", "", "list at least one table")
	}
	seen := names{}
	for i, t := range q.GetTables() {
		parts, err := partsFromProto(fmt.Sprintf("tables[%d]", i), t, seen)
		if err != nil {
			return out, err
		}
		out.Tables = append(out.Tables, parts)
	}
	var err error
	if out.Reads, err = readsFromProto(q.GetReads(), seen); err != nil {
		return out, err
	}
	if out.Releases, err = releasesFromProto(q.GetReleases()); err != nil {
		return out, err
	}
	out.Wait, out.WaitLimit, err = waitFromProto(q.GetWait(), q.GetWaitLimit())
	return out, err
}

// names refuses a table that is listed twice under one name. The domain does the
// same for its names, id and URI together.
type names map[string]string

func (n names) take(field, table string) error {
	if err := required(field, table); err != nil {
		return err
	}
	if first, twice := n[table]; twice {
		return refuse(field, table, "it stands at "+first+" already; list each table once")
	}
	n[table] = field
	return nil
}

func partsFromProto(field string, t *pb.TableParts, seen names) (coordinator.TableParts, error) {
	out := coordinator.TableParts{Table: t.GetTable()}
	if err := seen.take(field+".table", t.GetTable()); err != nil {
		return out, err
	}
	if len(t.GetDigests()) == 0 {
		return out, refuse(field+".digests", "", "list at least one digest that Stage answered")
	}
	for i, s := range t.GetDigests() {
		f := fmt.Sprintf("%s.digests[%d]", field, i)
		d, err := twophase.ParseHash(s)
		if err != nil {
			return out, refuse(f, s, "give the 64 hex digits that Stage answered")
		}
		if slices.Contains(out.Digests, d) {
			return out, refuse(f, s, "list each digest once")
		}
		out.Digests = append(out.Digests, d)
	}
	return out, nil
}

func readsFromProto(all []*pb.ReadParticipant, seen names) ([]coordinator.ReadOnly, error) {
	var out []coordinator.ReadOnly
	for i, p := range all {
		field := fmt.Sprintf("reads[%d]", i)
		if err := seen.take(field+".table", p.GetTable()); err != nil {
			return nil, err
		}
		if p.GetRead().GetBlind() || p.GetRead().GetReadSet().GetWhat() == nil {
			return nil, refuse(field+".read", "", "a table that is only read needs a read point and a read set")
		}
		read, err := readFromProto(field+".read", p.GetRead())
		if err != nil {
			return nil, err
		}
		out = append(out, coordinator.ReadOnly{Table: p.GetTable(), Read: read})
	}
	return out, nil
}

func waitFromProto(w pb.Wait, limit *durationpb.Duration) (coordinator.Wait, time.Duration, error) {
	d, err := duration("wait_limit", limit)
	if err != nil {
		return 0, 0, err
	}
	if limit != nil && d == 0 {
		return 0, 0, refuse("wait_limit", "0s", "give a duration above 0, or leave it out to wait as long as the call lives")
	}
	switch w {
	case pb.Wait_WAIT_UNSPECIFIED, pb.Wait_WAIT_PUBLISHED:
		return coordinator.WaitPublished, d, nil
	case pb.Wait_WAIT_DECIDED:
		return coordinator.WaitDecided, d, nil
	default:
		return 0, 0, refuse("wait", w, "give WAIT_PUBLISHED or WAIT_DECIDED")
	}
}

func onceFromProto(q *pb.CommitOnceRequest, client string) (coordinator.OnceRequest, error) {
	out := coordinator.OnceRequest{
		Key: q.GetKey(), Attempt: attempt(q.GetKey(), q.GetAttempt()), VerifyFiles: q.GetVerifyFiles(), Client: client,
	}
	if err := required("key", q.GetKey()); err != nil {
		return out, err
	}
	if len(q.GetTables())+len(q.GetReleases()) == 0 {
		return out, refuse("tables", "", "list at least one table")
	}
	seen := names{}
	for i, t := range q.GetTables() {
		field := fmt.Sprintf("tables[%d]", i)
		if err := seen.take(field+".table", t.GetTable()); err != nil {
			return out, err
		}
		once, err := changeFromProto(field+".", t)
		if err != nil {
			return out, err
		}
		once.Actions = t.GetActions()
		out.Tables = append(out.Tables, once)
	}
	var err error
	if out.Reads, err = readsFromProto(q.GetReads(), seen); err != nil {
		return out, err
	}
	if out.Releases, err = releasesFromProto(q.GetReleases()); err != nil {
		return out, err
	}
	out.Wait, out.WaitLimit, err = waitFromProto(q.GetWait(), q.GetWaitLimit())
	return out, err
}

func abortFromProto(q *pb.AbortRequest) (coordinator.OutcomeRef, string, error) {
	reason := text(q.GetReason(), maxText)
	switch t := q.GetTransaction().(type) {
	case *pb.AbortRequest_Token:
		return coordinator.OutcomeRef{Token: t.Token}, reason, required("token", t.Token)
	case *pb.AbortRequest_TransactionId:
		id, err := txnFromProto(t.TransactionId)
		return coordinator.OutcomeRef{Txn: id}, reason, err
	default:
		return coordinator.OutcomeRef{}, "", refuse("transaction", "", "name it by token or by transaction_id")
	}
}

func txnFromProto(s string) (twophase.TxnID, error) {
	id, err := twophase.ParseTxnID(s)
	if err != nil || id.IsZero() {
		return twophase.TxnID{}, refuse("transaction_id", s, "give the 32 hex digits that Begin answered")
	}
	return id, nil
}

func outcomeFromProto(q *pb.GetOutcomeRequest) (coordinator.OutcomeRequest, error) {
	out := coordinator.OutcomeRequest{Resolve: q.GetResolve()}
	var err error
	if out.BegunAfter, err = instant("begun_after", q.GetBegunAfter()); err != nil {
		return out, err
	}
	switch t := q.GetTransaction().(type) {
	case *pb.GetOutcomeRequest_Token:
		out.Token, err = t.Token, required("token", t.Token)
	case *pb.GetOutcomeRequest_Key:
		out.Key, out.Attempt, err = t.Key, q.GetAttempt(), required("key", t.Key)
		if q.GetResolve() {
			out.Attempt = attempt(t.Key, q.GetAttempt())
		}
		return out, err
	case *pb.GetOutcomeRequest_TransactionId:
		out.Txn, err = txnFromProto(t.TransactionId)
		if err == nil && q.GetResolve() {
			err = refuse("resolve", true, "an id alone cannot be resolved; name the transaction by token, or by key")
		}
	default:
		err = refuse("transaction", "", "name it by token, by key or by transaction_id")
	}
	if err == nil && q.GetAttempt() != 0 {
		err = refuse("attempt", q.GetAttempt(), "it counts the attempts of a key, so give a key or leave it out")
	}
	return out, err
}

// explainedFromProto names a transaction as GetOutcome does.
func explainedFromProto(q *pb.ExplainTransactionRequest) (coordinator.OutcomeRef, error) {
	in := &pb.GetOutcomeRequest{Attempt: q.GetAttempt()}
	switch t := q.GetTransaction().(type) {
	case *pb.ExplainTransactionRequest_Token:
		in.Transaction = &pb.GetOutcomeRequest_Token{Token: t.Token}
	case *pb.ExplainTransactionRequest_Key:
		in.Transaction = &pb.GetOutcomeRequest_Key{Key: t.Key}
	case *pb.ExplainTransactionRequest_TransactionId:
		in.Transaction = &pb.GetOutcomeRequest_TransactionId{TransactionId: t.TransactionId}
	}
	out, err := outcomeFromProto(in)
	return out.OutcomeRef, err
}

func listFromProto(q *pb.ListTransactionsRequest) coordinator.ListRequest {
	return coordinator.ListRequest{
		Table: q.GetTable(), IncludeDecided: q.GetIncludeDecided(),
		PageSize: pageSize(q.GetPageSize()), PageToken: q.GetPageToken(),
	}
}

// ---- tables

func modeFromProto(m pb.TableMode) (twophase.Mode, error) {
	switch m {
	case pb.TableMode_TABLE_MODE_OPEN:
		return twophase.ModeOpen, nil
	case pb.TableMode_TABLE_MODE_EXCLUSIVE:
		return twophase.ModeExclusive, nil
	case pb.TableMode_TABLE_MODE_FENCED:
		return twophase.ModeFenced, nil
	case pb.TableMode_TABLE_MODE_DELTA_STORAGE:
		return twophase.ModeDeltaStorage, nil
	default:
		return 0, refuse("mode", m, "give TABLE_MODE_OPEN, TABLE_MODE_EXCLUSIVE, TABLE_MODE_FENCED or TABLE_MODE_DELTA_STORAGE")
	}
}

// modeOrOpen: unset means open.
func modeOrOpen(m pb.TableMode) (twophase.Mode, error) {
	if m == pb.TableMode_TABLE_MODE_UNSPECIFIED {
		return twophase.ModeOpen, nil
	}
	return modeFromProto(m)
}

func registerFromProto(q *pb.RegisterTableRequest) (coordinator.RegisterRequest, error) {
	out := coordinator.RegisterRequest{
		Name: q.GetName(), URI: q.GetUri(), TakeOver: q.GetTakeOver(), OneTxnPerVersion: q.GetOneTxnPerVersion(),
	}
	if err := required("name", q.GetName()); err != nil {
		return out, err
	}
	if err := required("uri", q.GetUri()); err != nil {
		return out, err
	}
	var err error
	out.Mode, err = modeOrOpen(q.GetMode())
	return out, err
}

func createFromProto(q *pb.CreateTableRequest) (coordinator.CreateRequest, error) {
	out := coordinator.CreateRequest{
		Name: q.GetName(), URI: q.GetUri(), Schema: q.GetSchemaJson(), PartitionColumns: q.GetPartitionColumns(),
		Properties: q.GetProperties(), Description: q.GetDescription(), OneTxnPerVersion: q.GetOneTxnPerVersion(),
	}
	for _, f := range [][2]string{{"name", q.GetName()}, {"uri", q.GetUri()}, {"schema_json", q.GetSchemaJson()}} {
		if err := required(f[0], f[1]); err != nil {
			return out, err
		}
	}
	var err error
	out.Mode, err = modeOrOpen(q.GetMode())
	return out, err
}

// ---- snapshots

func snapshotFromProto(q *pb.GetSnapshotRequest) (ref coordinator.SnapshotRef, err error) {
	switch s := q.GetSelect().(type) {
	case nil:
	case *pb.GetSnapshotRequest_Version:
		ref.Version = twophase.SnapshotVersion(s.Version)
		if s.Version == 0 {
			err = refuse("version", 0, "snapshots count from 1; leave it out for the latest")
		}
	case *pb.GetSnapshotRequest_Timestamp:
		if s.Timestamp == nil {
			s.Timestamp = &timestamppb.Timestamp{}
		}
		ref.Time, err = instant("timestamp", s.Timestamp)
	case *pb.GetSnapshotRequest_Tag:
		ref.Tag, err = s.Tag, required("tag", s.Tag)
	}
	return ref, err
}

func diffFromProto(q *pb.DiffSnapshotsRequest) (from, to twophase.SnapshotVersion, err error) {
	if q.GetTo() != 0 && q.GetFrom() > q.GetTo() {
		return 0, 0, refuse("from", q.GetFrom(), fmt.Sprintf("give one that is not above to (%d)", q.GetTo()))
	}
	return twophase.SnapshotVersion(q.GetFrom()), twophase.SnapshotVersion(q.GetTo()), nil
}

// maxTag is the length of a tag in bytes.
const maxTag = 255

func tagFromProto(q *pb.TagSnapshotRequest) (string, twophase.SnapshotVersion, error) {
	if err := required("tag", q.GetTag()); err != nil {
		return "", 0, err
	}
	if len(q.GetTag()) > maxTag {
		return "", 0, tooMany("tag_bytes", len(q.GetTag()), maxTag)
	}
	return q.GetTag(), twophase.SnapshotVersion(q.GetSnapshotVersion()), nil
}
