package s3obj

import (
	"context"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/txcoord/txcoord/tables/objstore"
)

// Check sees that the bucket can be used below a prefix: that it is there, that the
// credentials may list, read, write and delete, and that of writers that race one
// wins. Its errors say what to do.
func (s *Store) Check(ctx context.Context, prefix string) error {
	// A listing's error says what is wrong, which that of a HEAD cannot.
	err := s.Read(ctx, func(ctx context.Context) error {
		_, err := s.driver.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &s.cfg.Bucket, Prefix: &prefix, MaxKeys: aws.Int32(1)})
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
	where := s.where()
	code, status := answered(err)
	switch {
	case code == "AuthorizationHeaderMalformed", code == "PermanentRedirect", code == "IllegalLocationConstraintException", status == http.StatusMovedPermanently:
		return objstore.Mark(objstore.ErrMissing, fmt.Errorf("%s is in another region than %s: name its region: %w", where, s.region, err))
	case status == http.StatusNotImplemented:
		return objstore.Mark(objstore.ErrUnconditional, fmt.Errorf("%s does not know conditional puts; use a server that honours If-None-Match and If-Match: %w", where, err))
	case code == "" && isTransport(err):
		return objstore.Mark(objstore.ErrUnreachable, fmt.Errorf("%s does not answer: correct the endpoint or the region: %w", where, err))
	default:
		return fmt.Errorf("%s: %w", where, err)
	}
}

// where names the bucket in errors.
func (s *Store) where() string {
	if s.cfg.Endpoint != "" {
		return fmt.Sprintf("bucket %s at %s", s.cfg.Bucket, s.cfg.Endpoint)
	}
	return fmt.Sprintf("bucket %s in %s", s.cfg.Bucket, s.region)
}
