package twophase

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/txcoord/txcoord/twophase/recordpb"
)

// laden is a fold with outcomes in several segments: settled ones in three ranges of
// positions, and in the last of them one to which something can happen yet.
func laden() *State {
	s := NewState("cat", "inc")
	for i := range 3 * positionsPerSegment {
		o := &Outcome{Abort: &Aborted{Txn: TxnID{1, byte(i), byte(i >> 8)}, Key: "k", Table: "t"}, Position: Position(i)}
		s.decide(o.txn(), o)
		s.compact(o.txn())
	}
	open := &Outcome{Commit: &Committed{Txn: TxnID{2}, Parts: []Part{{Table: "t"}}}, Position: 3*positionsPerSegment - 1, Index: 1, Parts: []PartOutcome{{Change: 1}}}
	s.decide(open.txn(), open)
	return s
}

// reload loads the checkpoint that a fold writes in a series, as a start does, and returns
// the bytes that it was loaded from.
func reload(t *testing.T, s *State, series string) (*State, []CheckpointObject) {
	t.Helper()
	index, objects := s.EncodeCheckpoint(series)
	segments := make([]*Segment, len(objects))
	for i, o := range objects {
		var err error
		if segments[i], err = DecodeSegment(o.Bytes); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := LoadCheckpoint(index.Bytes, segments)
	if err != nil {
		t.Fatal(err)
	}
	return loaded, objects
}

// TestLoadedSegmentsAreNotEncodedAnew: the first checkpoint after a start names the objects
// of a new series, and is what the fold encodes from the beginning; the segments that have
// not changed since are the bytes that were loaded. What was decided, or forgotten, in the
// range of one has it encoded.
func TestLoadedSegmentsAreNotEncodedAnew(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*State)
		kept    []bool
	}{
		"nothing":      {func(*State) {}, []bool{true, true, false}},
		"a decision":   {func(s *State) { s.decide(TxnID{3}, &Outcome{Abort: &Aborted{Txn: TxnID{3}}, Position: 7}) }, []bool{false, true, false}},
		"a floor":      {func(s *State) { s.floor = positionsPerSegment + 5; s.forget() }, []bool{false, false}},
		"a new range":  {func(s *State) { s.decide(TxnID{3}, &Outcome{Abort: &Aborted{Txn: TxnID{3}}, Position: 1 << 20}) }, []bool{true, true, false, false}},
		"another load": {func(s *State) { s.begin("c"); s.begin("b") }, []bool{true, true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			s := laden()
			loaded, from := reload(t, s, "a")
			c.happens(s)
			c.happens(loaded)
			clear(s.encoded)
			_, want := s.EncodeCheckpoint("b")
			_, got := loaded.EncodeCheckpoint("b")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("(-encoded +kept):\n%s", diff)
			}
			var kept []bool
			for _, o := range got {
				same := false
				for _, was := range from {
					same = same || &was.Bytes[0] == &o.Bytes[0]
				}
				kept = append(kept, same)
			}
			if diff := cmp.Diff(c.kept, kept); diff != "" {
				t.Errorf("segments that are the bytes of before (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStoredSegmentsAreOfTheirSeries: a segment that was loaded and stored again is named
// without its bytes, and encoded for the next series.
func TestStoredSegmentsAreOfTheirSeries(t *testing.T) {
	loaded, _ := reload(t, laden(), "a")
	_, all := loaded.EncodeCheckpoint("b")
	loaded.Stored(all)
	_, again := loaded.EncodeCheckpoint("b")
	_, next := loaded.EncodeCheckpoint("c")
	for i := range all {
		if again[i].Ref != all[i].Ref || len(again[i].Bytes) > 0 {
			t.Errorf("segment %d is %+v with %d bytes, want %+v without", i, again[i].Ref, len(again[i].Bytes), all[i].Ref)
		}
		if diff := cmp.Diff(all[i].Bytes, next[i].Bytes); diff != "" || next[i].Ref.Name == all[i].Ref.Name {
			t.Errorf("segment %d of the next series, %s (-before +after):\n%s", i, next[i].Ref.Name, diff)
		}
	}
}

// TestSegmentsOfAnotherForm: outcomes that stand in no order, in two runs or in two segments
// are loaded, and written as this build writes them.
func TestSegmentsOfAnotherForm(t *testing.T) {
	run := func(positions ...int) []byte {
		var p packer
		for _, i := range positions {
			o := packer{names: newNames(nil)}
			o.outcome(&Outcome{Abort: &Aborted{Txn: TxnID{1, byte(i)}}, Position: Position(i)})
			id := TxnID{1, byte(i)}
			p.raw(id[:])
			p.count(len(o.b))
			p.raw(o.b)
		}
		return p.b
	}
	for name, segments := range map[string][][][]byte{
		"no order":     {{run(3, 1, 2)}},
		"two runs":     {{run(1), run(2, 3)}},
		"two segments": {{run(1, 2)}, {run(3)}},
	} {
		t.Run(name, func(t *testing.T) {
			want := NewState("cat", "inc")
			for i := 1; i <= 3; i++ {
				want.decide(TxnID{1, byte(i)}, &Outcome{Abort: &Aborted{Txn: TxnID{1, byte(i)}}, Position: Position(i)})
				want.compact(TxnID{1, byte(i)})
			}
			index, one := want.EncodeCheckpoint("a")
			var decoded []*Segment
			refs := make([]ObjectRef, len(segments))
			for _, runs := range segments {
				seg, err := DecodeSegment(segmentOf(runs))
				if err != nil {
					t.Fatal(err)
				}
				decoded = append(decoded, seg)
			}
			loaded, err := LoadCheckpoint(indexWith(t, index.Bytes, refs), decoded)
			if err != nil {
				t.Fatal(err)
			}
			_, got := loaded.EncodeCheckpoint("a")
			if diff := cmp.Diff(one, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func segmentOf(runs [][]byte) []byte { return mustMarshal(&recordpb.Segment{Settled: runs}) }

// indexWith is an index that names other segments.
func indexWith(t *testing.T, index []byte, refs []ObjectRef) []byte {
	t.Helper()
	var m recordpb.CheckpointIndex
	if err := proto.Unmarshal(index, &m); err != nil {
		t.Fatal(err)
	}
	m.Segments = nil
	for _, r := range refs {
		m.Segments = append(m.Segments, refToPB(r))
	}
	return mustMarshal(&m)
}
