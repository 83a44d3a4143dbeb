package coordinator

import (
	"fmt"
	"slices"

	"github.com/txcoord/txcoord/twophase"
)

// judgement is the comparison of one table's log with the fold.
type judgement struct {
	*fsck
	w   *wantedTable
	log *scannedLog
	// gone: versions below the present one were cleaned. Then a range record (R22) may
	// have delivered transactions unseen, and the version that the fold names for them is
	// the end of the span.
	gone bool
	// holes: a cleaned version lies above one that is there, so nobody can say where a span
	// has ended. Else it ended right behind what is cleaned.
	holes bool
	// marker is that of the last version of ours; place is where each transaction was found
	// that is not forgotten, and past the last place of each that is.
	marker twophase.ChangeNumber
	place  map[occurrence]twophase.Version
	past   map[twophase.TxnID]pastPlace
}

// judge compares a log with what the fold said before the log was read, and with what it
// says now for what is newer.
func (f *fsck) judge(w *wantedTable, log *scannedLog) {
	if t, ok := f.state.Table(w.id); !ok || t.Released || w.stopped || log == nil {
		return // released meanwhile, or its log is not its own: pending says so; or nothing was read
	}
	f.report.Versions += len(log.versions)
	j := &judgement{fsck: f, w: w, log: log, place: map[occurrence]twophase.Version{}, past: map[twophase.TxnID]pastPlace{}}
	f.logged[w.id] = j.place
	j.owner()
	j.contiguous()
	for _, v := range log.sorted() {
		if v >= w.start {
			j.gone = j.gone || j.goneBelow(v)
			j.version(v, log.versions[v])
		}
	}
	j.lastMarker()
}

func (j *judgement) found(code FsckCode, v twophase.Version, txn twophase.TxnID, what string, args ...any) {
	j.fsck.found(FsckFinding{Code: code, Table: j.w.name, TableID: j.w.id, Version: v, Txn: txn, What: fmt.Sprintf(what, args...)})
}

var noTxn twophase.TxnID

func (j *judgement) owner() {
	meta := j.c.journal.Meta()
	switch o := j.log.owner; {
	case o == nil && j.w.recorded == twophase.NoVersion:
	case o == nil:
		j.found(FsckOwner, twophase.NoVersion, noTxn, "the owner object cannot be read: %v", j.log.ownerError)
	case o.Catalog != meta.Catalog || o.Table != j.w.id:
		j.found(FsckOwner, twophase.NoVersion, noTxn, "the table belongs to catalog %s as table %s", o.Catalog, o.Table)
	case o.Incarnation != meta.Incarnation:
		j.found(FsckOwner, twophase.NoVersion, noTxn, "the table belongs to incarnation %s of this catalog", o.Incarnation)
	}
}

// contiguous: every version up to the newest is there, or cleaned.
func (j *judgement) contiguous() {
	first, cleaned, lost, there := twophase.NoVersion, twophase.NoVersion, 0, false
	for v := max(j.w.start, 0); v <= max(j.w.recorded, j.log.last); v++ {
		switch {
		case j.log.versions[v] != nil:
			there = true
		case j.log.cleaned(v):
			j.holes = j.holes || there
			if first == twophase.NoVersion {
				first = v
			}
			cleaned = v
			lost += len(j.w.at[v])
		default:
			j.missing(v)
		}
	}
	if cleaned != twophase.NoVersion {
		j.found(FsckCleaned, cleaned, noTxn, "versions from %d to %d are cleaned under checkpoint %d, not provable any more; %d remembered transactions are in them", first, cleaned, j.log.covered, lost)
	}
}

func (j *judgement) missing(v twophase.Version) {
	j.found(FsckVersionMissing, v, noTxn, "the log has no version %d, and no checkpoint covers it", v)
	for _, x := range j.w.at[v] {
		j.found(FsckIncomplete, v, x.txn, "its version is not in the log")
	}
}

// goneBelow reports whether the version in front of one was cleaned.
func (j *judgement) goneBelow(v twophase.Version) bool { return v > j.w.start && j.log.cleaned(v-1) }

func (j *judgement) version(v twophase.Version, l *loggedVersion) {
	if l.err != nil {
		left := ""
		if v > j.w.recorded {
			left = "; nothing is recorded of that version: another writer left it like that, or is not done"
		}
		j.found(FsckVersionUnreadable, v, noTxn, "%v%s", l.err, left)
		for _, x := range j.w.at[v] {
			j.found(FsckIncomplete, v, x.txn, "its version cannot be read")
		}
		return
	}
	j.identity(v, l)
	if l.tags == nil {
		j.absent(v, nil)
		return
	}
	if own := j.c.journal.Meta().Incarnation; l.tags.Incarnation != own {
		j.found(FsckIncarnation, v, noTxn, "it names incarnation %s of this catalog, the journal is %s", l.tags.Incarnation, own)
		j.absent(v, nil)
		return
	}
	j.markers(v, l)
	held := txnDigests(l.tags.Transactions)
	for i, td := range held {
		j.transaction(v, l, i, td)
	}
	j.absent(v, held)
	for _, td := range txnDigests(l.tags.NotApplied) {
		j.barrier(v, l, td)
	}
}

