package objstore_test

import (
	"testing"

	"github.com/txcoord/txcoord/tables/objstore"
)

func TestCheckKey(t *testing.T) {
	for key, good := range map[string]bool{
		"a": true, "a/b": true, "a b/c=d%2F+é": true, ".hidden": true, "...": true, "a/..b": true,
		"": false, "/a": false, "a/": false, "a//b": false, ".": false, "a/./b": false, "../a": false, "a/..": false, "a\x00b": false,
	} {
		if err := objstore.CheckKey(key); (err == nil) != good {
			t.Errorf("CheckKey(%q) = %v", key, err)
		}
	}
}

func TestCheckPrefix(t *testing.T) {
	for prefix, good := range map[string]bool{
		"": true, "a": true, "a/": true, "a/b": true, "a/.": true, "a/..": true, "..": true,
		"/": false, "/a": false, "a//": false, "a//b": false, "../": false, "../a": false, "a/./": false,
	} {
		if err := objstore.CheckPrefix(prefix); (err == nil) != good {
			t.Errorf("CheckPrefix(%q) = %v", prefix, err)
		}
	}
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		r            objstore.Range
		size         int64
		from, length int64
	}{
		{objstore.Range{}, 10, 0, 10},
		{objstore.Range{}, 0, 0, 0},
		{objstore.Range{Offset: 4}, 10, 4, 6},
		{objstore.Range{Offset: 4, Length: 3}, 10, 4, 3},
		{objstore.Range{Offset: 8, Length: 3}, 10, 8, 2},
		{objstore.Range{Offset: 10, Length: 3}, 10, 10, 0},
		{objstore.Range{Offset: 99}, 10, 10, 0},
		{objstore.Range{Offset: -4}, 10, 6, 4},
		{objstore.Range{Offset: -4, Length: 2}, 10, 6, 2},
		{objstore.Range{Offset: -99}, 10, 0, 10},
	} {
		from, length, err := c.r.Clip(c.size)
		if err != nil || from != c.from || length != c.length {
			t.Errorf("%+v.Clip(%d) = %d, %d, %v, want %d, %d", c.r, c.size, from, length, err, c.from, c.length)
		}
	}
	if _, _, err := (objstore.Range{Length: -1}).Clip(10); err == nil {
		t.Error("a negative length is taken")
	}
}
