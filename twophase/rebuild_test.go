package twophase_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/twophase"
)

// rebuilt is a journal that begins with these records, an entry each.
func rebuilt(t *testing.T, records ...twophase.Record) *twophase.State {
	t.Helper()
	s := twophase.NewState("c", "new")
	for _, r := range records {
		applied(t, s, r)
	}
	return s
}

// applied folds records that no Decide was asked for.
func applied(t *testing.T, s *twophase.State, records ...twophase.Record) {
	t.Helper()
	e, err := s.Entry(twophase.Decision{At: s.Next(), Records: records}, 7, "w")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(e, twophase.HashOf(e.Encode())); err != nil {
		t.Fatal(err)
	}
}

func lifeBefore() []twophase.Record {
	orders := twophase.Registered{Table: "t1", Name: "orders", URI: "u1", Version: 17, Marker: 40, Mode: twophase.ModeOpen}
	items := twophase.Registered{Table: "t2", Name: "items", URI: "u2", Version: 9, Marker: 12, Mode: twophase.ModeFenced}
	return []twophase.Record{
		&twophase.Rebuilt{From: "old", Snapshot: 41, Since: 3, Tables: []twophase.Registered{orders}},
		&twophase.Rebuilt{Tables: []twophase.Registered{items}, Known: []twophase.Known{
			{Txn: twophase.TxnID{1}, Snapshot: 40, Parts: []twophase.KnownPart{{Table: "t1", Digests: []twophase.Digest{{9}}, Version: 16, Place: 2, Change: 39}}},
			{Txn: twophase.TxnID{2}, Parts: []twophase.KnownPart{
				{Table: "t1", Digests: []twophase.Digest{{8}}, Version: 17, Change: 40}, {Table: "t2", Version: twophase.NoVersion},
			}},
		}},
		&twophase.Rebuilt{Removed: []twophase.Registered{
			{Table: "gone", Name: "g", URI: "u3", Version: 5}, {Table: "long ago", Name: "orders", URI: "u1", Version: twophase.NoVersion},
		}, Shown: 44},
	}
}

// A catalog that was rebuilt goes on above everything that the life before may have
// said: snapshots, change numbers; what the logs name is known as committed.
func TestRebuiltGoesOn(t *testing.T) {
	s := rebuilt(t, lifeBefore()...)
	var kinds []string
	for _, sn := range s.Snapshots() {
		kinds = append(kinds, sn.Kind)
	}
	if d := cmp.Diff([]string{"rebuild", "rebuild", "rebuild"}, kinds); d != "" {
		t.Errorf("snapshots: %s", d)
	}
	first := s.Snapshots()[0]
	want := []twophase.SnapshotTable{{Table: "t1", Version: 17}, {Table: "t2", Version: 9}}
	if d := cmp.Diff(want, first.Tables); d != "" || first.Version != 42 || !cmp.Equal(first.Removed, []twophase.TableID{"gone"}) {
		t.Errorf("the first snapshot is %d, without %v: %s", first.Version, first.Removed, d)
	}
	if !cmp.Equal(first.Txns, []twophase.TxnID{{2}}) {
		t.Errorf("it is the first to show %v", first.Txns)
	}
	if _, since := s.Floor(); s.Shown() != 44 || s.Rebuilt() != 41 || since != 3 || s.Rebuilding() {
		t.Errorf("shown %d, rebuilt at %d, remembered since %d, rebuilding %t", s.Shown(), s.Rebuilt(), since, s.Rebuilding())
	}
	if first := twophase.NewState("c", "i"); s.RebuiltAt() != 7 || first.RebuiltAt() != 0 {
		t.Errorf("rebuilt at %d, and %d", s.RebuiltAt(), first.RebuiltAt())
	}
	orders, _ := s.Table("t1")
	items, _ := s.TableNamed("items")
	if orders.Next != 41 || items.Next != 13 {
		t.Errorf("change numbers go on with %d and %d", orders.Next, items.Next)
	}
	if items.Mode != twophase.ModeFenced || items.Fence == nil || items.Fence.Counts || items.OffersDecided() || !items.Watched() {
		t.Errorf("the fence: %+v", items.Fence)
	}
	if gone, ok := s.Table("gone"); !ok || !gone.Released || len(s.Tables()) != 2 {
		t.Errorf("a table that was left out: %+v, of %d", gone, len(s.Tables()))
	}
	whole, torn := s.Outcome(twophase.TxnID{1}), s.Outcome(twophase.TxnID{2})
	if whole == nil || whole.Snapshot != 40 || whole.Parts[0].Status != twophase.StatusPublished || whole.Parts[0].Version != 16 {
		t.Errorf("a whole transaction: %+v", whole)
	}
	if torn == nil || torn.Snapshot != 42 || torn.Parts[0].Status != twophase.StatusPublished || torn.Parts[1].Status != twophase.StatusNotApplied {
		t.Errorf("a torn one: %+v", torn)
	}
	if !s.MaySweep(twophase.TxnID{1}, 0) {
		t.Error("its payloads stay for ever")
	}
}

// The same call again finds what was committed in the life before, and other digests
// under its id are refused.
func TestRebuiltKnowsCommits(t *testing.T) {
	s := rebuilt(t, lifeBefore()...)
	commit := func(digest byte) twophase.Answer {
		c := &twophase.Committed{Txn: twophase.TxnID{1}, Begun: s.Next(), Parts: []twophase.Part{{Table: "t1", Digests: []twophase.Digest{{digest}}}}}
		d := twophase.Decide(s, []twophase.Request{{Commit: &twophase.CommitRequest{Record: c}}}, twophase.DecideInput{MaxBytes: 1 << 20, Limit: 1 << 20})
		if len(d.Records) > 0 {
			t.Errorf("digest %d was decided again", digest)
		}
		return d.Answers[0]
	}
	if a := commit(9); !a.Recorded {
		t.Errorf("the same digests: %+v", a)
	}
	if a := commit(1); a.Refused == nil || a.Refused.Reason != twophase.ReasonOtherDigests {
		t.Errorf("other digests: %+v", a)
	}
}

