package twophase

import (
	"fmt"
	"testing"
)

// hotTable is a table to which others append without a pause: between what the reader
// reads and its commit there is always one of theirs.
type hotTable struct {
	*testing.T
	m       *model
	s       *State
	reserve Reserve
	waits   []*Committed // appends that stand behind the reader
	now     Time
}

// decide has one request decided, and what waits before it, and publishes all of it.
func (h *hotTable) decide(c *Committed) *Outcome {
	h.Helper()
	all := append(h.waits, c)
	reqs := make([]Request, len(all))
	for i := range all {
		reqs[i].Commit = &CommitRequest{Record: all[i]}
	}
	d := Decide(h.s, reqs, h.input())
	h.waits = nil
	for i, a := range d.Answers {
		if a.Behind != nil {
			h.waits = append(h.waits, all[i])
		}
	}
	h.fold(d)
	for len(h.s.rounds) > 0 {
		p := &Published{Round: h.s.rounds[0].ID}
		for _, plan := range h.s.Plan(h.s.rounds[0]) {
			pt := PublishedTable{Table: plan.Table.Table}
			for i, ch := range plan.Changes {
				v := plan.Table.Recorded + 1 + Version(i)
				pt.Versions = append(pt.Versions, FoundVersion{Version: v, Identity: HashOf(fmt.Append(nil, v)), Txns: []TxnID{ch.Txn}})
			}
			p.Tables = append(p.Tables, pt)
		}
		h.fold(Decide(h.s, []Request{{Record: p}}, h.input()))
	}
	return h.s.Outcome(c.Txn)
}

func (h *hotTable) input() DecideInput {
	view := &toyView{toyRules{&h.m.w.changes}, &toyState{meta: 1, schema: 1}, nil}
	return DecideInput{Rules: view.rules, Views: map[TableID]View{"A": view, "B": view}, Reserve: h.reserve}
}

func (h *hotTable) fold(d Decision) {
	h.Helper()
	if len(d.Records) == 0 {
		return
	}
	e, err := h.s.Entry(d, h.now, "R")
	if err != nil {
		h.Fatal(err)
	}
	b := e.Encode()
	if err := h.s.Apply(e, HashOf(b)); err != nil {
		h.Fatal(err)
	}
}

func (h *hotTable) commit(key string, attempt uint32, ch *toyChange, read ReadPoint) *Committed {
	ch.meta, ch.dataChange = 1, true
	h.m.w.newChange(ch)
	return &Committed{Txn: DeriveTxnID(simCatalog, key, attempt), Key: key, Attempt: attempt, Parts: []Part{{
		Table: "A", MetaDataID: metaName(1), Digests: []Digest{digestOf("A", ch)}, Read: read, Facts: ch.facts(), Shape: ch.shape(),
	}}}
}

// attempts is how many the reader needs; 0: it has not committed in 50.
func (h *hotTable) attempts() uint32 {
	path := toyPath(0)
	for n := uint32(1); n <= 50; n++ {
		read := ReadPoint{Version: h.s.tables["A"].Recorded}
		for range 3 {
			path++
			h.decide(h.commit(fmt.Sprint("append", path), 1, &toyChange{blind: true, adds: []toyPair{{path: path}}}, ReadPoint{Blind: true}))
		}
		if o := h.decide(h.commit("reader", n, &toyChange{readsAll: true, adds: []toyPair{{path: 1000}}}, read)); o != nil && o.Commit != nil {
			return n
		}
	}
	return 0
}

// TestReaderAmongAppenders: without the rule the reader never commits; with it, it does
// after as many losses as it takes, and everything that waited for it afterwards.
func TestReaderAmongAppenders(t *testing.T) {
	for _, after := range []int{0, 1, 3, 5} {
		m, s := newModel()
		h := &hotTable{T: t, m: m, s: s, reserve: Reserve{After: after, Positions: 20}}
		want := uint32(after + 1)
		if after == 0 {
			want = 0
		}
		if got := h.attempts(); got != want {
			t.Errorf("reserved after %d: committed by attempt %d, want %d", after, got, want)
		}
		if after == 0 {
			continue
		}
		if len(h.waits) != 3 || len(s.Reservations()) > 0 {
			t.Fatalf("reserved after %d: %d wait, %d go first", after, len(h.waits), len(s.Reservations()))
		}
		if o := h.decide(h.commit("last", 1, &toyChange{blind: true, adds: []toyPair{{path: 2000}}}, ReadPoint{Blind: true})); o == nil || len(h.waits) > 0 {
			t.Errorf("reserved after %d: who waited was not decided", after)
		}
	}
}
