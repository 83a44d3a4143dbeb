package twophase_test

import (
	"testing"

	"github.com/txcoord/txcoord/twophase"
)

// BenchmarkLoadCheckpoint is what a start does with the checkpoint of so many remembered
// transactions, without reading it: hashes, segments by themselves, and the fold made of
// them, which nobody else can do.
func BenchmarkLoadCheckpoint(b *testing.B) {
	const txns = 200_000
	index, segments := newLong(b, 12).more(txns).state.EncodeCheckpoint("bench")
	b.Run("hash", func(b *testing.B) {
		for b.Loop() {
			for _, o := range segments {
				if err := o.Ref.Check(o.Bytes); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	decode := func(b *testing.B) (all []*twophase.Segment) {
		for _, o := range segments {
			s, err := twophase.DecodeSegment(o.Bytes)
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, s)
		}
		return all
	}
	b.Run("segments", func(b *testing.B) {
		for b.Loop() {
			decode(b)
		}
	})
	b.Run("fold", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			all := decode(b)
			b.StartTimer()
			if _, err := twophase.LoadCheckpoint(index.Bytes, all); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkApply is what a start does with the entries behind a checkpoint, without
// reading them.
func BenchmarkApply(b *testing.B) {
	const txns = 14_000
	l := newLong(b, 12)
	index, segments := l.state.EncodeCheckpoint("bench")
	var entries [][]byte
	l.kept = &entries
	l.more(txns)
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			for _, e := range entries {
				if _, err := twophase.DecodeEntry(e); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("fold", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			var all []*twophase.Segment
			for _, o := range segments {
				s, err := twophase.DecodeSegment(o.Bytes)
				if err != nil {
					b.Fatal(err)
				}
				all = append(all, s)
			}
			s, err := twophase.LoadCheckpoint(index.Bytes, all)
			if err != nil {
				b.Fatal(err)
			}
			var decoded []*twophase.Entry
			for _, e := range entries {
				d, err := twophase.DecodeEntry(e)
				if err != nil {
					b.Fatal(err)
				}
				decoded = append(decoded, d)
			}
			b.StartTimer()
			for i, e := range decoded {
				if err := s.Apply(e, twophase.HashOf(entries[i])); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