// identity compares the content with what entries in the ring, and the fold, say.
func (j *judgement) identity(v twophase.Version, l *loggedVersion) {
	seen := j.seen[j.w.id][v]
	recorded := v == j.w.recorded && !j.w.identity.IsZero()
	matches := func(s sighting) bool { return s.identity.IsZero() || s.identity == l.identity }
	switch {
	case recorded && l.identity != j.w.identity:
		j.found(FsckVersionAltered, v, noTxn, "its content is %.8s, recorded was %.8s", l.identity, j.w.identity)
	case len(seen) > 0 && !slices.ContainsFunc(seen, matches):
		j.found(FsckVersionAltered, v, noTxn, "its content is %.8s, recorded was %.8s", l.identity, seen[len(seen)-1].identity)
	case len(seen) == 0 && v <= j.w.recorded && j.report.From == 0 && !j.ranged(v):
		j.found(FsckVersionUnknown, v, noTxn, "no entry of the journal names it, and %d is recorded", j.w.recorded)
	}
}

func (j *judgement) ranged(v twophase.Version) bool {
	return slices.ContainsFunc(j.ranges[j.w.id], func(s versionSpan) bool { return s.from <= v && v <= s.to })
}

// markers rise from version to version; a barrier repeats the one below it.
func (j *judgement) markers(v twophase.Version, l *loggedVersion) {
	barrier := l.tags.Barrier()
	switch {
	case barrier && l.marker < j.marker, !barrier && l.marker <= j.marker:
		j.found(FsckMarker, v, noTxn, "its marker is %d, and there was %d before", l.marker, j.marker)
	case !barrier:
		last := l.tags.Transactions[len(l.tags.Transactions)-1].ID
		if x, _ := j.recalled(v, l, last); x != nil && x.Change != l.marker {
			j.found(FsckMarker, v, last, "its marker is %d, and its last change is number %d", l.marker, x.Change)
		}
	}
	j.marker = max(j.marker, l.marker)
}

// lastMarker: the newest recorded version of ours holds the table's marker.
func (j *judgement) lastMarker() {
	for v := j.w.recorded; v >= j.w.start; v-- {
		l := j.log.versions[v]
		if l == nil || l.err != nil || l.tags == nil && len(j.w.at[v]) > 0 {
			return // said, or not provable
		}
		if l.tags == nil {
			continue
		}
		if l.marker != j.w.marker {
			j.found(FsckMarker, v, noTxn, "its marker is %d, recorded is %d", l.marker, j.w.marker)
		}
		return
	}
}

// transaction: it was decided so, and belongs here.
func (j *judgement) transaction(v twophase.Version, l *loggedVersion, place int, td twophase.TxnDigest) {
	x, o := j.recalled(v, l, td.Txn)
	if x == nil && o == nil && v < j.w.remembered {
		j.forgotten(v, l, td.Txn)
		return
	}
	at := occurrence{txn: td.Txn}
	if x != nil {
		at.change = x.Change
	}
	if before, twice := j.place[at]; twice {
		j.found(FsckMisplaced, v, td.Txn, "it is in version %d already", before)
		return
	}
	j.place[at] = v
	if x == nil {
		j.undecided(v, td.Txn, o)
		return
	}
	spanned := v < x.Version && j.gone
	switch {
	case x.digest != td.Digest:
		j.found(FsckTxnAltered, v, td.Txn, "its digest is %.8s, decided was %.8s", td.Digest, x.digest)
	case x.Status == twophase.StatusNotApplied || x.Status == twophase.StatusDiverged:
		j.found(FsckMisplaced, v, td.Txn, "it is in the log, and the journal has given it up")
	case x.Status == twophase.StatusPending && v <= j.w.recorded:
		j.found(FsckMisplaced, v, td.Txn, "it is in a recorded version, and the journal has it pending")
	case x.delivered() && !spanned && !j.ranged(x.Version) && (x.Version != v || int(x.Place) != place):
		j.found(FsckMisplaced, v, td.Txn, "it stands at place %d of version %d, recorded is place %d of version %d", place, v, x.Place, x.Version)
	}
}

// undecided names a transaction in a log that the fold does not have so: o is what it has.
func (j *judgement) undecided(v twophase.Version, txn twophase.TxnID, o *twophase.Outcome) {
	switch {
	case o == nil:
		j.found(FsckUnknownTxn, v, txn, "the version says that it is ours, and the journal does not know the transaction")
	case o.Abort != nil:
		j.found(FsckUnknownTxn, v, txn, "the version says that it is ours, and the transaction was aborted: %s", o.Abort.Rule)
	default:
		j.found(FsckUnknownTxn, v, txn, "the transaction was committed without a part for this table")
	}
}

// absent names transactions that the fold has in a version that does not hold them.
func (j *judgement) absent(v twophase.Version, held []twophase.TxnDigest) {
	if j.holes || j.goneBelow(v) || j.ranged(v) {
		return
	}
	for _, x := range j.w.at[v] {
		if !slices.ContainsFunc(held, func(td twophase.TxnDigest) bool { return td.Txn == x.txn }) {
			j.found(FsckIncomplete, v, x.txn, "the journal has it in version %d, and what stands there does not name it", v)
		}
	}
}

// barrier: what it gives up was given up.
func (j *judgement) barrier(v twophase.Version, l *loggedVersion, td twophase.TxnDigest) {
	if x, _ := j.recalled(v, l, td.Txn); x != nil && x.delivered() {
		j.found(FsckMisplaced, v, td.Txn, "version %d says that it was given up, and the journal has it in version %d", v, x.Version)
	}
}
