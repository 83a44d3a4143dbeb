package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/access"
)

// admin answers operators and their tools by HTTP. Health is for everybody who reaches
// it. Metrics are for those who may read something of the catalog, profiles for its
// admins; without an access file, both are for this machine.
type admin struct {
	server  *http.Server
	address string
	ended   chan error

	access  *access.Access
	audit   *slog.Logger // nil without --audit-log
	catalog string
	state   *observing
	open    bool // --insecure: metrics are for everybody
	socket  bool
}

// adminHeader bounds how long a client may take to say what it wants.
const adminHeader = 10 * time.Second

func startAdmin(ctx context.Context, c *Config, catalog string, g guards, o *observing) (*admin, error) {
	l, err := listen(ctx, c.AdminListen)
	if err != nil {
		return nil, fmt.Errorf("--admin-listen: %w", err)
	}
	a := &admin{access: g.access, audit: g.audit, catalog: catalog, state: o, open: c.Insecure, socket: isSocket(c.AdminListen), ended: make(chan error, 1)}
	a.address = "http://" + l.Addr().String()
	switch {
	case a.socket:
		a.address = addressOf(l.Addr())
	case g.http != nil:
		l, a.address = tls.NewListener(l, g.http), "https://"+l.Addr().String()
	}
	a.server = &http.Server{
		Handler: a.mux(), ReadHeaderTimeout: adminHeader, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(o.log.Handler(), slog.LevelDebug),
	}
	go func() { a.ended <- a.server.Serve(l) }()
	return a, nil
}

func (a *admin) close(ctx context.Context) error {
	err := a.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, a.server.Close())
	}
	if ended := <-a.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

func (a *admin) mux() *http.ServeMux {
	m := http.NewServeMux()
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "alive") })
	m.HandleFunc("GET /readyz", a.ready)
	m.Handle("GET /metrics", a.guarded("read:", a.mayScrape, a.state.telemetry.Metrics()))
	for pattern, h := range map[string]http.HandlerFunc{
		"GET /debug/pprof/": pprof.Index, "GET /debug/pprof/profile": pprof.Profile, "GET /debug/pprof/trace": pprof.Trace, "GET /debug/pprof/symbol": pprof.Symbol,
	} {
		m.Handle(pattern, a.guarded(askedProfile, a.mayProfile, h))
	}
	// It would say with which flags the server runs.
	m.Handle("GET /debug/pprof/cmdline", http.NotFoundHandler())
	return m
}

// ready is for whoever sends clients here. It turns before calls are refused.
func (a *admin) ready(w http.ResponseWriter, _ *http.Request) {
	state, _ := a.state.now.Load().(string)
	if state != stateServing {
		say(w, http.StatusServiceUnavailable, state)
		return
	}
	say(w, http.StatusOK, state)
}

func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n") // whoever asked may have gone
}

// guarded answers only those who may. asked is what the audit log calls what they ask for.
func (a *admin) guarded(asked string, may func(*http.Request, *access.Rights) bool, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := a.access.Authenticate(r.Context(), httpProof(r))
		switch {
		case errors.Is(err, access.ErrUnavailable):
			a.unproven(r, coordinator.StoreUnavailable, err)
			say(w, http.StatusServiceUnavailable, "who you are cannot be found out now")
		case err != nil:
			a.unproven(r, coordinator.Unauthenticated, err)
			w.Header().Set("WWW-Authenticate", "Bearer")
			say(w, http.StatusUnauthorized, "what you showed proves nothing")
		case !may(r, a.access.Policy().Rights(who, a.catalog)):
			a.denied(r, who, asked)
			say(w, http.StatusForbidden, who.Name()+" may not; docs/observability.md says who may")
		default:
			if asked == askedProfile {
				a.granted(r, who, asked)
			}
			h.ServeHTTP(w, r)
		}
	})
}

func (a *admin) mayScrape(r *http.Request, rights *access.Rights) bool {
	if a.access == nil {
		return a.open || a.here(r)
	}
	return rights.OnAny(access.Read)
}

func (a *admin) mayProfile(r *http.Request, rights *access.Rights) bool {
	if a.access == nil {
		return a.here(r)
	}
	return rights.OnAll(access.Admin)
}

// here reports whether a request comes from this machine, and not from a page that a
// browser on it shows: that one names a host of its own.
func (a *admin) here(r *http.Request) bool {
	if a.socket {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return loopback(r.RemoteAddr) && loopback(net.JoinHostPort(strings.Trim(host, "[]"), "0"))
}

func httpProof(r *http.Request) access.Proof {
	p := access.Proof{Authorization: r.Header.Get("Authorization")}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		p.Certificate = r.TLS.VerifiedChains[0][0]
	}
	return p
}

// stateOf is what may be told of why a catalog is not served.
func stateOf(err error) string {
	var own *coordinator.Error
	switch {
	case err == nil:
		return stateServing
	case errors.Is(err, coordinator.ErrMoved):
		return stateMoved
	case errors.Is(err, errStartingAgain):
		return stateStarting
	case !errors.As(err, &own):
		return stateBroken
	case own.Reason == coordinator.ReplicaBehind:
		return stateStarting
	case own.Reason == coordinator.ShuttingDown:
		return stateStopping
	}
	return stateBroken
}
