package gcsobj

import (
	"context"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/remote"
)

// driver sends single requests of the JSON API.
type driver struct {
	name   string
	bucket *storage.BucketHandle
}

var _ remote.Driver = driver{}

// Name implements remote.Driver.
func (d driver) Name(key string) string { return "gs://" + d.name + "/" + key }

// Get implements remote.Driver.
func (d driver) Get(ctx context.Context, key string, r objstore.Range) (remote.Opened, error) {
	length := int64(-1)
	if r.Length > 0 && r.Offset >= 0 {
		length = r.Length
	}
	body, err := d.bucket.Object(key).NewRangeReader(ctx, r.Offset, length)
	if err != nil {
		return remote.Opened{}, err
	}
	return remote.Opened{
		Body: body, From: body.Attrs.StartOffset, Length: body.Remain(),
		Info: objstore.Info{Key: key, Size: body.Attrs.Size, ETag: etag(body.Attrs.Generation), Modified: body.Attrs.LastModified},
	}, nil
}

func etag(generation int64) string { return strconv.FormatInt(generation, 10) }

func infoOf(a *storage.ObjectAttrs) objstore.Info {
	return objstore.Info{Key: a.Name, Size: a.Size, ETag: etag(a.Generation), Modified: a.Updated}
}

// Head implements remote.Driver.
func (d driver) Head(ctx context.Context, key string) (objstore.Info, string, error) {
	a, err := d.bucket.Object(key).Attrs(ctx)
	if err != nil {
		return objstore.Info{}, "", err
	}
	return infoOf(a), a.Metadata[remote.TokenName], nil
}

// Put implements remote.Driver.
func (d driver) Put(ctx context.Context, key string, body io.ReadSeeker, _ int64, c objstore.Condition, token string) (string, error) {
	o := d.bucket.Object(key)
	switch held, ok := c.ETag(); {
	case c.IsAbsent():
		o = o.If(storage.Conditions{DoesNotExist: true})
	case ok:
		generation, err := strconv.ParseInt(held, 10, 64)
		if err != nil || generation <= 0 {
			generation = math.MaxInt64 // No object has that one, nor the ETag.
		}
		o = o.If(storage.Conditions{GenerationMatch: generation})
	}
	sum, err := checksum(body)
	if err != nil {
		return "", err
	}
	// A writer that is not closed is ended by its context.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := o.NewWriter(ctx)
	w.ChunkSize = 0 // one request
	w.ContentType = "application/octet-stream"
	w.Metadata = map[string]string{remote.TokenName: token}
	w.SendCRC32C, w.CRC32C = true, sum
	if _, err := io.Copy(w, body); err != nil {
		cancel()
		return "", errors.Join(err, w.Close())
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return etag(w.Attrs().Generation), nil
}

// checksum is what the server compares before the object is there. Without it a put
// that is cancelled may leave one that is cut off: the library ends the last part of
// its request properly before it ends the request.
func checksum(body io.ReadSeeker) (uint32, error) {
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	if _, err := io.Copy(h, body); err != nil {
		return 0, err
	}
	_, err := body.Seek(0, io.SeekStart)
	return h.Sum32(), err
}

// Delete implements remote.Driver.
func (d driver) Delete(ctx context.Context, key string) error {
	return d.bucket.Object(key).Delete(ctx)
}

// pageSize is the most that Google lists at once.
const pageSize = 1000

// List implements remote.Driver.
func (d driver) List(ctx context.Context, o objstore.ListOptions, page string) ([]objstore.Entry, string, error) {
	// The offset is inclusive.
	query := &storage.Query{Prefix: o.Prefix, StartOffset: o.StartAfter}
	if o.Delimiter {
		query.Delimiter = "/"
	}
	if err := query.SetAttrSelection([]string{"Name", "Size", "Generation", "Updated"}); err != nil {
		return nil, "", err
	}
	var found []*storage.ObjectAttrs
	next, err := iterator.NewPager(d.bucket.Objects(ctx, query), pageSize, page).NextPage(&found)
	if err != nil {
		return nil, "", err
	}
	var entries []objstore.Entry
	for _, a := range found {
		switch {
		case a.Prefix != "":
			entries = append(entries, objstore.Entry{Prefix: a.Prefix})
		case a.Name > o.StartAfter && !strings.HasSuffix(a.Name, "/"): // a console's mark for a folder
			entries = append(entries, objstore.Entry{Info: infoOf(a)})
		}
	}
	slices.SortFunc(entries, func(a, b objstore.Entry) int { return strings.Compare(a.Prefix+a.Key, b.Prefix+b.Key) })
	return entries, next, nil
}

// answered is the error that Google gave, and its status. Without a message, it was
// somebody on the way.
func answered(err error) (message string, status int) {
	var e *googleapi.Error
	if !errors.As(err, &e) {
		return "", 0
	}
	if e.Message == "" { // that of a download is not looked into by the library
		var told struct {
			Error struct{ Message string }
		}
		if json.Unmarshal([]byte(e.Body), &told) == nil {
			return told.Error.Message, e.Code
		}
	}
	return e.Message, e.Code
}

// Verdict implements remote.Driver.
func (driver) Verdict(err error) remote.Verdict {
	message, status := answered(err)
	switch {
	case noBucket(err):
		return remote.Certain
	case errors.Is(err, storage.ErrObjectNotExist):
		return remote.NotFound
	case status == http.StatusRequestedRangeNotSatisfiable:
		return remote.BadRange
	case status == http.StatusPreconditionFailed, status == http.StatusNotModified:
		return remote.Refused
	case status == http.StatusNotFound && message != "":
		return remote.NotFound
	case status == http.StatusConflict && message != "":
		return remote.Undecided
	case message == "" || status < 400 || status >= 500 || status == http.StatusRequestTimeout:
		return remote.Unknown
	case status == http.StatusTooManyRequests:
		return remote.Throttled
	default:
		return remote.Certain
	}
}
