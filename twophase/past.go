package twophase

import (
	"iter"
	"slices"
)

// Past is a change or a foreign version in a table's history, with its facts.
type Past struct {
	// Version that holds it; NoVersion while undelivered.
	Version Version
	// Change and Txn are zero for a foreign version.
	Change   ChangeNumber
	Txn      TxnID
	Facts    Facts
	FactsRef ObjectRef
	gone     bool // given up; swept at the end of the record
	// at is the entry behind which it needed no change any more; in blocks only.
	at Position
}

func (p *Past) cost() int { return len(p.Facts) + len(p.FactsRef.Name) + 64 }

// history is what was decided and recorded on a table, oldest first, with its facts
// (R14). What is recorded, and has nothing unrecorded in front of it, lies compactly in
// blocks; blocks are forgotten whole.
type history struct {
	blocks []pastBlock
	tail   []*Past
	// bytes it costs.
	bytes int
}

// pastBlock is a run of recorded changes.
type pastBlock struct {
	packed []byte
	// newest is the highest version in it.
	newest Version
	cost   int
}

// blockBytes is the cost from which on a block takes no more; of a short history it is
// an eighth.
const blockBytes = 4096

// after are those that a version does not hold; NoVersion for all. What is yielded is not
// to be kept.
func (h *history) after(after Version) iter.Seq[*Past] {
	return func(yield func(*Past) bool) { h.each(after, yield) }
}

func (h *history) each(after Version, yield func(*Past) bool) {
	var p Past
	for i := range h.blocks {
		if h.blocks[i].newest <= after {
			continue
		}
		u := unpacker{b: h.blocks[i].packed}
		for len(u.b) > 0 {
			u.past(&p)
			if p.Version > after && !yield(&p) {
				return
			}
		}
	}
	for _, p := range h.tail {
		if (p.Version == NoVersion || p.Version > after) && !yield(p) {
			return
		}
	}
}

// remember appends to a table's history. Past the bound it forgets the oldest
// recorded quarter, so that forgetting is rare (R14).
func (f *fold) remember(t *Table, p *Past) {
	t.past.tail = append(t.past.tail, p)
	t.past.bytes += p.cost()
	f.pack(t)
	if t.past.bytes <= f.historyBytes {
		return
	}
	for len(t.past.blocks) > 0 && len(t.past.blocks)+len(t.past.tail) > 1 && t.past.bytes > f.historyBytes/4*3 {
		t.forgetPast()
	}
}

// forgetPast forgets the oldest block.
func (t *Table) forgetPast() {
	b := &t.past.blocks[0]
	t.PastFloor = max(t.PastFloor, b.newest)
	t.past.bytes -= b.cost
	t.past.blocks = slices.Delete(t.past.blocks, 0, 1)
}

// forgetPastBelow forgets what was recorded before an entry, in the order of the history.
func (t *Table) forgetPastBelow(floor Position) {
	h := &t.past
	for len(h.blocks) > 0 {
		b := &h.blocks[0]
		u := unpacker{b: b.packed}
		var p Past
		for len(u.b) > 0 {
			rest := u.b
			if u.past(&p); p.at >= floor {
				b.packed = rest
				return
			}
			t.PastFloor = max(t.PastFloor, p.Version)
			b.cost, h.bytes = b.cost-p.cost(), h.bytes-p.cost()
		}
		h.blocks = slices.Delete(h.blocks, 0, 1)
	}
}

// pack moves what is recorded from the front of the tail into blocks.
func (f *fold) pack(t *Table) {
	h := &t.past
	n := 0
	for ; n < len(h.tail) && h.tail[n].Version != NoVersion && !h.tail[n].gone; n++ {
		h.put(h.tail[n], f.entry.Position, min(blockBytes, f.historyBytes/8))
	}
	if n > 0 {
		h.tail = slices.Delete(h.tail, 0, n)
	}
	if len(h.tail) == 0 {
		h.tail = nil
	}
}

func (h *history) put(p *Past, at Position, size int) {
	if n := len(h.blocks); n == 0 || h.blocks[n-1].cost >= size {
		h.blocks = append(h.blocks, pastBlock{newest: NoVersion})
	}
	b := &h.blocks[len(h.blocks)-1]
	to := packer{b: b.packed}
	to.past(p, at)
	b.packed, b.newest, b.cost = to.b, max(b.newest, p.Version), b.cost+p.cost()
	if b.cost >= size {
		b.packed = slices.Clone(b.packed) // no more comes
	}
}

func (p *packer) past(h *Past, at Position) {
	ours, hasRef := h.Change != 0 || !h.Txn.IsZero(), h.FactsRef != ObjectRef{}
	p.flags(ours, hasRef)
	p.uint(uint64(at))
	p.int(int64(h.Version))
	if ours {
		p.int(int64(h.Change))
		p.raw(h.Txn[:])
	}
	if hasRef {
		p.ref(&h.FactsRef)
	}
	p.count(len(h.Facts))
	p.raw(h.Facts)
}

func (u *unpacker) past(h *Past) {
	*h = Past{}
	var ours, hasRef bool
	u.flags(&ours, &hasRef)
	h.at, h.Version = Position(u.uint()), Version(u.int())
	if ours {
		h.Change, h.Txn = ChangeNumber(u.int()), u.txn()
	}
	if hasRef {
		h.FactsRef = u.ref()
	}
	h.Facts = u.raw(u.count(1))
}

// load takes a block of a checkpoint.
func (h *history) load(packed []byte) error {
	b := pastBlock{packed: packed, newest: NoVersion}
	u := unpacker{b: packed}
	var p Past
	for len(u.b) > 0 {
		u.past(&p)
		b.newest, b.cost = max(b.newest, p.Version), b.cost+p.cost()
	}
	h.blocks, h.bytes = append(h.blocks, b), h.bytes+b.cost
	return u.end()
}
