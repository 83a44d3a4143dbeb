package twophase

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/txcoord/txcoord/twophase/recordpb"
)

// siege is a table on which somebody has made-up keys lose on purpose, so that others
// are held up. Each needs one loss more, at a time of its choice.
type siege struct {
	*hotTable
	keys, victims int
	// leaves is how a key ends its reservation just before it is ended; nil: it does not.
	leaves func(key string)
}

// siegeTime is how long one waits behind a reservation before it is ended.
const siegeTime = 30 * time.Second

func newSiege(t *testing.T) *siege {
	m, s := newModel()
	return &siege{hotTable: &hotTable{T: t, m: m, s: s, reserve: Reserve{After: 1, Positions: 200}}}
}

// lose has a new key lose an attempt.
func (g *siege) lose() {
	g.keys++
	c := g.commit(fmt.Sprint("made-up", g.keys), 1, &toyChange{readsAll: true, adds: []toyPair{{path: toyPath(10_000 + g.keys)}}}, ReadPoint{Version: g.s.tables["A"].Recorded - 1})
	if o := g.decide(c); o == nil || o.Abort == nil {
		g.Fatalf("%s has not lost", c.Key)
	}
}

// victim commits, unless it still waits with its last commit; it says whether it waits.
func (g *siege) victim() bool {
	if !g.held() {
		g.victims++
		g.decide(g.commit(fmt.Sprint("victim", g.victims), 1, &toyChange{blind: true, adds: []toyPair{{path: toyPath(g.victims)}}}, ReadPoint{Blind: true}))
	}
	return g.held()
}

func (g *siege) held() bool {
	for _, c := range g.waits {
		if strings.HasPrefix(c.Key, "victim") {
			return true
		}
	}
	return false
}

// second is one of the siege: a key joins just before the newest one has to go, or as
// soon as the table is free.
func (g *siege) second() {
	g.now += 1000
	newest := Time(0)
	for _, r := range g.s.Reservations() {
		switch age := (g.now - r.Since).Std().Sub(Time(0).Std()); {
		case age >= siegeTime && g.held():
			g.fold(Decide(g.s, []Request{{Record: &ReservationEnded{Key: r.Key, From: r.From}}}, DecideInput{}))
		case age >= siegeTime-time.Second && g.leaves != nil:
			g.leaves(r.Key)
		}
		newest = max(newest, r.Since)
	}
	if newest == 0 || g.now-newest >= Time((siegeTime-2*time.Second)/time.Millisecond) {
		g.lose()
	}
}

