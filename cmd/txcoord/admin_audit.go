package main

import (
	"log/slog"
	"net/http"

	"google.golang.org/grpc/codes"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/access"
)

// askedProfile is what the audit log says that who wants a profile asks for.
const askedProfile = "admin:*"

// granted writes the audit log's line of a request that is let in. It is written before
// the answer, which may take as long as the caller likes.
func (a *admin) granted(r *http.Request, who access.Principal, asked string) {
	a.audited(r, who.Name(), codes.OK, slog.Any("asked", []string{asked}))
}

// denied writes the line of one that is refused for who makes it.
func (a *admin) denied(r *http.Request, who access.Principal, asked string) {
	a.audited(r, who.Name(), codes.PermissionDenied, slog.Any("asked", []string{asked}), slog.String("reason", string(coordinator.PermissionDenied)))
}

// unproven writes the line of one whose proof is none, or cannot be checked. What is wrong
// with it is said, never the proof.
func (a *admin) unproven(r *http.Request, why coordinator.Reason, err error) {
	code := codes.Unauthenticated
	if why == coordinator.StoreUnavailable {
		code = codes.Unavailable
	}
	a.audited(r, "unauthenticated", code, slog.Any("asked", []string{}), slog.String("reason", string(why)), slog.String("detail", auditText(err.Error())))
}

// audited writes a line of the same form as those of calls by gRPC, codes included.
func (a *admin) audited(r *http.Request, principal string, code codes.Code, more ...slog.Attr) {
	if a.audit == nil {
		return
	}
	all := []slog.Attr{
		slog.String("principal", principal), slog.String("client", r.RemoteAddr), slog.String("method", auditText(r.Method+" "+r.URL.Path)),
		slog.String("catalog", a.catalog), slog.String("code", code.String()),
	}
	a.audit.LogAttrs(r.Context(), slog.LevelInfo, "call", append(all, more...)...)
}

// auditTextMost bounds what a caller can have written into the audit log.
const auditTextMost = 512

func auditText(s string) string {
	if len(s) > auditTextMost {
		return s[:auditTextMost] + "…"
	}
	return s
}
