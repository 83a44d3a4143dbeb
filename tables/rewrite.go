package tables

import (
	"fmt"
	"math"

	"github.com/txcoord/txcoord/twophase"
)

// stagedLine is a line of a part, or a run of them that goes out as it is.
type stagedLine struct {
	kind kind // kindUnknown for a run
	text []byte
	txn  int
}

// stagedLines takes the pieces of a version apart: commitInfo and blank lines are
// left out, lines that define the table stand alone, the rest are runs. info is the
// last commitInfo object of the only transaction.
func (in *RenderInput) stagedLines() (lines []stagedLine, info []byte) {
	for i := range in.Txns {
		for _, piece := range in.Txns[i].Pieces {
			found, object := splitPiece(piece, false, i)
			lines = append(lines, found...)
			if object != nil && len(in.Txns) == 1 {
				info = object
			}
		}
	}
	return lines, info
}

// splitPiece takes one piece apart; if fine, every line stands alone.
func splitPiece(piece []byte, fine bool, txn int) (lines []stagedLine, info []byte) {
	run := 0
	flush := func(end int) {
		if run < end {
			lines = append(lines, stagedLine{text: piece[run:end], txn: txn})
		}
	}
	for i := 0; i < len(piece); {
		line, rest := cutLine(piece[i:])
		next := len(piece) - len(rest)
		switch k := kindOfLine(line); {
		case blank(line):
			flush(i)
			run = next
		case k == kindCommitInfo:
			info, _ = infoOf(line)
			flush(i)
			run = next
		case fine, k == kindMetaData, k == kindProtocol, k == kindDomain:
			flush(i)
			lines = append(lines, stagedLine{kind: k, text: line, txn: txn})
			run = next
		}
		i = next
	}
	flush(len(piece))
	return lines, info
}

// rewriting is the making of a version on top of a tail.
type rewriting struct {
	in    *RenderInput
	tail  *Tail
	next  *Profile // the table after the version
	lines []stagedLine
	time  twophase.Time
}

