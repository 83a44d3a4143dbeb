package twophase

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/txcoord/txcoord/twophase/recordpb"
)

// Segments of a checkpoint hold about this much each. Their borders depend on
// positions and versions alone, so old segments do not change and keep their names.
const (
	tablesPerSegment    = 64
	positionsPerSegment = 512
	snapshotsPerSegment = 1000
)

// Segment is an object of a checkpoint, decoded.
type Segment struct {
	pb *recordpb.Segment
	// runs are the outcomes of transactions to which nothing can happen any more.
	runs []*settledRun
	// raw are the bytes, if this build would write the same of what the segment holds:
	// one run of outcomes of one range, in their order.
	raw []byte
}

// DecodeSegment reads a segment's bytes, which are not to be changed afterwards: the fold
// goes on using them. It is most of the work of LoadCheckpoint, and segments need each
// other for nothing.
func DecodeSegment(b []byte) (*Segment, error) {
	seg := &Segment{pb: &recordpb.Segment{}}
	runs, rest := cutSettled(b)
	if err := proto.Unmarshal(rest, seg.pb); err != nil {
		return nil, fmt.Errorf("decode checkpoint segment: %w", err)
	}
	if f := unknownField(seg.pb, rest); f != "" {
		return nil, fmt.Errorf("%w: unknown field in %s of a checkpoint segment", ErrUnknownRecord, f)
	}
	for _, b := range append(runs, seg.pb.GetSettled()...) {
		run, err := skim(b)
		if err != nil {
			return nil, err
		}
		seg.runs = append(seg.runs, run)
	}
	if len(runs) == 1 && len(rest) == 0 && seg.runs[0].orderly() {
		seg.raw = b
	}
	return seg, nil
}

func (seg *Segment) outcomes() (n int) {
	for _, run := range seg.runs {
		n += len(run.ids)
	}
	return n
}

// settledField is the number of the field settled of a segment.
const settledField = 4

// cutSettled cuts the runs of outcomes out of the front of a segment, without a copy. A
// segment that holds some begins with them, unless outcomes that may change come first.
func cutSettled(b []byte) (runs [][]byte, rest []byte) {
	for {
		number, typ, n := protowire.ConsumeTag(b)
		if n < 0 || number != settledField || typ != protowire.BytesType {
			return runs, b
		}
		run, m := protowire.ConsumeBytes(b[n:])
		if m < 0 {
			return runs, b
		}
		runs, b = append(runs, run), b[n+m:]
	}
}

// segment names one by its kind and its place among those of the kind.
type segment struct {
	kind  segmentKind
	place uint64
}

type segmentKind uint8

const (
	tableSegments segmentKind = iota + 1
	outcomeSegments
	snapshotSegments
)

// decide notes what an entry, or a checkpoint, says of a transaction.
func (s *State) decide(id TxnID, o *Outcome) {
	s.unsettled[id] = o
	if o.Commit != nil {
		s.attempts = max(s.attempts, o.Commit.Attempt)
	}
	at := uint64(o.Position) / positionsPerSegment
	s.ranges[at] = append(s.ranges[at], id)
	s.touched(o)
}

// touched says that an outcome is about to change. Whatever changes one goes through it.
func (s *State) touched(o *Outcome) *Outcome {
	delete(s.encoded, segment{outcomeSegments, uint64(o.Position) / positionsPerSegment})
	return o
}

// stale says that all segments of a kind may have changed.
func (s *State) stale(kind segmentKind) {
	for at := range s.encoded {
		if at.kind == kind {
			delete(s.encoded, at)
		}
	}
}

// touches says that a record may change tables. Segments of tables hold what commits
// and publications change with nearly every entry, so they are not told apart.
func (s *State) touches(r Record) {
	switch r.(type) {
	case *Aborted, *FloorRaised, *SettingChanged, *Checkpointed, *Tagged, *Leased, *LeaseEnded, *Reserved, *ReservationEnded, *Turned, *Moved, *Arrived, *BuildEnabled:
	default:
		s.stale(tableSegments)
	}
}

// forget drops the settled outcomes below the floor (R6).
func (s *State) forget() {
	for at, ids := range s.ranges {
		if Position(at*positionsPerSegment) >= s.floor {
			continue
		}
		before := len(ids)
		ids = slices.DeleteFunc(ids, func(id TxnID) bool {
			position, _, t := s.decidedAt(id)
			if o := s.unsettled[id]; position >= s.floor || o != nil && !o.settled() {
				return false
			}
			s.floorTime = max(s.floorTime, t)
			delete(s.unsettled, id)
			s.settled.drop(id)
			return true
		})
		if len(ids) < before {
			delete(s.encoded, segment{outcomeSegments, at})
		}
		if s.ranges[at] = ids; len(ids) == 0 {
			delete(s.ranges, at)
		}
	}
}

// segments are those of the fold: tables by id, outcomes by position, snapshots.
func (s *State) segments() (out []CheckpointObject) {
	place := uint64(0)
	for ids := range slices.Chunk(sortedKeys(s.tables), tablesPerSegment) {
		out = append(out, s.segment(segment{tableSegments, place}, func() *recordpb.Segment {
			return &recordpb.Segment{Tables: mapTo(ids, func(id TableID) *recordpb.Table { return tableToPB(s.tables[id]) })}
		}))
		place++
	}
	for _, at := range slices.Sorted(maps.Keys(s.ranges)) {
		out = append(out, s.segment(segment{outcomeSegments, at}, func() *recordpb.Segment { return s.outcomesToPB(at) }))
	}
	for _, run := range runs(s.snapshots, func(sn *Snapshot) uint64 { return uint64(sn.Version) / snapshotsPerSegment }) {
		at := segment{snapshotSegments, uint64(run[0].Version) / snapshotsPerSegment}
		out = append(out, s.segment(at, func() *recordpb.Segment {
			return &recordpb.Segment{Shown: [][]byte{s.packSnapshots(run)}}
		}))
	}
	return out
}

// segment encodes one, unless it is as it was.
func (s *State) segment(at segment, make func() *recordpb.Segment) CheckpointObject {
	o, ok := s.encoded[at]
	if !ok {
		o = s.object("segment", make())
		s.encoded[at] = o
	}
	return o
}

// runs cuts a list where the key changes.
func runs[T any](in []T, key func(T) uint64) [][]T {
	var out [][]T
	for i, v := range in {
		if i == 0 || key(in[i-1]) != key(v) {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], v)
	}
	return out
}
