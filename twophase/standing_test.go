package twophase_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/twophase"
)

// commit decides one transaction in an entry of its own.
func (j *journal) commit(key string, tables ...string) twophase.TxnID {
	j.tb.Helper()
	id := twophase.DeriveTxnID("cat", key, 1)
	c := &twophase.Committed{Txn: id, Key: key, Attempt: 1}
	for _, t := range tables {
		c.Parts = append(c.Parts, twophase.Part{
			Table: twophase.TableID(t), MetaDataID: "m", Digests: []twophase.Digest{twophase.HashOf(id[:])},
			Read: twophase.ReadPoint{Blind: true}, Facts: twophase.Facts(id[:]), Shape: twophase.Shape{Appends: true, Bytes: 100},
		})
	}
	j.append([]twophase.Request{{Commit: &twophase.CommitRequest{Record: c}}})
	return id
}

// TestStanding: who waits for whom (R2), also through tables that are not shared.
func TestStanding(t *testing.T) {
	j := newJournal(t, "a", "b", "c", "d", "e")
	first := j.commit("first", "a", "b") // its round opens at once
	alone := j.commit("alone", "e")
	second := j.commit("second", "b", "c")
	third := j.commit("third", "c", "d") // joins second: published together
	stands := func(id twophase.TxnID) (round string, ahead []string, before, behind []twophase.TxnID) {
		t.Helper()
		st, ok := j.state.Standing(id)
		if !ok {
			t.Fatalf("%s stands nowhere", id)
		}
		if st.Round != nil {
			round = st.Round.ID.String()
		}
		for _, r := range st.Ahead {
			ahead = append(ahead, r.ID.String())
		}
		return round, ahead, st.Before, st.Behind
	}
	opened := j.state.Rounds()[0].ID.String()
	round, ahead, before, behind := stands(first)
	if d := cmp.Diff([]twophase.TxnID{second, third}, behind); round != opened || ahead != nil || before != nil || d != "" {
		t.Errorf("first: %s %v %v %s", round, ahead, before, d)
	}
	if round, _, _, behind := stands(alone); round == "" || behind != nil {
		t.Errorf("alone: %q, behind it %v", round, behind)
	}
	round, ahead, before, behind = stands(third)
	if d := cmp.Diff([]string{opened}, ahead); round != "" || before != nil || behind != nil || d != "" {
		t.Errorf("third: %q %v %v %s", round, before, behind, d)
	}
	j.publish()
	if _, ok := j.state.Standing(first); ok {
		t.Error("a published transaction still stands somewhere")
	}
	// What comes behind a sealed component waits in front of nobody, and behind two rounds'
	// worth: second and third open a round now, on a, b and c only their own tables.
	fourth := j.commit("fourth", "d")
	if _, ahead, _, _ := stands(fourth); len(ahead) != 1 {
		t.Errorf("fourth waits for %v", ahead)
	}
	if _, ok := j.state.Standing(twophase.TxnID{9}); ok {
		t.Error("an unknown transaction stands somewhere")
	}
}

// What waits behind a component that was sealed waits for its rounds, too.
func TestStandingBehindWhatIsSealed(t *testing.T) {
	j := newJournal(t, "a", "b", "c")
	one, two := j.commit("one", "a"), j.commit("two", "b")
	x := j.commit("x", "a", "b") // waits for both rounds
	j.publish()                  // one's round closes: x is passed over, and sealed
	y := j.commit("y", "b", "c")
	z := j.commit("z", "c") // waits with y, on a table that no open round writes
	st, ok := j.state.Standing(z)
	if !ok || st.Round != nil || len(st.Ahead) != 1 || !cmp.Equal(st.Before, []twophase.TxnID{x}) {
		t.Errorf("z: %+v", st)
	}
	st, ok = j.state.Standing(x)
	if d := cmp.Diff([]twophase.TxnID{y, z}, st.Behind); !ok || d != "" {
		t.Errorf("x: %s", d)
	}
	st, ok = j.state.Standing(two)
	if d := cmp.Diff([]twophase.TxnID{x, y, z}, st.Behind); !ok || d != "" {
		t.Errorf("two: %s", d)
	}
	if _, ok := j.state.Standing(one); ok {
		t.Error("one is published")
	}
}

// TestGroundsOfFreezes: the fold keeps what a freeze says of its ground, also over a checkpoint.
func TestGroundsOfFreezes(t *testing.T) {
	j := newJournal(t, "a", "b")
	j.append([]twophase.Request{{Record: &twophase.Frozen{Table: "a", Cause: twophase.CauseStalled, Ground: twophase.GroundTorn, Detail: "it is torn", Remedy: "mend it"}}})
	table, _ := j.state.Table("b")
	j.append([]twophase.Request{{Record: &twophase.Replaced{Table: "b", Recorded: table.Recorded, Detail: "given up", GivenUp: true}}})
	index, segments := j.state.EncodeCheckpoint("")
	back, err := twophase.DecodeCheckpoint(index.Bytes, func(ref twophase.ObjectRef) ([]byte, error) {
		i := slices.IndexFunc(segments, func(s twophase.CheckpointObject) bool { return s.Ref == ref })
		return segments[i].Bytes, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*twophase.State{j.state, back} {
		a, _ := s.Table("a")
		if f := a.Frozen; f.Ground != twophase.GroundTorn || f.Detail != "it is torn" || f.Remedy != "mend it" || f.Text() != "it is torn; mend it" {
			t.Errorf("%+v", f)
		}
		b, _ := s.Table("b")
		if f := b.Frozen; f.Ground != twophase.GroundGivenUp || f.Text() != "given up" {
			t.Errorf("%+v", f)
		}
	}
}

// TestFrozenByAnOperatorIsAHold: a freeze record of that cause is not written.
func TestFrozenByAnOperatorIsAHold(t *testing.T) {
	j := newJournal(t, "a")
	d := twophase.Decide(j.state, []twophase.Request{{Record: &twophase.Frozen{Table: "a", Cause: twophase.CauseOperator}}}, twophase.DecideInput{Rules: noRules{}})
	if d.Answers[0].Refused == nil || len(d.Records) > 0 {
		t.Errorf("%+v", d.Answers[0])
	}
	e := &twophase.Entry{
		Header:  twophase.Header{Catalog: "cat", Incarnation: "inc", Position: j.state.Next(), Previous: j.state.Previous()},
		Records: []twophase.Record{&twophase.Frozen{Table: "a", Cause: twophase.CauseOperator}},
	}
	if err := j.state.Apply(e, twophase.HashOf(e.Encode())); err != nil {
		t.Fatal(err)
	}
	if table, _ := j.state.Table("a"); table.Frozen != nil {
		t.Errorf("%+v", table.Frozen)
	}
	j.append([]twophase.Request{{Record: &twophase.Held{Table: "a", Detail: "no writes tonight"}}})
	table, _ := j.state.Table("a")
	if f := table.Freezing(); table.Frozen != nil || f == nil || f.Cause != twophase.CauseOperator || f.Detail != "no writes tonight" || f.Origin != "a" {
		t.Errorf("%+v", f)
	}
}
