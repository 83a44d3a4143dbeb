package gcsobj

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"cloud.google.com/go/storage"

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
	message, status := answered(err)
	var transport *url.Error
	switch {
	case errors.Is(err, storage.ErrBucketNotExist), status == http.StatusNotFound && strings.Contains(message, "bucket"):
		return objstore.Mark(objstore.ErrMissing, fmt.Errorf("there is no %s: create it, or correct the name: %w", where, err))
	case status == http.StatusUnauthorized, strings.Contains(err.Error(), "cannot fetch token"), strings.Contains(err.Error(), "could not find default credentials"):
		return objstore.Mark(objstore.ErrDenied, fmt.Errorf("%s does not accept the credentials: %s: %w", where, remedy, err))
	case status == http.StatusForbidden:
		return objstore.Mark(objstore.ErrDenied, fmt.Errorf("%s: the credentials lack a permission; txcoord needs storage.objects.list, get, create and delete on it (role Storage Object User): %w", where, err))
	case message == "" && (errors.Is(err, remote.ErrStalled) || errors.As(err, &transport)):
		return objstore.Mark(objstore.ErrUnreachable, fmt.Errorf("%s does not answer: correct the endpoint: %w", where, err))
	default:
		return fmt.Errorf("%s: %w", where, err)
	}
}
