package twophase

import (
	"google.golang.org/protobuf/proto"

	"github.com/txcoord/txcoord/twophase/recordpb"
)

// Seal makes an entry of a message, as Encode does.
func Seal(m *recordpb.Entry) []byte {
	m.Checksum = 0
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return SealBytes(b)
}

// SealBytes puts the checksum behind whatever stands there.
func SealBytes(b []byte) []byte { return seal(b[:len(b):len(b)]) }
