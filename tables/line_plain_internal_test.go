package tables

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestPlainIsParse: what plain takes, parse takes, and says the same of it.
func TestPlainIsParse(t *testing.T) {
	pieces := rapid.SampledFrom([]string{
		`{"add":{"path":"`, `{"add":{"path":`, `"`, `","size":`, `"size":`, `}}`, `}`, `{`, `,`, ` `, "\n", "\x00", "\x1f", `\`, `\"`, `\u0041`, `\ud800`, `%20`, `a`, `ä`, "\xff",
		`0`, `1`, `42`, `-`, `-1`, `007`, `1.0`, `1e3`, `9223372036854775807`, `9223372036854775808`, `null`, `"stats":"{}"`, `"path":"b"`, `"txn":{}`,
	})
	paths := rapid.SampledFrom([]string{"a", "b=1/", "ä", "%20", "\xff", "\x7f", `\`, `\"`, `\ud800`, "\x1f"})
	sizes := rapid.SampledFrom([]string{"0", "1", "42", "9223372036854775807", "9223372036854775808", "007", "-1", "1.0", "1e3", `"1"`, "null", "", "1 ", `1,"stats":"{}"`, `1,"size":2`, "1}"})
	rapid.Check(t, func(r *rapid.T) {
		text := strings.Join(rapid.SliceOfN(pieces, 0, 8).Draw(r, "pieces"), "")
		if rapid.Bool().Draw(r, "whole") {
			text = plainAdd + strings.Join(rapid.SliceOfN(paths, 0, 3).Draw(r, "path"), "") + `","size":` + sizes.Draw(r, "size") + "}}"
		}
		var quick, slow line
		if !quick.plain([]byte(text)) {
			return
		}
		if err := slow.parse([]byte(text), false); err != nil {
			r.Fatalf("%q: plain takes it, and parse says %v", text, err)
		}
		slow.seen = quick.seen
		if !reflect.DeepEqual(quick, slow) {
			r.Fatalf("%q: plain says %+v, and parse %+v", text, quick, slow)
		}
	})
}

// TestPlain: the lines that are many are taken, and what needs a parser is not.
func TestPlain(t *testing.T) {
	for text, want := range map[string]bool{
		`{"add":{"path":"a%20b","size":0}}`:                true,
		`{"add":{"path":"","size":12}}`:                    true,
		`{"add":{"path":"a\"b","size":1}}`:                 false,
		`{"add":{"path":"a","size":01}}`:                   false,
		`{"add":{"path":"a","size":-1}}`:                   false,
		`{"add":{"path":"a","size":}}`:                     false,
		`{"add":{"path":"a","size":1,"size":2}}`:           false,
		`{"add":{"path":"a","size":1}}}`:                   false,
		`{"add":{"path":"a","size":1},"txn":{}}`:           false,
		`{"add":{"path":"a"}}`:                             false,
		`{"remove":{"path":"a","size":1}}`:                 false,
		`{"add":{"path":"a","size":1,"baseRowId":1}}`:      false,
		`{"add":{"path":"a","size":92233720368547758070}}`: false,
	} {
		if got := (&line{}).plain([]byte(text)); got != want {
			t.Errorf("%s: taken is %v, want %v", text, got, want)
		}
	}
}
