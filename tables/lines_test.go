package tables_test

import (
	"testing"

	"github.com/txcoord/txcoord/tables"
)

// TestLineCount: wherever a text is cut, there are as many lines in it.
func TestLineCount(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "\n": 0, " \t\r\n": 0, "a": 1, "a\n": 1, "a\nb": 2, " a \r\n\n  \nb\n": 2, "\n\na\n\nbc\ndef\n \n": 3,
	} {
		if got := tables.CountLines([]byte(text)); got != want {
			t.Errorf("%q: %d lines, want %d", text, got, want)
		}
		for i := range len(text) + 1 {
			for j := i; j <= len(text); j++ {
				var c tables.LineCount
				c.Add([]byte(text[:i]))
				c.Add([]byte(text[i:j]))
				if got := c.Add([]byte(text[j:])); got != want {
					t.Errorf("%q | %q | %q: %d lines, want %d", text[:i], text[i:j], text[j:], got, want)
				}
			}
		}
	}
}
