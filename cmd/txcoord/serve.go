package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/rpc"
	"github.com/txcoord/txcoord/coordinator/telemetry"
)

type serveCommand struct {
	Config
	ListLimits listLimits `help:"List the limits that --limit sets, and end."`
}

// Help stands above the flags.
func (serveCommand) Help() string {
	return `Example: txcoord serve --warehouse lake keeps a catalog in the folder lake, which it makes, and serves it on ` + defaultServer + `.
With a file instead of flags: txcoord serve --config txcoord.yaml; txcoord config check txcoord.yaml says all that is wrong with it.`
}

// listLimits ends the program before the rest of the flags is asked for.
type listLimits bool

// BeforeReset is called when the flag is met.
func (listLimits) BeforeReset(s *session) error {
	if err := s.showLimits(); err != nil {
		return err
	}
	panic(exit(exitOK))
}

func (c *serveCommand) Run(ctx context.Context, s *session) error {
	c.env, c.peerCA = s.env, s.TLSCA
	return serve(ctx, &c.Config, s.Catalog, s.out, s.err)
}

// serve runs until the context ends, and then stops in order: no new calls, the
// calls in flight, the catalog, the store. It returns when all of it has ended.
func serve(ctx context.Context, c *Config, catalog string, out, log io.Writer) (err error) {
	if c.wantsProcessors() {
		moreProcessors()
	}
	logger := newLogger(c, log)
	// First, so that a start that cannot serve leaves nothing behind.
	listener, err := listen(ctx, c.Listen)
	if err != nil {
		return err
	}
	defer listener.Close() // again, where the server has closed it: that changes nothing
	guards, err := c.Security.open(logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, guards.close()) }()
	observed, err := startObserving(ctx, c, catalog, guards, logger)
	if err != nil {
		return err
	}
	defer observed.close()
	running, err := open(ctx, c, catalog, c.advertised(listener.Addr()), logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, running.close(c.drain())) }()
	if to := running.movedTo(); to != "" {
		return coordinator.MovedError(catalog, to)
	}
	if running.created {
		tellCreated(c, catalog, log, logger)
	}
	dial, err := guards.peer(running.shared, c.peerCA, observed.dialling()...)
	if err != nil {
		return err
	}
	server, err := rpc.NewServer(rpc.Config{
		Find: running.find, Dial: dial, Version: version(), Limits: c.rpc, Quota: c.quota, Log: logger,
		Access: guards.access, TLS: guards.tls, Audit: guards.audit,
		Calls: observed.telemetry.Calls(), Refused: c.recorder.QuotaExceeded,
	})
	if err != nil {
		return err
	}
	c.recorder.WatchQuotas(server.Quotas)
	var group errgroup.Group
	group.Go(func() error { return server.Serve(listener) })
	following, unfollow := context.WithCancel(ctx)
	defer unfollow()
	group.Go(func() error { running.keepUp(following); return nil })
	group.Go(func() error { guards.follow(following, logger); return nil })
	group.Go(func() error { observed.follow(following, running.ready, server, catalog); return nil })
	if err := ready(c, catalog, addressOf(listener.Addr()), observed.address(), out); err != nil {
		unfollow()
		stop(server, c.StopTimeout)
		return errors.Join(err, group.Wait())
	}
	to := running.untilMoved(ctx)
	logger.Info("stopping", "timeout", c.StopTimeout)
	observed.now.Store(stateStopping)
	unfollow()
	stop(server, c.StopTimeout)
	if err := group.Wait(); err != nil || to == "" {
		return err
	}
	return coordinator.MovedError(catalog, to)
}

// tellCreated says that nothing was there, whatever the log level: a misspelt
// warehouse looks like this.
func tellCreated(c *Config, catalog string, out io.Writer, log *slog.Logger) {
	if c.LogFormat == "json" {
		log.Info("a new catalog was created", "catalog", catalog, "warehouse", c.Warehouse)
		return
	}
	fmt.Fprintf(out, "txcoord: catalog %s is new: there was none in %s\n", catalog, c.Warehouse)
}

func stop(server *rpc.Server, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	server.Stop(ctx)
}

// ready says where the server is to be found. The file appears whole.
func ready(c *Config, catalog, address, admin string, out io.Writer) error {
	if _, err := fmt.Fprintf(out, "txcoord serves catalog %s on %s\n", catalog, address); err != nil {
		return err
	}
	if admin != "" {
		if _, err := fmt.Fprintf(out, "its health and metrics are at %s\n", admin); err != nil {
			return err
		}
	}
	if c.ReadyFile == "" {
		return nil
	}
	draft := c.ReadyFile + ".draft"
	if err := os.WriteFile(draft, []byte(address+"\n"), 0o644); err != nil {
		return fmt.Errorf("write the ready file: %w", err)
	}
	return os.Rename(draft, c.ReadyFile)
}

func newLogger(c *Config, w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.level()}
	if c.LogFormat == "json" {
		return slog.New(telemetry.LogHandler(slog.NewJSONHandler(w, o)))
	}
	return slog.New(telemetry.LogHandler(slog.NewTextHandler(w, o)))
}
