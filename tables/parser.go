package tables

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/txcoord/txcoord/twophase"
)

// parser fills Actions line by line.
type parser struct {
	*Actions
	strict bool
	limits Limits
	sum    *oneCommit // nil when reading
	before int
	line   line
	number int // of the present line
}

func (p *parser) piece(text []byte) error {
	for p.number = 1; len(text) > 0; p.number++ {
		var line []byte
		line, text = cutLine(text)
		if blank(line) {
			continue
		}
		if len(line) > p.limits.LineBytes && p.strict {
			return &LimitError{Limit: "line_bytes", Value: int64(len(line)), Max: int64(p.limits.LineBytes)}
		}
		if err := p.add(line); err != nil {
			return p.at(err)
		}
		if p.Lines++; p.strict && p.Lines > p.limits.Actions {
			return &LimitError{Limit: "actions", Value: int64(p.Lines), Max: int64(p.limits.Actions)}
		}
	}
	return nil
}

// cutLine returns the first line without its end, and the rest.
func cutLine(text []byte) (line, rest []byte) {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return text[:i], text[i+1:]
	}
	return text, nil
}

func blank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

// at puts the line's number into an error.
func (p *parser) at(err error) error {
	if e, ok := errors.AsType[*fieldError](err); ok {
		return &InputError{Line: p.number, Field: e.field, Value: e.value, Reason: e.reason, Remedy: e.remedy}
	}
	if e, ok := errors.AsType[*syntaxError](err); ok {
		return &InputError{Line: p.number, syntax: true, Reason: e.Error(), Remedy: "write each action as one JSON object on a line of its own"}
	}
	return err
}

// add parses one line into the Actions.
func (p *parser) add(text []byte) error {
	l := &p.line
	if err := l.parse(text, p.strict); err != nil {
		return err
	}
	if p.strict && !utf8.Valid(text) {
		return &fieldError{reason: "the line is not valid UTF-8"}
	}
	if err := l.complete(p.strict); err != nil {
		return err
	}
	switch l.kind {
	case kindAdd:
		return p.file(&p.Adds)
	case kindRemove:
		return p.file(&p.Removes)
	case kindCDC:
		return p.cdc()
	case kindTxn:
		return p.txn()
	case kindDomain:
		return p.domain()
	case kindCommitInfo:
		return p.info()
	case kindProtocol, kindMetaData:
		return p.definition()
	default:
		return p.unknown()
	}
}

// unknown is what a commit does not hold, as far as we know. A newer engine may.
func (p *parser) unknown() error {
	if !p.strict {
		return nil
	}
	return &fieldError{
		field: cut(p.line.name), reason: "is not an action that a commit may hold",
		remedy: "known are add, remove, cdc, txn, metaData, protocol, domainMetadata and commitInfo",
	}
}

func (p *parser) file(to *[]File) error {
	l := &p.line
	path, err := p.path()
	if err != nil {
		return err
	}
	if p.strict && l.size < 0 {
		return l.wrong("size", nil, "is negative")
	}
	f := File{Line: p.number, Path: path, Hash: HashPath(path), DV: hashDV(l.dv), Size: l.size, Partition: -1}
	f.DataChange = l.dataChange || l.has&hasDataChange == 0
	if l.has&hasPartition != 0 {
		if f.Partition, err = p.partition(l.partition); err != nil {
			return err
		}
	}
	records := int64(0)
	if l.kind == kindAdd && l.has&hasStats != 0 {
		if records, f.NumRecords, err = readStats(l.stats); err != nil && p.strict {
			return l.wrong("stats", l.stats, err.Error())
		}
	}
	if p.strict && l.has&hasStats != 0 {
		if err := wholeStats(l.stats); err != nil {
			return within(string(l.name)+".stats", err)
		}
	}
	if p.strict && records > maxRecords {
		return l.wrong("stats", l.stats, fmt.Sprintf("numRecords is more than the %d rows that one file may have", maxRecords))
	}
	if p.strict && l.kind == kindAdd {
		p.staged = append(p.staged, stagedAdd{l.stats, stagedRows{l.rows, l.has, records}})
	}
	if p.strict && l.kind == kindAdd && f.DV != 0 && !f.NumRecords {
		return l.wrong("stats", l.stats, "numRecords must be there beside a deletion vector")
	}
	if p.strict {
		if err := l.vectorForm(records); err != nil {
			return err
		}
	}
	*to = append(*to, f)
	if p.sum != nil {
		return p.sum.file(p.Actions, l.kind)
	}
	return nil
}

// path returns the line's canonical path.
func (p *parser) path() (string, error) {
	l := &p.line
	raw := string(l.path)
	path, err := p.place.canonical(raw)
	if err == nil && p.strict {
		err = p.writable(raw, path)
	}
	if err != nil {
		return "", l.wrong("path", l.path, err.Error())
	}
	return path, nil
}

// writable refuses names that a client should not bring into a table. Removes may
// name whatever is there.
func (p *parser) writable(raw, path string) error {
	switch {
	case p.line.kind == kindRemove:
		return nil
	case strings.HasPrefix(path, logFolder):
		return errors.New("lies in the table's log")
	case hasControl(path):
		return errors.New("has a control character")
	case p.line.kind == kindCDC && isOutside(path):
		return errors.New("lies outside the table's root")
	case path == raw:
		return nil
	}
	return spelledPlainly(raw)
}

