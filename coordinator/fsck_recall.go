package coordinator

import "github.com/txcoord/txcoord/twophase"

// A key whose transaction is forgotten may be used again (R6), and the new transaction has
// the same id. So an id in a log is not enough to say which of them stands there.

// occurrence is a transaction in a table's log, as the fold has it; change is 0 for one
// that it does not know.
type occurrence struct {
	txn    twophase.TxnID
	change twophase.ChangeNumber
}

// pastPlace is where a forgotten transaction stands.
type pastPlace struct {
	version twophase.Version
	round   string
}

// recalled is what the fold says of the transaction that a version names, and not of one
// before or after it with the same id: its part on the table, or o if it has none there.
// Both are nil if the fold does not know it.
func (j *judgement) recalled(v twophase.Version, l *loggedVersion, txn twophase.TxnID) (x *wantedTxn, o *twophase.Outcome) {
	first, known := j.w.by[txn]
	if o = j.state.Outcome(txn); o != nil && (!known || o.Position != first.decided) {
		if x = partOn(txn, o, j.w.id); !j.earlier(v, l, o.Position, x) {
			return x, o
		}
	}
	if known && !j.earlier(v, l, first.decided, &first) {
		return &first, nil // as it was before the log was read
	}
	return nil, nil
}

// partOn is a decided transaction's part on a table; nil if it has none.
func partOn(txn twophase.TxnID, o *twophase.Outcome, id twophase.TableID) *wantedTxn {
	if o.Commit == nil {
		return nil
	}
	for i := range o.Commit.Parts {
		if p := &o.Commit.Parts[i]; p.Table == id {
			return &wantedTxn{o.Parts[i], txn, p.Digest(), o.Position}
		}
	}
	return nil
}

// earlier reports whether a version is older than the decision of a transaction that it
// names, as the fold has it: its round was opened before, and what it holds may be
// forgotten. Where the fold has the transaction delivered it is never older.
func (j *judgement) earlier(v twophase.Version, l *loggedVersion, decided twophase.Position, x *wantedTxn) bool {
	if v >= j.w.remembered || x != nil && x.delivered() && x.Version == v {
		return false
	}
	round, err := twophase.ParseRoundID(l.tags.Round)
	return err == nil && round.Opened < decided
}

// forgotten: it makes sense, and more is not provable. One id may have been forgotten
// several times, each in a later round.
func (j *judgement) forgotten(v twophase.Version, l *loggedVersion, txn twophase.TxnID) {
	before, twice := j.past[txn]
	j.past[txn] = pastPlace{v, l.tags.Round}
	if twice && (before.version == v || !laterRound(l.tags.Round, before.round)) {
		j.found(FsckMisplaced, v, txn, "it is in version %d already", before.version)
		return
	}
	j.report.Forgotten++
}

// laterRound reports whether a round of one life was opened after another.
func laterRound(a, b string) bool {
	x, err := twophase.ParseRoundID(a)
	y, err2 := twophase.ParseRoundID(b)
	return err == nil && err2 == nil && x.Compare(y) > 0
}

// rememberedNow takes note from where on every transaction is remembered, as the fold is
// when the logs were read: the floor may have gone on. Outcomes are forgotten by the
// position of their decision, and changes of a table are delivered in that order: above one
// that is remembered for its position, everything is.
func (f *fsck) rememberedNow(all []*wantedTable) {
	byID := map[twophase.TableID]*wantedTable{}
	floor, _ := f.state.Floor()
	for _, w := range all {
		if t, ok := f.state.Table(w.id); ok {
			w.remembered = t.Recorded + 1
		}
		if floor == 0 {
			w.remembered = w.start
		}
		byID[w.id] = w
	}
	for _, o := range f.state.Outcomes {
		if o.Commit == nil || o.Position < floor {
			continue
		}
		for i := range o.Commit.Parts {
			x := wantedTxn{PartOutcome: o.Parts[i]}
			if w := byID[o.Commit.Parts[i].Table]; w != nil && x.delivered() {
				w.remembered = min(w.remembered, x.Version+1)
			}
		}
	}
}
