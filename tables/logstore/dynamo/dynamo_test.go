//go:build unix

package dynamo_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/tables/logstore"
	"github.com/txcoord/txcoord/tables/logstore/dynamo"
	"github.com/txcoord/txcoord/tables/logstore/sparktest"
)

const path = "s3a://lake/orders"

func name(v int) string { return fmt.Sprintf("%020d.json", v) }

func config(s *servers.Dynamo) dynamo.Config {
	return dynamo.Config{Table: "delta_log", Region: s.Region, Endpoint: s.Endpoint, AccessKey: s.AccessKey, SecretKey: s.SecretKey}
}

// spark makes the table as Spark does, and asks as Spark does.
func spark(t testing.TB, s *servers.Dynamo) *sparktest.Dynamo {
	t.Helper()
	d := sparktest.Connect(s.Endpoint, s.Region, s.AccessKey, s.SecretKey, "delta_log")
	if err := d.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

func open(t testing.TB, c dynamo.Config) *dynamo.Entries {
	t.Helper()
	e, err := dynamo.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// What we write is what Spark reads, to the type of each attribute, and the reverse.
func TestEntriesAreSparks(t *testing.T) {
	t.Parallel()
	s := servers.StartKumo(t)
	theirs := spark(t, s)
	ours := open(t, config(s))
	ctx := t.Context()
	if _, err := ours.Get(ctx, path, name(1)); !errors.Is(err, logstore.ErrNoEntry) {
		t.Errorf("no entry: %v", err)
	}
	if _, err := ours.Newest(ctx, path); !errors.Is(err, logstore.ErrNoEntry) {
		t.Errorf("no newest entry: %v", err)
	}
	mine := logstore.Entry{TablePath: path, FileName: name(1), TempPath: ".tmp/x"}
	if _, err := ours.Claim(ctx, mine); err != nil {
		t.Fatal(err)
	}
	want := map[string]types.AttributeValue{
		"tablePath": &types.AttributeValueMemberS{Value: path}, "fileName": &types.AttributeValueMemberS{Value: name(1)},
		"tempPath": &types.AttributeValueMemberS{Value: ".tmp/x"}, "complete": &types.AttributeValueMemberS{Value: "false"},
	}
	expect(t, theirs, want)
	if err := theirs.PutNew(ctx, sparktest.Entry{TablePath: path, FileName: name(1), TempPath: ".tmp/y"}); !errors.Is(err, sparktest.ErrFailed) {
		t.Errorf("Spark claims it, too: %v", err)
	}
	if e, err := theirs.Newest(ctx, path); err != nil || e.TempPath != ".tmp/x" || e.Complete {
		t.Errorf("Spark sees %+v, %v", e, err)
	}
	if err := ours.Complete(ctx, mine, 1_900_000_000); err != nil {
		t.Fatal(err)
	}
	want["complete"], want["expireTime"] = &types.AttributeValueMemberS{Value: "true"}, &types.AttributeValueMemberN{Value: "1900000000"}
	expect(t, theirs, want)

	if err := theirs.PutNew(ctx, sparktest.Entry{TablePath: path, FileName: name(2), TempPath: ".tmp/z"}); err != nil {
		t.Fatal(err)
	}
	held, err := ours.Claim(ctx, logstore.Entry{TablePath: path, FileName: name(2), TempPath: ".tmp/other"})
	entry := logstore.Entry{TablePath: path, FileName: name(2), TempPath: ".tmp/z"}
	if !errors.Is(err, logstore.ErrClaimed) || held != entry && held != (logstore.Entry{}) {
		t.Errorf("%+v, %v", held, err)
	}
	if got, err := ours.Newest(ctx, path); err != nil || got != entry {
		t.Errorf("%+v, %v", got, err)
	}
	// Of another file than the entry's, or of none: nothing is changed or made.
	for _, e := range []logstore.Entry{{TablePath: path, FileName: name(2), TempPath: ".tmp/other"}, {TablePath: path, FileName: name(3), TempPath: ".tmp/other"}} {
		if err := ours.Complete(ctx, e, 1); err != nil {
			t.Error(err)
		}
	}
	if got, err := ours.Newest(ctx, path); err != nil || got != entry {
		t.Errorf("%+v, %v", got, err)
	}
}

func expect(t testing.TB, d *sparktest.Dynamo, want map[string]types.AttributeValue) {
	t.Helper()
	out, err := d.Client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: &d.Table, Key: map[string]types.AttributeValue{"tablePath": want["tablePath"], "fileName": want["fileName"]},
	})
	if err != nil {
		t.Fatal(err)
	}
	plain := func(m map[string]types.AttributeValue) map[string]string {
		out := map[string]string{}
		for k, v := range m {
			switch v := v.(type) {
			case *types.AttributeValueMemberS:
				out[k] = "S " + v.Value
			case *types.AttributeValueMemberN:
				out[k] = "N " + v.Value
			default:
				out[k] = fmt.Sprintf("%T", v)
			}
		}
		return out
	}
	if diff := cmp.Diff(plain(want), plain(out.Item)); diff != "" {
		t.Errorf("item (-want +got):\n%s", diff)
	}
}

