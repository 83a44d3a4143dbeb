package allocs_test

import (
	"testing"

	"github.com/txcoord/txcoord/internal/allocs"
)

var sink []byte

func TestOver(t *testing.T) {
	const much = 64 << 20
	waste := func() {
		for range 64 {
			sink = make([]byte, much/64) // nothing holds more than one of them
		}
	}
	if n := allocs.Over(much/2, waste); n < much {
		t.Errorf("%d bytes were seen, of %d", n, much)
	}
	if n := allocs.Over(2*much, waste); n != 0 {
		t.Errorf("%d bytes, with %d allowed", n, 2*much)
	}
}

func TestHeld(t *testing.T) {
	const much = 64 << 20
	keep := func() any { return make([]byte, much) }
	if n := allocs.Held(keep); n < much || n > much+much/8 {
		t.Errorf("%d bytes are held, of %d", n, much)
	}
	waste := func() any {
		sink = make([]byte, much)
		sink = nil
		return nil
	}
	if n := allocs.Held(waste); n > much/8 {
		t.Errorf("%d bytes are held, of none", n)
	}
}
