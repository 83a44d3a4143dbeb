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
