package twophase_test

import (
	"errors"
	"testing"

	"github.com/txcoord/txcoord/twophase"
)

// TestApplyRefusesOtherHistories: R1 and R7. What is refused leaves the fold alone.
func TestApplyRefusesOtherHistories(t *testing.T) {
	j := newJournal(t, "a")
	good := twophase.Entry{Header: twophase.Header{
		Catalog: "cat", Incarnation: "inc", Position: j.state.Next(), Previous: j.state.Previous(),
	}}
	for name, change := range map[string]func(*twophase.Entry){
		"another catalog":              func(e *twophase.Entry) { e.Catalog = "other" },
		"another incarnation (A14)":    func(e *twophase.Entry) { e.Incarnation = "other" },
		"a later position":             func(e *twophase.Entry) { e.Position++ },
		"a folded position":            func(e *twophase.Entry) { e.Position-- },
		"another predecessor (A7)":     func(e *twophase.Entry) { e.Previous = twophase.HashOf([]byte("other")) },
		"no predecessor, as the first": func(e *twophase.Entry) { e.Previous = twophase.Hash{} },
	} {
		t.Run(name, func(t *testing.T) {
			e := good
			change(&e)
			e.Records = []twophase.Record{&twophase.Released{Table: "a"}}
			before, _ := j.state.EncodeCheckpoint("")
			if err := j.state.Apply(&e, twophase.HashOf(e.Encode())); !errors.Is(err, twophase.ErrHistory) {
				t.Fatalf("Apply: %v", err)
			}
			if after, _ := j.state.EncodeCheckpoint(""); after.Ref != before.Ref {
				t.Fatal("the fold has changed")
			}
		})
	}
	if err := j.state.Apply(&good, twophase.HashOf(good.Encode())); err != nil {
		t.Fatal(err)
	}
}

// TestApplyLeavesRecordsAlone: others may hold the records that are folded.
func TestApplyLeavesRecordsAlone(t *testing.T) {
	j := newJournal(t, "a")
	c := &twophase.Committed{Txn: twophase.DeriveTxnID("cat", "k", 1), Parts: []twophase.Part{{Table: "a", Facts: twophase.Facts("facts")}}}
	e := &twophase.Entry{
		Header:  twophase.Header{Catalog: "cat", Incarnation: "inc", Position: j.state.Next(), Previous: j.state.Previous()},
		Records: []twophase.Record{c},
	}
	if err := j.state.Apply(e, twophase.HashOf(e.Encode())); err != nil {
		t.Fatal(err)
	}
	if j.state.Outcome(c.Txn).Commit != c {
		t.Error("the outcome holds another record")
	}
	j.publish()
	if string(c.Parts[0].Facts) != "facts" {
		t.Error("the fold took the facts out of the record")
	}
	if got := j.state.Outcome(c.Txn); got.Snapshot == 0 || got.Commit.Parts[0].Facts != nil {
		t.Errorf("the published outcome is %+v", got)
	}
}

// TestRingKeepsRoomForACheckpoint: R1. A ring that is full but for its last slots takes
// entries that carry a checkpoint record, and no others.
func TestRingKeepsRoomForACheckpoint(t *testing.T) {
	r := twophase.Ring{Slots: 16}
	for _, c := range []struct {
		distance            twophase.Position
		must, plain, record bool
	}{
		{0, false, true, true},
		{7, false, true, true},
		{8, true, true, true},
		{13, true, true, true},
		{14, true, false, true},
		{15, true, false, true},
		{16, true, false, false},
	} {
		n := 100 + c.distance
		if got := r.MustCheckpoint(n, 100); got != c.must {
			t.Errorf("distance %d: MustCheckpoint = %v", c.distance, got)
		}
		if got := r.MayAppend(n, 100, false); got != c.plain {
			t.Errorf("distance %d: MayAppend without a checkpoint = %v", c.distance, got)
		}
		if got := r.MayAppend(n, 100, true); got != c.record {
			t.Errorf("distance %d: MayAppend with a checkpoint = %v", c.distance, got)
		}
	}
}

// TestLosses: R15. A replica hands its queue on after two losses in a row.
func TestLosses(t *testing.T) {
	ours, theirs := []byte("ours"), []byte("theirs")
	var l twophase.Losses
	for i, c := range []struct {
		filled  []byte
		forward bool
	}{{theirs, false}, {ours, false}, {theirs, false}, {theirs, true}, {theirs, true}, {ours, false}} {
		a := twophase.NewAppend(3, ours)
		a.Feed(twophase.AppendResult{Refused: true})
		a.Feed(twophase.AppendResult{Entry: c.filled})
		if got := l.Count(a); got != c.forward {
			t.Errorf("append %d: forward = %v", i, got)
		}
	}
}

// TestFloorKeepsUnwrittenManifests: R6, R18.
func TestFloorKeepsUnwrittenManifests(t *testing.T) {
	j := newJournal(t, "a")
	for range 3 {
		j.commits(1, "a")
		j.publish()
	}
	shown := j.state.Shown()
	if got := j.state.MayForget(shown); got != j.state.Next() {
		t.Errorf("everything is written: floor %d, next is %d", got, j.state.Next())
	}
	floor := j.state.MayForget(shown - 2)
	j.append([]twophase.Request{{Record: &twophase.FloorRaised{Floor: floor}}})
	for v := shown - 1; v <= shown; v++ {
		some := j.state.NextManifests(v-1, 10)
		if len(some) != int(shown-v)+1 || some[0].Version != v {
			t.Errorf("manifest %d cannot be written any more", v)
		}
	}
	if some := j.state.NextManifests(shown-2, 1); len(some) != 1 || some[0].Version != shown-1 {
		t.Errorf("one snapshot at most: %v", some)
	}
	if some := j.state.NextManifests(shown, 10); some != nil {
		t.Errorf("behind the newest: %v", some)
	}
	if some := j.state.NextManifests(0, 10); some != nil {
		t.Error("snapshot 1 is remembered below the floor")
	}
}
