package objstore

import (
	"fmt"
	"strings"
)

// CheckKey says what is wrong with a key. Every store refuses the same ones, so
// that a catalog can be moved between stores, and so that no key leads out of a
// folder: segments are never empty, "." or "..", and hold no NUL byte.
func CheckKey(key string) error {
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("key %q: segment %q is not allowed", key, segment)
		}
	}
	if strings.IndexByte(key, 0) >= 0 {
		return fmt.Errorf("key %q: NUL byte is not allowed", key)
	}
	return nil
}

// CheckPrefix is CheckKey for the prefix of a listing, which may be empty and may
// end anywhere in a segment.
func CheckPrefix(prefix string) error {
	folder := prefix[:strings.LastIndexByte(prefix, '/')+1]
	if folder == "" {
		return nil
	}
	return CheckKey(strings.TrimSuffix(folder, "/"))
}

// Clip resolves a range against an object of a size: from where, and how many
// bytes. What lies past either end is left out, down to nothing at all, so a
// reader may ask for the last 64 KiB of whatever there is.
func (r Range) Clip(size int64) (from, length int64, err error) {
	if r.Length < 0 {
		return 0, 0, fmt.Errorf("range of %d bytes", r.Length)
	}
	from = r.Offset
	if from < 0 {
		from = max(0, size+from)
	}
	from = min(from, size)
	length = size - from
	if r.Length > 0 {
		length = min(length, r.Length)
	}
	return from, length, nil
}
