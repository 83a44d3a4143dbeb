package twophase

import (
	"fmt"
	"slices"
)

// newSnapshots checks what the snapshots since then show.
func (c *checker) newSnapshots(since SnapshotVersion) {
	for _, sn := range c.ref.snapshots {
		if sn.Version <= since {
			continue
		}
		for _, st := range sn.Tables {
			if st.Version < c.shown[st.Table] {
				c.w.fail(snapshotForward, "snapshot %d shows %s at %d, before it was %d", sn.Version, st.Table, st.Version, c.shown[st.Table])
			}
			if at := c.ref.tables[st.Table].Recorded; at < st.Version {
				c.w.fail(snapshotComplete, "snapshot %d shows %s at %d, recorded is %d", sn.Version, st.Table, st.Version, at)
			}
			c.complete(sn, st)
			c.shown[st.Table] = st.Version
		}
		for _, txn := range sn.Txns {
			c.published(sn, txn)
		}
	}
}

// complete: every transaction in a version that a snapshot shows is shown in all
// its tables.
func (c *checker) complete(sn *Snapshot, st SnapshotTable) {
	t := c.ref.tables[st.Table]
	if !c.healthy(t) {
		return
	}
	p := c.w.placeOf(t)
	for v := c.shown[st.Table] + 1; v <= st.Version; v++ {
		if p.past[v] == nil {
			c.w.fail(acknowledged, "snapshot %d shows %s at %d, which has no version %d", sn.Version, st.Table, st.Version, v)
		}
		for _, td := range p.past[v].txns {
			c.published(sn, td.Txn)
		}
	}
}

func (c *checker) published(sn *Snapshot, txn TxnID) {
	o := c.ref.Outcome(txn)
	if o == nil || o.Commit == nil {
		return // decided under an earlier registration, and forgotten
	}
	for _, id := range o.Commit.Releases {
		if !c.ref.tables[id].Released {
			c.w.fail(snapshotComplete, "snapshot %d shows %s, and %s is still there", sn.Version, short(txn), id)
		}
	}
	for i, part := range o.Parts {
		id := o.Commit.Parts[i].Table
		t := c.ref.tables[id]
		switch {
		case part.Status == StatusNotApplied:
		case part.Status != StatusPublished || t.Shown < part.Version && !t.Released:
			c.w.fail(snapshotComplete, "snapshot %d shows %s; on %s it is %v at %d, shown is %d", sn.Version, short(txn), id, part.Status, part.Version, t.Shown)
		default:
			c.isThere(t, txn, part)
		}
	}
}

// landing checks a version of ours that is about to land.
func (c *checker) landing(p *simPlace, n *simCommit) {
	w := c.w
	t, ok := c.ref.TableNamed(p.uri)
	_, ckpt := p.highest(0)
	switch {
	case !ok || !p.owner || !c.looksOwn(p, t, n):
		w.fail(ownTable, "%s@%d lands in another table", p.name, n.version)
	case n.version <= ckpt:
		w.fail(staysCleaned, "%s@%d lands under the checkpoint %d", p.name, n.version, ckpt)
	case n.version != p.latest+1:
		w.fail(contiguous, "%s@%d lands after %d", p.name, n.version, p.latest)
	}
	c.counts["version of ours"]++
	if len(n.txns) > 1 {
		c.counts["version shared"]++
	}
	for _, td := range n.txns {
		if v, ok := p.delivered[td.Txn]; ok {
			w.fail(exactlyOnce, "%s is in %s@%d and @%d", short(td.Txn), p.name, v, n.version)
		}
	}
	for _, ch := range t.Pending {
		if ch.Round == nil && slices.ContainsFunc(n.txns, func(td TxnDigest) bool { return td.Txn == ch.Txn }) {
			w.fail(ofItsRound, "%s@%d holds %s, which still waits", p.name, n.version, short(ch.Txn))
		}
	}
	if len(n.txns) > 0 && n.marker <= p.state.marker {
		w.fail(inOrder, "%s@%d has marker %d, below is %d", p.name, n.version, n.marker, p.state.marker)
	}
	apps := map[int]bool{}
	for _, ch := range n.changes {
		if ch.app > 0 && apps[ch.app] {
			w.fail(logReplays, "%s@%d has app %d twice", p.name, n.version, ch.app)
		}
		apps[ch.app] = true
	}
}

// looksOwn reports whether the log still is the registered table's, or a copy of it
// that holds the recorded version that the writer went by.
func (c *checker) looksOwn(p *simPlace, t *Table, n *simCommit) bool {
	if p.epoch == c.epochs[t.Table] {
		return true
	}
	if n.version == 0 {
		return p.latest == NoVersion && n.table == t.Table
	}
	at := p.past[n.from]
	return at != nil && n.version == p.latest+1 && (n.fromIdentity.IsZero() || at.identity == n.fromIdentity)
}

// rendered checks a version of ours as a publisher made it.
func (c *checker) rendered(p *simPlace, n *simCommit) {
	key := fmt.Sprint(p.uri, p.epoch, n.version, n.txns[0].Txn)
	if was, ok := c.content[key]; ok && was != n.identity {
		c.w.fail(sameContent, "%s@%d is rendered in two ways", p.name, n.version)
	}
	c.content[key] = n.identity
}
