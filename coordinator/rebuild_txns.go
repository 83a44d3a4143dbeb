package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txcoord/txcoord/internal/number"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// stagedParts has the pieces of transactions that are staged, by table.
type stagedParts map[twophase.TxnID]map[twophase.TableID][]stagedPiece

// stagedPiece lies under a key of the store, by itself or in a bundle, or in an object.
type stagedPiece struct {
	located
	object   bool
	modified time.Time // of an object
}

func (s stagedParts) note(piece stagedPiece) {
	if s[piece.Txn] == nil {
		s[piece.Txn] = map[twophase.TableID][]stagedPiece{}
	}
	s[piece.Txn][piece.Table] = append(s[piece.Txn][piece.Table], piece)
}

// staged lists the parts in the warehouse, and in the store if that is the old one.
func (r *rebuilding) staged(ctx context.Context) (stagedParts, error) {
	out := stagedParts{}
	prefix := r.own.key("staged/")
	for e, err := range r.own.store.List(ctx, objstore.ListOptions{Prefix: prefix}) {
		if err != nil {
			return nil, fmt.Errorf("list staged parts: %w", err)
		}
		if id, ok := parsePayload(strings.TrimPrefix(e.Key, prefix)); ok {
			out.note(stagedPiece{located{payloadID: id}, true, e.Modified})
		}
	}
	if r.old == nil {
		return out, nil
	}
	return out, scanKeys(ctx, r.cfg.Store, payKeys, func(it lock.Item) {
		id, in, ok := parseItem(it.Key)
		switch {
		case !ok:
		case in.IsZero():
			out.note(stagedPiece{located: located{payloadID: id}})
		default:
			pieces, _ := unpack(it.Value) // one that cannot be read has nothing for anybody
			for _, u := range pieces {
				out.note(stagedPiece{located: located{u.id, in}})
			}
		}
	})
}

func scanKeys(ctx context.Context, store lock.Store, prefix string, each func(lock.Item)) error {
	for after := ""; ; {
		items, err := store.Scan(ctx, prefix, after, 0)
		if err != nil {
			return fmt.Errorf("read the store's keys %s…: %w", prefix, err)
		}
		if len(items) == 0 {
			return nil
		}
		for _, it := range items {
			after = it.Key
			each(it)
		}
	}
}

// loggedTxn is a transaction as the logs show it.
type loggedTxn struct {
	parts   []twophase.KnownPart
	of      tables.Participants
	shown   bool // the newest manifest shows it
	refused bool // a barrier gave a part up: that was somebody's word
	time    twophase.Time
	// incarnation and round that published it. again: the logs hold an older one, too.
	incarnation, round string
	again              bool
}

func (l *loggedTxn) part(id twophase.TableID) *twophase.KnownPart {
	for i := range l.parts {
		if l.parts[i].Table == id {
			return &l.parts[i]
		}
	}
	return nil
}

// transactions makes of the versions what is known of each transaction, and names those
// that are torn.
func (r *rebuilding) transactions(staged stagedParts) {
	found := loggedRounds{}
	for _, t := range r.tables {
		for _, v := range t.versions {
			found.note(t, v)
		}
		r.since = max(r.since, t.known)
	}
	all := found.newest()
	byID := map[twophase.TableID]*rebuiltTable{}
	for _, t := range r.tables {
		byID[t.row.Table] = t
	}
	ids := make([]twophase.TxnID, 0, len(all))
	for id := range all {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b twophase.TxnID) int { return compare(a.String(), b.String()) })
	for _, id := range ids {
		l := all[id]
		r.noted(id, l, byID)
		r.torn(id, l, byID, staged)
		if !slices.ContainsFunc(l.parts, func(p twophase.KnownPart) bool { return p.Version != twophase.NoVersion }) {
			continue // given up everywhere
		}
		slices.SortFunc(l.parts, func(a, b twophase.KnownPart) int { return compare(a.Table, b.Table) })
		known := twophase.Known{Txn: id, Parts: l.parts}
		if l.shown || !l.again { // else they mean the older one
			known.Snapshot = r.before.shows[id]
		}
		if known.Snapshot == 0 && l.shown {
			known.Snapshot = r.before.newest
		}
		r.known = append(r.known, known)
	}
	r.known = decidedOrder(r.known)
	r.report.Known = len(r.known)
	if r.since > 0 {
		r.report.Since = r.since.Std()
	}
	r.openTxns(all, staged)
	r.inNoLog(all)
}

// decidedOrder puts transactions into an order that all logs agree with: versions deliver
// a table's changes in the order of their decision (R2).
func decidedOrder(known []twophase.Known) []twophase.Known {
	type delivered struct {
		change twophase.ChangeNumber
		of     int
	}
	byTable := map[twophase.TableID][]delivered{}
	for i, k := range known {
		for _, p := range k.Parts {
			if p.Version != twophase.NoVersion {
				byTable[p.Table] = append(byTable[p.Table], delivered{p.Change, i})
			}
		}
	}
	next, before := make([][]int, len(known)), make([]int, len(known))
	for _, list := range byTable {
		slices.SortFunc(list, func(a, b delivered) int { return compare(a.change, b.change) })
		for i := 1; i < len(list); i++ {
			next[list[i-1].of] = append(next[list[i-1].of], list[i].of)
			before[list[i].of]++
		}
	}
	out, done := make([]twophase.Known, 0, len(known)), make([]bool, len(known))
	var free []int
	for i := range known {
		if before[i] == 0 {
			free = append(free, i)
		}
	}
	for ; len(free) > 0; free = free[1:] {
		i := free[0]
		out, done[i] = append(out, known[i]), true
		slices.Sort(next[i])
		for _, n := range next[i] {
			if before[n]--; before[n] == 0 {
				free = append(free, n)
			}
		}
	}
	for i := range known { // logs that contradict each other, which fsck names
		if !done[i] {
			out = append(out, known[i])
		}
	}
	return out
}

