package lock

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/txcoord/txcoord/twophase"
)

const (
	// maxUnpacked bounds what is unpacked, whatever an entry says of itself. None is
	// larger than what a store takes.
	maxUnpacked = 64 << 20
	// maxPacking is how many times smaller than its content a frame may be. No entry gets
	// there: each record has hashes and ids of its own.
	maxPacking = 128
)

var (
	packer = sync.OnceValue(func() *zstd.Encoder {
		e, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(false),
			zstd.WithSingleSegment(true), zstd.WithWindowSize(1<<20), zstd.WithEncoderConcurrency(1)) // fails for bad options only
		return e
	})
	unpacker = sync.OnceValue(func() *zstd.Decoder {
		d, _ := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxUnpacked), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderConcurrency(0))
		return d
	})
)

// pack is the entry as it goes into the store: behind its header compressed, since ids of
// tables, transactions and rounds come in it again and again; as it is where that saves
// nothing.
func pack(entry []byte) []byte {
	header, rest := twophase.SplitEntry(entry)
	if len(header) == 0 || len(rest) > maxUnpacked {
		return entry
	}
	frame := packer().EncodeAll(rest, nil)
	if len(rest) > maxPacking*len(frame) {
		return entry
	}
	if p := twophase.PackEntry(header, frame); len(p) < len(entry) {
		return p
	}
	return entry
}

// Unpack is the entry in a value of the ring, as twophase wrote it. twophase.ErrDamaged
// for what nobody packed; of an entry that was stored as it is, the checksum is its
// decoder's to look at.
func Unpack(value []byte) ([]byte, error) {
	header, frame, err := twophase.PackedEntry(value)
	if err != nil || frame == nil {
		return value, err
	}
	var content zstd.Header
	if err := content.Decode(frame); err != nil || !content.HasFCS || content.FrameContentSize > uint64(maxPacking*len(frame)) {
		return nil, fmt.Errorf("%w: it says no sensible size of what is packed in it", twophase.ErrDamaged)
	}
	entry := make([]byte, len(header), len(header)+int(content.FrameContentSize))
	copy(entry, header)
	if entry, err = unpacker().DecodeAll(frame, entry); err != nil {
		return nil, fmt.Errorf("%w: unpack it: %w", twophase.ErrDamaged, err)
	}
	return entry, nil
}
