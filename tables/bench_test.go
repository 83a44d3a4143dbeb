package tables_test

import (
	"fmt"
	"testing"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// What one tiny transaction costs a table: an add of the size that engines write.

const stats = `"stats":"{\"numRecords\":1000,\"minValues\":{\"id\":1,\"day\":\"2020-01-01\",\"region\":\"eu\"},\"maxValues\":{\"id\":1000,\"day\":\"2020-01-01\",\"region\":\"us\"},\"nullCount\":{\"id\":0,\"day\":0,\"region\":0}}","tags":null,"baseRowId":null`

func smallPart(i int) []byte {
	return text(addLine(fmt.Sprintf("part-%05d-af08f887-922f-4c31-82a7-8e142c4280a6.c000.snappy.parquet", i), stats))
}

func BenchmarkStage(b *testing.B) {
	profile, piece := plain(b).profile(), smallPart(1)
	b.ReportAllocs()
	b.SetBytes(int64(len(piece)))
	for b.Loop() {
		a, err := tables.ParseActions(tableURI, tables.Limits{}, piece)
		if err != nil {
			b.Fatal(err)
		}
		if err := tables.Validate(a, profile); err != nil {
			b.Fatal(err)
		}
		if _, err := tables.PartFacts(a, profile, blind); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	in := tables.DigestInput{Table: "t", MetaDataID: tableID, Read: blind, Actions: smallPart(1)}
	b.ReportAllocs()
	for b.Loop() {
		tables.Digest(in)
	}
}

func BenchmarkParseMany(b *testing.B) {
	var piece []byte
	for i := range 10_000 {
		piece = append(piece, smallPart(i)...)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(piece)))
	for b.Loop() {
		if _, err := tables.ParseActions(tableURI, tables.Limits{}, piece); err != nil {
			b.Fatal(err)
		}
	}
}

func manyFacts(b *testing.B, n int, r tables.ReadDeclaration) []twophase.Facts {
	profile := plain(b).profile()
	out := make([]twophase.Facts, n)
	for i := range out {
		a, err := tables.ParseActions(tableURI, tables.Limits{}, smallPart(i))
		if err != nil {
			b.Fatal(err)
		}
		if out[i], err = tables.PartFacts(a, profile, r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(out[0])), "bytes/facts")
	return out
}

func BenchmarkConflict(b *testing.B) {
	facts := manyFacts(b, 2, at(0, tables.ReadNothing))
	b.ReportAllocs()
	for b.Loop() {
		if c := (tables.Rules{}).Checker().Conflict(facts[0], facts[1]); c != nil {
			b.Fatal(c)
		}
	}
}

func BenchmarkFitsAndTake(b *testing.B) {
	v := tables.NewView(plain(b).state())
	facts := manyFacts(b, 64, blind)
	b.ReportAllocs()
	for i := 0; b.Loop(); {
		trial := v.Try()
		for range facts {
			if c := trial.Fits(facts[i%64]); c != nil {
				b.Fatal(c)
			}
			trial.Take(facts[i%64])
			i++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/candidate")
}

func BenchmarkRender(b *testing.B) {
	in := renderOf(7)
	for i := range 64 {
		in.Txns = append(in.Txns, tables.RenderTxn{ID: txnID(byte(i)), Digests: []twophase.Digest{digestOf(byte(i))}, Pieces: [][]byte{smallPart(i)}, Blind: true})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tables.RenderCommit(in); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/transaction")
}

func BenchmarkState(b *testing.B) {
	f := plain(b)
	var lines []string
	for i := range 100_000 {
		lines = append(lines, string(smallPart(i)[:len(smallPart(i))-1]))
	}
	f.commit(lines...)
	b.ReportAllocs()
	for b.Loop() {
		f.state()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/file")
}
