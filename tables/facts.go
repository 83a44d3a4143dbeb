package tables

import (
	"encoding/binary"
	"slices"

	"github.com/txcoord/txcoord/twophase"
)

// Facts, the flat form. DESIGN.md has the layout. Everything of variable length is
// preceded by its count as a varint; hashes are 8 bytes, little-endian, and lists
// of paths are sorted, so that two blobs can be compared without unpacking either.

// factsVersion stands in the first byte. A reader refuses another one.
const factsVersion = 1

// flag is a bit in the facts' second field.
type flag uint32

const (
	// flagForeign: a version in a log, not a part of ours.
	flagForeign flag = 1 << iota
	// flagBlind: declared, or claimed by isBlindAppend.
	flagBlind
	// flagRemovesData: a remove with dataChange.
	flagRemovesData
	// flagChangesData: an add or remove with dataChange, or no file action at all.
	flagChangesData
	// flagMetaData: a metaData action; flagMetaDataSame: it changes nothing that
	// writers depend on.
	flagMetaData
	flagMetaDataSame
	// flagAppendOnly: the new metaData makes the table append-only.
	flagAppendOnly
	// flagProtocol: a protocol action; flagUnsupported: one under which we do not write.
	flagProtocol
	flagUnsupported
	// flagDVs: adds and removes have deletion vectors beside the paths.
	flagDVs
	// What was read.
	flagReadFiles
	flagReadPartitions
	flagReadWhole
	// flagWriteSerializable, flagSnapshot: isolation below Serializable.
	flagWriteSerializable
	flagSnapshot
	// flagAddsAnywhere, flagRemovesAnywhere: partition values are not known, so any
	// predicate fits.
	flagAddsAnywhere
	flagRemovesAnywhere
	// flagMetaAdditive, flagMetaHarmless: the new metaData leaves some writers' parts
	// right (step).
	flagMetaAdditive
	flagMetaHarmless
	// flagAppends: adds and txn only, and nothing was read.
	flagAppends
	// flagCounted: all adds have numRecords; flagCounts: the new protocol or metaData
	// asks for that.
	flagCounted
	flagCounts
)

// facts are decoded facts. Slices share memory with the blob.
type facts struct {
	flags flag
	// id is that of metaData.id that the part is bound to; keys are the partition
	// keys of its adds, 0 without adds.
	id, keys uint64
	// base: the table when the part was staged.
	baseLook, baseConfig uint64
	baseFeatures         featureSet
	// next: what a metaData or protocol action leaves behind.
	nextID, nextKeys, nextLook, nextConfig uint64
	nextFeatures                           featureSet
	// unfit are earlier schemas whose files do not fit the new one.
	unfit hashes

	apps     []byte // encoded: count was read, entries follow
	numApps  int
	readApps hashes
	domains  hashes

	adds, addDVs       hashes
	removes, removeDVs hashes

	// columns are those of the tuples, which hold one value per column.
	columns                 hashes
	addTuples, removeTuples hashes
	readFiles               hashes
	predicate               []byte // encoded
	numMatches              int
}

func (f *facts) is(bit flag) bool { return f.flags&bit != 0 }

// hashes is a list of 8-byte values in a blob.
type hashes []byte

func (h hashes) len() int        { return len(h) / 8 }
func (h hashes) at(i int) uint64 { return binary.LittleEndian.Uint64(h[8*i:]) }

