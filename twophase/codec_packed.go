package twophase

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// A packed entry is how a large one may lie in a store: its header as it was, everything
// behind that as one frame of whoever packs it in a field of its own, and a checksum of
// both. So the functions here that look at a header or a checksum take either form.
//
// What is hashed into the chain, and compared to tell who won a position, are the bytes of
// Encode: two builds may pack them differently.
const packedTag = 14<<3 | byte(protowire.BytesType)

// SplitEntry cuts what Encode wrote into the header's field and the rest. All of it is
// rest if there is no header.
func SplitEntry(b []byte) (header, rest []byte) {
	n := headerSize(b)
	return b[:n:n], b[n:]
}

// PackEntry makes an entry to be stored of a header's field and the packed rest.
func PackEntry(header, frame []byte) []byte {
	p := make([]byte, 0, len(header)+len(frame)+sealSize+binaryMax)
	p = append(append(p, header...), packedTag)
	return seal(protowire.AppendBytes(p, frame))
}

// binaryMax is the most that tag and length of the frame take.
const binaryMax = 6

// PackedEntry gives back what PackEntry was told; a nil frame if the entry is not packed.
// ErrDamaged for what nobody packed.
func PackedEntry(p []byte) (header, frame []byte, err error) {
	header, rest := SplitEntry(p)
	if len(header) == 0 || len(rest) == 0 || rest[0] != packedTag {
		return header, nil, nil
	}
	if err := checkSeal(p); err != nil {
		return nil, nil, err
	}
	frame, n := protowire.ConsumeBytes(rest[1:])
	if n < 0 || 1+n+sealSize != len(rest) || len(frame) == 0 {
		return nil, nil, fmt.Errorf("%w: what is packed in it has another length", ErrDamaged)
	}
	return header, frame, nil
}

// headerSize is that of the field at an entry's beginning; 0 if there is none.
func headerSize(b []byte) int {
	num, typ, tag := protowire.ConsumeTag(b)
	if tag < 0 || num != 1 || typ != protowire.BytesType {
		return 0
	}
	_, n := protowire.ConsumeBytes(b[tag:])
	if n < 0 {
		return 0
	}
	return tag + n
}
