package azobj

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/remote"
)

// driver sends single requests of the Blob API.
type driver struct {
	cfg    Config
	client *container.Client
}

var _ remote.Driver = driver{}

// Name implements remote.Driver.
func (d driver) Name(key string) string { return "az://" + d.cfg.Container + "/" + key }

// errBackslash: Azure takes a backslash for a slash, so that two keys would be one.
var errBackslash = errors.New("a backslash in a key is not allowed on Azure, which takes it for a slash")

func check(key string) error {
	if strings.Contains(key, `\`) {
		return errBackslash
	}
	return nil
}

// Get implements remote.Driver. Azure knows no ranges from the end, so that those cost
// a request more.
func (d driver) Get(ctx context.Context, key string, r objstore.Range) (remote.Opened, error) {
	if err := check(key); err != nil {
		return remote.Opened{}, err
	}
	o := &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: r.Offset, Count: r.Length}}
	if r.Offset < 0 {
		info, _, err := d.Head(ctx, key)
		if err != nil {
			return remote.Opened{}, err
		}
		from, length, err := r.Clip(info.Size)
		if err != nil || length == 0 {
			return remote.Opened{Body: io.NopCloser(&bytes.Reader{}), From: from, Info: info}, err
		}
		o.Range = blob.HTTPRange{Offset: from, Count: length}
		o.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: to.Ptr(quote(info.ETag))}}
	}
	out, err := d.client.NewBlobClient(key).DownloadStream(ctx, o)
	if err != nil {
		return remote.Opened{}, err
	}
	opened := remote.Opened{Body: out.Body, Length: value(out.ContentLength), Info: objstore.Info{
		Key: key, Size: value(out.ContentLength), ETag: unquote(out.ETag), Modified: value(out.LastModified),
	}}
	if out.ContentRange == nil {
		return opened, nil
	}
	var last int64
	if _, err := fmt.Sscanf(*out.ContentRange, "bytes %d-%d/%d", &opened.From, &last, &opened.Info.Size); err != nil {
		_ = out.Body.Close() // It is not read.
		return remote.Opened{}, fmt.Errorf("content range %q of the server: %w", *out.ContentRange, err)
	}
	return opened, nil
}

func value[V any](p *V) (v V) {
	if p != nil {
		v = *p
	}
	return v
}

func unquote(etag *azcore.ETag) string { return strings.Trim(string(value(etag)), `"`) }

func quote(etag string) azcore.ETag { return azcore.ETag(`"` + etag + `"`) }

// Head implements remote.Driver.
func (d driver) Head(ctx context.Context, key string) (objstore.Info, string, error) {
	if err := check(key); err != nil {
		return objstore.Info{}, "", err
	}
	out, err := d.client.NewBlobClient(key).GetProperties(ctx, nil)
	if err != nil {
		return objstore.Info{}, "", err
	}
	token := ""
	for name, v := range out.Metadata {
		if strings.EqualFold(name, remote.TokenName) { // They come as headers, in any case.
			token = value(v)
		}
	}
	return objstore.Info{Key: key, Size: value(out.ContentLength), ETag: unquote(out.ETag), Modified: value(out.LastModified)}, token, nil
}

// Put implements remote.Driver.
func (d driver) Put(ctx context.Context, key string, body io.ReadSeeker, _ int64, c objstore.Condition, token string) (string, error) {
	if err := check(key); err != nil {
		return "", err
	}
	o := &blockblob.UploadOptions{Metadata: map[string]*string{remote.TokenName: &token}}
	switch held, ok := c.ETag(); {
	case c.IsAbsent():
		o.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}}
	case ok:
		o.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: to.Ptr(quote(held))}}
	}
	out, err := d.client.NewBlockBlobClient(key).Upload(ctx, streaming.NopCloser(body), o)
	if err != nil {
		return "", err
	}
	return unquote(out.ETag), nil
}

// Delete implements remote.Driver.
func (d driver) Delete(ctx context.Context, key string) error {
	if err := check(key); err != nil {
		return err
	}
	_, err := d.client.NewBlobClient(key).Delete(ctx, nil)
	return err
}

// List implements remote.Driver. Azure cannot begin behind a name: what is not wanted
// is read and left out.
func (d driver) List(ctx context.Context, o objstore.ListOptions, marker string) ([]objstore.Entry, string, error) {
	var blobs []*container.BlobItem
	var folders []*container.BlobPrefix
	var next *string
	if o.Delimiter {
		out, err := d.client.NewListBlobsHierarchyPager("/", &container.ListBlobsHierarchyOptions{Prefix: &o.Prefix, Marker: &marker}).NextPage(ctx)
		if err != nil {
			return nil, "", err
		}
		blobs, folders, next = out.Segment.BlobItems, out.Segment.BlobPrefixes, out.NextMarker
	} else {
		out, err := d.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &o.Prefix, Marker: &marker}).NextPage(ctx)
		if err != nil {
			return nil, "", err
		}
		blobs, next = out.Segment.BlobItems, out.NextMarker
	}
	return entriesOf(o, blobs, folders), value(next), nil
}

func entriesOf(o objstore.ListOptions, blobs []*container.BlobItem, folders []*container.BlobPrefix) []objstore.Entry {
	var entries []objstore.Entry
	for _, b := range blobs {
		if key := value(b.Name); key > o.StartAfter && !strings.HasSuffix(key, "/") && b.Properties != nil && !isFolder(b) {
			p := b.Properties
			entries = append(entries, objstore.Entry{Info: objstore.Info{
				Key: key, Size: value(p.ContentLength), ETag: unquote(p.ETag), Modified: value(p.LastModified),
			}})
		}
	}
	for _, f := range folders {
		if folder := value(f.Name); folder > o.StartAfter || strings.HasPrefix(o.StartAfter, folder) {
			entries = append(entries, objstore.Entry{Prefix: folder})
		}
	}
	slices.SortFunc(entries, func(a, b objstore.Entry) int { return strings.Compare(a.Prefix+a.Key, b.Prefix+b.Key) })
	return entries
}

// isFolder tells the folders of accounts with a hierarchical namespace, which are
// listed as blobs.
func isFolder(b *container.BlobItem) bool {
	return value(b.Properties.ResourceType) == "directory"
}

// answered is the error that Azure gave, and its status. Without a code that names
// the error, it was somebody on the way. Answers to HEAD have it in a header.
func answered(err error) (code bloberror.Code, status int) {
	var e *azcore.ResponseError
	if !errors.As(err, &e) {
		return "", 0
	}
	code = bloberror.Code(e.ErrorCode)
	if code == "" && e.StatusCode == http.StatusNotFound && e.RawResponse != nil && e.RawResponse.Header.Get("X-Ms-Request-Id") != "" {
		code = bloberror.BlobNotFound
	}
	return code, e.StatusCode
}

// Verdict implements remote.Driver. Azure refuses a put if absent with 409, and every
// other condition with 412.
func (driver) Verdict(err error) remote.Verdict {
	code, status := answered(err)
	switch {
	case errors.Is(err, errBackslash):
		return remote.Certain
	case code == bloberror.BlobNotFound:
		return remote.NotFound
	case status == http.StatusRequestedRangeNotSatisfiable:
		return remote.BadRange
	case code == bloberror.BlobAlreadyExists, code == bloberror.ConditionNotMet, code == bloberror.TargetConditionNotMet,
		status == http.StatusPreconditionFailed, status == http.StatusNotModified:
		return remote.Refused
	case code == "" || status < 400 || status >= 500:
		return remote.Unknown
	case status == http.StatusTooManyRequests:
		return remote.Throttled
	default:
		return remote.Certain
	}
}
