package datafile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/txcoord/txcoord/internal/nearest"
)

// Table is what an add action has to fit: parts of the table's metaData action.
// It is immutable and safe for concurrent use.
type Table struct {
	data, partitions []field
	// stats says which of the data columns have statistics.
	indexed int
	listed  []string
}

const (
	mappingKey = "delta.columnMapping.mode"
	indexedKey = "delta.dataSkippingNumIndexedCols"
	listedKey  = "delta.dataSkippingStatsColumns"
	// defaultIndexed is Delta's default of delta.dataSkippingNumIndexedCols.
	defaultIndexed = 32
)

// NewTable takes the fields of a metaData action as they stand there. Of column
// mapping it knows the mode name; files are not matched by field ids.
func NewTable(schemaString string, partitionColumns []string, configuration map[string]string) (*Table, error) {
	schema, err := parseSchema(schemaString)
	if err != nil {
		return nil, err
	}
	switch mode := configuration[mappingKey]; strings.ToLower(mode) {
	case "name":
	case "", "none":
		unmap(schema.fields)
	default:
		return nil, fmt.Errorf("table property %s=%s: files are matched by name only", mappingKey, mode)
	}
	t := &Table{}
	if err := t.divide(schema.fields, partitionColumns); err != nil {
		return nil, err
	}
	return t, t.setStats(configuration)
}

// unmap drops physical names: without column mapping they have no say.
func unmap(fields []field) {
	for i := range fields {
		fields[i].physical = fields[i].name
		unmap(fields[i].typ.fields)
		unmap(fields[i].typ.parts)
	}
}

func (t *Table) divide(fields []field, partitionColumns []string) error {
	t.data = slices.Clone(fields)
	for _, name := range partitionColumns {
		i := slices.IndexFunc(t.data, func(f field) bool { return strings.EqualFold(f.name, name) })
		if i < 0 {
			return fmt.Errorf("partition column %s is not in the schema; %s", name, nearest.OneOf(name, names(fields)))
		}
		t.partitions = append(t.partitions, t.data[i])
		t.data = slices.Delete(t.data, i, i+1)
	}
	return nil
}

func (t *Table) setStats(configuration map[string]string) error {
	t.indexed = defaultIndexed
	if v, ok := configuration[indexedKey]; ok {
		n, err := strconv.Atoi(v)
		if err != nil {
			return fmt.Errorf("table property %s: %w", indexedKey, err)
		}
		t.indexed = n
	}
	for name := range strings.SplitSeq(configuration[listedKey], ",") {
		if name = strings.ReplaceAll(strings.TrimSpace(name), "`", ""); name != "" {
			t.listed = append(t.listed, name)
		}
	}
	return nil
}

var (
	errNoTime  = errors.New("the file's modification time is not set")
	errOutside = errors.New("the path must be relative to the table's root and stay below it")
)

// Add makes the add action line, without a line end, for a file that lies at path
// below the table's root. path is as the object store has it, not URI-encoded.
//
// Partition values come from values, by the columns' names (or physical names),
// nil for null, and from the path's name=value segments; where both have one, or
// the file has the column itself, they have to agree. Columns that do not fit give a *FitError. What a footer cannot show is for
// whoever wrote the file to keep: constraints, generated columns, invariants.
func (t *Table) Add(f File, path string, values map[string]*string) ([]byte, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	if f.Modified.IsZero() {
		return nil, fmt.Errorf("%s: %w", path, errNoTime)
	}
	parts, err := t.partitionValues(path, values)
	if err != nil {
		return nil, err
	}
	if err := t.agrees(path, f, parts); err != nil {
		return nil, err
	}
	fields, err := fitter{path, f}.fields("", t.data, t.dataFields(f))
	if err != nil {
		return nil, err
	}
	b := append([]byte(`{"add":{"path":"`), escapePath(path)...)
	b = append(b, `","partitionValues":`...)
	b = t.appendPartitions(b, parts)
	b = fmt.Appendf(b, `,"size":%d,"modificationTime":%d,"dataChange":true,"stats":`, f.Size, f.Modified.UnixMilli())
	b, err = appendString(b, []byte(f.statsOf(t.statsFields("", fields, new(int)))))
	return append(b, "}}"...), err
}

