package coordinator

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// A bundle is one item of the store that holds small pieces, of one transaction or of
// several that were decided together: a key for each of them would be written before the
// entry and deleted after its publication (C1). Its value is bundleMagic, a byte with the
// format, and a zstd frame with a checksum. In it stand transactions, each as
//
//	begin position (uvarint), id (16 bytes), number of pieces (uvarint),
//	and for each piece: its length (uvarint), its bytes as under a key of its own
//
// Whose piece it is and its digest follow from its bytes.
const (
	bundleMagic  = "txb"
	bundleFormat = 1
)

// bundleKeys is what stands behind the shard in the keys of bundles, where those of single
// pieces have a begin position.
const bundleKeys = "bundle/"

func bundleKey(id twophase.BundleID) string {
	return fmt.Sprintf("pay/%02d/%s%s", id[0]%64, bundleKeys, id)
}

// located is a piece and where it lies: in a bundle, or, if that is zero, by itself, under
// a key or as an object of its own.
type located struct {
	payloadID
	in twophase.BundleID
}

// key of the item that holds the piece, if it is none that needs an object.
func (l located) key() string {
	if l.in.IsZero() {
		return l.payloadID.key()
	}
	return bundleKey(l.in)
}

// packed is a small piece on its way into the store.
type packed struct {
	id    payloadID
	bytes []byte
}

// packedRoom is what a piece takes of a bundle beside its bytes, at most.
const packedRoom = 64

func roomOf(pieces []packed) (n int) {
	for i := range pieces {
		n += len(pieces[i].bytes) + packedRoom
	}
	return n
}

// chunks cuts the pieces of a transaction so that each chunk fits a bundle. A piece that
// is larger has a bundle of its own.
func chunks(pieces []packed, room int) (out [][]packed) {
	used := 0
	for i := range pieces {
		n := roomOf(pieces[i : i+1])
		if len(out) == 0 || used+n > room {
			out, used = append(out, nil), 0
		}
		last := len(out) - 1
		out[last], used = append(out[last], pieces[i]), used+n
	}
	return out
}

// nameBundles has a commit record say in which bundle each part lies. Those that are to be
// made for the entry get their names there; the record has its size already.
func nameBundles(rec *twophase.Committed, parts []*part, packs [][]packed) {
	rec.Bundles = make([]twophase.BundleID, len(packs))
	chunk, used := 0, 0
	for i, p := range parts {
		switch {
		case p.small != nil:
			if used == len(packs[chunk]) {
				chunk, used = chunk+1, 0
			}
			used++
			rec.Parts[i].Bundle = uint32(chunk + 1)
		case !p.bundle.IsZero():
			at := slices.Index(rec.Bundles[len(packs):], p.bundle)
			if at < 0 {
				at = len(rec.Bundles) - len(packs)
				rec.Bundles = append(rec.Bundles, p.bundle)
			}
			rec.Parts[i].Bundle = uint32(len(packs) + at + 1)
		}
	}
}

// bundle is one that is being made.
type bundle struct {
	pieces []packed
	room   int // that is left
}

// packer puts chunks of transactions into bundles, as they come.
type packer struct {
	room    int
	bundles []*bundle
}

// add answers in which bundle each chunk is. What is cut is not spread over more bundles
// than it has chunks: a record has named so many.
func (p *packer) add(all [][]packed) []*bundle {
	in := make([]*bundle, len(all))
	for i, chunk := range all {
		need := roomOf(chunk)
		last := len(p.bundles) - 1
		if last < 0 || p.bundles[last].room < need {
			p.bundles = append(p.bundles, &bundle{room: p.room})
			last++
		}
		in[i] = p.bundles[last]
		in[i].pieces = append(in[i].pieces, chunk...)
		in[i].room -= need
	}
	return in
}

// id follows from what is in it, so that the same pieces put again are the same item.
func (b *bundle) id() (id twophase.BundleID) {
	h := sha256.New()
	var n [8]byte
	for i := range b.pieces {
		p := &b.pieces[i].id
		binary.BigEndian.PutUint64(n[:], uint64(p.Begun))
		h.Write(n[:])
		h.Write(p.Txn[:])
		h.Write(p.Digest[:])
	}
	copy(id[:], h.Sum(nil))
	return id
}