// Until the last record of a rebuild nothing is decided; a checkpoint in between, and
// one after it, folds on alike.
func TestUnfinishedRebuild(t *testing.T) {
	all := lifeBefore()
	in := twophase.DecideInput{MaxBytes: 1 << 20, Limit: 1 << 20}
	abort := twophase.Request{Abort: &twophase.Aborted{Txn: twophase.TxnID{7}, Rule: twophase.RuleClient}}
	for n := 1; n <= len(all); n++ {
		s := rebuilt(t, all[:n]...)
		a := twophase.Decide(s, []twophase.Request{abort}, in).Answers[0]
		if a.Recorded != (n == len(all)) {
			t.Errorf("after %d records: %+v", n, a)
		}
		index, segments := s.EncodeCheckpoint("x")
		objects := map[string][]byte{}
		for _, o := range segments {
			objects[o.Ref.Name] = o.Bytes
		}
		again, err := twophase.DecodeCheckpoint(index.Bytes, func(r twophase.ObjectRef) ([]byte, error) { return objects[r.Name], nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all[n:] {
			applied(t, s, r)
			applied(t, again, r)
		}
		one, _ := s.EncodeCheckpoint("y")
		two, _ := again.EncodeCheckpoint("y")
		if one.Ref != two.Ref {
			t.Errorf("after %d records: the folds differ", n)
		}
	}
}

// A journal that has begun is never given another history.
func TestRebuiltOnlyAtTheBeginning(t *testing.T) {
	s := twophase.NewState("c", "i")
	applied(t, s, &twophase.Tagged{Name: "x"}, lifeBefore()[0])
	applied(t, s, lifeBefore()[0])
	applied(t, s, &twophase.Rebuilt{Snapshot: 9, Shown: 10})
	if len(s.Tables()) > 0 || s.Shown() != 0 || s.Rebuilt() != 0 || s.Rebuilding() {
		t.Errorf("shown %d, %d tables", s.Shown(), len(s.Tables()))
	}
	d := twophase.Decide(s, []twophase.Request{{Record: lifeBefore()[0]}}, twophase.DecideInput{MaxBytes: 1 << 20, Limit: 1 << 20})
	if d.Answers[0].Recorded {
		t.Error("it may be asked for")
	}
	done := rebuilt(t, lifeBefore()...)
	applied(t, done, &twophase.Rebuilt{Tables: []twophase.Registered{{Table: "t3", Name: "n", URI: "u3"}}, Shown: 99})
	if _, there := done.Table("t3"); there || done.Shown() != 44 {
		t.Errorf("a record behind the last one: shown %d", done.Shown())
	}
}

// When it was rebuilt is said for as long as anything of that time is remembered.
func TestRebuiltAtIsForgotten(t *testing.T) {
	s := rebuilt(t, lifeBefore()...)
	last := s.Next() - 1
	applied(t, s, &twophase.FloorRaised{Floor: last})
	if at := s.RebuiltAt(); at != 7 {
		t.Errorf("rebuilt at %d, with the floor at its last record", at)
	}
	for _, floor := range []twophase.Position{last + 1, last + 2} {
		if applied(t, s, &twophase.FloorRaised{Floor: floor}); s.RebuiltAt() != 0 || len(s.Snapshots()) == 0 {
			t.Errorf("rebuilt at %d, with the floor at %d", s.RebuiltAt(), floor)
		}
	}
}

// A committed attempt is found from AttemptsAhead below it, and not from further below.
func TestCommittedAbove(t *testing.T) {
	id := twophase.DeriveTxnID("c", "k", 20)
	table := twophase.Registered{Table: "t1", Name: "orders", URI: "u1", Version: 17, Marker: 40, Mode: twophase.ModeOpen}
	s := rebuilt(t, &twophase.Rebuilt{Snapshot: 41, Tables: []twophase.Registered{table}, Shown: 42, Known: []twophase.Known{
		{Txn: id, Snapshot: 40, Parts: []twophase.KnownPart{{Table: "t1", Digests: []twophase.Digest{{9}}, Version: 16, Change: 39}}},
	}})
	for attempt := uint32(0); attempt <= 20; attempt++ {
		want := attempt < 20 && attempt+twophase.AttemptsAhead >= 20
		got, n, ok := s.CommittedAbove("k", attempt)
		if ok != want || ok && (got != id || n != 20) {
			t.Errorf("above %d: %s, attempt %d, %t", attempt, got, n, ok)
		}
		c := &twophase.Committed{
			Txn: twophase.DeriveTxnID("c", "k", attempt), Key: "k", Attempt: attempt, Begun: s.Next(),
			Parts: []twophase.Part{{Table: "t1", Digests: []twophase.Digest{{1}}}},
		}
		d := twophase.Decide(s, []twophase.Request{{Commit: &twophase.CommitRequest{Record: c}}}, twophase.DecideInput{MaxBytes: 1 << 20, Limit: 1 << 20})
		r := d.Answers[0].Refused
		told := r != nil && r.Outcome != nil && r.Outcome.Commit != nil
		if above := told && r.Reason == twophase.ReasonEarlierAttempt && r.Txn == id && attempt < 20; above != want {
			t.Errorf("commit of attempt %d: %+v", attempt, d.Answers[0])
		}
		if attempt == 20 && (!told || r.Reason != twophase.ReasonOtherDigests) {
			t.Errorf("commit of attempt %d: %+v", attempt, d.Answers[0])
		}
	}
}