func checkPath(path string) error {
	for s := range strings.SplitSeq(path, "/") {
		if s == "" || s == "." || s == ".." {
			return fmt.Errorf("%q: %w", path, errOutside)
		}
	}
	return nil
}

// names are those of the table.
func names(fields []field) []string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = f.name
	}
	return all
}

// dataFields are the file's columns without the partition columns: those may be
// in a file, and readers take their values from the add action all the same.
func (t *Table) dataFields(f File) []field {
	return slices.DeleteFunc(slices.Clone(f.fields), func(c field) bool {
		return slices.ContainsFunc(t.partitions, func(p field) bool { return p.physical == c.name })
	})
}

func (t *Table) partitionValues(path string, values map[string]*string) ([]*string, error) {
	for name := range values {
		if !slices.ContainsFunc(t.partitions, func(f field) bool { return f.name == name || f.physical == name }) {
			return nil, &FitError{File: path, Column: name, Reason: "is not a partition column of the table; " + nearest.OneOf(name, names(t.partitions))}
		}
	}
	inPath := pathValues(path)
	var parts []*string
	for _, f := range t.partitions {
		v, err := onePartition(f, values, inPath)
		if err != nil {
			return nil, &FitError{File: path, Column: f.name, Reason: err.Error()}
		}
		parts = append(parts, v)
	}
	return parts, nil
}

var errNoPartition = errors.New("neither the path nor the caller gives its partition value")

// onePartition is a column's value as given, or else as in the path.
func onePartition(f field, values, inPath map[string]*string) (*string, error) {
	given, isGiven := lookUp(f, values)
	found, isInPath := lookUp(f, inPath)
	switch {
	case !isGiven && !isInPath:
		return nil, errNoPartition
	case !isGiven:
		return partitionValue(f, found)
	}
	v, err := partitionValue(f, given)
	if err != nil || !isInPath {
		return v, err
	}
	found, err = partitionValue(f, found)
	if err == nil && !samePartition(f.typ.name, v, found) {
		err = fmt.Errorf("its path says %s, and the partition value given is %s", shown(found), shown(v))
	}
	return v, err
}

func lookUp(f field, values map[string]*string) (*string, bool) {
	for _, name := range []string{f.name, f.physical} {
		if v, ok := values[name]; ok {
			return v, true
		}
	}
	return nil, false
}

func (t *Table) appendPartitions(b []byte, parts []*string) []byte {
	b = append(b, '{')
	for i, v := range parts {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = appendString(b, []byte(t.partitions[i].physical))
		b = append(b, ':')
		if v == nil {
			b = append(b, "null"...)
			continue
		}
		b, _ = appendString(b, []byte(*v))
	}
	return append(b, '}')
}

// statsFields keeps the columns that the table wants statistics of: those listed
// in delta.dataSkippingStatsColumns, else the first so many leaves.
func (t *Table) statsFields(in string, fields []field, seen *int) []field {
	var out []field
	for _, f := range fields {
		at := join(in, f.name)
		if f.typ.name == "struct" && !slices.Contains(t.listed, at) {
			f.typ.fields = t.statsFields(at, f.typ.fields, seen)
			out = append(out, f)
			continue
		}
		*seen++
		if t.listed != nil && slices.Contains(t.listed, at) || t.listed == nil && (t.indexed < 0 || *seen <= t.indexed) {
			out = append(out, f)
		}
	}
	return out
}

const upperHex = "0123456789ABCDEF"

// escapePath percent-encodes a path as RFC 2396 asks. A colon is legal but not in
// a relative reference's first segment, so it is always encoded.
func escapePath(path string) string {
	var b strings.Builder
	for i := range len(path) {
		c := path[i]
		if c == '/' || isUnreserved(c) || strings.IndexByte(";@&=+$,", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', upperHex[c>>4], upperHex[c&15]})
	}
	return b.String()
}

func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.!~*'()", c) >= 0
}
