// Package fair orders what waits for one server among those who sent it, so that the
// much that one has sent does not stand in the way of the little of another.
package fair

import "container/heap"

// Queue is start-time fair queueing by bytes. Everything gets a tag as it comes: where
// the thing before it of the same principal ends, but no less than the least tag of what
// is not served yet. The least tag goes first. It gives what deficit round robin gives,
// each principal as many bytes a round as any other, without a quantum to choose. Before
// what one sends who has nothing else waiting goes at most one thing of each other: tags
// of one principal differ, and none is below the least.
//
// What one principal sends keeps its order: its tags grow, and what is returned keeps
// its own. The zero value is empty. It is not safe for concurrent use.
type Queue[T any] struct {
	waiting items[T]
	flows   map[string]*flow
	// clock is no more than the least tag of what is not served, and just that while
	// nothing is taken.
	clock int64
	next  uint64
	// held are those that wait or are taken.
	held int
	// prune is how many flows there may be before those that hold nothing are forgotten.
	prune int
}

// Item is a place in a queue.
type Item[T any] struct {
	Value T

	flow     *flow
	bytes    int64
	tag      int64
	sequence uint64
}

// flow is what is known of a principal.
type flow struct {
	end  int64 // of what it sent last
	held int
}

// leastFlows are kept without a look at whether they are needed.
const leastFlows = 1024

// Push queues a value of a principal. bytes are what it costs, at least one.
func (q *Queue[T]) Push(principal string, bytes int64, v T) {
	f := q.flow(principal)
	q.tick()
	it := &Item[T]{Value: v, flow: f, bytes: max(bytes, 1), tag: max(q.clock, f.end), sequence: q.next}
	q.next++
	f.end = it.tag + it.bytes
	f.held++
	q.held++
	heap.Push(&q.waiting, it)
}

// tick moves the clock on, unless something is taken: it may come back, and whoever comes
// meanwhile must not be behind it and all that follows it.
func (q *Queue[T]) tick() {
	if len(q.waiting) > 0 && q.held == len(q.waiting) {
		q.clock = q.waiting[0].tag
	}
}

func (q *Queue[T]) flow(principal string) *flow {
	if f := q.flows[principal]; f != nil {
		return f
	}
	if q.flows == nil {
		q.flows = map[string]*flow{}
	}
	if len(q.flows) >= max(q.prune, leastFlows) {
		q.forget()
	}
	f := &flow{}
	q.flows[principal] = f
	return f
}

// forget drops the principals that hold nothing, with what they had ahead. Without it
// each address that ever called would stay as long as the queue is never empty.
func (q *Queue[T]) forget() {
	for name, f := range q.flows {
		if f.held == 0 {
			delete(q.flows, name)
		}
	}
	q.prune = 2 * len(q.flows)
}

// Take takes out what goes next: at least one, and more until their bytes reach most.
// Each has to be given to Return or Done. What drop says of a value is asked before it
// is taken: those it names are done with.
func (q *Queue[T]) Take(most int64, drop func(T) bool) (out []*Item[T]) {
	q.tick()
	for bytes := int64(0); len(q.waiting) > 0 && (len(out) == 0 || bytes < most); {
		it := heap.Pop(&q.waiting).(*Item[T])
		if drop != nil && drop(it.Value) {
			q.gone(it)
			continue
		}
		out = append(out, it)
		bytes += it.bytes
	}
	return out
}

// Return puts back what could not be served now. It goes where it was.
func (q *Queue[T]) Return(its ...*Item[T]) {
	for _, it := range its {
		heap.Push(&q.waiting, it)
	}
}

// Done says that what was taken is served.
func (q *Queue[T]) Done(its ...*Item[T]) {
	for _, it := range its {
		q.gone(it)
	}
}

// gone counts an item out. Where nothing is left nobody is ahead of anybody.
func (q *Queue[T]) gone(it *Item[T]) {
	it.flow.held--
	if q.held--; q.held == 0 {
		clear(q.flows)
		q.clock = 0
	}
}

// Len is how many wait.
func (q *Queue[T]) Len() int { return len(q.waiting) }

// items is a heap, least tag first, then in the order they came.
type items[T any] []*Item[T]

func (s items[T]) Len() int { return len(s) }

func (s items[T]) Less(i, j int) bool {
	if s[i].tag != s[j].tag {
		return s[i].tag < s[j].tag
	}
	return s[i].sequence < s[j].sequence
}

func (s items[T]) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

// Push implements heap.Interface.
func (s *items[T]) Push(x any) { *s = append(*s, x.(*Item[T])) }

// Pop implements heap.Interface.
func (s *items[T]) Pop() any {
	last := len(*s) - 1
	it := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return it
}
