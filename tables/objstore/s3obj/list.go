package s3obj

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/txcoord/txcoord/tables/objstore"
)

// List implements remote.Driver.
func (d driver) List(ctx context.Context, o objstore.ListOptions, next string) ([]objstore.Entry, string, error) {
	in := &s3.ListObjectsV2Input{
		Bucket: &d.bucket, EncodingType: types.EncodingTypeUrl, Prefix: set(o.Prefix), StartAfter: set(o.StartAfter), ContinuationToken: set(next),
	}
	if o.Delimiter {
		in.Delimiter = aws.String("/")
	}
	out, err := d.client.ListObjectsV2(ctx, in)
	if err != nil {
		return nil, "", err
	}
	entries, err := page(out)
	if !aws.ToBool(out.IsTruncated) {
		return entries, "", err
	}
	return entries, aws.ToString(out.NextContinuationToken), err
}

// set is nil for a parameter that is not given.
func set(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// page is a page's objects and folders, which S3 lists apart, in one order.
func page(out *s3.ListObjectsV2Output) ([]objstore.Entry, error) {
	decode := func(s *string) (string, error) { return aws.ToString(s), nil }
	if out.EncodingType == types.EncodingTypeUrl {
		decode = func(s *string) (string, error) { return url.QueryUnescape(aws.ToString(s)) }
	}
	var entries []objstore.Entry
	for _, object := range out.Contents {
		key, err := decode(object.Key)
		if err != nil {
			return nil, fmt.Errorf("key of the server: %w", err)
		}
		if strings.HasSuffix(key, "/") {
			continue // a console's mark for a folder; no key of ours
		}
		entries = append(entries, objstore.Entry{Info: objstore.Info{
			Key: key, Size: aws.ToInt64(object.Size), ETag: unquote(object.ETag), Modified: aws.ToTime(object.LastModified),
		}})
	}
	for _, p := range out.CommonPrefixes {
		prefix, err := decode(p.Prefix)
		if err != nil {
			return nil, fmt.Errorf("prefix of the server: %w", err)
		}
		entries = append(entries, objstore.Entry{Prefix: prefix})
	}
	slices.SortFunc(entries, func(a, b objstore.Entry) int { return strings.Compare(a.Prefix+a.Key, b.Prefix+b.Key) })
	return entries, nil
}
