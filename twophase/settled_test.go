package twophase

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Inside the package: only the fold packs outcomes.

func settledOutcomes() map[string]*Outcome {
	id := func(n byte) (id TxnID) { id[0] = n; return id }
	hash := func(s string) Hash { return HashOf([]byte(s)) }
	return map[string]*Outcome{
		"everything": {
			Commit: &Committed{
				Txn: id(1), Key: "key", Attempt: 3, Begun: 1 << 40, Releases: []TableID{"c", "d"}, Bundles: []BundleID{{1}, {2, 3}},
				Reads: []ReadPart{{Table: "r", Read: ReadPoint{Version: 7}}},
				Parts: []Part{
					{
						Table: "a", MetaDataID: "m", Digests: []Digest{hash("1"), hash("2")}, Read: ReadPoint{Version: NoVersion},
						FactsRef: ObjectRef{Name: "facts", Size: 300, Hash: hash("facts")},
						Shape:    Shape{Appends: true, DataChange: true, Bytes: 1 << 50, Apps: []AppVersion{{App: "x", Version: -4}, {App: "", Version: 1 << 62}}},
						Create:   &Creation{Name: "n", URI: "mem:/n", Mode: ModeFenced, OneTxnPerVersion: true},
						Fence:    FenceLifted, Bundle: 2,
					},
					{Table: "b", MetaDataID: "a", Digests: []Digest{{}}, Read: ReadPoint{Blind: true}},
				},
			},
			Position: 1 << 40, Index: 1 << 31, Time: -5, Snapshot: 9,
			Parts: []PartOutcome{
				{Change: 5, Status: StatusPublished, Version: 4, Place: 17},
				{Change: 1, Status: StatusNotApplied, Version: NoVersion, Conflict: Conflict{Rule: RuleOperator, Path: "p", Detail: "d"}},
			},
		},
		"reads only": {Commit: &Committed{Txn: id(2), Reads: []ReadPart{{Table: "r"}}}, Position: 1},
		"aborted": {
			Abort: &Aborted{
				Txn: id(3), Key: "key", Attempt: 1, Begun: 5, Rule: RuleClient, Table: "a", Version: NoVersion, Path: "p", Winner: id(1), Detail: "d",
			},
			Position: 2, Index: 1, Time: 1 << 41,
		},
		"aborted, nothing said": {Abort: &Aborted{Txn: id(4)}},
	}
}

func (o *Outcome) txn() TxnID {
	if o.Abort != nil {
		return o.Abort.Txn
	}
	return o.Commit.Txn
}

// TestCompactOutcomes: an outcome that is made compact says the same as before, also after
// it was written and loaded, and lies where it was decided.
func TestCompactOutcomes(t *testing.T) {
	s := NewState("cat", "inc")
	for _, o := range settledOutcomes() {
		was := *o
		s.decide(o.txn(), &was)
		s.compact(o.txn())
		if s.unsettled[o.txn()] != nil {
			t.Fatalf("%+v is not compact", o)
		}
	}
	loaded, started := written(t, s)
	if got, want := started.Holds(), len(settledOutcomes()); got != want {
		t.Errorf("%d outcomes, want %d", got, want)
	}
	for name, o := range settledOutcomes() {
		for kind, in := range map[string]*State{"folded": s, "loaded": loaded, "loaded for a start": started} {
			if diff := cmp.Diff(o, in.Outcome(o.txn())); diff != "" {
				t.Errorf("%s, %s (-was +is):\n%s", name, kind, diff)
			}
			if p, i, at := in.decidedAt(o.txn()); p != o.Position || i != o.Index || at != o.Time {
				t.Errorf("%s, %s: decided at %d.%d, %d", name, kind, p, i, at)
			}
		}
	}
	count := 0
	last := Position(1 << 62)
	loaded.OutcomesBefore(1<<40, 1<<31, func(_ TxnID, o *Outcome) bool {
		count++
		if o.Position >= 1<<40 || o.Position > last {
			t.Errorf("an outcome of position %d behind %d", o.Position, last)
		}
		last = o.Position
		return true
	})
	if want := len(settledOutcomes()) - 1; count != want {
		t.Errorf("%d outcomes are before the newest, want %d", count, want)
	}
}

