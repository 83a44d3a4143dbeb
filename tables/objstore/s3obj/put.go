package s3obj

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/txcoord/txcoord/tables/objstore"
)

// tokenName is the metadata of an object that names the put that wrote it.
const tokenName = "txcoord-put"

// PutIfAbsent writes the object unless the key holds one.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	_, err := s.PutIf(ctx, key, data, objstore.IfAbsent())
	return err
}

// Put writes the object, whether or not the key holds one.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	_, err := s.PutIf(ctx, key, data, objstore.Always())
	return err
}

// PutIf implements objstore.Conditional.
func (s *Store) PutIf(ctx context.Context, key string, data []byte, c objstore.Condition) (etag string, err error) {
	err = errors.Join(objstore.CheckKey(key), ctx.Err())
	if err == nil {
		etag, err = s.putIf(ctx, key, data, c)
	}
	if err != nil {
		return "", fmt.Errorf("put %s: %w", s.name(key), err)
	}
	return etag, nil
}

func (s *Store) putIf(ctx context.Context, key string, data []byte, c objstore.Condition) (string, error) {
	token := rand.Text()
	etag, answer, err := s.decided(ctx, key, data, c, token)
	switch answer {
	case landed:
		return etag, nil
	case certain:
		return "", err
	}
	// Refused, or nobody knows. Something on the way may have sent it twice, and a
	// refusal is then that of the second, so that both are settled alike.
	held, headErr := s.head(ctx, key)
	switch {
	case headErr == nil && held.Metadata[tokenName] == token:
		return unquote(held.ETag), nil
	case answer == refused && (headErr == nil || errors.Is(headErr, objstore.ErrNotFound)):
		return "", errors.Join(c.Refusal(), err)
	case headErr == nil && c.IsAbsent():
		return "", errors.Join(objstore.ErrExists, err)
	}
	return "", errors.Join(objstore.ErrUnknown, err, headErr)
}

// decided puts until the answer is another one than 409, which says that nothing was
// written and that nothing is settled. Each time it is the same put.
func (s *Store) decided(ctx context.Context, key string, data []byte, c objstore.Condition, token string) (string, answer, error) {
	for n, wait := 1, 30*time.Millisecond; ; n, wait = n+1, 2*wait {
		etag, answer, err := s.hedged(ctx, func(ctx context.Context) (string, answer, error) {
			return s.send(ctx, key, data, c, token)
		})
		if answer != undecided || n == maxUndecided || !sleep(ctx, jitter(wait)) {
			return etag, answer, err
		}
	}
}

// maxUndecided is how often 409 is taken for an answer before the put is unknown.
const maxUndecided = 8

// send sends a put once.
func (s *Store) send(ctx context.Context, key string, data []byte, c objstore.Condition, token string) (etag string, a answer, err error) {
	in := &s3.PutObjectInput{
		Bucket: &s.cfg.Bucket, Key: &key, Metadata: map[string]string{tokenName: token}, ContentLength: aws.Int64(int64(len(data))),
	}
	switch held, ok := c.ETag(); {
	case c.IsAbsent():
		in.IfNoneMatch = aws.String("*")
	case ok:
		in.IfMatch = aws.String(`"` + held + `"`)
	}
	sent, err := s.once(ctx, func(ctx context.Context, moved func()) error {
		in.Body = &body{bytes.NewReader(data), moved}
		out, err := s.client.PutObject(ctx, in)
		if err == nil {
			etag = unquote(out.ETag)
		}
		return err
	})
	return etag, answerOf(err, sent, c), err
}

// body notes that it is being read, and so sent. It has no WriteTo, which would give
// everything away at once.
type body struct {
	io.ReadSeeker
	moved func()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.moved()
	return b.ReadSeeker.Read(p)
}

// answer is what one put is known to have come to.
type answer int

const (
	// landed: written.
	landed answer = iota
	// certain: not carried out, and the error says why.
	certain
	// refused: the condition did not hold.
	refused
	// undecided: another request on the key was under way. Not carried out.
	undecided
	// open: it may have landed, or may land later.
	open
)

// answerOf says what an error of a put means. Only an answer that S3 itself has given
// is one: any proxy can say 403.
func answerOf(err error, sent bool, c objstore.Condition) answer {
	code, status := answered(err)
	_, ifMatch := c.ETag()
	switch {
	case err == nil:
		return landed
	case !sent:
		return certain
	case status == http.StatusPreconditionFailed, status == http.StatusNotModified:
		return refused
	case ifMatch && isNotFound(err):
		return refused
	case status == http.StatusConflict && code == "ConditionalRequestConflict":
		return undecided
	case code == "" || status < 400 || status >= 500:
		return open
	default:
		return certain
	}
}
