package tables

import (
	"fmt"

	"github.com/txcoord/txcoord/twophase"
)

// rowTrackingDomain holds the high-water mark of row ids. It is written by everybody
// who adds files, and two writers of it do not conflict: it is rewritten.
const rowTrackingDomain = "delta.rowTracking"

// noMark is the high-water mark of a table that has given out no row id.
const noMark int64 = -1

const markField = "rowIdHighWaterMark"

// maxMark bounds the marks that are believed, maxRecords what one file may have of rows
// where ids are given out: above them no ids would be left for those who come next, and
// the mark would begin again below zero.
const maxMark, maxRecords = int64(1) << 62, int64(1) << 36

// markOf reads a high-water mark from the domain's configuration; false where it holds
// none that ids can be given out above.
func markOf(configuration string) (int64, bool) {
	mark, found := noMark, false
	err := members([]byte(configuration), func(name, value []byte) bool {
		if string(name) != markField {
			return true
		}
		mark, found = intOf(value)
		return found
	})
	return mark, err == nil && found && mark >= noMark && mark <= maxMark
}

// start is the mark above which ids are given out. Where the table's domain does not hold
// one, which no writer that keeps to the protocol leaves behind, it is above the ids of
// all live files: what was decided has to be published on whatever another engine wrote
// in between, and each publisher has to write the same (R2). Rows of files that are gone
// by then may have had the same ids.
func (t *Tail) start() int64 {
	if t.marked {
		return t.mark
	}
	highest := noMark
	for _, r := range t.rows {
		if r.base <= maxMark {
			highest = max(highest, r.base+maxRecords-1)
		}
	}
	return highest
}

// stagedRows is what a client wrote into an add that row tracking looks at.
type stagedRows struct {
	ids     rowIDs
	has     field
	records int64
}

// given says which ids a client gave out itself, above the mark that it had read. All
// of them lie below the mark that the same part raises, without a gap, as every
// engine gives them out; below those are ids of files that were there before, or
// reserved ones. low is the mark that it had read; mark itself if the part raises it
// without giving anything out.
func given(adds []stagedRows, mark int64) (low int64) {
	ends := make(map[int64]int64, len(adds))
	for i := range adds {
		if a := &adds[i]; a.has&hasRowID != 0 && a.records > 0 {
			ends[a.ids.base+a.records-1] = a.ids.base
		}
	}
	low = mark
	for {
		base, ok := ends[low]
		if !ok || base > low {
			return low
		}
		low = base - 1
	}
}

// rowWriter gives out row ids in one version. Where there is no mark yet it writes one with the
// first, also of a file without rows, which raises none: the next would be above 2^36 otherwise
// (start), and above every mark that stands in the log.
type rowWriter struct {
	tail    *Tail
	version twophase.Version
	place   place
	// begin is the mark of the version below, mark that of this one.
	begin, mark int64
	// gave: an add got a new id, be it for no rows.
	gave bool
	line line
}

// rowTxn is what the ids of one transaction's adds are told apart by.
type rowTxn struct {
	blind bool
	read  twophase.Version
	low   int64 // ids above were given out by the client, and are given out anew
}

// add writes an add with its ids: those of the file where it is part of the table,
// those that the client has reserved or brings back, or new ones.
func (w *rowWriter) add(text []byte, txn *rowTxn) ([]byte, error) {
	l := &w.line
	path, err := w.open(text)
	if err != nil {
		return nil, err
	}
	records, counted, err := readStats(l.stats)
	if err != nil || !counted {
		return nil, fmt.Errorf("add of %q: stats.numRecords is missing", cut(path))
	}
	if there, ok := w.tail.rows[HashPath(path)]; ok {
		return w.write(text, "add", there.rowIDs)
	}
	kept := !txn.blind && l.has&hasRowID != 0 && l.rows.base >= 0 && l.rows.base+max(records-1, 0) <= min(txn.low, w.begin)
	ids := rowIDs{l.rows.base, int64(w.version)}
	if kept && l.has&hasRowVersion != 0 && l.rows.version <= int64(txn.read) {
		ids.version = l.rows.version
	}
	if !kept {
		ids.base, w.gave = w.mark+1, true
		w.mark += min(records, maxRecords)
	}
	return w.write(text, "add", ids)
}

// remove writes a remove with the ids that the file had.
func (w *rowWriter) remove(text []byte) ([]byte, error) {
	path, err := w.open(text)
	if err != nil {
		return nil, err
	}
	there, ok := w.tail.rows[HashPath(path)]
	if !ok {
		return text, nil
	}
	return w.write(text, "remove", there.rowIDs)
}

func (w *rowWriter) open(text []byte) (path string, err error) {
	if err := w.line.parse(text, false); err != nil {
		return "", err
	}
	return w.place.canonical(string(w.line.path))
}

func (w *rowWriter) write(text []byte, action string, ids rowIDs) ([]byte, error) {
	l := &w.line
	if l.has&hasRowID != 0 && l.has&hasRowVersion != 0 && l.rows == ids {
		return text, nil
	}
	p := patch{text: text}
	file, err := p.action(action)
	if err != nil {
		return nil, err
	}
	p.setInt(file, "baseRowId", ids.base)
	p.setInt(file, "defaultRowCommitVersion", ids.version)
	return p.apply(), nil
}

// domain is the line that raises the mark; the client's own one, if there is any, is
// brought up to date.
func (w *rowWriter) domain(client []byte) ([]byte, error) {
	quoted := appendQuoted(nil, w.configuration())
	if client == nil {
		client = []byte(`{"domainMetadata":{"domain":"` + rowTrackingDomain + `","configuration":"","removed":false}}`)
	}
	p := patch{text: client}
	d, err := p.action("domainMetadata")
	if err != nil {
		return nil, err
	}
	p.set(d, "configuration", quoted)
	return p.apply(), nil
}

// configuration is the domain's with the new mark, and with what else stands in it; with
// the mark alone where nothing can be made of it.
func (w *rowWriter) configuration() string {
	inner := patch{text: []byte(w.tail.rowDomain)}
	if o, err := inner.objectAt(0); err == nil {
		inner.setInt(o, markField, w.mark)
		text := string(inner.apply())
		if mark, ok := markOf(text); ok && mark == w.mark {
			return text
		}
	}
	return fmt.Sprintf(`{"%s":%d}`, markField, w.mark)
}
