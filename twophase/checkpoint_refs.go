package twophase

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/txcoord/txcoord/twophase/recordpb"
)

// CheckpointRefs are the segments that a checkpoint's index names, which a fold is read
// back from together with the index. It needs nothing but those names, so it reads an
// index of any encoding.
func CheckpointRefs(index []byte) ([]ObjectRef, error) {
	var m recordpb.CheckpointIndex
	if err := proto.Unmarshal(index, &m); err != nil {
		return nil, fmt.Errorf("decode checkpoint index: %w", err)
	}
	return mapTo(m.GetSegments(), refFromPB), nil
}
