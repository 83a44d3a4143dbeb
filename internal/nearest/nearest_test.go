package nearest_test

import (
	"strings"
	"testing"

	"github.com/txcoord/txcoord/internal/nearest"
)

func TestWord(t *testing.T) {
	known := []string{"region", "endpoint", "prefix", "ttl", "path-style", "outcome_retention", "readVersion", "log-level", "log-format", "wärme"}
	for word, want := range map[string]string{
		"regoin": "region", "regio": "region", "regionn": "region", "Region": "region", "rgion": "region",
		"endpiont": "endpoint", "tl": "ttl", "tttl": "ttl", "pathstyle": "path-style", "path_stlye": "path-style",
		"outcome-retentoin": "outcome_retention", "read_version": "readVersion", "readVersions": "readVersion",
		"log-levle": "log-level", "warme": "wärme", "outcome": "", "x": "", "": "", "-": "", "zone": "",
		"prefixprefix": "", "nothing": "", strings.Repeat("a", 1000): "",
	} {
		if got := nearest.Word(word, known); got != want {
			t.Errorf("%.20q: %q, want %q", word, got, want)
		}
	}
	if got := nearest.Meant("regoin", known); got != `; did you mean "region"?` {
		t.Errorf("%q", got)
	}
	if got := nearest.Meant("zone", known); got != "" {
		t.Errorf("%q", got)
	}
}

// Of several words the nearest is meant, and the first of those that are as near.
func TestNearestOfSeveral(t *testing.T) {
	if got := nearest.Word("staus", []string{"stages", "status", "states"}); got != "status" {
		t.Errorf("%q", got)
	}
	if got := nearest.Word("ab", []string{"ac", "ad"}); got != "ac" {
		t.Errorf("%q", got)
	}
}

func TestOneOf(t *testing.T) {
	if got := nearest.OneOf("regoin", []string{"region", "zone"}); got != `name one of region, zone; did you mean "region"?` {
		t.Errorf("%q", got)
	}
	if got := nearest.OneOf("a", nil); got != "there is none" {
		t.Errorf("%q", got)
	}
	many := strings.Split(strings.Repeat("column ", 30)+"region", " ")
	if got := nearest.OneOf("regoin", many); !strings.HasPrefix(got, "name one of column, column") || !strings.HasSuffix(got, `, column and 11 more; did you mean "region"?`) {
		t.Errorf("%q", got)
	}
}
