// In the package: what reads a line of the kernel is for nobody else.
package contend

import (
	"testing"
	"time"
)

func TestSpentOf(t *testing.T) {
	stat := "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 7 7 20 0 9 0 100 1000 20"
	if d, ok := spentOf(stat); !ok || d != 3*time.Second {
		t.Errorf("%s, %v", d, ok)
	}
	for _, bad := range []string{"", "42", "42 (a", "42 (a) S 1 2", "42 (a) S 1 42 42 0 -1 4194560 100 0 0 0 x 50"} {
		if d, ok := spentOf(bad); ok {
			t.Errorf("%q is %s", bad, d)
		}
	}
}
