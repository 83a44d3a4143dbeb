package coordinator

import (
	"context"
	"errors"
	"strings"

	"github.com/txcoord/txcoord/twophase"
)

// freeze refuses commits on a round's tables while its own requests fail and other
// tables of the same bucket make progress, or while a staged part is lost. A stall of the
// whole bucket freezes nothing (R12).
func (p *publisher) freeze(ctx context.Context, id twophase.RoundID, failures map[twophase.TableID]error) {
	for table, cause := range failures {
		t, err := p.c.tables.of(table)
		if err != nil || !p.othersProgress(bucketOf(t.uri)) && !isFatal(cause) {
			continue
		}
		held := p.c.roundAttr(id)
		rec := &twophase.Frozen{Round: id, Table: table, Cause: twophase.CauseStalled, Detail: clip(cause.Error(), 1000)}
		if bad, ok := errors.AsType[*tornError](cause); ok {
			rec.Ground, rec.Detail, rec.Remedy = twophase.GroundTorn, bad.torn.text, bad.torn.remedy
		}
		if lack := lackOf(cause); lack != nil {
			rec.Cause, rec.Txn, rec.Detail = twophase.CauseLost, lack.id.Txn, clip(p.c.lackText(lack), 500)
			held = TxnAttr(lack.id.Txn)
			if isUnwritable(lack) {
				rec.Ground = twophase.GroundUnwritable
			}
		}
		already := false
		p.c.ledger.read(func(s *twophase.State) {
			row, ok := s.Table(table)
			already = ok && (row.Frozen != nil && rec.Cause == twophase.CauseStalled || !row.MayFreeze(rec.Cause))
		})
		if already {
			continue
		}
		p.c.log.Error("a round cannot be published; its tables are frozen", "table", t.uri, "round", id.String(), held, "error", cause)
		if err := p.c.seq.submit(ctx, twophase.Request{Record: rec}); err != nil {
			p.c.log.Warn("freeze", "table", t.uri, "round", id.String(), held, "error", err)
		}
		return
	}
}

// isFatal tells a refusal that waiting does not mend from a store that is away.
func isFatal(err error) bool {
	var own *Error
	return errors.As(err, &own) && own.Reason != ObjectsUnavailable && own.Reason != StoreUnavailable
}

func bucketOf(uri string) string {
	scheme, rest, _ := strings.Cut(uri, "://")
	authority, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + authority
}

func (p *publisher) progressed(bucket string) {
	p.progressMu.Lock()
	defer p.progressMu.Unlock()
	p.progress[bucket] = p.c.cfg.Boot()
}

func (p *publisher) othersProgress(bucket string) bool {
	p.progressMu.Lock()
	defer p.progressMu.Unlock()
	at, ok := p.progress[bucket]
	return ok && p.c.cfg.Boot()-at < p.c.cfg.Limits.FreezeAfter
}