func (b *bundle) ids() []payloadID {
	out := make([]payloadID, len(b.pieces))
	for i := range b.pieces {
		out[i] = b.pieces[i].id
	}
	return out
}

// write is the put that makes the bundle durable.
func (b *bundle) write(id twophase.BundleID) lock.Write {
	var raw []byte
	for rest := b.pieces; len(rest) > 0; {
		first := &rest[0].id
		n := 1
		for n < len(rest) && rest[n].id.Txn == first.Txn && rest[n].id.Begun == first.Begun {
			n++
		}
		raw = binary.AppendUvarint(raw, uint64(first.Begun))
		raw = append(raw, first.Txn[:]...)
		raw = binary.AppendUvarint(raw, uint64(n))
		for i := range rest[:n] {
			raw = binary.AppendUvarint(raw, uint64(len(rest[i].bytes)))
			raw = append(raw, rest[i].bytes...)
		}
		rest = rest[n:]
	}
	return lock.Write{Key: bundleKey(id), Value: zip().EncodeAll(raw, append([]byte(bundleMagic), bundleFormat))}
}

// bundleBytes bounds what is unpacked, whatever the item says of itself; bundle_bytes has
// to be below.
const bundleBytes = 64 << 20

// zipOverhead is by how much a bundle may be larger than what is in it.
const zipOverhead = 4 << 10

var (
	// zip keeps two windows for each of those that compress at once: by default 8 MiB for
	// each processor.
	zip = sync.OnceValue(func() *zstd.Encoder {
		e, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(true),
			zstd.WithWindowSize(1<<20), zstd.WithEncoderConcurrency(batchesAtOnce)) // fails for bad options only
		return e
	})
	unzip = sync.OnceValue(func() *zstd.Decoder {
		d, _ := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(bundleBytes), zstd.WithDecoderConcurrency(0))
		return d
	})
)

// unpacked is a piece of a bundle as it was read.
type unpacked struct {
	id    payloadID
	piece *payload
	raw   []byte
}

// unpack reads a bundle. errDamaged for what no build has written, another error for what
// a newer one may have.
func unpack(value []byte) ([]unpacked, error) {
	rest, ok := bytes.CutPrefix(value, []byte(bundleMagic))
	if !ok || len(rest) == 0 {
		return nil, fmt.Errorf("%w: it is no bundle", errDamaged)
	}
	if rest[0] != bundleFormat {
		return nil, fmt.Errorf("bundle of staged payloads of format %d, this build knows %d", rest[0], bundleFormat)
	}
	raw, err := unzip().DecodeAll(rest[1:], nil)
	if err != nil {
		return nil, fmt.Errorf("%w: its bundle: %w", errDamaged, err)
	}
	r := bundleReader{raw}
	var out []unpacked
	for len(r.left) > 0 {
		begun, txn, n, ok := r.transaction()
		for ; ok && n > 0; n-- {
			var b []byte
			if b, ok = r.piece(); !ok {
				break
			}
			p, err := decodePayload(b)
			if err != nil {
				return nil, err
			}
			out = append(out, unpacked{payloadID{Begun: begun, Txn: txn, Table: p.head.Table, Digest: p.digest()}, p, b})
		}
		if !ok {
			return nil, fmt.Errorf("%w: its bundle ends early", errDamaged)
		}
	}
	return out, nil
}

type bundleReader struct{ left []byte }

func (r *bundleReader) number() (uint64, bool) {
	v, n := binary.Uvarint(r.left)
	if n <= 0 {
		return 0, false
	}
	r.left = r.left[n:]
	return v, true
}

func (r *bundleReader) transaction() (begun twophase.Position, id twophase.TxnID, n uint64, ok bool) {
	at, ok := r.number()
	if !ok || len(r.left) < len(id) {
		return 0, id, 0, false
	}
	copy(id[:], r.left)
	r.left = r.left[len(id):]
	n, ok = r.number()
	return twophase.Position(at), id, n, ok
}

func (r *bundleReader) piece() ([]byte, bool) {
	n, ok := r.number()
	if !ok || n > uint64(len(r.left)) {
		return nil, false
	}
	b := r.left[:n:n]
	r.left = r.left[n:]
	return b, true
}