// written is a state that was written and loaded, and one loaded as for a start.
func written(t *testing.T, s *State) (loaded, started *State) {
	t.Helper()
	index, segments := s.EncodeCheckpoint("")
	loaded, err := DecodeCheckpoint(index.Bytes, func(r ObjectRef) ([]byte, error) {
		for _, o := range segments {
			if o.Ref == r {
				return o.Bytes, nil
			}
		}
		return nil, fmt.Errorf("no object %s", r.Name)
	})
	if err != nil {
		t.Fatal(err)
	}
	var decoded []*Segment
	for _, o := range segments {
		seg, err := DecodeSegment(o.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		decoded = append(decoded, seg)
	}
	started, err = LoadCheckpoint(index.Bytes, decoded)
	if err != nil {
		t.Fatal(err)
	}
	return loaded, started
}

// TestHighestAttemptIsKnown: how far to look for a committed attempt above another follows
// from the commits that are held, whether they may change or not, and wherever the state
// comes from. Aborts do not count.
func TestHighestAttemptIsKnown(t *testing.T) {
	for name, compact := range map[string]bool{"may change": false, "compact": true} {
		t.Run(name, func(t *testing.T) {
			s := NewState("cat", "inc")
			id := func(n uint32) TxnID { return DeriveTxnID("cat", "k", n) }
			for n := uint32(1); n <= 9; n++ {
				o := &Outcome{Position: Position(n), Abort: &Aborted{Txn: id(n), Key: "k", Attempt: n}}
				if n == 5 {
					o = &Outcome{Position: 5, Commit: &Committed{Txn: id(5), Key: "k", Attempt: 5}}
				}
				s.decide(id(n), o)
				if compact {
					s.compact(id(n))
				}
			}
			loaded, started := written(t, s)
			for kind, in := range map[string]*State{"folded": s, "loaded": loaded, "loaded for a start": started} {
				if in.attempts != 5 {
					t.Errorf("%s: the highest attempt is %d, want 5", kind, in.attempts)
				}
				for n := range uint32(10) {
					if got, above, ok := in.CommittedAbove("k", n); ok != (n < 5) || ok && (got != id(5) || above != 5) {
						t.Errorf("%s: above %d: %s, attempt %d, %t", kind, n, got, above, ok)
					}
				}
			}
		})
	}
}

// TestCompactBytesThatDoNotFit: each beginning of compact bytes is refused, and panics
// nowhere; so is a name that nobody gave.
func TestCompactBytesThatDoNotFit(t *testing.T) {
	s := NewState("cat", "inc")
	for name, o := range settledOutcomes() {
		p := packer{names: s.names}
		p.outcome(o)
		for n := range p.b {
			if s.unpack(o.txn(), p.b[:n], &Outcome{}) == nil {
				t.Errorf("%s: %d of %d bytes are taken for all", name, n, len(p.b))
			}
		}
		if o.Commit != nil && NewState("cat", "inc").unpack(o.txn(), p.b, &Outcome{}) == nil {
			t.Errorf("%s: is taken without its names", name)
		}
	}
	var h history
	h.put(&Past{Version: 3, Change: 1, Txn: TxnID{1}, Facts: Facts("facts"), FactsRef: ObjectRef{Name: "n"}}, 9, blockBytes)
	for n := 1; n < len(h.blocks[0].packed); n++ {
		if (&history{}).load(h.blocks[0].packed[:n]) == nil {
			t.Errorf("history: %d of %d bytes are taken for all", n, len(h.blocks[0].packed))
		}
	}
}

// TestStoredSegmentsAreLetGo: what is durable and unchanged is named without its bytes, in
// the same series; another series has all of it.
func TestStoredSegmentsAreLetGo(t *testing.T) {
	s := NewState("cat", "inc")
	for _, o := range settledOutcomes() {
		s.decide(o.txn(), o)
	}
	_, all := s.EncodeCheckpoint("a")
	s.Stored(all[:1])
	index, again := s.EncodeCheckpoint("a")
	for i, o := range again {
		if o.Ref != all[i].Ref || (len(o.Bytes) == 0) != (i == 0) {
			t.Errorf("segment %d is %+v with %d bytes", i, o.Ref, len(o.Bytes))
		}
	}
	if len(index.Bytes) == 0 {
		t.Error("the index has no bytes")
	}
	_, other := s.EncodeCheckpoint("b")
	for i, o := range other {
		if len(o.Bytes) == 0 {
			t.Errorf("segment %d of another series has no bytes", i)
		}
	}
}
