package gcsobj

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/remote"
)

// Check sees that the bucket can be used below a prefix: that it is there, that the
// credentials may list, read, write and delete, and that of writers that race one
// wins. Its errors say what to do.
func (s *Store) Check(ctx context.Context, prefix string) error {
	err := s.Read(ctx, func(ctx context.Context) error {
		_, _, err := s.driver.List(ctx, objstore.ListOptions{Prefix: prefix}, "")
		return err
	})
	if err == nil {
		err = objstore.Probe(ctx, s, prefix)
	}
	if err != nil {
		return s.explain(err)
	}
	return nil
}

// explain adds to an error of Check what can be done about it.
func (s *Store) explain(err error) error {
	where := "bucket gs://" + s.cfg.Bucket
	if s.cfg.Endpoint != "" {
		where += " at " + s.cfg.Endpoint
	}
	message, _ := answered(err)
	var transport *url.Error
	if message == "" && !errors.Is(err, objstore.ErrDenied) && (errors.Is(err, remote.ErrStalled) || errors.As(err, &transport)) {
		return objstore.Mark(objstore.ErrUnreachable, fmt.Errorf("%s does not answer: correct the endpoint: %w", where, err))
	}
	return fmt.Errorf("%s: %w", where, err)
}

// Refusal implements remote.Driver.
func (d driver) Refusal(err error) *objstore.Refusal {
	bucket := "bucket gs://" + d.name
	refusal := func(reason error, text, remedy string) *objstore.Refusal {
		return &objstore.Refusal{Reason: reason, Text: text, Remedy: remedy, Err: err}
	}
	message, status := answered(err)
	const permissions = "txcoord needs storage.objects.list, get, create and delete on it (role Storage Object User)"
	switch {
	case noBucket(err):
		return refusal(objstore.ErrMissing, "there is no "+bucket, "create it, or correct the name")
	case status == http.StatusUnauthorized, strings.Contains(err.Error(), "cannot fetch token"), strings.Contains(err.Error(), "could not find default credentials"):
		return refusal(objstore.ErrDenied, bucket+" does not accept the credentials", remedy)
	case status == http.StatusForbidden && message == "":
		return refusal(objstore.ErrDenied, bucket+", or something on the way to it, answers that access is forbidden", "see that the credentials hold, and what stands between; "+permissions)
	case status == http.StatusForbidden:
		return refusal(objstore.ErrDenied, "the credentials lack a permission on "+bucket, permissions)
	}
	return nil
}

// noBucket reports whether it is the bucket that is not there. The library calls every 404 in
// answer to a request for an object "object doesn't exist". What is said of an object that is
// not there has the names of bucket and object in it, so that only the whole sentence counts.
func noBucket(err error) bool {
	if errors.Is(err, storage.ErrBucketNotExist) {
		return true
	}
	var e *googleapi.Error
	if !errors.As(err, &e) || e.Code != http.StatusNotFound {
		return false
	}
	message, _ := answered(err)
	return strings.HasPrefix(cmp.Or(message, e.Body), "The specified bucket does not exist")
}
