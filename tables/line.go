package tables

import "math/bits"

// kind is the top-level name of an action.
type kind uint8

const (
	kindUnknown kind = iota
	kindCommitInfo
	kindProtocol
	kindMetaData
	kindAdd
	kindRemove
	kindCDC
	kindTxn
	kindDomain
	kindCheckpoint
	kindSidecar
)

func kindOf(name []byte) kind {
	switch string(name) {
	case "add":
		return kindAdd
	case "remove":
		return kindRemove
	case "commitInfo":
		return kindCommitInfo
	case "txn":
		return kindTxn
	case "cdc":
		return kindCDC
	case "metaData":
		return kindMetaData
	case "protocol":
		return kindProtocol
	case "domainMetadata":
		return kindDomain
	case "checkpointMetadata":
		return kindCheckpoint
	case "sidecar":
		return kindSidecar
	}
	return kindUnknown
}

// field is a bit per field that a line may have.
type field uint16

const (
	hasPath field = 1 << iota
	hasPartition
	hasSize
	hasModified
	hasDataChange
	hasStats
	hasDV
	hasExtended
	hasApp
	hasVersion
	hasDomain
	hasConfiguration
	hasRemoved
	hasRowID
	hasRowVersion
)

// line is one action with the fields that we look at. Byte slices share memory
// with the text, and the struct is reused: nothing may be kept without a copy.
type line struct {
	kind kind
	name []byte
	// body is the action's object.
	body []byte
	has  field
	// null are those that are there and null.
	null field
	seen names

	path      []byte
	partition []byte // raw object
	size      int64
	dataChange,
	extended bool
	stats []byte // raw string
	// rows are the row ids, where hasRowID and hasRowVersion say so.
	rows    rowIDs
	oddRows bool
	dv      string // unique id
	vector  []byte // raw object

	app     []byte
	version int64

	domain, configuration []byte
	removed               bool
}

// rowIDs are a file's: the id of its first row, and the version that gave it to the
// rows that have no version of their own.
type rowIDs struct{ base, version int64 }

// fieldError says what is wrong in a line.
type fieldError struct {
	field, value, reason, remedy string
}

func (e *fieldError) Error() string {
	if e.field == "" {
		return e.reason
	}
	return e.field + ": " + e.reason
}

func (l *line) wrong(field string, value []byte, reason string) error {
	return &fieldError{field: string(l.name) + "." + field, value: cut(value), reason: reason}
}

// parse reads a line. strict is for what clients stage: one member, and nothing twice
// anywhere. What others put into a log is taken as other readers take it: null members
// are absent. A field that we read and that is there twice is refused there, too: readers
// differ in which one counts.
func (l *line) parse(text []byte, strict bool) error {
	*l = line{seen: l.seen}
	c := cursor{b: text}
	if strict {
		l.seen.all = l.seen.all[:0]
		c.unique, c.whole = &l.seen, true
	}
	var nulls [][]byte
	if err := c.open('{'); err != nil {
		return err
	}
	for n := 0; ; {
		name, more, err := c.key(&n)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if l.seen.among(nulls, name) || l.name != nil && string(l.name) == string(name) {
			return twice(name)
		}
		if c.peek() == 'n' && !strict {
			if err := c.word("null"); err != nil {
				return err
			}
			nulls = append(nulls, name)
			continue
		}
		if l.name != nil {
			return &fieldError{reason: "a line holds one action, this one also has " + cut(name)}
		}
		l.name, l.kind = name, kindOf(name)
		if err := l.action(&c); err != nil {
			return err
		}
	}
	if err := c.end(); err != nil {
		return err
	}
	if l.name == nil && strict {
		return &fieldError{reason: "the line holds no action"}
	}
	return nil
}

// action reads the value behind the top-level name.
func (l *line) action(c *cursor) error {
	if l.kind != kindUnknown && c.peek() != '{' {
		raw, err := c.value()
		if err != nil {
			return err
		}
		return &fieldError{field: string(l.name), value: cut(raw), reason: "is not an object"}
	}
	c.space()
	start := c.i
	var err error
	switch l.kind {
	case kindAdd, kindRemove, kindCDC, kindTxn, kindDomain:
		err = l.fields(c)
	default:
		err = below(l.name, c.skip(0))
	}
	l.body = c.b[start:c.i]
	return err
}

func (l *line) fields(c *cursor) error {
	c.i++
	o := c.enter()
	defer c.leave(o)
	for n := 0; ; {
		name, more, err := c.key(&n)
		if err != nil || !more {
			return err
		}
		if err := c.once(&o, name); err != nil {
			return below(l.name, err)
		}
		raw, err := c.value()
		if err != nil {
			return below(l.name, below(name, err))
		}
		known := fieldNamed(name)
		if (l.has|l.null)&known != 0 {
			return within(string(l.name), twice(name))
		}
		if isNull(raw) {
			l.null |= known
			continue
		}
		var bit field
		switch l.kind {
		case kindTxn:
			bit, err = l.txnField(name, raw)
		case kindDomain:
			bit, err = l.domainField(name, raw)
		default:
			bit, err = l.fileField(name, raw)
		}
		if err != nil {
			return err
		}
		l.has |= bit
	}
}

