package rpc

import (
	"bytes"
	"sync"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/quota"
)

// blockBytes is from which size on a chunk is kept as it came. Smaller ones are put
// together in blocks of this size, so that what each takes beside its bytes does not count.
const blockBytes = 64 << 10

// blocks are what came of a stream. Nothing is copied to make room, and what is counted is
// what is taken, but for what the allocator rounds up (an eighth at most).
type blocks struct {
	held *held
	most int // that will ever come
	full [][]byte
	open []byte // the last one, while there is room in it
	size int
	last int // bytes of the last block that chunks were copied to
}

// add keeps the next chunk; with those before it is not larger than most.
func (b *blocks) add(chunk []byte) error {
	if len(chunk) >= blockBytes {
		return b.adopt(chunk)
	}
	n := min(len(chunk), cap(b.open)-len(b.open))
	b.open = append(b.open, chunk[:n]...)
	b.size += n
	rest := chunk[n:]
	if len(rest) == 0 {
		return nil
	}
	b.close()
	// A small part takes no whole block, and neither does little between large chunks.
	room := min(max(len(rest), min(b.size, 2*b.last)), blockBytes, b.most-b.size)
	if err := b.held.grow(room); err != nil {
		return err
	}
	b.open = append(make([]byte, 0, room), rest...)
	b.size += len(rest)
	return nil
}

func (b *blocks) adopt(chunk []byte) error {
	if free := cap(b.open) - len(b.open); free > 0 {
		b.open = bytes.Clone(b.open)
		b.held.give(free)
	}
	b.close()
	if err := b.held.grow(len(chunk)); err != nil {
		return err
	}
	b.full = append(b.full, chunk)
	b.size += len(chunk)
	return nil
}

func (b *blocks) close() {
	if len(b.open) > 0 {
		b.full, b.last, b.open = append(b.full, b.open), len(b.open), nil
	}
}

// join makes one of them. While it does, it holds all twice, which is counted whatever the
// limit: so one stream at a time does.
func (b *blocks) join(one *sync.Mutex) []byte {
	b.close()
	switch len(b.full) {
	case 0:
		return nil
	case 1:
		return b.full[0]
	}
	one.Lock()
	defer one.Unlock()
	apart := b.held.bytes
	b.held.add(b.size)
	all := bytes.Join(b.full, nil)
	b.full = nil
	b.held.give(int(apart))
	return all
}

// held is one stream's part of what all streams hold together.
type held struct {
	budget *quota.Budget
	by     string
	bytes  int64
}

// grow counts n bytes that are about to be taken, unless there is no room for them.
func (h *held) grow(n int) error {
	if err := h.budget.Take(h.by, int64(n)); err != nil {
		return coordinator.OverQuota(err)
	}
	h.bytes += int64(n)
	return nil
}

// add counts them whatever the limit.
func (h *held) add(n int) {
	h.budget.Add(h.by, int64(n))
	h.bytes += int64(n)
}

func (h *held) give(n int) { h.add(-n) }

func (h *held) release() { h.give(int(h.bytes)) }
