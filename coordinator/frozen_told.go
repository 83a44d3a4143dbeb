package coordinator

import (
	"context"
	"log/slog"

	"github.com/txcoord/txcoord/twophase"
)

// tellFreezes is what the log says of an entry that freezes tables or has an operator's
// word on them; nil if nothing. The replica that wrote the entry says it, when it folds
// it: so it is said once, also where the call that brought it about has gone, and not
// again of a journal that is read at the start. Stalls, lost parts, contradictions and
// replacements are said by whoever finds them. The ledger's lock is held.
func (c *Catalog) tellFreezes(before *foldMarks, e *twophase.Entry) (tell func()) {
	if !c.started.Load() || e.Writer != c.replicas.writer() {
		return nil
	}
	var lines []func()
	for _, r := range e.Records {
		if level, text, about := c.freezeLine(before, r); text != "" {
			lines = append(lines, func() { c.log.LogAttrs(context.Background(), level, text, about...) })
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return func() {
		for _, line := range lines {
			line()
		}
	}
}

// freezeLine is what is said of one record; no text if nothing.
func (c *Catalog) freezeLine(before *foldMarks, r twophase.Record) (level slog.Level, text string, about []slog.Attr) {
	switch r := r.(type) {
	case *twophase.Held:
		if r.Off {
			return slog.LevelInfo, "an operator unfroze the table", c.tableAttrs(r.Table, slog.String("reason", r.Detail))
		}
		return slog.LevelWarn, "an operator froze the table", c.tableAttrs(r.Table, causeAttr(twophase.CauseOperator), slog.String("reason", r.Detail))
	case *twophase.Thawed:
		return slog.LevelInfo, "an operator resolved the table", c.tableAttrs(r.Table, slog.Bool("mended", r.Mended), slog.String("reason", r.Detail))
	case *twophase.Replaced:
		if r.GivenUp {
			return slog.LevelWarn, "an operator gave the table up", c.tableAttrs(r.Table, causeAttr(twophase.CauseReplaced), slog.String("reason", r.Detail))
		}
	default:
		id := recordTable(r)
		t, ok := c.ledger.state.Table(id)
		if ok && t.Frozen != nil && len(t.Diverged) > before.diverged[id] {
			return slog.LevelWarn, "a decided change became impossible; its tables are frozen", c.tableAttrs(id,
				causeAttr(t.Frozen.Cause), slog.String("detail", t.Frozen.Detail), TxnAttr(t.Diverged[len(t.Diverged)-1].Txn), slog.Int("tables", frozenFrom(c.ledger.state, id)))
		}
	}
	return 0, "", nil
}

func causeAttr(cause twophase.Cause) slog.Attr { return slog.String("cause", cause.String()) }

// tableAttrs names a table by its place, as other lines do, with its recorded version.
func (c *Catalog) tableAttrs(id twophase.TableID, more ...slog.Attr) []slog.Attr {
	out := make([]slog.Attr, 0, 2+len(more))
	if t, ok := c.ledger.state.Table(id); ok {
		out = append(out, slog.String("table", t.URI), slog.Int64("version", int64(t.Recorded)))
	}
	return append(out, more...)
}

// frozenFrom counts the tables whose freeze began at one.
func frozenFrom(s *twophase.State, origin twophase.TableID) (n int) {
	for _, t := range s.Tables() {
		if t.Frozen != nil && t.Frozen.Origin == origin {
			n++
		}
	}
	return n
}