// Attributes of others survive the completion; what is no entry of a version does not
// count as the newest; an item that Spark could not read is named.
func TestForeignItems(t *testing.T) {
	t.Parallel()
	s := servers.StartKumo(t)
	d := spark(t, s)
	ours := open(t, config(s))
	put := func(item map[string]types.AttributeValue) {
		t.Helper()
		if _, err := d.Client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &d.Table, Item: item}); err != nil {
			t.Fatal(err)
		}
	}
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	put(map[string]types.AttributeValue{"tablePath": text(path), "fileName": text(name(4)), "tempPath": text("x"), "complete": text("false"), "note": text("kept")})
	put(map[string]types.AttributeValue{"tablePath": text(path), "fileName": text("zzz")})
	put(map[string]types.AttributeValue{"tablePath": text(path + "2"), "fileName": text(name(9)), "tempPath": text("x"), "complete": text("false")})
	e, err := ours.Newest(t.Context(), path)
	if err != nil || e.FileName != name(4) {
		t.Fatalf("%+v, %v", e, err)
	}
	if err := ours.Complete(t.Context(), e, 7); err != nil {
		t.Fatal(err)
	}
	expect(t, d, map[string]types.AttributeValue{
		"tablePath": text(path), "fileName": text(name(4)), "tempPath": text("x"), "complete": text("true"), "note": text("kept"),
		"expireTime": &types.AttributeValueMemberN{Value: "7"},
	})
	put(map[string]types.AttributeValue{"tablePath": text(path), "fileName": text(name(5)), "tempPath": text("x"), "complete": &types.AttributeValueMemberBOOL{Value: true}})
	var bad *logstore.EntryError
	if _, err := ours.Newest(t.Context(), path); !errors.As(err, &bad) || bad.FileName != name(5) || !strings.Contains(bad.Reason, "complete") {
		t.Errorf("%v", err)
	}
}

