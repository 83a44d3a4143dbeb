package twophase_test

import (
	"testing"

	"github.com/txcoord/txcoord/twophase"
)

// Behind the record that moves a catalog nothing is decided: not in its own group, not
// by who has folded it, and an entry for its position is none for the next.
func TestNothingBehindAMove(t *testing.T) {
	s := twophase.NewState("c", "i")
	tag := twophase.Request{Record: &twophase.Tagged{Name: "x", Snapshot: 0}}
	move := twophase.Request{Record: &twophase.Moved{To: "there"}}
	abort := twophase.Request{Abort: &twophase.Aborted{Txn: twophase.TxnID{1}, Rule: twophase.RuleClient}}
	arrive := twophase.Request{Record: &twophase.Arrived{From: "here"}}
	in := twophase.DecideInput{MaxBytes: 1 << 20, Limit: 1 << 20}
	reason := func(a twophase.Answer) twophase.Reason {
		if a.Refused == nil {
			return 0
		}
		return a.Refused.Reason
	}
	d := twophase.Decide(s, []twophase.Request{tag, move, tag, abort}, in)
	if !d.Answers[0].Recorded || !d.Answers[1].Recorded || !d.Answers[2].Deferred || !d.Answers[3].Deferred || len(d.Records) != 2 {
		t.Fatalf("in one group: %+v", d.Answers)
	}
	if a := twophase.Decide(s, []twophase.Request{arrive}, in).Answers[0]; reason(a) != twophase.ReasonStale {
		t.Errorf("it arrives without having left: %+v", a)
	}
	apply := func(d twophase.Decision) {
		t.Helper()
		e, err := s.Entry(d, 1, "w")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(e, twophase.HashOf(e.Encode())); err != nil {
			t.Fatal(err)
		}
	}
	apply(d)
	if s.MovedTo() != "there" {
		t.Error("the fold does not know")
	}
	for _, r := range []twophase.Request{tag, move, abort} {
		if a := twophase.Decide(s, []twophase.Request{r}, in).Answers[0]; reason(a) != twophase.ReasonMoved {
			t.Errorf("behind the move: %+v", a)
		}
	}
	index, segments := s.EncodeCheckpoint("")
	if len(segments) != 0 {
		t.Fatal("segments of nothing")
	}
	again, err := twophase.DecodeCheckpoint(index.Bytes, nil)
	if err != nil || again.MovedTo() != "there" {
		t.Errorf("a checkpoint forgets it: %v", err)
	}
	apply(twophase.Decide(s, []twophase.Request{arrive}, in))
	if a := twophase.Decide(s, []twophase.Request{tag}, in).Answers[0]; !a.Recorded || s.MovedTo() != "" {
		t.Errorf("after it has arrived: %+v", a)
	}
}
