//go:build unix

package dynamostore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/dynamostore"
)

func wantOpenError(t *testing.T, cfg dynamostore.Config, parts ...string) {
	t.Helper()
	s, err := dynamostore.Open(t.Context(), cfg)
	if err == nil {
		_ = s.Close()
		t.Errorf("%+v opens", cfg)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not mention %q", err, part)
		}
	}
}

func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	local := dynamostore.Config{Table: "table", Region: "us-east-1", Endpoint: "http://127.0.0.1:1", AccessKey: "a", SecretKey: "b", RequestTimeout: 500 * time.Millisecond}
	with := func(change func(c *dynamostore.Config)) dynamostore.Config {
		c := local
		change(&c)
		return c
	}
	wantOpenError(t, with(func(c *dynamostore.Config) { c.Table = "no table" }), "not the name of a table")
	wantOpenError(t, with(func(c *dynamostore.Config) { c.Endpoint = "127.0.0.1" }), "not a URL")
	wantOpenError(t, with(func(c *dynamostore.Config) { c.SecretKey = "" }), "secret key")
	wantOpenError(t, with(func(c *dynamostore.Config) { c.Prefix = strings.Repeat("p", 300) }), "prefix")
	wantOpenError(t, with(func(c *dynamostore.Config) { c.MaxValue = 1 << 20 }), "fit an item")
	wantOpenError(t, with(func(c *dynamostore.Config) { c.Region = "" }), "no region", "AWS_REGION")
	wantOpenError(t, with(func(c *dynamostore.Config) { c.AccessKey, c.SecretKey = "", "" }), "credentials", "AWS_ACCESS_KEY_ID")
	wantOpenError(t, with(func(c *dynamostore.Config) { c.Profile = "missing" }), "missing")
	wantOpenError(t, local, "does not answer", "127.0.0.1:1", "correct the endpoint")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dynamostore.Open(ctx, local); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestMissingTable(t *testing.T) {
	onServers(t, func(t *testing.T, s *servers.Dynamo) {
		cfg := config(s)
		wantOpenError(t, cfg, cfg.Table, s.Endpoint, "txcoord store init", "the region")
		made, err := dynamostore.Init(t.Context(), cfg)
		if err != nil || !made {
			t.Fatalf("made is %v, %v", made, err)
		}
		store := open(t, cfg)
		if _, err := store.Put(t.Context(), "k", nil, lock.IfAbsent()); err != nil {
			t.Fatal(err)
		}
		if made, err = dynamostore.Init(t.Context(), cfg); err != nil || made {
			t.Errorf("the second time made is %v, %v", made, err)
		}
		if _, err := store.Get(t.Context(), "k"); err != nil {
			t.Errorf("after the second time: %v", err)
		}
	})
}

func TestWrongRegion(t *testing.T) {
	t.Parallel()
	cfg := config(moto(t)) // It has tables by region.
	openNew(t, cfg)
	cfg.Region = "eu-central-1"
	wantOpenError(t, cfg, cfg.Table, "the region")
}

func TestWrongCredentials(t *testing.T) {
	t.Parallel()
	s, proxy := throughProxy(t, servers.StartKumo(t))
	for name, part := range map[string]string{
		"UnrecognizedClientException": "AWS_ACCESS_KEY_ID",
		"InvalidSignatureException":   "AWS_ACCESS_KEY_ID",
		"ExpiredTokenException":       "AWS_ACCESS_KEY_ID",
	} {
		proxy.Decide(func(servers.Request) servers.Fate { return instead(400, name, "") })
		wantOpenError(t, s.cfg, "credentials", part)
	}
	deny := func(operation string) {
		proxy.Decide(func(r servers.Request) servers.Fate {
			if r.Operation == operation {
				return instead(400, "AccessDeniedException", "not authorized")
			}
			return servers.Fate{}
		})
	}
	deny("GetItem")
	wantOpenError(t, s.cfg, "lack a permission", "dynamodb:GetItem")
	deny("DescribeTable") // Is a convenience.
	open(t, s.cfg)
}

// raw is a client of the table's own API.
func raw(s *servers.Dynamo) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: s.Region, BaseEndpoint: &s.Endpoint, DisableValidateResponseChecksum: true,
		Credentials: credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, ""),
	})
}

func TestTableOfSomebodyElse(t *testing.T) {
	t.Parallel()
	s := servers.StartKumo(t)
	cfg := config(s)
	_, err := raw(s).CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &cfg.Table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantOpenError(t, cfg, "keys are not pk and sk", "name another table")
	if made, err := dynamostore.Init(t.Context(), cfg); made || err == nil {
		t.Errorf("init of somebody's table: %v, %v", made, err)
	}
}

func TestGlobalTable(t *testing.T) {
	t.Parallel()
	s, proxy := throughProxy(t, servers.StartKumo(t))
	proxy.Decide(func(r servers.Request) servers.Fate {
		if r.Operation != "DescribeTable" {
			return servers.Fate{}
		}
		return servers.Fate{Instead: &servers.Reply{Status: 200, Body: `{"Table":{"TableStatus":"ACTIVE",` +
			`"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"sk","AttributeType":"S"}],` +
			`"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}],` +
			`"Replicas":[{"RegionName":"eu-west-1"}]}}`}}
	})
	wantOpenError(t, s.cfg, "global table", "one region")
}

