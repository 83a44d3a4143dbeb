package twophase

import (
	"testing"

	"pgregory.net/rapid"
)

// TestShare: a version takes the longest run of changes that may share one (R19).
func TestShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		caps := Caps{
			MaxVersionBytes: rapid.Uint64Range(1, 60).Draw(t, "bytes"), MaxVersionTxns: rapid.Uint32Range(1, 5).Draw(t, "txns"),
			Coalesce: rapid.IntRange(0, 5).Draw(t, "coalesce") > 0,
		}
		single := rapid.IntRange(0, 9).Draw(t, "single") == 0
		changes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *Change {
			sh := Shape{
				Appends: rapid.IntRange(0, 5).Draw(t, "appends") > 0, DataChange: rapid.IntRange(0, 5).Draw(t, "data change") > 0,
				Bytes: rapid.Uint64Range(1, 30).Draw(t, "size"),
			}
			if rapid.IntRange(0, 3).Draw(t, "app") == 0 {
				sh.Apps = []AppVersion{{App: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name"), Version: 1}}
			}
			return &Change{Part: &Part{Shape: sh}}
		}), 0, 8).Draw(t, "changes")
		want := min(1, len(changes))
		for n := 2; n <= len(changes) && !single && mayShare(changes[:n], caps); n++ {
			want = n
		}
		if got := Share(changes, caps, single); got != want {
			t.Fatalf("Share = %d, want %d", got, want)
		}
	})
}

// mayShare is R19, sentence by sentence.
func mayShare(changes []*Change, caps Caps) bool {
	bytes, apps := uint64(0), map[string]int{}
	for _, c := range changes {
		sh := c.Part.Shape
		if !sh.Appends || sh.DataChange != changes[0].Part.Shape.DataChange {
			return false
		}
		bytes += sh.Bytes
		for _, a := range sh.Apps {
			apps[a.App]++
			if apps[a.App] > 1 {
				return false
			}
		}
	}
	return caps.Coalesce && bytes <= caps.MaxVersionBytes && len(changes) <= int(caps.MaxVersionTxns)
}