// fieldNamed is the bit of a field, 0 if we read none of this name.
func fieldNamed(name []byte) field {
	for i, n := range fieldNames {
		if n == string(name) {
			return 1 << i
		}
	}
	return 0
}

func (l *line) fileField(name, raw []byte) (bit field, err error) {
	ok := true
	switch string(name) {
	case "path":
		bit = hasPath
		l.path, ok = stringOf(raw)
	case "partitionValues":
		bit = hasPartition
		l.partition, ok = raw, raw[0] == '{'
	case "size":
		bit = hasSize
		l.size, ok = intOf(raw)
	case "modificationTime":
		bit = hasModified
		_, ok = intOf(raw)
	case "dataChange":
		bit = hasDataChange
		l.dataChange, ok = boolOf(raw)
	case "stats":
		bit = hasStats
		l.stats, ok = raw, raw[0] == '"'
	case "extendedFileMetadata":
		bit = hasExtended
		l.extended, ok = boolOf(raw)
	case "deletionVector":
		bit = hasDV
		l.vector = raw
		l.dv, err = l.parseDV(raw)
	case "baseRowId":
		l.rows.base, bit = l.rowID(raw, hasRowID)
	case "defaultRowCommitVersion":
		l.rows.version, bit = l.rowID(raw, hasRowVersion)
	}
	if !ok {
		err = l.wrong(string(name), raw, "has the wrong type")
	}
	return bit, err
}

// rowID reads one of the row ids. One that is no number is as good as none to whoever
// only reads a log; oddRows keeps clients from staging it.
func (l *line) rowID(raw []byte, bit field) (int64, field) {
	n, ok := intOf(raw)
	if !ok || n < 0 {
		l.oddRows = true
		return 0, 0
	}
	return n, bit
}

func (l *line) txnField(name, raw []byte) (bit field, err error) {
	ok := true
	switch string(name) {
	case "appId":
		bit = hasApp
		l.app, ok = stringOf(raw)
	case "version":
		bit = hasVersion
		l.version, ok = intOf(raw)
	}
	if !ok {
		err = l.wrong(string(name), raw, "has the wrong type")
	}
	return bit, err
}

func (l *line) domainField(name, raw []byte) (bit field, err error) {
	ok := true
	switch string(name) {
	case "domain":
		bit = hasDomain
		l.domain, ok = stringOf(raw)
	case "configuration":
		bit = hasConfiguration
		l.configuration, ok = stringOf(raw)
	case "removed":
		bit = hasRemoved
		l.removed, ok = boolOf(raw)
	}
	if !ok {
		err = l.wrong(string(name), raw, "has the wrong type")
	}
	return bit, err
}

// fieldNames are in the order of the bits.
var fieldNames = [...]string{
	"path", "partitionValues", "size", "modificationTime", "dataChange", "stats", "deletionVector",
	"extendedFileMetadata", "appId", "version", "domain", "configuration", "removed", "baseRowId", "defaultRowCommitVersion",
}

// required are the fields that clients have to write. Of what others wrote we ask
// for less, since older engines left some out.
func (l *line) required(strict bool) field {
	switch l.kind {
	case kindTxn:
		return hasApp | hasVersion
	case kindDomain:
		if strict {
			return hasDomain | hasConfiguration | hasRemoved
		}
		return hasDomain
	case kindAdd:
		if strict {
			return hasPath | hasPartition | hasSize | hasModified | hasDataChange
		}
		return hasPath
	case kindRemove:
		switch {
		case strict && l.extended:
			return hasPath | hasDataChange | hasPartition | hasSize
		case strict:
			return hasPath | hasDataChange
		}
		return hasPath
	case kindCDC:
		if strict {
			return hasPath | hasPartition | hasSize | hasDataChange
		}
		return hasPath
	default:
		return 0
	}
}

// complete checks that the required fields are there and that a path is not empty.
func (l *line) complete(strict bool) error {
	if missing := l.required(strict) &^ l.has; missing != 0 {
		return l.wrong(fieldNames[bits.TrailingZeros16(uint16(missing))], nil, "is missing")
	}
	if strict && l.oddRows {
		return l.wrong("baseRowId", nil, "and defaultRowCommitVersion must be 64-bit integers from 0 up")
	}
	if l.has&hasPath != 0 && len(l.path) == 0 {
		return l.wrong("path", nil, "is empty")
	}
	return nil
}
