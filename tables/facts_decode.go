package tables

import (
	"encoding/binary"
	"errors"

	"github.com/txcoord/txcoord/twophase"
)

var (
	errFactsVersion = errors.New("conflict facts are of another version")
	errFactsCut     = errors.New("conflict facts break off")
)

// decoder takes a blob apart; after the first error every read answers zero.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.rest) {
		d.bad = true
		return nil
	}
	out := d.rest[:n:n]
	d.rest = d.rest[n:]
	return out
}

func (d *decoder) hash() uint64 {
	b := d.take(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func (d *decoder) count(size int) int {
	n, used := binary.Uvarint(d.rest)
	if used <= 0 || size > 0 && n > uint64(len(d.rest)/size) {
		d.bad = true
		return 0
	}
	d.rest = d.rest[used:]
	return int(n)
}

func (d *decoder) list() hashes { return d.take(8 * d.count(8)) }

// decode takes facts apart without copying.
func decode(blob twophase.Facts) (f facts, err error) {
	d := decoder{rest: blob}
	if v := d.take(1); v == nil || v[0] != factsVersion {
		return f, errFactsVersion
	}
	if b := d.take(4); b != nil {
		f.flags = flag(binary.LittleEndian.Uint32(b))
	}
	f.id, f.keys, f.baseLook, f.baseConfig, f.baseFeatures = d.hash(), d.hash(), d.hash(), d.hash(), featureSet(d.hash())
	if f.is(flagMetaData) {
		f.nextID, f.nextKeys, f.nextLook, f.nextConfig = d.hash(), d.hash(), d.hash(), d.hash()
		f.unfit = d.list()
	}
	if f.is(flagProtocol) {
		f.nextFeatures = featureSet(d.hash())
	}
	f.numApps, f.apps = d.entries(func() { d.take(d.count(1)); d.take(8) })
	f.readApps, f.domains = d.list(), d.list()
	f.adds, f.addDVs = d.pairs(f.is(flagDVs))
	f.removes, f.removeDVs = d.pairs(f.is(flagDVs))
	f.columns = d.list()
	f.addTuples, f.removeTuples = d.tuples(f.columns.len()), d.tuples(f.columns.len())
	f.readFiles = d.list()
	f.numMatches, f.predicate = d.entries(func() {
		for range d.count(9) {
			d.take(8)
			d.list()
		}
	})
	if d.bad || len(d.rest) > 0 {
		return f, errFactsCut
	}
	return f, nil
}

// entries passes over counted entries and returns their bytes.
func (d *decoder) entries(skip func()) (n int, encoded []byte) {
	n = d.count(1)
	start := d.rest
	for i := 0; i < n && !d.bad; i++ {
		skip()
	}
	return n, start[:len(start)-len(d.rest)]
}

func (d *decoder) pairs(dvs bool) (paths, vectors hashes) {
	n := d.count(8)
	paths = d.take(8 * n)
	if dvs {
		vectors = d.take(8 * n)
	}
	return paths, vectors
}

func (d *decoder) tuples(columns int) hashes {
	n := d.count(8 * columns)
	return d.take(8 * n * columns)
}

// eachApp yields the txn actions.
func (f *facts) eachApp(yield func(app []byte, version int64) bool) {
	d := decoder{rest: f.apps}
	for range f.numApps {
		app := d.take(d.count(1))
		if !yield(app, int64(d.hash())) {
			return
		}
	}
}

func dvAt(dvs hashes, i int) DVHash {
	if len(dvs) == 0 {
		return 0
	}
	return DVHash(dvs.at(i))
}
