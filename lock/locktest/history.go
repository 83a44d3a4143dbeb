package locktest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/txcoord/txcoord/lock"
)

// The model of one key. Every put of a history writes a value of its own, so the
// value stands for the revision: a put "if revision R" is one that expects the value
// that was written, or read, with R. "" is the key that is not there.
type (
	call struct {
		kind   kind
		value  string
		absent bool
		expect string
	}
	reply struct {
		value    string
		conflict bool
		unknown  bool
	}
	kind string
)

const (
	reads   kind = "get"
	puts    kind = "put"
	deletes kind = "delete"
)

// step is the contract for one key. A write of which nothing is known may be put at
// the end of all time, so there is no need to let it not happen.
func step(state string, in call, out reply) (bool, string) {
	switch in.kind {
	case reads:
		return out.value == state, state
	case deletes:
		return true, ""
	default:
	}
	holds := (!in.absent || state == "") && (in.expect == "" || state == in.expect)
	after := state
	if holds {
		after = in.value
	}
	return out.unknown || out.conflict != holds, after
}

func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, in, out any) (bool, any) { return step(state.(string), in.(call), out.(reply)) },
	}
}

// history collects what clients saw, by key.
type history struct {
	start time.Time
	mu    sync.Mutex
	ops   map[string][]porcupine.Operation
	// values by key and revision: one revision never stands for two values.
	values map[string]string
	clash  []string
}

func (h *history) now() int64 { return time.Since(h.start).Nanoseconds() }

func (h *history) add(client int, key string, began int64, in call, out reply) {
	op := porcupine.Operation{ClientId: client, Input: in, Call: began, Output: out, Return: h.now()}
	if out.unknown {
		op.Return = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops[key] = append(h.ops[key], op)
}

// means notes that a key held a value at a revision.
func (h *history) means(key string, rev lock.Revision, value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := key + " " + string(rev)
	if was, ok := h.values[id]; ok && was != value {
		h.clash = append(h.clash, fmt.Sprintf("%s at revision %q is %q and %q", key, rev, was, value))
	}
	h.values[id] = value
}

// player is one client that does something at random, again and again.
type player struct {
	t       T
	id      int
	s       lock.Store
	h       *history
	rng     *rand.Rand
	writes  int
	revs    map[string]lock.Revision
	expects map[string]string
}

var historyKeys = []string{"h/1", "h/2", "h/3"}

func (p *player) play() {
	key := historyKeys[p.rng.IntN(len(historyKeys))]
	switch n := p.rng.IntN(20); {
	case n < 5:
		p.get(key)
	case n < 7:
		p.scan()
	case n < 9:
		p.delete(key)
	default:
		p.put(key, n)
	}
}

// saw remembers the newest revision that the client knows of a key.
func (p *player) saw(key, value string, rev lock.Revision) {
	p.h.means(key, rev, value)
	p.revs[key], p.expects[key] = rev, value
}

func (p *player) get(key string) {
	began := p.h.now()
	item, err := p.s.Get(p.t.Context(), key)
	if err != nil && !errors.Is(err, lock.ErrNotFound) {
		return // It was not answered.
	}
	p.h.add(p.id, key, began, call{kind: reads}, reply{value: string(item.Value)})
	if err == nil {
		p.saw(key, string(item.Value), item.Revision)
	}
}

// scan is a get of each key.
func (p *player) scan() {
	began := p.h.now()
	page, err := p.s.Scan(p.t.Context(), "h/", "", 0)
	if err != nil {
		return
	}
	for _, key := range historyKeys {
		i := slices.IndexFunc(page, func(item lock.Item) bool { return item.Key == key })
		value := ""
		if i >= 0 {
			value = string(page[i].Value)
			p.saw(key, value, page[i].Revision)
		}
		p.h.add(p.id, key, began, call{kind: reads}, reply{value: value})
	}
}

func (p *player) delete(key string) {
	began := p.h.now()
	err := p.s.Delete(p.t.Context(), key)
	if err == nil || errors.Is(err, lock.ErrUnknown) {
		p.h.add(p.id, key, began, call{kind: deletes}, reply{unknown: err != nil})
	}
}

func (p *player) put(key string, n int) {
	p.writes++
	in := call{kind: puts, value: fmt.Sprintf("%d.%d", p.id, p.writes)}
	cond := lock.IfRevision(p.revs[key])
	in.expect = p.expects[key]
	switch {
	case n == 19:
		cond, in.expect = lock.Always(), ""
	case in.expect == "" || n > 16:
		cond, in.expect, in.absent = lock.IfAbsent(), "", true
	}
	began := p.h.now()
	rev, err := p.s.Put(p.t.Context(), key, []byte(in.value), cond)
	out := reply{conflict: errors.Is(err, lock.ErrConflict), unknown: errors.Is(err, lock.ErrUnknown)}
	if err == nil || out.conflict || out.unknown {
		p.h.add(p.id, key, began, in, out)
	}
	if err == nil {
		p.saw(key, in.value, rev)
	}
}

// historiesAreLinearizable has clients do anything to a few keys at once, and
// checks that there is an order, key by key, that explains all answers.
func historiesAreLinearizable(t T, c Config) {
	s := c.New(t)
	clients := []lock.Store{s, c.client(t, s)}
	h := &history{start: time.Now(), ops: make(map[string][]porcupine.Operation), values: make(map[string]string)}
	const players, moves = 6, 50
	race(players, func(i int) {
		p := &player{
			t: t, id: i, s: clients[i%2], h: h, rng: rand.New(rand.NewPCG(uint64(i), 7)),
			revs: make(map[string]lock.Revision), expects: make(map[string]string),
		}
		for range moves {
			p.play()
		}
	})
	for _, clash := range h.clash {
		t.Errorf("%s", clash)
	}
	for key, ops := range h.ops {
		if result := porcupine.CheckOperationsTimeout(model(), ops, time.Minute); result != porcupine.Ok {
			t.Errorf("%s: the history is not linearizable (%s):%s", key, result, transcript(ops))
		}
	}
}

// transcript shows a history in the order of its calls.
func transcript(ops []porcupine.Operation) string {
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	out := ""
	for _, op := range ops {
		out += fmt.Sprintf("\n%9d–%-19d client %d %+v → %+v", op.Call, op.Return, op.ClientId, op.Input, op.Output)
	}
	return out
}
