//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamotypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/txcoord/txcoord/e2e/servers"
)

// shelf is a store as whoever makes backups of it sees it: copy takes everything below
// the catalog's name, and returns what puts exactly that back.
type shelf interface {
	copy() (putBack func())
	lose()
	names() []string
}

// A journal in a bucket is copied object by object.
func TestBackupOfABucket(t *testing.T) {
	s := servers.StartVersity(t)
	awsEnvironment(t, s.AccessKey, s.SecretKey)
	bucket := s.Bucket(t)
	c, err := config.LoadDefaultConfig(t.Context(), config.WithRegion(s.Region))
	if err != nil {
		t.Fatal(err)
	}
	api := s3.NewFromConfig(c, func(o *s3.Options) { o.BaseEndpoint, o.UsePathStyle = aws.String(s.Endpoint), true })
	rehearse(t, &bucketShelf{t, api, bucket}, "journal/layout.json", "--store", "s3://"+bucket+"/journal", "--bucket", "s3://*?region="+s.Region+"&endpoint="+s.Endpoint)
}

// A journal in DynamoDB is read item by item, and put.
func TestBackupOfADynamoDBTable(t *testing.T) {
	d := servers.StartKumo(t)
	awsEnvironment(t, d.AccessKey, d.SecretKey)
	t.Setenv("AWS_REGION", d.Region)
	store := "dynamodb://journal?endpoint=" + d.Endpoint
	wantCode(t, nil, txcoord(t, nil, "", "store", "init", "--store", store), 0)
	c, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	api := dynamodb.NewFromConfig(c, func(o *dynamodb.Options) {
		o.BaseEndpoint, o.DisableValidateResponseChecksum = aws.String(d.Endpoint), true // kumo sends none
	})
	rehearse(t, &tableShelf{t, api}, "txcoord/default/layout layout", "--store", store)
}

// rehearse loses a journal and puts its copy back: the catalog goes on. Then it puts back
// one that is older than what was published: it is refused.
func rehearse(t *testing.T, s shelf, layout string, flags ...string) {
	t.Helper()
	warehouse := t.TempDir()
	flags = append([]string{"--warehouse", warehouse}, flags...)
	during := func(create string, tables ...string) {
		t.Helper()
		address, stop := servingUntil(t, flags...)
		c := &server{t: t, env: map[string]string{"TXCOORD_SERVER": address}}
		c.ok("tables", "create", create, filepath.Join(warehouse, create), "--schema", schema)
		same(t, tables, strings.Fields(c.ok("tables", "list", "-o", "id")))
		if code, stderr := stop(); code != 0 {
			t.Fatalf("serve ends with %d\n%s", code, stderr)
		}
	}
	refused := func() {
		t.Helper()
		args := append([]string{"serve", "--listen", "127.0.0.1:0"}, flags...)
		wantCode(t, args, txcoord(t, nil, "", args...), 8, "JOURNAL_CONTRADICTION")
	}
	during("orders", "orders")
	putBack := s.copy()
	s.lose()
	refused()
	same(t, []string{layout}, s.names()) // how a store is laid out; nothing of a journal
	putBack()
	during("items", "items", "orders")
	s.lose()
	putBack()
	refused()
}

type bucketShelf struct {
	t      *testing.T
	api    *s3.Client
	bucket string
}

func (b *bucketShelf) keys(ctx context.Context) (keys []string) {
	b.t.Helper()
	for pages := s3.NewListObjectsV2Paginator(b.api, &s3.ListObjectsV2Input{Bucket: &b.bucket, Prefix: aws.String("journal/")}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, o := range page.Contents {
			keys = append(keys, *o.Key)
		}
	}
	return keys
}

func (b *bucketShelf) copy() func() {
	b.t.Helper()
	ctx := b.t.Context()
	kept := map[string][]byte{}
	for _, key := range b.keys(ctx) {
		o, err := b.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.bucket, Key: &key})
		if err != nil {
			b.t.Fatal(err)
		}
		if kept[key], err = io.ReadAll(o.Body); err != nil {
			b.t.Fatal(err)
		}
		o.Body.Close()
	}
	return func() {
		b.t.Helper()
		for key, body := range kept {
			if _, err := b.api.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.bucket, Key: &key, Body: bytes.NewReader(body)}); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

func (b *bucketShelf) names() []string { return b.keys(b.t.Context()) }

func (b *bucketShelf) lose() {
	b.t.Helper()
	ctx := b.t.Context()
	for _, key := range b.keys(ctx) {
		if _, err := b.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.bucket, Key: &key}); err != nil {
			b.t.Fatal(err)
		}
	}
}

type tableShelf struct {
	t   *testing.T
	api *dynamodb.Client
}

func (d *tableShelf) items() (items []map[string]dynamotypes.AttributeValue) {
	d.t.Helper()
	for pages := dynamodb.NewScanPaginator(d.api, &dynamodb.ScanInput{TableName: aws.String("journal"), ConsistentRead: aws.Bool(true)}); pages.HasMorePages(); {
		page, err := pages.NextPage(d.t.Context())
		if err != nil {
			d.t.Fatal(err)
		}
		items = append(items, page.Items...)
	}
	return items
}

func (d *tableShelf) copy() func() {
	d.t.Helper()
	kept := d.items()
	return func() {
		d.t.Helper()
		for _, item := range kept {
			if _, err := d.api.PutItem(d.t.Context(), &dynamodb.PutItemInput{TableName: aws.String("journal"), Item: item}); err != nil {
				d.t.Fatal(err)
			}
		}
	}
}

func (d *tableShelf) names() (names []string) {
	for _, item := range d.items() {
		pk, _ := item["pk"].(*dynamotypes.AttributeValueMemberS)
		sk, _ := item["sk"].(*dynamotypes.AttributeValueMemberS)
		names = append(names, pk.Value+" "+sk.Value)
	}
	return names
}

func (d *tableShelf) lose() {
	d.t.Helper()
	for _, item := range d.items() {
		key := map[string]dynamotypes.AttributeValue{"pk": item["pk"], "sk": item["sk"]}
		if _, err := d.api.DeleteItem(d.t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("journal"), Key: key}); err != nil {
			d.t.Fatal(err)
		}
	}
}
