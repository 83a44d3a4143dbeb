package fair_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/txcoord/txcoord/coordinator/fair"
)

type request struct {
	who   string
	n     int
	bytes int64
}

func push(q *fair.Queue[request], who string, n int, bytes int64) {
	q.Push(who, bytes, request{who, n, bytes})
}

func values(its []*fair.Item[request]) (out []string) {
	for _, it := range its {
		out = append(out, fmt.Sprintf("%s%d", it.Value.who, it.Value.n))
	}
	return out
}

// TestLightIsInTheNextGroup: 10,000 of A wait and some of them are under way; one of B
// comes, and goes first, whatever A has had before.
func TestLightIsInTheNextGroup(t *testing.T) {
	var q fair.Queue[request]
	for i := range 10_000 {
		push(&q, "A", i, 100)
	}
	q.Done(q.Take(1000, nil)...)
	under := q.Take(4000, nil) // of which the entry holds a quarter
	push(&q, "B", 0, 100)
	q.Return(under[10:]...)
	q.Done(under[:10]...)
	want := []string{"B0", "A20", "A21", "A22", "A23", "A24", "A25", "A26", "A27", "A28"}
	if diff := cmp.Diff(want, values(q.Take(1000, nil))); diff != "" {
		t.Error(diff)
	}
	if q.Len() != 10_000-20-9 {
		t.Errorf("%d wait", q.Len())
	}
}

// TestMeanwhile: b comes while something is on its way, c when that is served; only the
// first of b goes before c.
func TestMeanwhile(t *testing.T) {
	var q fair.Queue[request]
	push(&q, "a", 0, 10)
	push(&q, "a", 1, 10)
	q.Done(q.Take(1, nil)...)
	taken := q.Take(1, nil)
	for i := range 3 {
		push(&q, "b", i, 5)
	}
	q.Done(taken...)
	push(&q, "c", 0, 10)
	if diff := cmp.Diff([]string{"b0", "c0", "b1", "b2"}, values(q.Take(100, nil))); diff != "" {
		t.Error(diff)
	}
}

// TestBytesAreShared: two who have much queued get the same bytes, however large what
// each sends is.
func TestBytesAreShared(t *testing.T) {
	var q fair.Queue[request]
	for i := range 1000 {
		push(&q, "A", i, 1000)
	}
	for i := range 10_000 {
		push(&q, "B", i, 10)
	}
	got := map[string]int64{}
	for range 50 {
		its := q.Take(2000, nil)
		for _, it := range its {
			got[it.Value.who] += it.Value.bytes
		}
		q.Done(its...)
	}
	if d := got["A"] - got["B"]; d < -1000 || d > 1000 {
		t.Errorf("A got %d bytes, B %d", got["A"], got["B"])
	}
}

// TestLargerThanAGroup: one waits for at most one group, also where each thing is larger.
func TestLargerThanAGroup(t *testing.T) {
	var q fair.Queue[request]
	for i := range 3 {
		push(&q, "A", i, 5000)
	}
	push(&q, "B", 0, 1)
	var order [][]string
	for q.Len() > 0 {
		its := q.Take(1000, nil)
		order = append(order, values(its))
		q.Done(its...)
	}
	if diff := cmp.Diff([][]string{{"A0"}, {"B0", "A1"}, {"A2"}}, order); diff != "" {
		t.Error(diff)
	}
}

func TestDropped(t *testing.T) {
	var q fair.Queue[request]
	for i := range 4 {
		push(&q, "A", i, 10)
	}
	its := q.Take(1000, func(r request) bool { return r.n%2 == 0 })
	if diff := cmp.Diff([]string{"A1", "A3"}, values(its)); diff != "" {
		t.Error(diff)
	}
	if q.Len() != 0 {
		t.Errorf("%d wait", q.Len())
	}
}

// TestForgets: principals that hold nothing do not stay, though the queue is never empty.
func TestForgets(t *testing.T) {
	var q fair.Queue[request]
	push(&q, "heavy", 0, 1<<40)
	q.Take(1, nil)
	for i := range 20_000 {
		push(&q, fmt.Sprint(i), 0, 1)
		q.Done(q.Take(1, nil)...)
	}
	if n := q.Flows(); n > 2500 {
		t.Errorf("%d principals are known", n)
	}
}

// model is what a queue has to keep, whatever is done to it: nothing is lost or served
// twice, what one principal sent is taken in its order, and who comes while others are
// served is behind nobody's backlog.
type model struct {
	q     fair.Queue[request]
	sent  map[string]int
	wait  map[string][]int // in order
	taken []*fair.Item[request]
	light int
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{sent: map[string]int{}, wait: map[string][]int{}}
		t.Repeat(map[string]func(*rapid.T){
			"push": m.push, "take": m.take, "settle": m.settle, "newcomer": m.newcomer,
			"": func(t *rapid.T) {
				n := 0
				for _, w := range m.wait {
					n += len(w)
				}
				if n != m.q.Len() {
					t.Fatalf("%d wait, the model has %d", m.q.Len(), n)
				}
			},
		})
	})
}

func (m *model) push(t *rapid.T) {
	who := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "who")
	for range rapid.IntRange(1, 5).Draw(t, "n") {
		push(&m.q, who, m.sent[who], rapid.Int64Range(0, 500).Draw(t, "bytes"))
		m.wait[who] = append(m.wait[who], m.sent[who])
		m.sent[who]++
	}
}

func (m *model) take(t *rapid.T) {
	m.settle(t)
	waited := m.q.Len()
	m.taken = m.q.Take(rapid.Int64Range(0, 1500).Draw(t, "most"), nil)
	if (waited > 0) != (len(m.taken) > 0) {
		t.Fatalf("%d of %d were taken", len(m.taken), waited)
	}
	for _, it := range m.taken {
		w := m.wait[it.Value.who]
		if len(w) == 0 || w[0] != it.Value.n {
			t.Fatalf("%s%d was taken, %v of it wait", it.Value.who, it.Value.n, w)
		}
		m.wait[it.Value.who] = w[1:]
	}
}

// settle serves the first of what is taken, and returns the rest.
func (m *model) settle(t *rapid.T) {
	served := rapid.IntRange(0, len(m.taken)).Draw(t, "served")
	m.q.Done(m.taken[:served]...)
	for _, it := range slices.Backward(m.taken[served:]) {
		m.wait[it.Value.who] = slices.Insert(m.wait[it.Value.who], 0, it.Value.n)
		m.q.Return(it)
	}
	m.taken = nil
}

// newcomer sends one thing: at most one of each other principal goes before it.
func (m *model) newcomer(t *rapid.T) {
	m.settle(t)
	m.light++
	who := fmt.Sprintf("light%d", m.light)
	push(&m.q, who, 0, 1)
	m.wait[who] = []int{0}
	before := map[string]int{}
	m.taken = m.q.Take(1<<40, nil)
	for i, it := range m.taken {
		if it.Value.who == who {
			break
		}
		if before[it.Value.who]++; before[it.Value.who] > 1 {
			t.Fatalf("%d goes before %s: %v", i, who, values(m.taken))
		}
	}
	m.q.Return(m.taken...)
	m.taken = nil
}
