package tables

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/txcoord/txcoord/twophase"
)

// pointer is the content of _last_checkpoint.
type pointer struct {
	Version, Size, SizeInBytes, Adds int64
	V2                               *pointerV2
}

// pointerV2 is what it says of a V2 checkpoint. Readers may take the actions from
// here, so they are either all there or left out.
type pointerV2 struct {
	Path           string
	Size, Modified int64
	// Actions that are no file actions, and Sidecars, each as a line; nil: too many.
	Actions, Sidecars [][]byte
}

// mostInPointer is Spark's bound for the actions and for the sidecars in the pointer.
const mostInPointer = 30

// putPointer points _last_checkpoint to a checkpoint, unless it points to a newer
// one. It is a hint: readers list from there on, so that going back, which two
// writers at once can bring about, costs nobody more than a longer listing.
func (k *Keeper) putPointer(ctx context.Context, p pointer) error {
	now, err := k.log.hint(ctx)
	if err != nil {
		return err
	}
	if now.version > twophase.Version(p.Version) {
		return nil
	}
	text, err := p.encode()
	if err != nil {
		return err
	}
	if err := k.log.Store.Put(ctx, k.log.prefix+pointerName, text); err != nil {
		return fmt.Errorf("put %s: %w", pointerName, err)
	}
	return nil
}

// encode puts the version first, so that a torn file still gives it.
func (p pointer) encode() ([]byte, error) {
	out := fmt.Appendf(nil, `{"version":%d,"size":%d,"sizeInBytes":%d,"numOfAddFiles":%d`, p.Version, p.Size, p.SizeInBytes, p.Adds)
	if p.V2 != nil {
		out = append(append(out, `,"v2Checkpoint":`...), p.V2.encode()...)
	}
	sum, err := pointerChecksum(append(slices.Clone(out), '}'))
	if err != nil {
		return nil, fmt.Errorf("checksum of %s: %w", pointerName, err)
	}
	return fmt.Appendf(out, `,"checksum":"%s"}`, sum), nil
}

func (v *pointerV2) encode() []byte {
	out := append([]byte(`{"path":`), appendQuoted(nil, v.Path)...)
	out = fmt.Appendf(out, `,"sizeInBytes":%d,"modificationTime":%d`, v.Size, v.Modified)
	if v.Actions != nil {
		out = append(appendArray(append(out, `,"nonFileActions":[`...), v.Actions), ']')
	}
	if v.Sidecars != nil {
		out = append(appendArray(append(out, `,"sidecarFiles":[`...), v.Sidecars), ']')
	}
	return append(out, '}')
}

func appendArray(dst []byte, values [][]byte) []byte {
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, v...)
	}
	return dst
}

// pointerChecksum is the MD5 of the canonical form of a _last_checkpoint: every leaf
// as path=value, sorted by path. An object with a member twice has none.
func pointerChecksum(text []byte) (string, error) {
	var leaves []leaf
	if err := canonicalLeaves(bytes.TrimSpace(text), nil, &leaves); err != nil {
		return "", err
	}
	slices.SortFunc(leaves, func(a, b leaf) int { return strings.Compare(a.path, b.path) })
	sum := md5.New()
	for i, l := range leaves {
		if i > 0 {
			sum.Write([]byte{','})
		}
		sum.Write([]byte(l.path + "=" + l.value))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

type leaf struct{ path, value string }

// canonicalLeaves collects the leaves of a value. Paths are joined by +; names and
// strings are quoted and percent-encoded, positions and other values stand bare.
func canonicalLeaves(raw []byte, path []string, out *[]leaf) error {
	switch {
	case len(raw) > 0 && raw[0] == '{':
		return canonicalMembers(raw, path, out)
	case len(raw) > 0 && raw[0] == '[':
		c := cursor{b: raw, i: 1}
		for n := 0; ; {
			more, err := c.element(&n)
			if err != nil || !more {
				return err
			}
			value, err := c.value()
			if err != nil {
				return err
			}
			if err := canonicalLeaves(value, append(path, strconv.Itoa(n-1)), out); err != nil {
				return err
			}
		}
	}
	value := string(raw)
	if text, ok := textOf(raw); ok {
		value = percentQuoted(text)
	}
	*out = append(*out, leaf{strings.Join(path, "+"), value})
	return nil
}

func canonicalMembers(raw []byte, path []string, out *[]leaf) error {
	c := cursor{b: raw, i: 1}
	seen := map[string]bool{}
	for n := 0; ; {
		name, more, err := c.key(&n)
		if err != nil || !more {
			return err
		}
		if seen[string(name)] {
			return fmt.Errorf("member %q is there twice", name)
		}
		seen[string(name)] = true
		value, err := c.value()
		if err != nil {
			return err
		}
		if len(path) == 0 && string(name) == "checksum" {
			continue
		}
		if err := canonicalLeaves(value, append(path, percentQuoted(string(name))), out); err != nil {
			return err
		}
	}
}

func percentQuoted(s string) string {
	const upper = "0123456789ABCDEF"
	out := []byte{'"'}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0:
			out = append(out, c)
		default:
			out = append(out, '%', upper[c>>4], upper[c&15])
		}
	}
	return string(append(out, '"'))
}
