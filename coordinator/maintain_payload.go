package coordinator

import (
	"context"
	"strings"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// payloads counts the staged parts of a table that may go, and removes them unless
// it is a dry run. Which ones may is the fold's word (R20), as for the sweeper, which
// comes to them by itself.
func (m *Maintainer) payloads(ctx context.Context, table twophase.TableID, dry bool) (PayloadReport, error) {
	var report PayloadReport
	var due []payloadID
	note := func(name string, size int64) {
		if id, ok := parsePayload(name); ok && id.Table == table && m.c.sweeper.mayGo(id) {
			due = append(due, id)
			report.Parts++
			report.Bytes += size
		}
	}
	if err := m.storedPayloads(ctx, note); err != nil {
		return report, m.c.storeError(err)
	}
	prefix := m.c.own.key("staged/")
	for e, err := range m.c.own.store.List(ctx, objstore.ListOptions{Prefix: prefix}) {
		if err != nil {
			return report, m.c.objectsError("", err)
		}
		note(strings.TrimPrefix(e.Key, prefix), e.Size)
	}
	if dry || len(due) == 0 {
		return report, nil
	}
	return report, m.c.storeError(m.c.payloads.remove(ctx, placeUnknown, due))
}

// storedPayloads goes through the parts that lie in the store.
func (m *Maintainer) storedPayloads(ctx context.Context, note func(name string, size int64)) error {
	after := ""
	for {
		items, err := m.c.cfg.Store.Scan(ctx, "pay/", after, 0)
		if err != nil || len(items) == 0 {
			return err
		}
		for _, it := range items {
			after = it.Key
			_, name, _ := strings.Cut(strings.TrimPrefix(it.Key, "pay/"), "/") // behind the shard
			note(name, int64(len(it.Value)))
		}
	}
}
