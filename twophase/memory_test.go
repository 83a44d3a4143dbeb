package twophase_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/txcoord/txcoord/internal/allocs"
	"github.com/txcoord/txcoord/twophase"
)

// The most that a fold may hold, in bytes: for a transaction over three tables, with its
// snapshot and what the tables' histories keep of it. 96 of them are its digests, as many
// again the path hashes and definitions in its conflict facts.
const heldPerTransaction = 900

// long is a journal of transactions over three tables of many each, like those of a busy
// catalog: a handful in an entry, each in a round of its own, published in the next.
type long struct {
	tb     testing.TB
	state  *twophase.State
	tables []twophase.TableID
	dice   *rand.Rand
	made   int
	// kept, if set, gets the entries.
	kept *[][]byte
}

func newLong(tb testing.TB, tables int) *long {
	l := &long{tb: tb, state: twophase.NewState("cat", "inc"), dice: rand.New(rand.NewPCG(1, 2))}
	var all []twophase.Record
	for i := range tables {
		id := twophase.TableID(fmt.Sprintf("t%032x", i))
		l.tables = append(l.tables, id)
		all = append(all, &twophase.Registered{
			Table: id, Name: fmt.Sprint("t", i), URI: fmt.Sprint("mem:/t", i), MetaDataID: metaOf(id), Mode: twophase.ModeExclusive,
		})
	}
	l.fold(all)
	return l
}

func metaOf(id twophase.TableID) string { return fmt.Sprintf("%.36s", "00000000-0000-0000-"+id) }

// fold takes records through their bytes, as a journal's are.
func (l *long) fold(records []twophase.Record) {
	l.tb.Helper()
	e := &twophase.Entry{Records: records, Header: twophase.Header{
		Catalog: "cat", Incarnation: "inc", Position: l.state.Next(), Previous: l.state.Previous(), Time: twophase.Time(1.8e12) + twophase.Time(l.state.Next()),
	}}
	b := e.Encode()
	if l.kept != nil {
		*l.kept = append(*l.kept, b)
	}
	e, err := twophase.DecodeEntry(b)
	if err == nil {
		err = l.state.Apply(e, twophase.HashOf(b))
	}
	if err != nil {
		l.tb.Fatal(err)
	}
}

// more folds so many transactions.
func (l *long) more(n int) *long {
	for end := l.made + n; l.made < end; {
		var entry []twophase.Record
		for _, r := range l.state.Rounds() {
			p := &twophase.Published{Round: r.ID}
			for _, plan := range l.state.Plan(r) {
				pt := twophase.PublishedTable{Table: plan.Table.Table}
				for i, c := range plan.Changes {
					pt.Versions = append(pt.Versions, twophase.FoundVersion{
						Version: plan.Table.Recorded + 1 + twophase.Version(i), Identity: twophase.HashOf(c.Txn[:]), Txns: []twophase.TxnID{c.Txn},
					})
				}
				p.Tables = append(p.Tables, pt)
			}
			entry = append(entry, p)
		}
		for range 7 {
			entry = append(entry, l.commit())
		}
		l.fold(entry)
	}
	return l
}

// commit is the next transaction, with facts like those of a blind append of one file.
func (l *long) commit() *twophase.Committed {
	l.made++
	key := fmt.Sprintf("writer-%d-%d", l.made%64, l.made)
	c := &twophase.Committed{Txn: twophase.DeriveTxnID("cat", key, 1), Key: key, Attempt: 1, Begun: l.state.Next()}
	at := l.dice.IntN(len(l.tables))
	for i := range 3 {
		id := l.tables[(at+i)%len(l.tables)]
		facts := make(twophase.Facts, 64)
		for j := range facts {
			facts[j] = byte(l.dice.Uint32())
		}
		c.Parts = append(c.Parts, twophase.Part{
			Table: id, MetaDataID: metaOf(id), Digests: []twophase.Digest{twophase.HashOf(facts)}, Read: twophase.ReadPoint{Blind: true},
			Facts: facts, Shape: twophase.Shape{Appends: true, DataChange: true, Bytes: 300},
		})
	}
	return c
}

// forget raises the floor so that about so many entries are remembered.
func (l *long) forget(keep twophase.Position) {
	if next := l.state.Next(); next > keep {
		l.fold([]twophase.Record{&twophase.FloorRaised{Floor: next - keep}})
	}
}

// TestMemory holds what a fold keeps of a transaction, and that the same is kept after a
// start from a checkpoint.
func TestMemory(t *testing.T) {
	const transactions = 7_000
	empty := allocs.Held(func() any { return newLong(t, 1000) })
	held := allocs.Held(func() any { return newLong(t, 1000).more(transactions) })
	if got := (held - empty) / transactions; got > heldPerTransaction {
		t.Errorf("a fold holds %d bytes for each transaction, want at most %d", got, heldPerTransaction)
	} else {
		t.Logf("a fold holds %d bytes for each transaction", got)
	}
	index, segments := newLong(t, 1000).more(transactions).state.EncodeCheckpoint("")
	size := len(index.Bytes)
	objects := map[string][]byte{}
	for _, o := range segments {
		size += len(o.Bytes)
		objects[o.Ref.Name] = o.Bytes
	}
	t.Logf("a checkpoint takes %d bytes for each transaction", size/transactions)
	loaded := allocs.Held(func() any {
		s, err := twophase.DecodeCheckpoint(index.Bytes, func(r twophase.ObjectRef) ([]byte, error) { return objects[r.Name], nil })
		if err != nil {
			t.Error(err)
		}
		return s
	})
	if got := (loaded - empty) / transactions; got > heldPerTransaction {
		t.Errorf("a fold that was loaded holds %d bytes for each transaction, want at most %d", got, heldPerTransaction)
	} else {
		t.Logf("a fold that was loaded holds %d", got)
	}
}

// TestMemoryEnds holds that with a floor that follows nothing grows: after three times as
// many transactions a fold holds at most a tenth more (maps grow in steps).
func TestMemoryEnds(t *testing.T) {
	const keep, rounds = 150, 1 // entries
	grow := func(times int) func() any {
		return func() any {
			l := newLong(t, 50)
			for range times * rounds {
				l.more(keep * 7)
				l.forget(keep)
			}
			return l
		}
	}
	first, last := allocs.Held(grow(4)), allocs.Held(grow(12))
	if last > first+first/10 {
		t.Errorf("a fold holds %d bytes after %d transactions, and %d after three times as many", first, 4*keep*7*rounds, last)
	}
}
