package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"google.golang.org/grpc/credentials"

	client "github.com/txcoord/txcoord/clients/go"
)

// session is one run of the program.
type session struct {
	Globals

	in  io.Reader
	out io.Writer
	err io.Writer
	env lookup

	// serverFrom is what named the server; empty for the default. trust is how to speak TLS
	// with it where no flag says that.
	serverFrom string
	trust      *tls.Config

	// origins are those of the server's settings, where it is one that runs, or is looked at.
	origins origins

	dialled *client.Client
	busy    *progress // of the call that runs
}

// call makes a call to the server, or some, within --timeout. What it is doing is
// shown when it takes long.
func (s *session) call(ctx context.Context, doing string, do func(ctx context.Context, c *client.Client) error) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	c, err := s.client()
	if err != nil {
		return err
	}
	s.busy = s.progress(doing)
	defer s.busy.end()
	return s.explain(do(ctx, c))
}

func (s *session) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.Timeout)
}

// retryFor: 0 never gives up.
func retryFor(timeout time.Duration) time.Duration {
	if timeout <= 0 {
		return math.MaxInt64
	}
	return timeout
}

// addressWithoutPassword refuses an address that no message may repeat.
func (s *session) addressWithoutPassword() error {
	if withoutPassword(s.Server) == s.Server {
		return nil
	}
	return usage("--server", s.Server, "give host:port, without user and password; what says who you are goes into TXCOORD_TOKEN")
}

// client dials once. Dialling does not connect.
func (s *session) client() (*client.Client, error) {
	if s.dialled != nil {
		return s.dialled, nil
	}
	if err := s.addressWithoutPassword(); err != nil {
		return nil, err
	}
	token, err := s.tokenThere(s.env)
	if err != nil {
		return nil, err
	}
	options := client.Options{Catalog: s.Catalog, RetryFor: retryFor(s.Timeout), FailFast: !s.AwaitServer, Token: token}
	config := s.trust
	if config == nil {
		if config, err = s.tls(); err != nil {
			return nil, err
		}
	}
	if config != nil {
		options.Credentials = credentials.NewTLS(config)
	}
	c, err := client.Dial(s.Server, options)
	if errors.Is(err, client.ErrPlainToken) {
		return nil, usage("--server", s.Server, "the token would go there in plain text; say --tls or --tls-ca")
	}
	if err != nil {
		return nil, usage("--server", s.Server, "give the server's address as host:port")
	}
	c.Observe(s.AtLeast)
	s.dialled = c
	return c, nil
}

func (s *session) close() error {
	if s.dialled == nil {
		return nil
	}
	return s.dialled.Close()
}

// quiet takes the progress line away, before anything else is printed.
func (s *session) quiet() {
	if s.busy != nil {
		s.busy.end()
	}
}

// note tells the user something that is not the answer.
func (s *session) note(format string, args ...any) {
	s.quiet()
	fmt.Fprintf(s.err, "txcoord: "+format+"\n", args...)
}

func (s *session) warnings(all []string) {
	for _, w := range all {
		s.note("warning: %s", w)
	}
}