// A new table takes its time: Init waits, and a server asks to do so.
func TestTableThatIsBeingMade(t *testing.T) {
	t.Parallel()
	s := servers.StartKumo(t)
	proxy := servers.NewHTTPFaults(t, s.Endpoint)
	var looks atomic.Int32
	proxy.Decide(func(r servers.Request) servers.Fate {
		if r.Operation != "DescribeTable" || looks.Add(1) > 2 {
			return servers.Fate{}
		}
		return instead(400, "ResourceNotFoundException", "Requested resource not found")
	})
	cfg := config(s)
	cfg.Endpoint = proxy.URL
	if made, err := dynamostore.Init(t.Context(), cfg); err != nil || !made || looks.Load() != 3 {
		t.Errorf("made is %v, %v, after %d looks", made, err, looks.Load())
	}
}

// A server that accepts conditions and does not look at them is found out.
func TestServerWithoutConditions(t *testing.T) {
	t.Parallel()
	s, proxy := throughProxy(t, servers.StartKumo(t))
	for _, name := range []string{"attribute_not_exists", "r = :r"} {
		condition := regexp.MustCompile(`"ConditionExpression":"` + name + `[^"]*",|"ExpressionAttributeValues":{":r":[^}]*}},`)
		proxy.Decide(func(r servers.Request) servers.Fate {
			if !isWrite(r) || !bytes.Contains(r.Body, []byte(name)) {
				return servers.Fate{}
			}
			return servers.Fate{Body: condition.ReplaceAll(r.Body, nil)}
		})
		wantOpenError(t, s.cfg, "does not honour conditions", "another server")
	}
}

func TestLaterLayout(t *testing.T) {
	t.Parallel()
	s := servers.StartKumo(t)
	store := openNew(t, config(s))
	_, err := raw(s).PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &store.cfg.Table, Item: map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberS{Value: "layout"}, "sk": &types.AttributeValueMemberS{Value: "layout"}, "v": &types.AttributeValueMemberS{Value: "2"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	wantOpenError(t, store.cfg, `format "2"`, "newer")
}

// An item that somebody else put into a partition of ours is not taken for ours.
func TestForeignItem(t *testing.T) {
	t.Parallel()
	s := servers.StartKumo(t)
	store := openNew(t, config(s))
	_, err := raw(s).PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &store.cfg.Table, Item: map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberS{Value: "rest"}, "sk": &types.AttributeValueMemberS{Value: "meta"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, getErr := store.Get(t.Context(), "meta")
	_, scanErr := store.Scan(t.Context(), "", "", 0)
	for _, err := range []error{getErr, scanErr} {
		if err == nil || errors.Is(err, lock.ErrNotFound) || !strings.Contains(err.Error(), "table of its own") {
			t.Errorf("got %v", err)
		}
	}
}

// Catalogs on one table do not see each other.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	cfg := config(servers.StartKumo(t))
	openNew(t, cfg)
	stores := map[string]handle{}
	for _, prefix := range []string{"", "a/", "a/ring/", "b"} {
		cfg.Prefix = prefix
		stores[prefix] = open(t, cfg)
	}
	keys := []string{"meta", "open/1", "pay/07/1", "ring/x/1"}
	for prefix, s := range stores {
		for _, key := range keys {
			if _, err := s.Put(t.Context(), key, []byte(prefix), lock.IfAbsent()); err != nil {
				t.Errorf("%q: %v", prefix, err)
			}
		}
	}
	for prefix, s := range stores {
		page, err := s.Scan(t.Context(), "", "", 0)
		var got []string
		for _, item := range page {
			got = append(got, item.Key)
			if string(item.Value) != prefix {
				t.Errorf("%q sees the %s of %q", prefix, item.Key, item.Value)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(keys) || err != nil {
			t.Errorf("%q sees %q, %v", prefix, got, err)
		}
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	t.Parallel()
	s := openNew(t, config(servers.StartKumo(t)))
	for _, key := range []string{"", strings.Repeat("k", 1025), "\xff"} {
		_, putErr := s.Put(t.Context(), key, nil, lock.Always())
		_, getErr := s.Get(t.Context(), key)
		for _, err := range []error{putErr, getErr, s.Delete(t.Context(), key)} {
			if meaningOf(err) != certain || errors.Is(err, lock.ErrNotFound) {
				t.Errorf("key %.10q: %v", key, err)
			}
		}
	}
	longest := strings.Repeat("k", 1024)
	if _, err := s.Put(t.Context(), longest, nil, lock.IfAbsent()); err != nil {
		t.Error(err)
	}
}

// TestServerTellsTheTime: R16.
func TestServerTellsTheTime(t *testing.T) {
	onServers(t, func(t *testing.T, s *servers.Dynamo) {
		store := openNew(t, config(s))
		if _, err := store.Put(t.Context(), "k", nil, lock.IfAbsent()); err != nil {
			t.Fatal(err)
		}
		ahead, told := store.Ahead()
		if !told || ahead > time.Second || ahead < -time.Minute {
			t.Errorf("%s ahead, told: %v", ahead, told)
		}
	})
}
