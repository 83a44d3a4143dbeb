package twophase

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Tables that begin and leave with a transaction. A creation is a part like others,
// and its version 0 a version of ours like others: with tags, marker and digest, so
// that recovery is the walk. What is different stands here.
//
// A name and a place are taken at the decision, in the fold, and nowhere before. At
// the place nothing is written until then; a walk that is to put version 0 claims the
// place first (the owner object), then sees that no log is there, then puts. Dying
// between any two of these leaves an owner object of ours, which the next walk finds.
// If another table turns up at the place, the new one is REPLACED before it began:
// what is decided on it is given up by an operator's word, and nothing foreign is
// overwritten.

// writes reports whether the transaction changes anything: then it belongs to a round.
func (c *Committed) writes() bool { return len(c.Parts)+len(c.Releases) > 0 }

// written yields the tables that the transaction is about: those that it writes,
// creates or releases. One that is written and released comes twice.
func (c *Committed) written(yield func(TableID) bool) {
	for i := range c.Parts {
		if !yield(c.Parts[i].Table) {
			return
		}
	}
	for _, id := range c.Releases {
		if !yield(id) {
			return
		}
	}
}

// registration is the row of the table that a part creates, as long as version 0 is
// in no log.
func (p *Part) registration() *Registered {
	return &Registered{
		Table: p.Table, Name: p.Create.Name, URI: p.Create.URI, MetaDataID: p.MetaDataID, Mode: p.Create.Mode,
		Version: NoVersion, OneTxnPerVersion: p.Create.OneTxnPerVersion,
	}
}

// catalogTakes reports whether every table that the transaction writes or releases is
// there, and nobody else has the names and places of those that it creates.
func (f *fold) catalogTakes(c *Committed) bool {
	names := map[string]bool{}
	for i := range c.Parts {
		p := &c.Parts[i]
		t := f.live(p.Table)
		switch {
		case p.Create == nil && (t == nil || !t.Leaving.IsZero()):
			return false
		case p.Create == nil:
		case f.weak.has(weakNameOnce):
		case f.taken(p.registration()) || names[p.Create.Name] || names[p.Create.URI]:
			return false
		default:
			names[p.Create.Name], names[p.Create.URI] = true, true
		}
	}
	return !slices.ContainsFunc(c.Releases, func(id TableID) bool {
		t := f.live(id)
		return t == nil || !t.Leaving.IsZero()
	})
}

func (f *fold) createTables(c *Committed) {
	for i := range c.Parts {
		if p := &c.Parts[i]; p.Create != nil {
			f.enroll(p.registration(), true)
			if f.weak.has(weakShowsUnborn) {
				f.snapshot("create", nil, []SnapshotTable{{p.Table, 0}}, nil)
			}
		}
	}
}

// checkCatalog compares what a commit creates and releases with the catalog as it is.
func (d *decision) checkCatalog(req *CommitRequest) (*Aborted, *Refused) {
	c := req.Record
	own := map[string]bool{}
	for i := range c.Parts {
		p := &c.Parts[i]
		if p.Create == nil {
			continue
		}
		r := p.registration()
		if why := d.occupied(r, own); why != "" && !d.weak.has(weakNameOnce) {
			return d.lose(req, &Table{Registered: *r}, &Conflict{Rule: RuleTableExists, Detail: why}, nil), nil
		}
		own[r.Name], own[r.URI] = true, true
	}
	for _, id := range c.Releases {
		t, bad := d.writable(id)
		if bad != nil {
			return nil, bad
		}
		if lost := d.leaves(req, t); lost != nil {
			return lost, nil
		}
	}
	for i := range c.Parts {
		if t := d.tables[c.Parts[i].Table]; t != nil {
			if lost := d.leaves(req, t); lost != nil {
				return lost, nil
			}
		}
	}
	return nil, nil
}

