package s3obj

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/txcoord/txcoord/tables/objstore"
)

// List yields the entries page by page, each as it was when its page was asked for.
func (s *Store) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		err := objstore.CheckPrefix(o.Prefix)
		if err == nil {
			err = s.list(ctx, o, yield)
		}
		if err != nil {
			yield(objstore.Entry{}, fmt.Errorf("list %s: %w", s.name(o.Prefix), err))
		}
	}
}

func (s *Store) list(ctx context.Context, o objstore.ListOptions, yield func(objstore.Entry, error) bool) error {
	in := &s3.ListObjectsV2Input{Bucket: &s.cfg.Bucket, EncodingType: types.EncodingTypeUrl}
	if o.Prefix != "" {
		in.Prefix = &o.Prefix
	}
	if o.StartAfter != "" {
		in.StartAfter = &o.StartAfter
	}
	if o.Delimiter {
		in.Delimiter = aws.String("/")
	}
	for {
		var out *s3.ListObjectsV2Output
		err := s.read(ctx, func(ctx context.Context, _ func()) (err error) {
			out, err = s.client.ListObjectsV2(ctx, in)
			return err
		})
		if err != nil {
			return err
		}
		entries, err := page(out)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !yield(e, nil) {
				return nil
			}
		}
		if !aws.ToBool(out.IsTruncated) || out.NextContinuationToken == nil {
			return ctx.Err()
		}
		in.ContinuationToken = out.NextContinuationToken
	}
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
