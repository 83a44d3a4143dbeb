package coordinator

import (
	"slices"

	"github.com/txcoord/txcoord/twophase"
)

// loggedRounds has what each round published of a transaction: all its parts are in one. A
// key whose transaction is forgotten may be used again (R6), with the same id, so that a
// later round published another.
type loggedRounds map[twophase.TxnID][]*loggedTxn

// at is what a version's round published of a transaction.
func (r loggedRounds) at(id twophase.TxnID, v ourVersion) *loggedTxn {
	for _, l := range r[id] {
		if l.incarnation == v.tags.Incarnation && l.round == v.tags.Round {
			return l
		}
	}
	l := &loggedTxn{time: v.time, incarnation: v.tags.Incarnation, round: v.tags.Round}
	r[id] = append(r[id], l)
	return l
}

// note adds what a version says of its transactions.
func (r loggedRounds) note(t *rebuiltTable, v ourVersion) {
	groups := byTxn(v.tags.Transactions)
	for i, g := range groups {
		l := r.at(g.id, v)
		if l.part(t.row.Table) != nil {
			continue // the same version twice, which fsck names
		}
		l.parts = append(l.parts, twophase.KnownPart{
			Table: t.row.Table, Digests: g.digests, Version: v.version, Place: uint32(i),
			Change: v.marker - twophase.ChangeNumber(len(groups)-1-i),
		})
		l.shown = l.shown || v.version <= t.shown
		if v.tags.Participants != nil {
			l.of = v.tags.Participants[i]
		}
	}
	for _, g := range byTxn(v.tags.NotApplied) {
		l := r.at(g.id, v)
		l.refused = true
		if l.part(t.row.Table) == nil {
			l.parts = append(l.parts, twophase.KnownPart{Table: t.row.Table, Digests: g.digests, Version: twophase.NoVersion})
		}
	}
}

// newest are the transactions that the journal knew last. What rounds of different lives
// published on different tables is taken for one: a server of a life before may have put
// the rest of it late.
func (r loggedRounds) newest() map[twophase.TxnID]*loggedTxn {
	out := make(map[twophase.TxnID]*loggedTxn, len(r))
	for id, rounds := range r {
		last := rounds[0]
		for _, l := range rounds[1:] {
			if l.follows(last) {
				last = l
			}
		}
		for _, l := range rounds {
			switch {
			case l == last:
			case l.incarnation == last.incarnation || l.meets(last) != 0:
				last.again = true
			default:
				last.join(l)
			}
		}
		out[id] = last
	}
	return out
}

// meets compares the versions of a table in which both are; 0 if there is none.
func (l *loggedTxn) meets(o *loggedTxn) int {
	for i := range l.parts {
		p := &l.parts[i]
		if q := o.part(p.Table); q != nil && p.Version != twophase.NoVersion && q.Version != twophase.NoVersion {
			return compare(p.Version, q.Version)
		}
	}
	return 0
}

// follows reports whether the round of l came later: in the log of a table, in one life, or
// else by its time.
func (l *loggedTxn) follows(o *loggedTxn) bool {
	if n := l.meets(o); n != 0 {
		return n > 0
	}
	if l.incarnation == o.incarnation {
		return laterRound(l.round, o.round)
	}
	return l.time > o.time
}

// join adds what another life's round published.
func (l *loggedTxn) join(o *loggedTxn) {
	for _, p := range o.parts {
		if q := l.part(p.Table); q == nil {
			l.parts = append(l.parts, p)
		} else if q.Version == twophase.NoVersion {
			*q = p
		}
	}
	l.shown, l.refused, l.time = l.shown || o.shown, l.refused || o.refused, min(l.time, o.time)
	if l.of.Count == 0 {
		l.of = o.of
	}
}

// begunSince reports whether parts were staged for one of the same id that was begun when
// the round of this one was open, or later.
func (r *rebuilding) begunSince(l *loggedTxn, parts map[twophase.TableID][]stagedPiece) bool {
	for _, pieces := range parts {
		if slices.ContainsFunc(pieces, func(p stagedPiece) bool { return r.stagedSince(l, p) }) {
			return true
		}
	}
	return false
}

// stagedSince compares positions within one life, and no others: each life counts from 0. A
// piece does not say of which life it is: it is of the last one, or was left by one before. An
// object has a time. An item of the store has none; in a life other than that of the round,
// somebody has staged it who had forgotten the round, or it was left over: it is named.
func (r *rebuilding) stagedSince(l *loggedTxn, p stagedPiece) bool {
	last := r.before.incarnation
	if !p.object {
		last = r.old.Incarnation
	} else if !p.modified.After(l.time.Std()) {
		return false
	}
	round, err := twophase.ParseRoundID(l.round)
	return l.incarnation != last || err == nil && p.Begun > round.Opened
}