// Of many writers of both kinds one gets a version.
func TestClaimsRace(t *testing.T) {
	t.Parallel()
	s := servers.StartKumo(t)
	theirs := spark(t, s)
	ours := open(t, config(s))
	for v := range 20 {
		var won atomic.Int32
		var all sync.WaitGroup
		for i := range 8 {
			temp := fmt.Sprint(".tmp/", i)
			all.Go(func() {
				var err error
				if i%2 == 0 {
					_, err = ours.Claim(t.Context(), logstore.Entry{TablePath: path, FileName: name(v), TempPath: temp})
				} else {
					err = theirs.PutNew(t.Context(), sparktest.Entry{TablePath: path, FileName: name(v), TempPath: temp})
				}
				switch {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, logstore.ErrClaimed) && !errors.Is(err, sparktest.ErrFailed):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Errorf("version %d has %d owners", v, won.Load())
		}
	}
}

// Whatever becomes of a write, its caller is told what is known, and it is sent once.
func TestAnswersToWrites(t *testing.T) {
	t.Parallel()
	s := servers.StartKumo(t)
	spark(t, s)
	open(t, config(s))
	proxy := servers.NewHTTPFaults(t, s.Endpoint)
	cfg := config(s)
	cfg.Endpoint, cfg.RequestTimeout = proxy.URL, 500*time.Millisecond
	ours := open(t, cfg)
	for i, c := range []struct {
		what   string
		fate   servers.Fate
		want   error // nil: certainly not carried out
		landed bool
	}{
		{"reply lost", servers.Fate{Lost: true}, logstore.ErrUnknown, true},
		{"500 after landing", servers.Fate{After: servers.DynamoError(500, "InternalServerError", "")}, logstore.ErrUnknown, true},
		{"500 before landing", servers.Fate{Instead: servers.DynamoError(500, "InternalServerError", "")}, logstore.ErrUnknown, false},
		{"transaction conflict", servers.Fate{Instead: servers.DynamoError(400, "TransactionConflictException", "")}, nil, false},
		{"no permission", servers.Fate{Instead: servers.DynamoError(400, "AccessDeniedException", "")}, nil, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			e := logstore.Entry{TablePath: path, FileName: name(i), TempPath: ".tmp/x"}
			sent := 0
			var mu sync.Mutex
			fate := func(r servers.Request) servers.Fate {
				mu.Lock()
				defer mu.Unlock()
				if r.Operation != "PutItem" && r.Operation != "UpdateItem" {
					return servers.Fate{}
				}
				sent++
				return c.fate
			}
			right := func(err error) bool {
				if c.want != nil {
					return errors.Is(err, c.want)
				}
				return err != nil && !errors.Is(err, logstore.ErrUnknown) && !errors.Is(err, logstore.ErrClaimed)
			}
			proxy.Decide(fate)
			if _, err := ours.Claim(t.Context(), e); !right(err) || sent != 1 {
				t.Errorf("claim: %v, sent %d times", err, sent)
			}
			got, err := ours.Get(t.Context(), path, name(i))
			if (err == nil) != c.landed {
				t.Errorf("%+v, %v", got, err)
			}
			proxy.Decide(func(servers.Request) servers.Fate { return servers.Fate{} })
			if _, err := ours.Claim(t.Context(), e); err != nil && !errors.Is(err, logstore.ErrClaimed) {
				t.Fatal(err)
			}
			proxy.Decide(fate)
			sent = 0
			if err := ours.Complete(t.Context(), e, 7); !right(err) || sent != 1 {
				t.Errorf("complete: %v, sent %d times", err, sent)
			}
			if got, err := ours.Get(t.Context(), path, name(i)); err != nil || got.Complete != c.landed {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// A table that is none of entries is refused, with the reason and the remedy.
func TestOpening(t *testing.T) {
	t.Parallel()
	s := servers.StartKumo(t)
	d := spark(t, s)
	_, err := d.Client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:            aws.String("other"),
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("key"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("key"), KeyType: types.KeyTypeHash}},
		BillingMode:          types.BillingModePayPerRequest,
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		change func(*dynamo.Config)
		want   error
		says   string
	}{
		"other keys":   {func(c *dynamo.Config) { c.Table = "other" }, dynamo.ErrUnfit, "tablePath and fileName"},
		"no table":     {func(c *dynamo.Config) { c.Table = "nowhere" }, dynamo.ErrMissing, "make it as the documentation says"},
		"no name":      {func(c *dynamo.Config) { c.Table = "" }, dynamo.ErrMisconfigured, "not the name of a table"},
		"nobody there": {func(c *dynamo.Config) { c.Endpoint = "http://127.0.0.1:1" }, dynamo.ErrUnreachable, "does not answer"},
	} {
		cfg := config(s)
		cfg.RequestTimeout = 2 * time.Second
		c.change(&cfg)
		if _, err := dynamo.Open(t.Context(), cfg); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What is taken from a log store that runs is told by each request, in words for anybody.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := servers.StartKumo(t)
	spark(t, s)
	open(t, config(s))
	proxy := servers.NewHTTPFaults(t, s.Endpoint)
	cfg := config(s)
	cfg.Endpoint = proxy.URL
	ours := open(t, cfg)
	for name, c := range map[string]struct {
		want error
		says string
	}{
		"ExpiredTokenException":     {dynamo.ErrDenied, "does not accept the credentials; set AWS_ACCESS_KEY_ID"},
		"AccessDeniedException":     {dynamo.ErrDenied, "lack a permission on table "},
		"ResourceNotFoundException": {dynamo.ErrMissing, "there is no table "},
	} {
		proxy.Decide(func(servers.Request) servers.Fate {
			return servers.Fate{Instead: servers.DynamoError(400, name, "injected")}
		})
		_, getErr := ours.Get(t.Context(), path, "k")
		_, newestErr := ours.Newest(t.Context(), path)
		_, claimErr := ours.Claim(t.Context(), logstore.Entry{TablePath: path, FileName: "k", TempPath: "t"})
		for what, err := range map[string]error{
			"get": getErr, "newest": newestErr, "claim": claimErr, "complete": ours.Complete(t.Context(), logstore.Entry{TablePath: path, FileName: "k"}, 1),
		} {
			refusal, ok := errors.AsType[*logstore.Refusal](err)
			if !ok || !errors.Is(err, c.want) || errors.Is(err, logstore.ErrNoEntry) || errors.Is(err, logstore.ErrUnknown) {
				t.Errorf("%s, %s: %v is not told as %q", name, what, err, c.want)
				continue
			}
			if told := refusal.Text + "; " + refusal.Remedy; !strings.Contains(told, c.says) || strings.Contains(told, "injected") {
				t.Errorf("%s, %s: %q, want %q in it", name, what, told, c.says)
			}
		}
	}
}
