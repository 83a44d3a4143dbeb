package rpc_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/coordinator/rpc"
	"github.com/txcoord/txcoord/internal/allocs"
)

// sizes of chunks, in turn, until a part is full.
var sizes = map[string][]int{
	"as clients send them": {1 << 20},
	"of a block":           {rpc.BlockBytes},
	"just below":           {rpc.BlockBytes - 1},
	"small":                {1000},
	"odd":                  {777, 70_001},
	"tiny and large":       {1, rpc.BlockBytes, 1, 1 << 20},
}

// chunked cuts a part into chunks, which share its memory.
func chunked(part []byte, sizes []int) (out [][]byte) {
	for i := 0; len(part) > 0; i++ {
		n := min(sizes[i%len(sizes)], len(part))
		out = append(out, part[:n:n])
		part = part[n:]
	}
	return out
}

// TestStreamTakesWhatIsCounted: what is held is what is counted, at every moment, and not
// much more than came; and nothing is allocated for it but that.
func TestStreamTakesWhatIsCounted(t *testing.T) {
	const most = 16 << 20
	part := make([]byte, most)
	for name, sizes := range sizes {
		t.Run(name, func(t *testing.T) {
			chunks := chunked(part, sizes)
			budget := &quota.Budget{Limit: most} // all of a part of the largest size has room
			came, kept := int64(0), int64(0)
			b := rpc.NewBlocks(budget, most)
			for i, c := range chunks {
				if err := b.Add(c); err != nil {
					t.Fatalf("chunk %d: %v", i, err)
				}
				came += int64(len(c))
				kept = budget.Used()
				// What the allocator rounds up is not counted.
				if taken := b.Taken(); taken > kept+kept/8 || kept > came+rpc.BlockBytes || kept < came {
					t.Fatalf("after chunk %d: %d bytes came, %d are counted, %d are taken", i, came, kept, taken)
				}
			}
			b.Release()
			if n := budget.Used(); n != 0 {
				t.Errorf("%d bytes are counted after the end", n)
			}
			n := allocs.Over(most+most/4, func() {
				b := rpc.NewBlocks(budget, most)
				defer b.Release()
				for _, c := range chunks {
					if err := b.Add(c); err != nil {
						t.Error(err)
						return
					}
				}
			})
			if n > 0 {
				t.Errorf("%d bytes are allocated for a part of %d", n, most)
			}
		})
	}
}

// TestStreamIsJoinedOnce: the bytes are those that came, what is counted afterwards is one
// copy, and while there are two of them, two are counted.
func TestStreamIsJoinedOnce(t *testing.T) {
	part := make([]byte, 3<<20+17)
	rng := rand.NewChaCha8([32]byte{})
	_, _ = rng.Read(part)
	for name, sizes := range sizes {
		t.Run(name, func(t *testing.T) {
			budget := &quota.Budget{Limit: int64(len(part))}
			b := rpc.NewBlocks(budget, len(part))
			for _, c := range chunked(part, sizes) {
				if err := b.Add(c); err != nil {
					t.Fatal(err)
				}
			}
			if got := b.Join(); !bytes.Equal(got, part) {
				t.Errorf("%d bytes came of %d, or others", len(got), len(part))
			}
			if n := budget.Used(); n != int64(len(part)) {
				t.Errorf("%d bytes are counted of %d", n, len(part))
			}
			b.Release()
			if n := budget.Used(); n != 0 {
				t.Errorf("%d bytes are counted after the end", n)
			}
		})
	}
	one := []byte("one chunk")
	b := rpc.NewBlocks(&quota.Budget{Limit: 100}, 100)
	if got := b.Join(); len(got) != 0 {
		t.Errorf("nothing came, and %q is there", got)
	}
	if err := b.Add(one); err != nil || string(b.Join()) != string(one) {
		t.Errorf("one chunk: %v", err)
	}
}

// TestRefusedStreamHoldsNothing more than was counted when it was refused.
func TestRefusedStreamHoldsNothing(t *testing.T) {
	budget := &quota.Budget{Limit: 1 << 20}
	b := rpc.NewBlocks(budget, 1<<30)
	chunk := make([]byte, 300<<10)
	var err error
	for err == nil {
		err = b.Add(chunk)
	}
	if n := budget.Used(); n != 900<<10 || b.Taken() != n {
		t.Errorf("%d bytes are counted, and %d taken", n, b.Taken())
	}
	if b.Release(); budget.Used() != 0 {
		t.Errorf("%d bytes are counted after the end", budget.Used())
	}
}
