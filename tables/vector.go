package tables

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Storage types of deletion vectors.
const (
	vectorRelative = "u"
	vectorInline   = "i"
	vectorAbsolute = "p"
)

// vectorName is how long the name of a vector's file is, a UUID in Z85; what stands
// before it is the file's folder below the table's root.
const vectorName = 20

// parseDV returns the vector's unique id: type, path or content, and the offset
// where there is one. To us it is a name and nothing more.
func (l *line) parseDV(raw []byte) (string, error) {
	var storage, where []byte
	var offset int64
	hasOffset := false
	if err := uniqueNames(raw); err != nil {
		return "", within(string(l.name)+".deletionVector", err)
	}
	err := members(raw, func(name, value []byte) bool {
		ok := true
		switch string(name) {
		case "storageType":
			storage, ok = stringOf(value)
		case "pathOrInlineDv":
			where, ok = stringOf(value)
		case "offset":
			offset, ok = intOf(value)
			hasOffset = true
		}
		return ok
	})
	if err != nil {
		return "", l.wrong("deletionVector", raw, err.Error())
	}
	if len(storage) != 1 || len(where) == 0 {
		return "", l.wrong("deletionVector", raw, "needs storageType and pathOrInlineDv")
	}
	id := string(storage) + string(where)
	if hasOffset {
		id += "@" + strconv.FormatInt(offset, 10)
	}
	return id, nil
}

// vectorForm checks the descriptor of a deletion vector that a client stages: readers
// take one that cannot be read for a broken table (PROTOCOL.md, Deletion Vector
// Descriptor Schema). records are those of an add's file. A remove names a vector that
// is there, whatever its path looks like.
func (l *line) vectorForm(records int64) error {
	if l.has&hasDV == 0 {
		return nil
	}
	var v vector
	_ = members(l.vector, v.read) // parseDV has read it
	switch v.storage {
	case vectorRelative, vectorInline, vectorAbsolute:
	default:
		return l.wrongVector("storageType", []byte(v.storage), "is none of u (below the table), i (inline) and p (absolute path)", "")
	}
	for _, n := range []struct {
		name     string
		raw      []byte
		least    int64
		most     int64
		optional bool
	}{
		{"sizeInBytes", v.size, 1, math.MaxInt32, false},
		{"cardinality", v.cardinality, 0, math.MaxInt64, false},
		{"offset", v.offset, 0, math.MaxInt32, true},
	} {
		if n.raw == nil && n.optional {
			continue
		}
		if got, ok := intOf(n.raw); !ok || got < n.least || got > n.most {
			return l.wrongVector(n.name, n.raw, fmt.Sprintf("must be an integer from %d to %d", n.least, n.most), "")
		}
	}
	if v.storage == vectorInline && v.offset != nil {
		return l.wrongVector("offset", v.offset, "is there beside an inline vector, which is in no file", "leave it out")
	}
	if l.kind != kindAdd {
		return nil
	}
	if n, _ := intOf(v.cardinality); n > records {
		return l.wrongVector("cardinality", v.cardinality, fmt.Sprintf("is more rows than the file has: numRecords is %d", records), "give numRecords as it is without the vector")
	}
	if reason := v.badPath(); reason != "" {
		return l.wrongVector("pathOrInlineDv", []byte(v.path), reason, "give the descriptor as the engine that wrote the vector has made it")
	}
	return nil
}

func (l *line) wrongVector(field string, value []byte, reason, remedy string) error {
	return &fieldError{field: string(l.name) + ".deletionVector." + field, value: cut(value), reason: reason, remedy: remedy}
}

// vector is a descriptor; raw numbers, nil where there is none.
type vector struct {
	storage, path             string
	offset, size, cardinality []byte
}

func (v *vector) read(name, value []byte) bool {
	if isNull(value) {
		return true
	}
	switch string(name) {
	case "storageType":
		v.storage, _ = textOf(value)
	case "pathOrInlineDv":
		v.path, _ = textOf(value)
	case "offset":
		v.offset = value
	case "sizeInBytes":
		v.size = value
	case "cardinality":
		v.cardinality = value
	}
	return true
}

// badPath says what is wrong with where a vector is; empty if nothing is.
func (v *vector) badPath() string {
	switch v.storage {
	case vectorInline:
		size, _ := intOf(v.size)
		if !isZ85(v.path) || int64(len(v.path)) != (size+3)/4*5 {
			return fmt.Sprintf("is not %d bytes in Z85", size)
		}
	case vectorRelative:
		cutAt := len(v.path) - vectorName
		if cutAt < 0 || !isZ85(v.path[cutAt:]) {
			return "does not end with the 20 characters of a UUID in Z85"
		}
		if folder := v.path[:cutAt]; strings.ContainsAny(folder, `/\`) || folder == "." || folder == ".." || hasControl(folder) {
			return "begins with what is no name of a folder"
		}
	case vectorAbsolute:
		_, _, path := splitURI(v.path)
		if decoded, err := unescape(path); err != nil || !strings.HasPrefix(decoded, "/") || hasControl(decoded) {
			return "is not an absolute path, or a URI"
		}
	}
	return ""
}

var z85 = []byte("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#")

// isZ85 reports whether groups of five characters each stand for four bytes.
func isZ85(text string) bool {
	if len(text)%5 != 0 {
		return false
	}
	group := uint64(0)
	for i := range len(text) {
		digit := bytes.IndexByte(z85, text[i])
		if digit < 0 {
			return false
		}
		if group = group*85 + uint64(digit); i%5 == 4 {
			if group > math.MaxUint32 {
				return false
			}
			group = 0
		}
	}
	return true
}
