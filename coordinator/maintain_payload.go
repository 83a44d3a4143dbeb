package coordinator

import (
	"context"
	"strings"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// payloads counts the staged parts of a table that may go, and removes them unless
// it is a dry run. Which ones may is the fold's word (R20), as for the sweeper, which
// comes to them by itself. A part that lies in a bundle goes with the last one in it.
func (m *Maintainer) payloads(ctx context.Context, table twophase.TableID, dry bool) (PayloadReport, error) {
	due, err := m.duePayloads(ctx, table)
	if err != nil || dry {
		return due.report, err
	}
	err = m.c.payloads.remove(ctx, placeUnknown, due.pieces)
	if err == nil {
		err = parallelIndex(len(due.bundles), removeAtOnce, func(i int) error {
			return m.c.payloads.removeBundle(ctx, due.bundles[i].id, due.bundles[i].pieces)
		})
	}
	return due.report, m.c.storeError(err)
}

// duePayloads are the parts of a table that may go, and the bundles that they go with.
type duePayloads struct {
	report  PayloadReport
	pieces  []located
	bundles []dueBundle
}

type dueBundle struct {
	id     twophase.BundleID
	pieces []payloadID
}

func (m *Maintainer) duePayloads(ctx context.Context, table twophase.TableID) (due duePayloads, err error) {
	count := func(id payloadID, size int64) {
		if at := (located{payloadID: id}); id.Table == table && m.c.sweeper.mayGo(at) {
			due.pieces = append(due.pieces, at)
			due.report.Parts++
			due.report.Bytes += size
		}
	}
	err = scanKeys(ctx, m.c.cfg.Store, payKeys, func(it lock.Item) {
		id, in, ok := parseItem(it.Key)
		switch {
		case !ok:
		case in.IsZero():
			count(id, int64(len(it.Value)))
		default:
			due.bundle(m.c.sweeper, table, in, it.Value)
		}
	})
	if err != nil {
		return due, m.c.storeError(err)
	}
	prefix := m.c.own.key("staged/")
	for e, err := range m.c.own.store.List(ctx, objstore.ListOptions{Prefix: prefix}) {
		if err != nil {
			return due, m.c.objectsError("", err)
		}
		if id, ok := parsePayload(strings.TrimPrefix(e.Key, prefix)); ok {
			count(id, e.Size)
		}
	}
	return due, nil
}

// bundle counts the table's parts in a bundle of which nothing is needed.
func (d *duePayloads) bundle(w *sweeper, table twophase.TableID, in twophase.BundleID, value []byte) {
	pieces, err := unpack(value)
	if err != nil {
		return // left to the sweeper
	}
	b := dueBundle{id: in}
	var own PayloadReport
	for _, u := range pieces {
		b.pieces = append(b.pieces, u.id)
		if u.id.Table == table {
			own.Parts++
			own.Bytes += int64(len(u.raw))
		}
	}
	if own.Parts == 0 || !w.allMayGo(in, b.pieces) {
		return
	}
	d.bundles = append(d.bundles, b)
	d.report.Parts += own.Parts
	d.report.Bytes += own.Bytes
}
