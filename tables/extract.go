package tables

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// An extract is what a view keeps of a table at a version, and nothing else: eight bytes for
// each live file instead of a row of Parquet, and the commits since the checkpoint need not
// be read. It is derived and never needed. It is believed only of the very objects that it
// was made of, as one listing has them, and whoever has none, or another one, reads those.
//
// Its form is extractMagic, then the fields of extract in their order, strings and lists
// behind their length as a varint, versions plus one, hashes in eight bytes each, maps by
// their names, and at the end the SHA-256 of all that.
type extract struct {
	table   string
	version twophase.Version
	// base is the checkpoint that is below, base.version NoVersion if there is none.
	base extractBase
	// from and on the commits that are below stand for their objects, one after the other, up
	// to version: those after the newest checkpoint there was. None in an extract of a
	// checkpoint's own version.
	from    twophase.Version
	commits []objectSum
	// definitions are those that the versions had, in their order: the last one that the
	// newest checkpoint knew, and all after it.
	definitions []definedAt
	txns        map[string]int64
	domains     map[string]string
	// plain are the live files without a deletion vector, vectors the others. Both ascend,
	// and no path is there twice.
	plain   []PathHash
	vectors []pair
}

// extractBase is a checkpoint: its name in the log's folder, its size, and its ETag.
type extractBase struct {
	version twophase.Version
	file    string
	size    uint64
	etag    string
}

// definedAt is a protocol and a metadata, of which one is new at a version.
type definedAt struct {
	version        twophase.Version
	protocol, meta []byte
}

// objectSum stands for an object as a store describes it: size and ETag.
type objectSum uint64

// sumOf is 0, which is no object's, where the store has no ETag.
func sumOf(o objstore.Info) objectSum {
	if o.ETag == "" {
		return 0
	}
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, uint64(o.Size)), o.ETag...))
	return objectSum(max(binary.BigEndian.Uint64(sum[:]), 1))
}

const extractMagic = "txcoord extract 2\n"

// Extracts keeps a table's newest extract.
type Extracts interface {
	// Get is what was kept last, of so many bytes at most. Any error means that there is none.
	Get(ctx context.Context, atMost int64) ([]byte, error)
	// Keep takes the place of what is there. It is called once the objects are there that it
	// is of. What it fails to keep costs the next Load a read of them.
	Keep(context.Context, []byte)
}

// encode writes the form.
func (x *extract) encode() []byte {
	b := extractWriter(make([]byte, 0, 8*len(x.plain)+16*len(x.vectors)+8*len(x.commits)+4096))
	b = append(b, extractMagic...)
	b.text(x.table)
	b.version(x.version)
	b.version(x.base.version)
	b.text(x.base.file)
	b.uint(x.base.size)
	b.text(x.base.etag)
	b.version(x.from)
	b.uint(uint64(len(x.commits)))
	for _, c := range x.commits {
		b.hash(uint64(c))
	}
	b.uint(uint64(len(x.definitions)))
	for _, d := range x.definitions {
		b.version(d.version)
		b.text(string(d.protocol))
		b.text(string(d.meta))
	}
	b.uint(uint64(len(x.txns)))
	for _, app := range slices.Sorted(maps.Keys(x.txns)) {
		b.text(app)
		b.uint(uint64(x.txns[app]))
	}
	b.uint(uint64(len(x.domains)))
	for _, domain := range slices.Sorted(maps.Keys(x.domains)) {
		b.text(domain)
		b.text(x.domains[domain])
	}
	b.uint(uint64(len(x.plain)))
	for _, p := range x.plain {
		b.hash(uint64(p))
	}
	b.uint(uint64(len(x.vectors)))
	for _, p := range x.vectors {
		b.hash(uint64(p.path))
		b.hash(uint64(p.dv))
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// extractWriter writes fields.
type extractWriter []byte

func (w *extractWriter) uint(n uint64)              { *w = binary.AppendUvarint(*w, n) }
func (w *extractWriter) version(v twophase.Version) { w.uint(uint64(v + 1)) }
func (w *extractWriter) text(s string)              { w.uint(uint64(len(s))); *w = append(*w, s...) }
func (w *extractWriter) hash(h uint64)              { *w = binary.LittleEndian.AppendUint64(*w, h) }

// errExtract: bytes are not an extract of this build's form.
var errExtract = errors.New("is no extract of a table")

// decodeExtract reads the form. Bytes that were changed anywhere are none. What the digest
// covers was written by one of us, so nothing but the form is looked at.
func decodeExtract(b []byte) (*extract, error) {
	n := len(b) - sha256.Size
	if n < len(extractMagic) || string(b[:len(extractMagic)]) != extractMagic {
		return nil, errExtract
	}
	if sum := sha256.Sum256(b[:n]); !bytes.Equal(sum[:], b[n:]) {
		return nil, errExtract
	}
	r := extractReader{b: b[len(extractMagic):n]}
	x := &extract{table: r.text(), version: r.version()}
	x.base = extractBase{version: r.version(), file: r.text(), size: r.uint(), etag: r.text()}
	x.from = r.version()
	x.commits = make([]objectSum, r.count(8))
	for i := range x.commits {
		x.commits[i] = objectSum(r.hash())
	}
	for range r.count(3) {
		x.definitions = append(x.definitions, definedAt{r.version(), r.raw(r.count(1)), r.raw(r.count(1))})
	}
	x.txns, x.domains = map[string]int64{}, map[string]string{}
	for range r.count(2) {
		app := r.text()
		x.txns[app] = int64(r.uint())
	}
	for range r.count(2) {
		domain := r.text()
		x.domains[domain] = r.text()
	}
	x.plain = make([]PathHash, r.count(8))
	for i := range x.plain {
		x.plain[i] = PathHash(r.hash())
	}
	x.vectors = make([]pair, r.count(16))
	for i := range x.vectors {
		x.vectors[i] = pair{PathHash(r.hash()), DVHash(r.hash())}
	}
	if r.bad || len(r.b) > 0 {
		return nil, errExtract
	}
	return x, nil
}

// extractReader reads fields. Behind bytes that do not fit it gives zero values.
type extractReader struct {
	b   []byte
	bad bool
}

func (r *extractReader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *extractReader) version() twophase.Version { return twophase.Version(r.uint()) - 1 }

// count is of things that take at least so many bytes each.
func (r *extractReader) count(each int) int {
	n := r.uint()
	if n > uint64(len(r.b)/each) {
		r.b, r.bad = nil, true
		return 0
	}
	return int(n)
}

func (r *extractReader) raw(n int) []byte {
	if n > len(r.b) {
		r.b, r.bad = nil, true
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *extractReader) text() string { return string(r.raw(r.count(1))) }

func (r *extractReader) hash() uint64 {
	if b := r.raw(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}