// spelledPlainly refuses what a file system resolves and an object store takes
// literally.
func spelledPlainly(raw string) error {
	_, _, path := splitURI(raw)
	decoded, err := unescape(path)
	if err != nil {
		return err
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(decoded, "/"), "/") {
		switch segment {
		case "", ".":
			return errors.New("has empty or dot segments, which object stores take literally")
		case "..":
			return errors.New("leads out of its folder; a path must not escape the table's root")
		}
	}
	return nil
}

// partition finds or adds the values among those of the other files.
func (p *parser) partition(raw []byte) (int, error) {
	if p.lastPart != nil && bytes.Equal(raw, p.lastPart) {
		return p.lastIdx, nil
	}
	idx, ok := p.partIdx[string(raw)]
	if !ok {
		values, err := parsePartition(raw)
		if err != nil {
			return 0, within(string(p.line.name)+".partitionValues", err)
		}
		idx = len(p.Partitions)
		p.Partitions = append(p.Partitions, values)
		if p.partIdx == nil {
			p.partIdx = map[string]int{}
		}
		p.partIdx[string(raw)] = idx
	}
	p.lastPart, p.lastIdx = raw, idx
	return idx, nil
}

func parsePartition(raw []byte) (PartitionValues, error) {
	var out PartitionValues
	c := cursor{b: raw}
	if err := c.open('{'); err != nil {
		return nil, err
	}
	for n := 0; ; {
		name, more, err := c.key(&n)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		value, err := c.value()
		if err != nil {
			return nil, err
		}
		text, ok := stringOf(value)
		if !ok && !isNull(value) {
			return nil, &fieldError{field: cut(name), value: cut(value), reason: "must be a string or null"}
		}
		out = append(out, PartitionValue{string(name), string(text), len(text) == 0})
	}
	slices.SortStableFunc(out, func(a, b PartitionValue) int { return strings.Compare(a.Column, b.Column) })
	for i := 1; i < len(out); i++ {
		if out[i].Column == out[i-1].Column {
			return nil, twice([]byte(out[i].Column))
		}
	}
	return out, nil
}

// readStats looks for numRecords in a stats string, which is JSON in JSON.
func readStats(raw []byte) (records int64, counted bool, err error) {
	text, ok := stringOf(raw)
	if !ok {
		return 0, false, errors.New("is not a string")
	}
	if len(text) == 0 {
		return 0, false, nil
	}
	again := false
	err = members(text, func(name, value []byte) bool {
		if string(name) == "numRecords" {
			again = again || counted
			n, isInt := intOf(value)
			records, counted = n, isInt && n >= 0
			return counted
		}
		return true
	})
	if err != nil {
		return 0, false, errors.New("does not hold a JSON object: " + err.Error())
	}
	if again {
		return 0, false, errors.New("numRecords is there twice")
	}
	return records, counted, nil
}

// wholeStats: JSON in JSON can halve a surrogate pair once more.
func wholeStats(raw []byte) error {
	text, ok := stringOf(raw)
	if !ok || !bytes.Contains(text, []byte(`\u`)) {
		return nil
	}
	c := cursor{b: text, whole: true}
	err := c.skip(0)
	if _, halves := errors.AsType[*fieldError](err); halves {
		return err
	}
	return nil // readStats says what else is wrong
}

func (p *parser) cdc() error {
	if _, err := p.path(); err != nil {
		return err
	}
	if p.strict && p.line.dataChange {
		return p.line.wrong("dataChange", nil, "must be false")
	}
	p.CDCs++
	return nil
}

func (p *parser) txn() error {
	l := &p.line
	app := string(l.app)
	if p.strict {
		switch {
		case app == "":
			return l.wrong("appId", nil, "is empty")
		case strings.HasPrefix(app, reservedApp):
			return l.wrong("appId", l.app, "ids that begin with "+reservedApp+" are the coordinator's own")
		}
	}
	p.Txns = append(p.Txns, twophase.AppVersion{App: app, Version: l.version})
	if p.sum != nil {
		return p.sum.txn(l)
	}
	return nil
}

func (p *parser) domain() error {
	l := &p.line
	p.Domains = append(p.Domains, Domain{Name: string(l.domain), Configuration: string(l.configuration), Removed: l.removed})
	if p.sum != nil {
		return p.sum.domain(l)
	}
	return nil
}

func (p *parser) info() error {
	if p.strict && p.Info != nil {
		return &fieldError{field: "commitInfo", reason: "is there twice"}
	}
	if err := uniqueNames(p.line.body); err != nil {
		return within("commitInfo", err)
	}
	p.Info = slices.Clone(p.line.body)
	if p.strict {
		return checkTags(p.Info)
	}
	return nil
}

// checkTags: readers of tags expect strings.
func checkTags(info []byte) error {
	var wrong error
	err := members(info, func(name, value []byte) bool {
		if string(name) != "tags" {
			return true
		}
		wrong = members(value, func(_, value []byte) bool { return value[0] == '"' })
		return wrong == nil
	})
	if wrong != nil {
		return within("commitInfo.tags", wrong)
	}
	return err
}

// definition takes a protocol or metaData action.
func (p *parser) definition() (err error) {
	l := &p.line
	if p.strict && (l.kind == kindProtocol && p.Protocol != nil || l.kind == kindMetaData && p.MetaData != nil) {
		return &fieldError{field: string(l.name), reason: "is there twice; one commit holds one at most"}
	}
	if l.kind == kindProtocol {
		p.Protocol, err = parseProtocol(l.body)
	} else {
		p.MetaData, err = parseMetaData(l.body)
	}
	return err
}
