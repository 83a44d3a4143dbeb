package tables

import (
	"encoding/binary"
	"maps"
	"slices"
	"strconv"

	"github.com/txcoord/txcoord/twophase"
)

// DigestInput is what the digest of a staged piece covers.
type DigestInput struct {
	Table      twophase.TableID
	MetaDataID string
	Read       ReadDeclaration
	// Options of the part; none exist yet, so it is empty.
	Options map[string]string
	Actions []byte
}

// digestForm names the canonical form and its version.
const digestForm = "txcoord part 1"

// Digest names a staged piece (CONTRACT.md section 2): SHA-256 over the canonical
// form in DESIGN.md, which clients may compute as well; testdata/digest.json has
// vectors. Other order of files, matches, conditions or values gives the same digest.
func Digest(in DigestInput) twophase.Digest {
	out := make([]byte, 0, 256+len(in.Actions))
	out = appendField(out, digestForm)
	out = appendField(out, string(in.Table))
	out = appendField(out, in.MetaDataID)
	out = in.Read.canonical(out)
	out = appendCount(out, len(in.Options))
	for _, key := range slices.Sorted(maps.Keys(in.Options)) {
		out = appendField(out, key)
		out = appendField(out, in.Options[key])
	}
	out = appendField(out, in.Actions)
	return twophase.HashOf(out)
}

// appendField appends a text behind its length, 8 bytes big-endian.
func appendField[T ~string | ~[]byte](out []byte, text T) []byte {
	return append(binary.BigEndian.AppendUint64(out, uint64(len(text))), text...)
}

func appendCount(out []byte, n int) []byte { return binary.BigEndian.AppendUint64(out, uint64(n)) }

// appendSet appends texts in order of their bytes, each once.
func appendSet(out []byte, texts []string) []byte {
	sorted := slices.Compact(slices.Sorted(slices.Values(texts)))
	out = appendCount(out, len(sorted))
	for _, t := range sorted {
		out = appendField(out, t)
	}
	return out
}

// canonical appends the form of read point, read set, apps and isolation.
func (r *ReadDeclaration) canonical(out []byte) []byte {
	switch {
	case r.Blind:
		out = appendField(out, "blind")
	case r.Version != nil:
		out = appendField(out, "version "+strconv.FormatInt(int64(*r.Version), 10))
	case r.Snapshot != nil:
		out = appendField(out, "snapshot "+strconv.FormatUint(uint64(*r.Snapshot), 10))
	default:
		out = appendField(out, "")
	}
	out = appendField(out, r.Kind.String())
	out = appendSet(out, r.Files)
	matches := make([]string, len(r.Partitions))
	for i, m := range r.Partitions {
		matches[i] = string(m.canonical())
	}
	out = appendSet(out, matches)
	out = appendSet(out, r.Apps)
	return appendField(out, r.Isolation.String())
}

func (m PartitionMatch) canonical() []byte {
	conditions := make([]string, len(m))
	for i, c := range m {
		null := "0"
		if c.OrNull {
			null = "1"
		}
		conditions[i] = string(appendField(appendSet(appendField(nil, c.Column), c.Values), null))
	}
	return appendSet(nil, conditions)
}
