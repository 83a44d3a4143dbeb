package fileobj_test

import (
	"testing"

	"github.com/txcoord/txcoord/tables/objstore/fileobj"
)

func TestProcessors(t *testing.T) {
	for machine, want := range map[int]int{1: 4, 2: 8, 4: 16, 8: 16, 16: 16, 64: 64} {
		if got := fileobj.Processors(machine); got != want {
			t.Errorf("of %d: %d, want %d", machine, got, want)
		}
	}
}
