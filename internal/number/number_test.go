package number_test

import (
	"testing"

	"github.com/txcoord/txcoord/internal/number"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		n    int
		one  string
		want string
	}{
		{0, "error", "0 errors"},
		{1, "error", "1 error"},
		{2, "error", "2 errors"},
		{1, "entry", "1 entry"},
		{2, "entry", "2 entries"},
		{2, "index", "2 indexes"},
		{3, "loss", "3 losses"},
		{2, "match", "2 matches"},
		{-1, "file", "-1 files"},
		{2, "key", "2 keys"},
		{1, "staged part", "1 staged part"},
		{5, "staged part", "5 staged parts"},
		{2, "byte", "2 bytes"},
	} {
		if got := number.Of(c.n, c.one); got != c.want {
			t.Errorf("%d %s: %q, want %q", c.n, c.one, got, c.want)
		}
	}
	if one, two := number.Verb(uint64(1), "is", "are"), number.Verb(uint64(2), "is", "are"); one != "is" || two != "are" {
		t.Errorf("1 %s, 2 %s", one, two)
	}
}
