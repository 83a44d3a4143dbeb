package tables

// Inside the package, because the checksum and the pieces that an object is read in
// show nowhere else by themselves.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
)

// TestPointerChecksum: the first is the vector in the protocol's text; the others
// are its rules, one by one.
func TestPointerChecksum(t *testing.T) {
	const vector = `{"k0":"'v 0'", "checksum": "adsaskfljadfkjadfkj", "k1":{"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}`
	got, err := pointerChecksum([]byte(vector))
	if err != nil || got != "6a92d155a59bf2eecbd4b4ec7fd1f875" {
		t.Errorf("the protocol's vector: got %s, %v", got, err)
	}
	same := func(a, b string) {
		t.Helper()
		x, errX := pointerChecksum([]byte(a))
		y, errY := pointerChecksum([]byte(b))
		if x != y || errX != nil || errY != nil {
			t.Errorf("%s and %s: %s, %s (%v, %v)", a, b, x, y, errX, errY)
		}
	}
	same(`{"a":1,"b":{"c":[true,null],"d":"x"}}`, ` { "b" : {"d":"\u0078","c": [ true , null ]}, "checksum":"any", "a":1 } `)
	same(`{"a":"é"}`, `{"a":"\u00e9"}`)
	if _, err := pointerChecksum([]byte(`{"a":1,"a":1}`)); err == nil {
		t.Error("a member twice: no error")
	}
}

func TestPointerChecksumSortsByPath(t *testing.T) {
	var leaves []leaf
	if err := canonicalLeaves([]byte(`{"k":["€+",0.50,{}, [], "a"]}`), nil, &leaves); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(leaves), `[{"k"+0 "%E2%82%AC%2B"} {"k"+1 0.50} {"k"+4 "a"}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLinesBackward(t *testing.T) {
	store, ctx := memobj.New(), context.Background()
	for name, lines := range map[string][]string{
		"one":         {"x"},
		"blank lines": {"a", "", "  ", "b\r", ""},
		"long ones":   {strings.Repeat("a", pieceBytes-1), "b", strings.Repeat("c", 3*pieceBytes), strings.Repeat("d", pieceBytes)},
	} {
		for _, end := range []string{"", "\n"} {
			text := strings.Join(lines, "\n") + end
			if err := store.Put(ctx, "k", []byte(text)); err != nil {
				t.Fatal(err)
			}
			info, err := store.Stat(ctx, "k")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			err = linesBackward(ctx, store, info, func(line []byte) error {
				got = append([]string{string(line)}, got...)
				return nil
			})
			var want []string
			for _, l := range lines {
				if strings.TrimSpace(l) != "" {
					want = append(want, l)
				}
			}
			if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("%s: got %d lines, %v", name, len(got), err)
			}
		}
	}
	if err := store.Put(ctx, "k", []byte("other")); err != nil {
		t.Fatal(err)
	}
	if err := linesBackward(ctx, store, objstore.Info{Key: "k", Size: 4}, nil); err == nil {
		t.Error("an object that changed: no error")
	}
}

func TestPieceReader(t *testing.T) {
	store, ctx := memobj.New(), context.Background()
	data := make([]byte, 40*pieceBytes+17)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	if err := store.Put(ctx, "k", data); err != nil {
		t.Fatal(err)
	}
	info, err := store.Stat(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	p := newPieceReader(ctx, store, info)
	for range 500 {
		at := r.Int64N(int64(len(data)))
		buf := make([]byte, r.Int64N(2*pieceBytes))
		n, err := p.ReadAt(buf, at)
		want := data[at:min(at+int64(len(buf)), int64(len(data)))]
		if !bytes.Equal(want, buf[:n]) || (n < len(buf)) != errors.Is(err, io.EOF) {
			t.Fatalf("%d bytes at %d: got %d, %v", len(buf), at, n, err)
		}
		if len(p.pieces) > piecesKept {
			t.Fatalf("%d pieces are kept", len(p.pieces))
		}
	}
}
