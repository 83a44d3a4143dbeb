package s3obj

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/remote"
)

// driver sends single requests of the S3 API.
type driver struct {
	bucket string
	client *s3.Client
}

var _ remote.Driver = driver{}

// Name implements remote.Driver.
func (d driver) Name(key string) string { return "s3://" + d.bucket + "/" + key }

// Get implements remote.Driver.
func (d driver) Get(ctx context.Context, key string, r objstore.Range) (remote.Opened, error) {
	out, err := d.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &d.bucket, Key: &key, Range: rangeHeader(r)})
	if err != nil {
		return remote.Opened{}, err
	}
	o := remote.Opened{Body: out.Body, Length: aws.ToInt64(out.ContentLength), Info: objstore.Info{
		Key: key, Size: aws.ToInt64(out.ContentLength), ETag: unquote(out.ETag), Modified: aws.ToTime(out.LastModified),
	}}
	if out.ContentRange == nil {
		return o, nil // The whole object was asked for, or it is empty, or the server knows no ranges.
	}
	var last int64
	if _, err := fmt.Sscanf(*out.ContentRange, "bytes %d-%d/%d", &o.From, &last, &o.Info.Size); err != nil {
		_ = out.Body.Close() // It is not read.
		return remote.Opened{}, fmt.Errorf("content range %q of the server: %w", *out.ContentRange, err)
	}
	return o, nil
}

func rangeHeader(r objstore.Range) *string {
	switch {
	case r == (objstore.Range{}):
		return nil
	case r.Offset < 0:
		return aws.String(fmt.Sprintf("bytes=%d", r.Offset))
	case r.Length == 0:
		return aws.String(fmt.Sprintf("bytes=%d-", r.Offset))
	default:
		return aws.String(fmt.Sprintf("bytes=%d-%d", r.Offset, r.Offset+r.Length-1))
	}
}

// Head implements remote.Driver.
func (d driver) Head(ctx context.Context, key string) (objstore.Info, string, error) {
	out, err := d.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &d.bucket, Key: &key})
	if err != nil {
		if isNotFound(err) {
			err = d.orNoBucket(ctx, key, err)
		}
		return objstore.Info{}, "", err
	}
	return objstore.Info{
		Key: key, Size: aws.ToInt64(out.ContentLength), ETag: unquote(out.ETag), Modified: aws.ToTime(out.LastModified),
	}, out.Metadata[tokenName], nil
}

// orNoBucket is the answer to a HEAD that has found nothing: it has no body, and does not say
// whether it is the object that is not there, or all of the bucket. A listing's answer does.
func (d driver) orNoBucket(ctx context.Context, key string, nothing error) error {
	_, err := d.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &d.bucket, Prefix: &key, MaxKeys: aws.Int32(1)})
	switch code, status := answered(err); {
	case err == nil, code != "NoSuchBucket" && status >= 400 && status < 500:
		return nothing
	}
	return err // The bucket is not there, or may not be.
}

// tokenName is remote.TokenName as S3's headers take it.
var tokenName = strings.ReplaceAll(remote.TokenName, "_", "-")

// Put implements remote.Driver.
func (d driver) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, c objstore.Condition, token string) (string, error) {
	in := &s3.PutObjectInput{
		Bucket: &d.bucket, Key: &key, Body: body, ContentLength: &size, Metadata: map[string]string{tokenName: token},
	}
	switch held, ok := c.ETag(); {
	case c.IsAbsent():
		in.IfNoneMatch = aws.String("*")
	case ok:
		in.IfMatch = aws.String(`"` + held + `"`)
	}
	out, err := d.client.PutObject(ctx, in)
	if err != nil {
		return "", err
	}
	return unquote(out.ETag), nil
}

// Delete implements remote.Driver.
func (d driver) Delete(ctx context.Context, key string) error {
	_, err := d.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &d.bucket, Key: &key})
	return err
}

func unquote(etag *string) string { return strings.Trim(aws.ToString(etag), `"`) }
