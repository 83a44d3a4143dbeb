package twophase

import "math"

// keptBlock is about the size of a block of outcomes.
const keptBlock = 64 << 10

// kept are settled outcomes by transaction. Their bytes lie in blocks, one behind the
// other, and the map holds no pointers: hundreds of thousands are found quickly, cost the
// garbage collector nothing, and are taken from a checkpoint as they stand in it. A block
// goes with the last outcome in it; they are forgotten about in the order in which they came.
type kept struct {
	at     map[TxnID]keptAt
	blocks map[uint32]*keptIn
	newest uint32
}

// keptAt is a block, and where in it the outcome's length stands, with its bytes behind.
type keptAt struct{ block, at uint32 }

type keptIn struct {
	b []byte
	// held is how many outcomes in it are not forgotten; whole: no more comes.
	held  int
	whole bool
}

func newKept(expected int) kept {
	return kept{at: make(map[TxnID]keptAt, expected), blocks: map[uint32]*keptIn{}}
}

func (k *kept) has(id TxnID) bool {
	_, ok := k.at[id]
	return ok
}

// get is a transaction's outcome; nil if there is none. It is not to be changed.
func (k *kept) get(id TxnID) settled {
	at, ok := k.at[id]
	if !ok {
		return nil
	}
	return k.read(at)
}

func (k *kept) read(at keptAt) settled {
	u := unpacker{b: k.blocks[at.block].b[at.at:]}
	return u.raw(u.count(1))
}

// put takes the outcome of a transaction that has none.
func (k *kept) put(id TxnID, b []byte) {
	in := k.blocks[k.newest]
	if in == nil || in.whole {
		in = k.block(nil)
	}
	k.at[id] = keptAt{k.newest, uint32(len(in.b))}
	p := packer{b: in.b}
	p.count(len(b))
	p.raw(b)
	in.b, in.held, in.whole = p.b, in.held+1, len(p.b) >= keptBlock
}

// block begins one.
func (k *kept) block(b []byte) *keptIn {
	in := &keptIn{b: b}
	k.newest++
	k.blocks[k.newest] = in
	return in
}

// load takes the outcomes of a run as they stand there. It reports the first transaction that
// has one already.
func (k *kept) load(run *settledRun) (twice TxnID, ok bool) {
	in := k.block(run.b)
	in.held, in.whole = len(run.ids), true
	for i, id := range run.ids {
		n := len(k.at)
		if k.at[id] = (keptAt{k.newest, run.at[i]}); len(k.at) == n {
			return id, false
		}
	}
	return TxnID{}, true
}

// drop forgets the outcome of a transaction, if it has one.
func (k *kept) drop(id TxnID) {
	at, ok := k.at[id]
	if !ok {
		return
	}
	delete(k.at, id)
	if in := k.blocks[at.block]; in.held == 1 {
		delete(k.blocks, at.block)
	} else {
		in.held--
	}
}

// all calls yield for each, in no particular order.
func (k *kept) all(yield func(TxnID, settled) bool) {
	for id, at := range k.at {
		if !yield(id, k.read(at)) {
			return
		}
	}
}

func (k *kept) len() int { return len(k.at) }

// settledRun are outcomes one behind the other, each behind its transaction, as in a segment.
type settledRun struct {
	b   []byte
	ids []TxnID
	// at is where the length of each outcome stands, and ranges are those of the positions
	// at which they were decided.
	at     []uint32
	ranges []uint64
	// attempts is the highest committed attempt among them.
	attempts uint32
	// sorted: they stand in the order of their decision.
	sorted bool
}

// usualOutcome is what a settled outcome with its transaction takes in a run, at the least,
// in a catalog of small transactions.
const usualOutcome = 100

// skim takes a run of outcomes, and looks no further than to know where they were decided,
// and at which attempts.
func skim(b []byte) (*settledRun, error) {
	n := len(b) / usualOutcome
	run := &settledRun{b: b, ids: make([]TxnID, 0, n), at: make([]uint32, 0, n), ranges: make([]uint64, 0, n), sorted: true}
	u := unpacker{b: b}
	for lastAt, lastIndex := uint64(0), uint64(0); len(u.b) > 0; {
		id := u.txn()
		start := len(b) - len(u.b)
		at := unpacker{b: u.raw(u.count(1))}
		position, index := at.uint(), at.uint()
		_ = at.int() // the time
		attempt := at.committedAttempt()
		if at.bad || u.bad || uint64(start) > math.MaxUint32 {
			return nil, errCompact
		}
		run.attempts = max(run.attempts, attempt)
		run.sorted = run.sorted && (position > lastAt || position == lastAt && index >= lastIndex)
		lastAt, lastIndex = position, index
		run.ids, run.at, run.ranges = append(run.ids, id), append(run.at, uint32(start)), append(run.ranges, position/positionsPerSegment)
	}
	return run, nil
}

// orderly: the run is what a checkpoint makes of one range.
func (r *settledRun) orderly() bool {
	return r.sorted && len(r.ids) > 0 && r.ranges[0] == r.ranges[len(r.ranges)-1]
}
