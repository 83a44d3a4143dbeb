package twophase

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// compare asks whether the fold shows what the naive version knows.
func (r *modelRun) compare() {
	for _, id := range modelTables {
		t, mt := r.s.tables[id], r.m.tables[id]
		var got, want []ChangeNumber
		for _, c := range t.Pending {
			got = append(got, c.Number)
		}
		for _, it := range mt.pending() {
			want = append(want, it.number)
		}
		if !slices.Equal(got, want) || t.Recorded != mt.recorded || (t.Frozen != nil) != mt.frozen || (t.Held != nil) != mt.held {
			r.Fatalf("%s: pending %v at %d, frozen %v; want %v at %d, %v", id, got, t.Recorded, t.Frozen != nil, want, mt.recorded, mt.frozen)
		}
	}
	var got, want []string
	for _, round := range r.s.rounds {
		got = append(got, fmt.Sprint("round ", round.ID, shorts(round.Txns)))
	}
	for _, c := range r.s.waiting {
		got = append(got, fmt.Sprint("waits ", c.sealed, c.gathered, shorts(c.txns)))
	}
	for _, round := range r.m.rounds {
		want = append(want, fmt.Sprint("round ", round.id, shorts(sortedByDecision(r.m, round.txns))))
	}
	for _, c := range r.m.waiting {
		want = append(want, fmt.Sprint("waits ", c.sealed, c.gathered, shorts(sortedByDecision(r.m, c.txns))))
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		r.Fatalf("rounds (-want +got):\n%s", diff)
	}
	got, want = nil, nil
	for _, res := range r.s.Reservations() {
		got = append(got, fmt.Sprint(res.Key, "/", res.Attempt, " since ", res.From, " until ", res.Until))
	}
	for _, res := range r.m.standing {
		want = append(want, fmt.Sprint(res.key, "/", res.attempt, " since ", res.from, " until ", res.until))
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		r.Fatalf("reservations (-want +got):\n%s", diff)
	}
	for txn := range r.m.decided {
		if known := r.s.Outcome(txn) != nil; known == r.m.gone[txn] {
			r.Fatalf("transaction %s: known %v, forgotten %v", short(txn), known, r.m.gone[txn])
		}
	}
}

// sortedByDecision orders transactions by their records.
func sortedByDecision(m *model, txns []TxnID) []TxnID {
	out := slices.Clone(txns)
	slices.SortFunc(out, func(a, b TxnID) int {
		return cmp.Or(int(m.at[a])-int(m.at[b]), m.index[a]-m.index[b])
	})
	return out
}

// publish closes an open round, each change in a version of its own.
func (r *modelRun) publish() {
	if len(r.s.rounds) == 0 {
		return
	}
	round := r.s.rounds[r.integer(0, len(r.s.rounds)-1, "round")]
	if r.s.Held(round) {
		return
	}
	p := &Published{Round: round.ID}
	for _, plan := range r.s.Plan(round) {
		pt := PublishedTable{Table: plan.Table.Table}
		for i, c := range plan.Changes {
			v := plan.Table.Recorded + 1 + Version(i)
			pt.Versions = append(pt.Versions, FoundVersion{Version: v, Identity: r.identity(), Txns: []TxnID{c.Txn}})
		}
		p.Tables = append(p.Tables, pt)
	}
	r.finding(p)
}

func (r *modelRun) identity() Hash {
	r.n++
	return HashOf(fmt.Append(nil, r.n))
}

// foreign records a foreign version, after some versions of the open round.
func (r *modelRun) foreign() {
	id := modelTables[r.integer(0, len(modelTables)-1, "table")]
	t := r.s.tables[id]
	f := &Foreign{Table: id, Identity: r.identity()}
	state := r.m.tables[id].state
	for _, c := range t.Pending {
		if c.Round == nil || r.integer(0, 1, "found") == 0 {
			break
		}
		f.Found = append(f.Found, FoundVersion{Version: t.Recorded + 1 + Version(len(f.Found)), Identity: r.identity(), Txns: []TxnID{c.Txn}})
		state = state.after(r.m.w.changeOf(c.Part))
	}
	f.Version = t.Recorded + 1 + Version(len(f.Found))
	ch := r.change(id)
	ch.blind = false
	ch.removes = nil
	for range r.integer(0, 2, "removes") {
		if n := len(state.live); n > 0 {
			if p := state.live[r.integer(0, n-1, "live")]; !hasPath(ch.removes, p.path) {
				ch.removes = append(ch.removes, p)
			}
		}
	}
	for i := range ch.adds { // engines name files by chance; a path of ours is none of theirs
		ch.adds[i].path += toyPath(100 * (r.n + 1))
	}
	if ch.app > 0 {
		ch.appVersion = state.apps[1] + 1
	}
	f.Facts = ch.facts()
	r.finding(f)
}

func (r *modelRun) finding(rec Record) {
	d := Decide(r.s, []Request{{Record: rec}}, DecideInput{Rules: toyRules{&r.m.w.changes}})
	if !d.Answers[0].Recorded {
		r.Fatalf("%s: %v", rec.kind(), d.Answers[0].Refused)
	}
	r.fold(d)
}

// restart replaces the fold by one that was read from its checkpoint.
func (r *modelRun) restart() {
	index, segments := r.s.EncodeCheckpoint("")
	objects := map[string][]byte{}
	for _, o := range segments {
		objects[o.Ref.Name] = o.Bytes
	}
	s, err := DecodeCheckpoint(index.Bytes, func(ref ObjectRef) ([]byte, error) { return objects[ref.Name], nil })
	if err != nil {
		r.Fatal(err)
	}
	if again, _ := s.EncodeCheckpoint(""); again.Ref != index.Ref {
		r.Fatal("a checkpoint does not survive its reading")
	}
	s.roundParts = r.s.roundParts
	r.s = s
	r.compare()
}

// TestModel compares Decide, the fold and its rounds with the naive versions.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m, s := newModel()
		r := &modelRun{T: rt, m: m, s: s}
		for range r.integer(1, 40, "entries") {
			switch r.integer(0, 13, "act") {
			case 0, 1, 2, 3, 4:
				r.group()
			case 5, 6:
				r.publish()
			case 7:
				r.foreign()
			case 8:
				r.finding(&FloorRaised{Floor: Position(r.integer(0, int(r.s.Next()), "floor"))})
			case 9:
				r.restart()
			case 11:
				if n := len(m.standing); n > 0 {
					first := m.standing[r.integer(0, n-1, "reservation")]
					r.finding(&ReservationEnded{Key: first.key, From: first.from})
				}
			case 12:
				caps := r.s.Caps()
				caps.Gather = !caps.Gather
				r.finding(&SettingChanged{Caps: caps})
			case 13:
				if got, want := r.s.Gathering(), m.gathering(); got != want {
					r.Fatalf("gathering %v, want %v", got, want)
				} else if got {
					r.finding(&Turned{})
				}
			case 10:
				id := modelTables[r.integer(0, len(modelTables)-1, "table")]
				r.finding(&Held{Table: id, Off: m.tables[id].held, Detail: "an operator"})
			}
		}
	})
}
