package coordinator

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// Subject is which transaction a call is about. Whoever takes the call has a token or a
// key, and says in the call's log lines what the catalog found in it. It is safe for
// concurrent use.
type Subject struct {
	txn atomic.Pointer[twophase.TxnID]
}

// Txn is the transaction; zero as long as it is not known.
func (s *Subject) Txn() (id twophase.TxnID) {
	if at := s.txn.Load(); at != nil {
		id = *at
	}
	return id
}

type subjectKey struct{}

// WithSubject has the calls under a context say which transaction they are about.
func WithSubject(ctx context.Context, s *Subject) context.Context {
	return context.WithValue(ctx, subjectKey{}, s)
}

// about notes the transaction of a call. Ids out of tokens that were not checked do not
// get here.
func about(ctx context.Context, id twophase.TxnID) {
	if s, ok := ctx.Value(subjectKey{}).(*Subject); ok {
		s.txn.Store(&id)
	}
}

// About notes the transaction of a call that is refused before it gets further, for its log
// lines. A reference that names none, as a token that is not ours or a key without an
// attempt, notes nothing.
func (c *Catalog) About(ctx context.Context, r OutcomeRef) {
	switch {
	case r.Token != "":
		if ref, err := c.open(r.Token); err == nil {
			about(ctx, ref.id)
		}
	case !r.Txn.IsZero():
		about(ctx, r.Txn)
	case r.Key != "" && r.Attempt != 0:
		about(ctx, twophase.DeriveTxnID(c.journal.Meta().Catalog, r.Key, r.Attempt))
	}
}

// TxnAttr is what every log line calls the transaction that it is about.
func TxnAttr(id twophase.TxnID) slog.Attr { return slog.String("txn", id.String()) }

// txnsLogged bounds a log line.
const txnsLogged = 16

// txnAttrs names the transactions that a log line is about: one as TxnAttr does, several
// as a list of the first.
func txnAttrs(all []twophase.TxnID) slog.Attr {
	switch len(all) {
	case 0:
		return slog.Attr{} // which handlers leave out
	case 1:
		return TxnAttr(all[0])
	}
	ids := make([]string, min(len(all), txnsLogged))
	for i := range ids {
		ids[i] = all[i].String()
	}
	return slog.Any("txns", ids)
}

// roundAttr names the transactions of an open round.
func (c *Catalog) roundAttr(id twophase.RoundID) (a slog.Attr) {
	c.ledger.read(func(s *twophase.State) {
		if r, open := s.Round(id); open {
			a = txnAttrs(r.Txns)
		}
	})
	return a
}

// versionAttr names the transactions of a version.
func versionAttr(in *tables.RenderInput) slog.Attr {
	ids := make([]twophase.TxnID, len(in.Txns))
	for i := range in.Txns {
		ids[i] = in.Txns[i].ID
	}
	return txnAttrs(ids)
}