// rewrite brings the lines to the version that they get.
func (in *RenderInput) rewrite(lines []stagedLine) (*rewriting, error) {
	r := &rewriting{in: in, tail: in.Tail, lines: lines}
	if err := r.define(); err != nil {
		return nil, err
	}
	r.stampTime()
	if err := r.metaData(); err != nil {
		return nil, err
	}
	if r.next.tracksRows() {
		r.lines = fineLines(r.lines)
		if err := r.rowIDs(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// fineLines takes runs apart into lines; the others stay as they have become.
func fineLines(lines []stagedLine) (out []stagedLine) {
	for _, l := range lines {
		if l.kind != kindUnknown {
			out = append(out, l)
			continue
		}
		found, _ := splitPiece(l.text, true, l.txn)
		out = append(out, found...)
	}
	return out
}

func (r *rewriting) version() twophase.Version { return r.tail.version + 1 }

// define finds the table as it is after the version.
func (r *rewriting) define() error {
	a := &Actions{}
	var l line
	for _, staged := range r.lines {
		if staged.kind != kindMetaData && staged.kind != kindProtocol {
			continue
		}
		err := l.parse(staged.text, false)
		switch {
		case err != nil:
		case l.kind == kindProtocol:
			a.Protocol, err = parseProtocol(l.body)
		default:
			a.MetaData, err = parseMetaData(l.body)
		}
		if err != nil {
			return fmt.Errorf("render a version: %w", err)
		}
	}
	r.next = r.tail.profile
	if r.tail.version == twophase.NoVersion {
		if a.Protocol == nil || a.MetaData == nil {
			return fmt.Errorf("render a version: version 0 needs protocol and metaData")
		}
		r.next = newProfile(r.tail.uri, 0, a.Protocol, a.MetaData, nil)
		return nil
	}
	if a.Protocol != nil || a.MetaData != nil {
		r.next, _ = nextProfile(a, r.tail.profile)
	}
	return nil
}

// lastTime is the last that an in-commit timestamp can say.
const lastTime = twophase.Time(math.MaxInt64)

// stampTime gives the version its in-commit timestamp: that of the round, less one
// for each version of the round that follows on the table, and always above that of
// the version below. Above the last time that there is none is left: another engine's
// version has it, and what is decided has to be published all the same. So that time is
// repeated: going back would be worse, as readers look for a time by halves.
func (r *rewriting) stampTime() {
	if !r.next.timestamps() {
		return
	}
	below := r.tail.time
	if r.begins() {
		below = max(below, r.tail.written)
	}
	if below < lastTime {
		below++
	}
	r.time = max(r.in.wanted(), below)
}

// begins: the version switches in-commit timestamps on.
//
// A table that has them from version 0 on does not say since when.
func (r *rewriting) begins() bool {
	return r.version() > 0 && r.next.timestamps() && !r.tail.profile.timestamps()
}

// wanted is the time at which tables of one round line up.
func (in *RenderInput) wanted() twophase.Time { return in.Time - twophase.Time(in.Later) }

// metaData writes into the metaData action what depends on the version.
func (r *rewriting) metaData() error {
	for i := range r.lines {
		if r.lines[i].kind != kindMetaData {
			continue
		}
		p := patch{text: r.lines[i].text}
		meta, err := p.action("metaData")
		if err == nil && r.begins() {
			err = p.setBeginning(meta, r.version(), r.time)
		}
		if err == nil && r.next.inForce.covers("typeWidening") {
			err = p.stampTypes(meta, r.in.Txns[r.lines[i].txn].Read, r.version())
		}
		if err != nil {
			return fmt.Errorf("render a version: metaData: %w", err)
		}
		if len(p.edits) > 0 {
			r.lines[i].text = p.apply()
		}
	}
	return nil
}

// setBeginning says in the table's properties since when versions have in-commit
// timestamps: those below have none.
func (p *patch) setBeginning(meta *jsonObject, v twophase.Version, t twophase.Time) error {
	since := appendQuoted(nil, string(appendInt(nil, int64(v))))
	from := appendQuoted(nil, string(appendInt(nil, int64(t))))
	m, ok := meta.member("configuration")
	if !ok || isNull(p.text[m.from:m.to]) {
		return fmt.Errorf("there is no configuration")
	}
	config, err := p.objectAt(m.from)
	if err != nil {
		return err
	}
	p.set(config, propTimesSince, since)
	p.set(config, propTimesFrom, from)
	return nil
}

// stampTypes sets the version of type changes that the client made: those above the
// version that it had read.
func (p *patch) stampTypes(meta *jsonObject, read, v twophase.Version) error {
	m, ok := meta.member("schemaString")
	if !ok || p.text[m.from] != '"' {
		return nil
	}
	inner, done := p.patchString(m)
	defer done()
	return inner.stampTypesIn(0, read, v)
}

func (p *patch) stampTypesIn(at int, read, v twophase.Version) error {
	c := cursor{b: p.text, i: at}
	switch c.peek() {
	case '{':
	case '[':
		return p.eachElement(c.i, func(at int) error { return p.stampTypesIn(at, read, v) })
	default:
		return nil
	}
	o, err := p.objectAt(c.i)
	if err != nil {
		return err
	}
	for _, m := range o.members {
		if m.name == "delta.typeChanges" {
			err = p.eachElement(m.from, func(at int) error { return p.stampChange(at, read, v) })
		} else {
			err = p.stampTypesIn(m.from, read, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stampChange sets tableVersion in one change, which only the preview wrote.
func (p *patch) stampChange(at int, read, v twophase.Version) error {
	c := cursor{b: p.text, i: at}
	if c.peek() != '{' {
		return nil
	}
	o, err := p.objectAt(c.i)
	if err != nil {
		return err
	}
	m, ok := o.member("tableVersion")
	if !ok {
		return nil
	}
	if was, isInt := intOf(p.text[m.from:m.to]); isInt && was > int64(read) && was != int64(v) {
		p.setInt(o, "tableVersion", int64(v))
	}
	return nil
}

// eachElement calls f with the place of each element of an array.
func (p *patch) eachElement(at int, f func(at int) error) error {
	c := cursor{b: p.text, i: at}
	if c.peek() != '[' {
		return nil
	}
	c.i++
	for n := 0; ; {
		more, err := c.element(&n)
		if err != nil || !more {
			return err
		}
		c.space()
		if err := f(c.i); err != nil {
			return err
		}
		if _, err := c.value(); err != nil {
			return err
		}
	}
}

// rowIDs gives row ids to adds and removes, and raises the high-water mark.
func (r *rewriting) rowIDs() error {
	start := r.tail.start()
	w := &rowWriter{tail: r.tail, version: r.version(), place: r.tail.place, begin: start, mark: start}
	txns, client, err := r.rowTxns()
	if err != nil {
		return err
	}
	for i := range r.lines {
		l := &r.lines[i]
		switch l.kind {
		case kindAdd:
			l.text, err = w.add(l.text, &txns[l.txn])
		case kindRemove:
			l.text, err = w.remove(l.text)
		default:
		}
		if err != nil {
			return fmt.Errorf("render a version: row ids: %w", err)
		}
	}
	if client < 0 && w.mark == start && (r.tail.marked || !w.gave) {
		return nil
	}
	if client < 0 {
		r.lines = append(r.lines, stagedLine{kind: kindDomain})
		client = len(r.lines) - 1
	}
	r.lines[client].text, err = w.domain(r.lines[client].text)
	return err
}

// rowTxns says of each transaction how its ids are to be read, and where the line is
// in which a client raises the mark; -1 if there is none.
func (r *rewriting) rowTxns() (txns []rowTxn, client int, err error) {
	client = -1
	txns = make([]rowTxn, len(r.in.Txns))
	for i := range txns {
		txns[i] = rowTxn{blind: r.in.Txns[i].Blind, read: r.in.Txns[i].Read, low: math.MaxInt64}
	}
	var l line
	for i, staged := range r.lines {
		if staged.kind != kindDomain {
			continue
		}
		if err := l.parse(staged.text, false); err != nil {
			return nil, 0, err
		}
		if string(l.domain) != rowTrackingDomain {
			continue
		}
		client = i
		if mark, ok := markOf(string(l.configuration)); ok {
			adds, err := r.rowsOf(staged.txn)
			if err != nil {
				return nil, 0, err
			}
			txns[staged.txn].low = given(adds, mark)
		}
	}
	return txns, client, nil
}

func (r *rewriting) rowsOf(txn int) (out []stagedRows, err error) {
	var l line
	for _, staged := range r.lines {
		if staged.kind != kindAdd || staged.txn != txn {
			continue
		}
		if err := l.parse(staged.text, false); err != nil {
			return nil, err
		}
		records, _, _ := readStats(l.stats)
		out = append(out, stagedRows{l.rows, l.has, records})
	}
	return out, nil
}

// onlyAdds: the table shows row ids, and the version writes no row again, so that
// all of them keep theirs.
func (r *rewriting) onlyAdds() bool {
	if !r.next.isOn("rowTracking", propRowTracking) || len(r.in.Txns) == 0 {
		return false
	}
	adds := 0
	for i := range r.lines {
		switch r.lines[i].kind {
		case kindRemove, kindMetaData, kindProtocol:
			return false
		case kindAdd:
			adds++
		default:
		}
	}
	return adds > 0
}