// leaves: nothing is decided on a table behind the transaction that releases it.
func (d *decision) leaves(req *CommitRequest, t *Table) *Aborted {
	by := t.Leaving
	if id, ok := d.leaving[t.Table]; ok {
		by = id
	}
	if by.IsZero() {
		return nil
	}
	return d.lose(req, t, &Conflict{Rule: RuleTableReleased}, &Past{Version: NoVersion, Txn: by})
}

// occupied says whose the name or the place of a new table is; empty if nobody's.
// Places lie apart: clean-up of one table would eat another in its folder.
func (d *decision) occupied(r *Registered, own map[string]bool) string {
	if _, used := d.tables[r.Table]; used {
		return fmt.Sprintf("table id %s is in use", r.Table)
	}
	if id, ok := d.byName[r.Name]; ok {
		return fmt.Sprintf("name %s is table %s at %s", r.Name, id, d.tables[id].URI)
	}
	for _, taken := range []map[string]bool{d.names, own} {
		if taken[r.Name] {
			return fmt.Sprintf("name %s is given to another table", r.Name)
		}
		for uri := range taken {
			if nested(uri, r.URI) {
				return fmt.Sprintf("place %s is, or lies in or around, that of another new table", r.URI)
			}
		}
	}
	if uri, ok := d.neighbour(r.URI); ok {
		return fmt.Sprintf("place %s is table %s's, at %s", r.URI, d.tables[d.byURI[uri]].Name, uri)
	}
	return ""
}

// neighbour is the first place of a live table in which another one lies, or that lies
// in it.
func (s *State) neighbour(uri string) (first string, ok bool) {
	for other := range s.byURI {
		if nested(other, uri) && (!ok || other < first) {
			first, ok = other, true
		}
	}
	return first, ok
}

// ReleasedFrom is the table that was the last to be released from a place; nil if none
// was, or is remembered.
func (s *State) ReleasedFrom(uri string) (last *Table) {
	for _, t := range s.tables {
		if t.Released && t.URI == uri && (last == nil || t.later(last)) {
			last = t
		}
	}
	return last
}

// ReleasedAs is the table that was the last to be released under a name, an id or a
// canonical URI; nil if none was, or is remembered.
func (s *State) ReleasedAs(ref string) (last *Table) {
	for _, t := range s.tables {
		if t.Released && (t.Name == ref || t.URI == ref || string(t.Table) == ref) && (last == nil || t.later(last)) {
			last = t
		}
	}
	return last
}

// later reports whether a table was released after another one.
func (t *Table) later(other *Table) bool {
	return t.ReleasedAt > other.ReleasedAt || t.ReleasedAt == other.ReleasedAt && t.Table > other.Table
}

// nested reports whether one place is the other or lies in it.
func nested(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return strings.HasPrefix(b, a) && (len(a) == len(b) || b[len(a)] == '/')
}

// claimed: the owner object is ours, or another catalog was quicker.
func (w *Walk) claimed(r PlaceClaimed, now time.Duration) {
	if r.Other != "" {
		w.effect = w.replaced("its place belongs to catalog " + r.Other)
		return
	}
	w.owned = true
	w.advance(now)
}

// listedEmpty takes the listing of a log that should not have begun.
func (w *Walk) listedEmpty(l Listing) {
	switch {
	case l.Commit >= 0:
		w.seen, w.above = w.issued, l.Commit
		w.effect = ReadVersion{0}
	case l.Checkpoint >= 0:
		w.lack, w.effect = lacksNothing, ReadCleaned{}
	case !l.Owner && !w.in.LookUp:
		w.effect = WalkUnfit{Reason: "the owner object is gone, and version 0 is not there yet"}
	default:
		w.end()
	}
}

// notBorn: version 0 is there, and is none of ours: another table took the place. A
// version of this catalog that does not fit is no other table's.
func (w *Walk) notBorn(f Finding, why string) WalkEffect {
	switch f {
	case FoundForeign:
		return w.replaced("another table stands at its place")
	case FoundBarrier:
		why = "version 0 gives something up"
	default:
	}
	return WalkUnfit{Reason: why}
}
