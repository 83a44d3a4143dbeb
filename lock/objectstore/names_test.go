package objectstore

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/txcoord/txcoord/tables/objstore"
)

// Internal, because a name shows outside only as an object's.

func TestNamesSortAndNestAsKeysDo(t *testing.T) {
	var all []string
	for c := range 256 {
		all = append(all, string([]byte{byte(c)}), string([]byte{'m', byte(c)}))
	}
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SampledFrom(append([]string{"", "a", "/", ".", "ring/"}, all...))
		a := strings.Join(rapid.SliceOfN(part, 1, 6).Draw(t, "a"), "")
		b := strings.Join(rapid.SliceOfN(part, 1, 6).Draw(t, "b"), "")
		ea, eb := escape(a), escape(b)
		if cmp.Compare(a, b) != cmp.Compare(ea, eb) || strings.HasPrefix(a, b) != strings.HasPrefix(ea, eb) {
			t.Fatalf("%q and %q are %q and %q", a, b, ea, eb)
		}
		if back, err := unescape(ea); err != nil || back != a {
			t.Fatalf("%q comes back as %q, %v", a, back, err)
		}
		if a != "" && objstore.CheckKey("x/"+ea) != nil {
			t.Fatalf("%q is no key of an object", ea)
		}
	})
}

func TestForeignNamesAreRefused(t *testing.T) {
	for _, name := range []string{".", "a.", "a.x", "a/b", "!", "!4", "!41", "=GG", "~ff", "_61", " ", "\x00", "é"} {
		if key, err := unescape(name); err == nil {
			t.Errorf("%q is read as %q", name, key)
		}
	}
}

func FuzzUnescape(f *testing.F) {
	f.Add("ring._a._00000001")
	f.Fuzz(func(t *testing.T, name string) {
		if key, err := unescape(name); err == nil && escape(key) != name {
			t.Errorf("%q is read as %q, whose name is %q", name, key, escape(key))
		}
	})
}

func TestNamesOfTheJournalAreReadable(t *testing.T) {
	for key, want := range map[string]string{
		"meta": "meta", "ring/0a1b/00000042": "ring._0a1b._00000042", "a.b_c": "a.-b_5Fc", "é": "~C3~A9",
	} {
		if got := escape(key); got != want {
			t.Errorf("%q is %q, want %q", key, got, want)
		}
	}
	if !slices.IsSorted([]string{escape("."), escape("./"), escape("/"), escape("0")}) {
		t.Error("not in order")
	}
}
