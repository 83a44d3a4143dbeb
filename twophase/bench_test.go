package twophase_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// noRules find no conflict.
type noRules struct{}

func (noRules) Checker() twophase.Checker                         { return noRules{} }
func (noRules) Conflict(_, _ twophase.Facts) *twophase.Conflict   { return nil }
func (noRules) Impossible(_, _ twophase.Facts) *twophase.Conflict { return nil }
func (noRules) ImpossibleAt(decided []twophase.Facts, _ twophase.Base) []*twophase.Conflict {
	return make([]*twophase.Conflict, len(decided))
}

func (noRules) Without(decided []twophase.Facts, _ []bool) []*twophase.Conflict {
	return make([]*twophase.Conflict, len(decided))
}
func (noRules) Try() twophase.Trial                    { return noRules{} }
func (noRules) Fits(twophase.Facts) *twophase.Conflict { return nil }
func (noRules) Take(twophase.Facts)                    {}

// journal is a fold with the entries appended to it.
type journal struct {
	tb    testing.TB
	state *twophase.State
}

func newJournal(tb testing.TB, tables ...string) *journal {
	j := &journal{tb, twophase.NewState("cat", "inc")}
	var reqs []twophase.Request
	for _, name := range tables {
		reqs = append(reqs, twophase.Request{Record: &twophase.Registered{
			Table: twophase.TableID(name), Name: name, URI: "mem:/" + name, MetaDataID: "m", Mode: twophase.ModeExclusive, OneTxnPerVersion: true,
		}})
	}
	j.append(reqs)
	return j
}

func (j *journal) append(reqs []twophase.Request) {
	j.tb.Helper()
	views := map[twophase.TableID]twophase.View{}
	for _, t := range j.state.Tables() {
		views[t.Table] = noRules{}
	}
	d := twophase.Decide(j.state, reqs, twophase.DecideInput{Rules: noRules{}, Views: views})
	for i, a := range d.Answers {
		if !a.Recorded {
			j.tb.Fatalf("request %d: %+v", i, a.Refused)
		}
	}
	e, err := j.state.Entry(d, 0, "")
	if err != nil {
		j.tb.Fatal(err)
	}
	if err := j.state.Apply(e, twophase.HashOf(e.Encode())); err != nil {
		j.tb.Fatal(err)
	}
}

func (j *journal) commits(n int, tables ...string) {
	var reqs []twophase.Request
	for range n {
		id := twophase.DeriveTxnID("cat", fmt.Sprint(j.state.Next(), len(reqs)), 1)
		c := &twophase.Committed{Txn: id}
		for _, t := range tables {
			c.Parts = append(c.Parts, twophase.Part{
				Table: twophase.TableID(t), MetaDataID: "m", Digests: []twophase.Digest{twophase.HashOf(id[:])},
				Read: twophase.ReadPoint{Blind: true}, Facts: twophase.Facts(id[:]), Shape: twophase.Shape{Appends: true, Bytes: 100},
			})
		}
		reqs = append(reqs, twophase.Request{Commit: &twophase.CommitRequest{Record: c}})
	}
	j.append(reqs)
}

// publish walks every table of the oldest round over an empty log, and closes it.
func (j *journal) publish() {
	round := j.state.Rounds()[0]
	p := &twophase.Published{Round: round.ID}
	for _, plan := range j.state.Plan(round) {
		w := twophase.NewWalk(j.state.WalkInput(plan.Table.Table, 0), 0)
		for {
			switch e := w.Next().(type) {
			case twophase.PutVersion:
				w.Feed(twophase.PutResult{Done: true, Identity: twophase.HashOf([]byte(fmt.Sprint(e.Version)))}, 0)
				continue
			case twophase.WalkDone:
				p.Tables = append(p.Tables, twophase.PublishedTable{Table: plan.Table.Table, Versions: e.Found})
			default:
				j.tb.Fatalf("walk of %s wants %+v", plan.Table.Table, e)
			}
			break
		}
	}
	j.append([]twophase.Request{{Record: p}})
}

// BenchmarkFold has 30,000 changes pending on one table, in rounds of any size, and
// delivers each in a version of its own.
func BenchmarkFold(b *testing.B) {
	for range b.N {
		j := newJournal(b, "a")
		start := time.Now()
		for range 300 {
			j.commits(100, "a")
		}
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms/decide")
		start = time.Now()
		for len(j.state.Rounds()) > 0 {
			j.publish()
		}
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms/publish")
	}
}

// BenchmarkWide has transactions over 1,000 tables each.
func BenchmarkWide(b *testing.B) {
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprint("t", i)
	}
	for range b.N {
		j := newJournal(b, names...)
		for range 30 {
			j.commits(1, names...)
		}
		for len(j.state.Rounds()) > 0 {
			j.publish()
		}
	}
}
