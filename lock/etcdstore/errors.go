package etcdstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"

	"github.com/txcoord/txcoord/lock"
)

// uncertain says of a write's error what it means: not carried out for certain, or
// unknown.
func uncertain(err error) error {
	if errors.Is(err, rpctypes.ErrRequestTooLarge) {
		return fmt.Errorf("%w: %w", lock.ErrTooLarge, err)
	}
	if notApplied(err) {
		return err
	}
	if errors.Is(err, rpctypes.ErrNoSpace) {
		err = fmt.Errorf("%w (compact and defragment the members, raise --quota-backend-bytes, and disarm the alarm)", err)
	}
	return fmt.Errorf("%w: %w", lock.ErrUnknown, err)
}

// notApplied reports whether etcd gives an error before it applies anything. "No
// space" is not among them: the put that reaches the quota is applied and gets it.
func notApplied(err error) bool {
	var known rpctypes.EtcdError
	if !errors.As(err, &known) {
		return false
	}
	switch known.Code() {
	case codes.InvalidArgument:
		// The permissions changed; it may have been while it was applied.
		return !errors.Is(err, rpctypes.ErrAuthOldRevision)
	case codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition, codes.NotFound:
		return true
	case codes.ResourceExhausted:
		return errors.Is(err, rpctypes.ErrTooManyRequests)
	default:
		return false
	}
}

// refused says of an error that etcd gives until somebody does something about it what that
// is. It is none of those that say that the outcome is unknown.
func refused(cfg Config, err error) error {
	text, remedy := "", ""
	switch {
	case errors.Is(err, rpctypes.ErrAuthFailed):
		text, remedy = "etcd does not accept the user", "correct the user name or the password"
	case errors.Is(err, rpctypes.ErrUserEmpty), errors.Is(err, rpctypes.ErrInvalidAuthToken):
		text, remedy = "etcd does not know this client, since the cluster has authentication enabled", "give a user name and a password"
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		text, remedy = fmt.Sprintf("etcd's user %q lacks a permission", cfg.Username), fmt.Sprintf("grant it readwrite on the prefix %q", cfg.Prefix)
	default:
		return err
	}
	if _, ok := errors.AsType[*lock.Refusal](err); ok {
		return err
	}
	return &lock.Refusal{Reason: lock.ErrDenied, Text: text, Remedy: remedy, Err: err}
}

// explain adds to an error of opening what can be done about it.
func explain(ctx context.Context, cfg Config, err error) error {
	err = refused(cfg, err)
	switch {
	case errors.Is(err, lock.ErrDenied):
		return err
	case ctx.Err() == nil && (errors.Is(err, errNoAnswer) || passing(err)):
		err = errors.Join(diagnose(ctx, cfg), err)
		return lock.Mark(lock.ErrUnreachable, fmt.Errorf("no member of %s answers: %w", strings.Join(cfg.Endpoints, ", "), err))
	default:
		return err
	}
}

// diagnose finds out why an endpoint does not answer. The client says no more than
// that time is over.
func diagnose(ctx context.Context, cfg Config) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var all []error
	for _, endpoint := range cfg.Endpoints {
		u, err := url.Parse(endpoint)
		if err != nil {
			continue
		}
		all = append(all, dial(ctx, cfg, u.Host))
	}
	return errors.Join(all...)
}

func dial(ctx context.Context, cfg Config, host string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return fmt.Errorf("%w; is the address right, and is etcd running there?", err)
	}
	defer conn.Close()
	// To learn whether the server speaks TLS at all; nothing is sent.
	config := &tls.Config{InsecureSkipVerify: true}
	if cfg.secure() {
		config = clientTLS(cfg.TLS, host)
	}
	err = tls.Client(conn, config).HandshakeContext(ctx)
	switch {
	case cfg.secure() && err != nil:
		return fmt.Errorf("%s: %w; is the certificate authority right, and does the server want a client certificate?", host, err)
	case !cfg.secure() && err == nil:
		return fmt.Errorf("%s speaks TLS; say https://", host)
	default:
		return nil
	}
}

func clientTLS(config *tls.Config, host string) *tls.Config {
	if config == nil {
		config = &tls.Config{}
	}
	config = config.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(host)
	}
	return config
}
