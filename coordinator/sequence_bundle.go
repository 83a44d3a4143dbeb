package coordinator

import (
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// taken are the submissions whose own commit records an entry will hold. What was refused
// or lost, is decided already, or repeats another call of the same group, is not among them.
func taken(group []*submission, d *twophase.Decision) (out []*submission, records []*twophase.Committed) {
	byTxn := map[twophase.TxnID]*twophase.Committed{}
	for _, r := range d.Records {
		if c, ok := r.(*twophase.Committed); ok {
			byTxn[c.Txn] = c
		}
	}
	for i, a := range d.Answers {
		if !a.Recorded || group[i].request.Commit == nil {
			continue
		}
		id := group[i].request.Commit.Record.Txn
		if c := byTxn[id]; c != nil {
			out, records = append(out, group[i]), append(records, c)
			delete(byTxn, id)
		}
	}
	return out, records
}

// bundle puts the small pieces of what an entry will commit into bundles, and names those
// in its records: nobody else's pieces are in them. It returns the writes that make them
// durable. A bundle of an entry that loses its position is named by nothing.
func (s *sequencer) bundle(subs []*submission, records []*twophase.Committed) []lock.Write {
	p := packer{room: s.c.cfg.Limits.BundleBytes}
	in := make([][]*bundle, len(subs))
	for i, sub := range subs {
		in[i] = p.add(sub.packs)
	}
	writes, names := make([]lock.Write, len(p.bundles)), make(map[*bundle]twophase.BundleID, len(p.bundles))
	for i, b := range p.bundles {
		id := b.id()
		writes[i], names[b] = b.write(id), id
		s.c.payloads.holds(id, b.ids())
	}
	for i, c := range records {
		for k, b := range in[i] {
			c.Bundles[k] = names[b]
		}
	}
	return writes
}

// lost notes the bundles that were made for an entry which did not come to stand at its
// position. They go when what is in them is decided with others.
func lost(subs []*submission, records []*twophase.Committed) {
	for i, sub := range subs {
		sub.stale = append(sub.stale, records[i].Bundles[:len(sub.packs)]...)
	}
}