// find searches a sorted list.
func (h hashes) find(v uint64) (int, bool) {
	lo, hi := 0, h.len()
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if h.at(mid) < v {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < h.len() && h.at(lo) == v
}

// has searches an unsorted one.
func (h hashes) has(v uint64) bool {
	for i := range h.len() {
		if h.at(i) == v {
			return true
		}
	}
	return false
}

// shared calls f with the places of values that two sorted lists share, until f
// answers false. A list that is much longer than the other is searched, not walked.
func shared(a, b hashes, f func(i, j int) bool) {
	switch {
	case 16*a.len() < b.len():
		for i := range a.len() {
			if j, ok := b.find(a.at(i)); ok && !f(i, j) {
				return
			}
		}
	case 16*b.len() < a.len():
		for j := range b.len() {
			if i, ok := a.find(b.at(j)); ok && !f(i, j) {
				return
			}
		}
	default:
		walkBoth(a, b, f)
	}
}

func walkBoth(a, b hashes, f func(i, j int) bool) {
	for i, j := 0, 0; i < a.len() && j < b.len(); {
		switch x, y := a.at(i), b.at(j); {
		case x < y:
			i++
		case x > y:
			j++
		default:
			if !f(i, j) {
				return
			}
			i, j = i+1, j+1
		}
	}
}

// meet returns the first value that two sorted lists share.
func meet(a, b hashes) (v uint64, ok bool) {
	shared(a, b, func(i, _ int) bool {
		v, ok = a.at(i), true
		return false
	})
	return v, ok
}

// builder collects facts and encodes them.
type builder struct {
	facts
	appList               []twophase.AppVersion
	unfitList             []uint64
	readAppList, domList  []uint64
	addList, removeList   []pair
	columnList            []uint64
	addTuple, removeTuple [][]uint64
	fileList              []uint64
	matches               []match
}

// match is one match of a partition predicate: all conditions must fit.
type match []condition

type condition struct {
	column uint64
	values []uint64
}

func (b *builder) encode() twophase.Facts {
	sortPairs(b.addList)
	sortPairs(b.removeList)
	for _, list := range [][]pair{b.addList, b.removeList} {
		for _, p := range list {
			if p.dv != 0 {
				b.flags |= flagDVs
			}
		}
	}
	out := make([]byte, 0, 128+16*(len(b.addList)+len(b.removeList))+8*len(b.fileList))
	out = append(out, factsVersion)
	out = binary.LittleEndian.AppendUint32(out, uint32(b.flags))
	out = appendHashes(out, b.id, b.keys, b.baseLook, b.baseConfig, uint64(b.baseFeatures))
	if b.is(flagMetaData) {
		out = appendHashes(out, b.nextID, b.nextKeys, b.nextLook, b.nextConfig)
		out = appendList(out, b.unfitList)
	}
	if b.is(flagProtocol) {
		out = appendHashes(out, uint64(b.nextFeatures))
	}
	out = binary.AppendUvarint(out, uint64(len(b.appList)))
	for _, a := range b.appList {
		out = binary.AppendUvarint(out, uint64(len(a.App)))
		out = append(out, a.App...)
		out = binary.LittleEndian.AppendUint64(out, uint64(a.Version))
	}
	slices.Sort(b.readAppList)
	slices.Sort(b.domList)
	out = appendList(out, b.readAppList)
	out = appendList(out, b.domList)
	out = b.appendPairs(out, b.addList)
	out = b.appendPairs(out, b.removeList)
	out = appendList(out, b.columnList)
	out = appendTuples(out, b.addTuple)
	out = appendTuples(out, b.removeTuple)
	slices.Sort(b.fileList)
	out = appendList(out, slices.Compact(b.fileList))
	out = binary.AppendUvarint(out, uint64(len(b.matches)))
	for _, m := range b.matches {
		out = binary.AppendUvarint(out, uint64(len(m)))
		for _, c := range m {
			out = appendHashes(out, c.column)
			out = appendList(out, c.values)
		}
	}
	return out
}

func sortPairs(list []pair) {
	slices.SortFunc(list, func(a, b pair) int {
		switch {
		case a.path < b.path:
			return -1
		case a.path > b.path:
			return 1
		case a.dv < b.dv:
			return -1
		case a.dv > b.dv:
			return 1
		}
		return 0
	})
}

func (b *builder) appendPairs(out []byte, list []pair) []byte {
	out = binary.AppendUvarint(out, uint64(len(list)))
	for _, p := range list {
		out = appendHashes(out, uint64(p.path))
	}
	if b.is(flagDVs) {
		for _, p := range list {
			out = appendHashes(out, uint64(p.dv))
		}
	}
	return out
}

func appendHashes(out []byte, values ...uint64) []byte {
	for _, v := range values {
		out = binary.LittleEndian.AppendUint64(out, v)
	}
	return out
}

func appendList(out []byte, values []uint64) []byte {
	return appendHashes(binary.AppendUvarint(out, uint64(len(values))), values...)
}

func appendTuples(out []byte, tuples [][]uint64) []byte {
	out = binary.AppendUvarint(out, uint64(len(tuples)))
	for _, t := range tuples {
		out = appendHashes(out, t...)
	}
	return out
}
