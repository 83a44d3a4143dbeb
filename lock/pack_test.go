package lock_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/txcoord/txcoord/internal/allocs"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// commits is an entry like those under load: n transactions over three of a few tables.
func commits(n int) []byte {
	e := twophase.Entry{Header: twophase.Header{Catalog: "c", Incarnation: "1", Position: 42}}
	for i := range n {
		key := fmt.Sprint("job-", i)
		c := &twophase.Committed{Txn: twophase.DeriveTxnID("c", key, 1), Key: key, Attempt: 1, Begun: 41}
		for t := range 3 {
			c.Parts = append(c.Parts, twophase.Part{
				Table: twophase.TableID(fmt.Sprintf("6f1e4a6c-6f5b-4f53-9b5e-%012d", (i+t)%8)), MetaDataID: fmt.Sprintf("0d8f4a1f-8a52-4a6c-9b5e-%012d", (i+t)%8),
			})
		}
		e.Records = append(e.Records, c)
	}
	return e.Encode()
}

// What is packed is what is unpacked, and neither header nor checksum are harder to read.
func TestPackedEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := commits(rapid.IntRange(0, 40).Draw(t, "transactions"))
		p := lock.Pack(b)
		if len(p) > len(b) {
			t.Errorf("%d bytes are %d packed", len(b), len(p))
		}
		if got, err := lock.Unpack(p); err != nil || !bytes.Equal(got, b) {
			t.Errorf("unpacked: %x, %v\nwant %x", got, err, b)
		}
		if at, err := twophase.EntryPosition(p); err != nil || at != 42 {
			t.Errorf("position %d, %v", at, err)
		}
		if err := twophase.CheckEntry(p); err != nil {
			t.Error(err)
		}
	})
	if b := commits(12); 2*len(lock.Pack(b)) > len(b) {
		t.Errorf("%d bytes are %d packed", len(b), len(lock.Pack(b)))
	}
}

// Whatever happens to the bytes of a packed entry, nobody takes them for one.
func TestDamagedPackedEntries(t *testing.T) {
	p := lock.Pack(commits(12))
	refused := func(name string, damaged []byte) {
		t.Helper()
		b, err := lock.Unpack(damaged)
		if err == nil {
			_, err = twophase.DecodeEntry(b)
		}
		if !errors.Is(err, twophase.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range p {
		for bit := range 8 {
			damaged := slices.Clone(p)
			damaged[i] ^= 1 << bit
			refused(fmt.Sprintf("bit %d of byte %d", bit, i), damaged)
		}
		refused(fmt.Sprintf("the first %d bytes", i), p[:i])
	}
}

// Who can write to the store can also make checksums fit. What does not say how much is
// in it, says too much, or has more in it, is not unpacked.
func TestPackedByOthers(t *testing.T) {
	header, rest := twophase.SplitEntry(commits(12))
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	frame := e.EncodeAll(rest, nil)
	var unsized bytes.Buffer
	e.Reset(&unsized)
	for half := range slices.Chunk(rest, len(rest)/2) {
		if _, err := e.Write(half); err != nil {
			t.Fatal(err)
		}
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for name, frame := range map[string][]byte{
		"no frame": []byte("no frame"), "half of one": frame[:len(frame)/2], "two": append(slices.Clone(frame), frame...),
		"of unknown size": unsized.Bytes(), "of much more": e.EncodeAll(make([]byte, 1<<26), nil),
	} {
		value := twophase.PackEntry(header, frame)
		if n := allocs.Over(4<<20, func() { _, err = lock.Unpack(value) }); n != 0 {
			t.Errorf("%s: took %d bytes of memory", name, n)
		}
		if !errors.Is(err, twophase.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := lock.Unpack(twophase.PackEntry(header, frame)); err != nil || !bytes.Equal(got, append(header, rest...)) {
		t.Errorf("another level: %v", err)
	}
}

// FuzzUnpack: no value makes it panic or take memory out of proportion.
func FuzzUnpack(f *testing.F) {
	for _, n := range []int{0, 1, 12} {
		f.Add(lock.Pack(commits(n)))
	}
	header, _ := twophase.SplitEntry(commits(1))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, value := range [][]byte{b, twophase.PackEntry(header, b)} { // or hardly anything would get past the checksum
			if n := allocs.Over(1<<20+256*len(value), func() { _, _ = lock.Unpack(value) }); n != 0 {
				t.Errorf("%d bytes took %d bytes of memory", len(value), n)
			}
		}
	})
}

func BenchmarkPack(b *testing.B) {
	entry := commits(12)
	for b.Loop() {
		lock.Pack(entry)
	}
}

func BenchmarkUnpack(b *testing.B) {
	value := lock.Pack(commits(12))
	for b.Loop() {
		if _, err := lock.Unpack(value); err != nil {
			b.Fatal(err)
		}
	}
}