type txnGroup struct {
	id      twophase.TxnID
	digests []twophase.Digest
}

// byTxn joins the references of a version's tags by transaction, in order.
func byTxn(refs []tables.TxnRef) (out []txnGroup) {
	for _, ref := range refs {
		if n := len(out); n == 0 || out[n-1].id != ref.ID {
			out = append(out, txnGroup{id: ref.ID})
		}
		last := &out[len(out)-1]
		last.digests = append(last.digests, ref.Digest)
	}
	return out
}

// torn names a transaction that is not in all of its logs. What the newest manifest shows
// is whole: a snapshot is made when the last table has it. Parts that are missing are
// known as given up from here on, so that the key is not taken for a new one.
func (r *rebuilding) torn(id twophase.TxnID, l *loggedTxn, byID map[twophase.TableID]*rebuiltTable, staged stagedParts) {
	if l.shown {
		l.lacking(byID)
		r.halves(id, l, byID)
		return
	}
	if l.of.Count <= len(l.parts) {
		return
	}
	out := TornTxn{Txn: id, More: l.of.Count - len(l.parts), In: l.in(byID)}
	back := 0
	for _, table := range l.of.Tables {
		if l.part(table) != nil {
			continue
		}
		out.More--
		gone := r.lostWith(id, l, table)
		if _, named := r.before.tables[table]; named && byID[table] == nil && gone == nil {
			continue // left out, or released since
		}
		missing := TornPart{ID: table, Version: twophase.NoVersion, pieces: staged[id][table]}
		for _, piece := range missing.pieces {
			missing.Staged = append(missing.Staged, piece.Digest.String())
		}
		if t := byID[table]; t != nil {
			missing.Name, missing.Cleaned = t.row.Name, !t.unbroken
		} else if gone != nil {
			missing.Name = gone.row.Name
			back++
		}
		out.Missing = append(out.Missing, missing)
		l.parts = append(l.parts, twophase.KnownPart{Table: table, Version: twophase.NoVersion})
	}
	switch {
	case len(out.Missing) == 0 && out.More == 0:
		return
	case len(out.Missing) == back && out.More == 0:
		r.tornBack(out)
		return
	}
	r.report.Torn = append(r.report.Torn, out)
	r.found(RebuildFinding{Code: RebuildTorn, Txn: id, What: out.String()})
}

// in are the tables that have it.
func (l *loggedTxn) in(byID map[twophase.TableID]*rebuiltTable) (out []TornPart) {
	for _, p := range l.parts {
		if p.Version != twophase.NoVersion { // else it was given up there
			out = append(out, TornPart{ID: p.Table, Name: byID[p.Table].row.Name, Version: p.Version})
		}
	}
	slices.SortFunc(out, func(a, b TornPart) int { return compare(a.Name, b.Name) })
	return out
}

// lacking notes where a transaction is not, although the manifests show what is there of it:
// somebody gave a part up, or it was torn in a life before that, which was accepted then. Only
// a log of which every version since then was read tells.
func (l *loggedTxn) lacking(byID map[twophase.TableID]*rebuiltTable) {
	for _, table := range l.of.Tables {
		if t := byID[table]; t != nil && t.known < l.time && l.part(table) == nil {
			l.parts = append(l.parts, twophase.KnownPart{Table: table, Version: twophase.NoVersion})
		}
	}
}

func (t TornTxn) String() string {
	var b strings.Builder
	list := func(parts []TornPart) {
		for i, p := range parts {
			if i > 0 {
				b.WriteString(", ")
			}
			name := p.Name
			if name == "" {
				name = string(p.ID)
			}
			b.WriteString(name)
			if p.Version != twophase.NoVersion {
				fmt.Fprintf(&b, "@%d", p.Version)
			}
			if len(p.Staged) > 0 {
				fmt.Fprintf(&b, " (%s %s staged)", number.Of(len(p.Staged), "piece"), number.Verb(len(p.Staged), "is", "are"))
			}
			if p.Cleaned {
				b.WriteString(" (or in a commit that was cleaned)")
			}
		}
	}
	b.WriteString("in ")
	if list(t.In); len(t.In) == 0 {
		b.WriteString("no log")
	}
	b.WriteString("; missing in ")
	list(t.Missing)
	if t.More > 0 {
		if len(t.Missing) > 0 {
			b.WriteString(" and ")
		}
		fmt.Fprintf(&b, "%s that it does not name", number.Of(t.More, "table"))
	}
	return b.String()
}

// openTxns names transactions that are staged and in no log.
func (r *rebuilding) openTxns(all map[twophase.TxnID]*loggedTxn, staged stagedParts) {
	for id, parts := range staged {
		if l := all[id]; l == nil || r.begunSince(l, parts) {
			r.found(RebuildFinding{Code: RebuildStaged, Txn: id, What: fmt.Sprintf("parts for %s are staged, and no log has it: it was open, or decided and not published", number.Of(len(parts), "table"))})
		}
	}
}

// fillers bounds the snapshots that stand for those whose manifests were not written.
const fillers = 1000

// numbers says from which snapshot the catalog goes on: one that names all tables, and as
// many behind it as readers may have seen above the newest manifest. Each of those was
// made by a version, or by a table that came or went.
func (r *rebuilding) numbers() {
	unseen := len(r.gone)
	for _, t := range r.tables {
		unseen += int(t.row.Version - max(t.shown, twophase.NoVersion))
	}
	r.report.Snapshot = r.before.newest + 1 + twophase.SnapshotVersion(min(unseen, fillers))
}
