package twophase_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/txcoord/txcoord/internal/allocs"
	"github.com/txcoord/txcoord/twophase"
	"github.com/txcoord/txcoord/twophase/recordpb"
)

// The most that decoding may allocate in all, freed or not: an empty message of two
// bytes becomes a struct.
const (
	allocConstant = 1 << 20
	allocPerByte  = 512
)

func bounded(t *testing.T, n int, f func()) {
	t.Helper()
	most := allocConstant + allocPerByte*n
	if got := allocs.Over(most, f); got != 0 {
		t.Errorf("%d bytes of input took %d bytes of memory, want at most %d", n, got, most)
	}
}

// FuzzDecodeCheckpoint: no index and no segment make the decoder panic, and a fold
// that it takes has one form: written and read again it is written the same.
func FuzzDecodeCheckpoint(f *testing.F) {
	j := newJournal(f, "a", "b")
	j.commits(2, "a", "b")
	head, segment := split(f, j.state)
	f.Add(head, segment)
	j.publish()
	j.commits(1, "b")
	head, segment = split(f, j.state)
	f.Add(head, segment)
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, head, segment []byte) {
		var m recordpb.CheckpointHead
		if proto.Unmarshal(head, &m) != nil {
			t.Skip()
		}
		ref := &recordpb.ObjectRef{Name: "segment", Size: uint64(len(segment)), Hash: hashOf(segment)}
		index, err := proto.Marshal(&recordpb.CheckpointIndex{Codec: twophase.CodecVersion, Head: &m, Segments: []*recordpb.ObjectRef{ref}})
		if err != nil {
			t.Fatal(err)
		}
		var s *twophase.State
		bounded(t, len(head)+len(segment), func() {
			s, err = twophase.DecodeCheckpoint(index, func(twophase.ObjectRef) ([]byte, error) { return segment, nil })
		})
		if err != nil {
			return
		}
		first, segments := s.EncodeCheckpoint("")
		again, err := twophase.DecodeCheckpoint(first.Bytes, loader(segments))
		if err != nil {
			t.Fatalf("written, and not readable: %v", err)
		}
		if second, _ := again.EncodeCheckpoint(""); second.Ref != first.Ref {
			t.Error("a fold that was written and read is another one")
		}
	})
}

func hashOf(b []byte) []byte {
	h := twophase.HashOf(b)
	return h[:]
}

func loader(objects []twophase.CheckpointObject) func(twophase.ObjectRef) ([]byte, error) {
	return func(ref twophase.ObjectRef) ([]byte, error) {
		for _, o := range objects {
			if o.Ref == ref {
				return o.Bytes, nil
			}
		}
		return nil, nil
	}
}

// split is a fold as a head and one segment that holds all of it.
func split(f *testing.F, s *twophase.State) (head, segment []byte) {
	f.Helper()
	index, segments := s.EncodeCheckpoint("")
	var m recordpb.CheckpointIndex
	if err := proto.Unmarshal(index.Bytes, &m); err != nil {
		f.Fatal(err)
	}
	for _, o := range segments {
		segment = append(segment, o.Bytes...) // messages one after another are merged
	}
	head, err := proto.Marshal(m.GetHead())
	if err != nil {
		f.Fatal(err)
	}
	return head, segment
}