// TestMadeUpKeys: whoever holds a table up with made-up keys does so for half of the
// time at most, and not for long at a time; also if it ends each reservation itself.
func TestMadeUpKeys(t *testing.T) {
	for name, leaves := range map[string]func(*siege, string){
		"sent away": nil,
		"gives up": func(g *siege, key string) {
			a := &Aborted{Txn: DeriveTxnID(simCatalog, key, 2), Key: key, Attempt: 2, Rule: RuleClient}
			g.fold(Decide(g.s, []Request{{Abort: a}}, DecideInput{}))
		},
		"commits": func(g *siege, key string) {
			g.decide(g.commit(key, 2, &toyChange{blind: true, adds: []toyPair{{path: toyPath(20_000 + g.keys)}}}, ReadPoint{Blind: true}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newSiege(t)
			if leaves != nil {
				g.leaves = func(key string) { leaves(g, key) }
			}
			g.victim()
			const all = 3000
			held, atOnce, longest := 0, 0, 0
			for range all {
				g.second()
				if atOnce++; g.victim() {
					held++
				} else {
					atOnce = 0
				}
				longest = max(longest, atOnce)
			}
			t.Logf("held for %d s of %d, %d s at once, by %d keys", held, all, longest, g.keys)
			if most := all * 51 / 100; held == 0 || held > most || longest > 2*int(siegeTime/time.Second)+2 {
				t.Errorf("held for %d s of %d, %d s at once", held, all, longest)
			}
		})
	}
}

// TestCrowd: one table has so many reservations at most, whether they are asked for
// together or one after the other.
func TestCrowd(t *testing.T) {
	for _, together := range []bool{true, false} {
		g := newSiege(t)
		g.victim()
		var reqs []Request
		for i := range ReservationsMost + 4 {
			c := g.commit(fmt.Sprint("reader", i), 1, &toyChange{readsAll: true, adds: []toyPair{{path: toyPath(100 + i)}}}, ReadPoint{})
			reqs = append(reqs, Request{Commit: &CommitRequest{Record: c}})
		}
		given := 0
		ask := func(reqs []Request) {
			d := Decide(g.s, reqs, g.input())
			for _, r := range d.Records {
				if _, ok := r.(*Reserved); ok {
					given++
				}
			}
			g.fold(d)
		}
		if together {
			ask(reqs)
		} else {
			for i := range reqs {
				ask(reqs[i : i+1])
			}
		}
		if n := len(g.s.Reservations()); n != ReservationsMost || given != n {
			t.Errorf("together %v: %d records, %d reservations, want %d", together, given, n, ReservationsMost)
		}
		// The fold does not trust the writer.
		more := &Reserved{Key: "more", Attempt: 1, Tables: []ReservedTable{{Table: "A"}}, Until: g.s.Next() + 9}
		g.fold(Decision{At: g.s.Next(), Records: []Record{more}})
		if n := len(g.s.Reservations()); n != ReservationsMost {
			t.Errorf("together %v: with a record that is one too many %d reservations", together, n)
		}
	}
}

// TestBystander: who may only read a table does not get it reserved, however often it
// loses there; what it may write, it does.
func TestBystander(t *testing.T) {
	for name, tc := range map[string]struct {
		read, write Version // stale ones lose
		bystander   bool
		want        []TableID
	}{
		"a reader that may write":       {0, 1, false, []TableID{"A", "B"}},
		"a reader":                      {0, 1, true, nil},
		"a reader that loses elsewhere": {1, 0, true, []TableID{"B"}},
	} {
		g := newSiege(t)
		for _, id := range []TableID{"A", "B"} {
			c := g.commit("first"+string(id), 1, &toyChange{blind: true, adds: []toyPair{{path: 1}}}, ReadPoint{Blind: true})
			c.Parts[0].Table, c.Parts[0].Digests = id, []Digest{digestOf(id, g.m.w.changeOf(&c.Parts[0]))}
			g.decide(c)
		}
		whole := g.commit("reader", 1, &toyChange{readsAll: true, adds: []toyPair{{path: 2}}}, ReadPoint{Version: tc.write})
		read := ReadPart{Table: "A", Read: ReadPoint{Version: tc.read}, Facts: whole.Parts[0].Facts}
		whole.Reads = []ReadPart{read}
		whole.Parts[0].Table, whole.Parts[0].Digests = "B", []Digest{digestOf("B", g.m.w.changeOf(&whole.Parts[0]))}
		g.fold(Decide(g.s, []Request{{Commit: &CommitRequest{Record: whole, Bystander: map[TableID]bool{"A": tc.bystander}}}}, g.input()))
		if o := g.s.Outcome(whole.Txn); o == nil || o.Abort == nil {
			t.Fatalf("%s: it has not lost", name)
		}
		var got []TableID
		for _, r := range g.s.Reservations() {
			got = append(got, tablesReserved(&r.Reserved)...)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: reserved (-want +got):\n%s", name, diff)
		}
	}
}

// TestRestInTime: a table that was reserved for long rests for as long, however many
// entries there are, and behind a start from a checkpoint too.
func TestRestInTime(t *testing.T) {
	g := newSiege(t)
	g.victim()
	g.lose()
	g.now += 20_000
	g.decide(g.commit("made-up1", 2, &toyChange{blind: true, adds: []toyPair{{path: 500}}}, ReadPoint{Blind: true}))
	g.now += 19_000
	for range 50 {
		if g.victim(); g.held() {
			t.Fatal("its key has committed, and others wait")
		}
	}
	g.restart(func(*recordpb.CheckpointHead) {})
	if g.lose(); len(g.s.Reservations()) > 0 {
		t.Error("a table that was reserved for 20 s is again after 19 s")
	}
	g.now += 1000
	g.victim()
	if g.lose(); len(g.s.Reservations()) != 1 {
		t.Error("a table that has rested cannot be reserved")
	}
}

// restart goes on from a checkpoint, as somebody has written it.
func (g *siege) restart(written func(*recordpb.CheckpointHead)) {
	g.Helper()
	index, segments := g.s.EncodeCheckpoint("")
	stored := map[ObjectRef][]byte{}
	for _, o := range segments {
		stored[o.Ref] = o.Bytes
	}
	var m recordpb.CheckpointIndex
	if err := proto.Unmarshal(index.Bytes, &m); err != nil {
		g.Fatal(err)
	}
	written(m.GetHead())
	again, err := DecodeCheckpoint(mustMarshal(&m), func(ref ObjectRef) ([]byte, error) { return stored[ref], nil })
	if err != nil {
		g.Fatal(err)
	}
	g.s = again
}

// TestRestWithoutATime: a checkpoint that does not say since when a table is reserved has it
// rest for as long as it is since the checkpoint, and not since 1970.
func TestRestWithoutATime(t *testing.T) {
	g := newSiege(t)
	g.now = 1_790_000_000_000
	g.victim()
	g.lose()
	g.now += 5000
	g.restart(func(h *recordpb.CheckpointHead) {
		if len(h.GetTurns()) != 1 || h.GetTurns()[0].GetSinceMs() == 0 {
			t.Fatalf("turns %v", h.GetTurns())
		}
		h.GetTurns()[0].SinceMs = 0
	})
	g.now += 10_000
	g.decide(g.commit("made-up1", 2, &toyChange{blind: true, adds: []toyPair{{path: 500}}}, ReadPoint{Blind: true}))
	for range 50 {
		if g.victim(); g.held() {
			t.Fatal("its key has committed, and others wait")
		}
	}
	if g.lose(); len(g.s.Reservations()) > 0 {
		t.Error("a table that was reserved for a while is so again at once")
	}
	g.now += 15_000
	g.victim()
	if g.lose(); len(g.s.Reservations()) != 1 {
		t.Error("a table that has rested for as long as it was reserved cannot be reserved")
	}
}
