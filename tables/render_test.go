package tables_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

func txnID(b byte) twophase.TxnID {
	return twophase.TxnID(bytes.Repeat([]byte{b}, 16))
}

func digestOf(b byte) twophase.Digest { return twophase.Digest(bytes.Repeat([]byte{b}, 32)) }

// oneTxn is a version with one transaction of the given pieces.
func oneTxn(pieces ...[]byte) tables.RenderInput {
	t := tables.RenderTxn{ID: txnID(0xa1), Pieces: pieces}
	for i := range pieces {
		t.Digests = append(t.Digests, digestOf(byte(i+1)))
	}
	return renderOf(7, t)
}

func renderOf(marker twophase.ChangeNumber, txns ...tables.RenderTxn) tables.RenderInput {
	return tables.RenderInput{
		Catalog: "cat", Incarnation: "inc-1", Round: "12.0", EngineVersion: "1.2.3", Time: 1764432000000, Marker: marker, Txns: txns,
	}
}

func TestRenderCommit(t *testing.T) {
	append1 := tables.RenderTxn{ID: txnID(0xa1), Digests: []twophase.Digest{digestOf(1)}, Pieces: [][]byte{text(addLine("a"))}, Blind: true}
	append2 := tables.RenderTxn{ID: txnID(0xb2), Digests: []twophase.Digest{digestOf(2)}, Pieces: [][]byte{[]byte(`{"commitInfo":{"operation":"lost"}}` + "\n" + addLine("b"))}, Blind: true}
	reader := append2
	reader.Blind = false
	timed := newFixture(t).commit(featureProtocol(nil, []string{"inCommitTimestamp"}), metaOf(schemaJSON, nil, `"delta.enableInCommitTimestamps":"true"`))
	withICT := renderOf(3, append1)
	withICT.Tail, withICT.Later = timed.tail(), 2
	barrier := renderOf(6)
	barrier.NotApplied = []tables.TxnRef{{ID: txnID(0xa1), Digest: digestOf(1)}, {ID: txnID(0xa1), Digest: digestOf(2)}}
	odd := renderOf(1, append1)
	odd.Catalog, odd.Round = "ca\"t<&>\n", "r\\1"
	shared, alone, wide := append1, append2, append1
	shared.Tables, alone.Tables = []twophase.TableID{"t2", "t1"}, []twophase.TableID{"t1"}
	wide.ID = txnID(0xc3)
	for i := range 200 {
		wide.Tables = append(wide.Tables, twophase.TableID(fmt.Sprint("w", i)))
	}
	again := shared
	again.ID = txnID(0xd4)
	for name, in := range map[string]tables.RenderInput{
		"one":           renderOf(7, append1),
		"of two tables": renderOf(9, shared, alone, wide, again),
		"of one table":  renderOf(9, alone),
		"client-info": oneTxn(text(
			`{"commitInfo":{"timestamp":1,"operation":"MERGE","operationParameters":{"predicate":"a < b && c > d","n":9007199254740993},"engineInfo":"Spark/4","isBlindAppend":true,"txnId":"theirs","readVersion":9223372036854775807,"operationMetrics":{"numOutputRows":"3"},"userMetadata":"<é>","inCommitTimestamp":5,"nothing":null,"tags":{"mine":"1","n":2,"txcoord.catalog":"forged","delta.multiTableTransaction.transactionId":"forged"}}}`,
			addLine("x<y>&z"))),
		"pieces":                 oneTxn([]byte(addLine("a")), []byte("\n"+addLine("b")+"\r\n\n  \n"), []byte(` { "commitInfo" : { "operation" : "OPTIMIZE" } }`+"\n"+txnLine("job", 1<<60))),
		"several":                renderOf(9, append1, append2),
		"several, not all blind": renderOf(9, append1, reader),
		"in-commit timestamp":    withICT,
		"barrier":                barrier,
		"escapes":                odd,
	} {
		t.Run(name, func(t *testing.T) {
			rendered, err := tables.RenderCommit(in)
			if err != nil {
				t.Fatal(err)
			}
			got := rendered.Data
			golden(t, "render/"+fileName(name)+".json", got)
			if again, err := tables.RenderCommit(in); err != nil || !bytes.Equal(again.Data, got) {
				t.Errorf("rendered again: %v, other bytes", err)
			}
			for i, line := range bytes.Split(bytes.TrimSuffix(got, []byte("\n")), []byte("\n")) {
				if !json.Valid(line) {
					t.Errorf("line %d is not JSON: %s", i+1, line)
				}
			}
			readBack(t, in, got)
		})
	}
}

// readBack checks that a walk recognises what was rendered.
func readBack(t *testing.T, in tables.RenderInput, raw []byte) {
	t.Helper()
	c, err := tables.ParseCommit(tableURI, 1, raw)
	if err != nil {
		t.Fatal(err)
	}
	tags, err := c.Tags(in.Catalog)
	if err != nil {
		t.Fatal(err)
	}
	want := &tables.Tags{Catalog: in.Catalog, Incarnation: in.Incarnation, Round: in.Round, NotApplied: in.NotApplied}
	var ids []twophase.TxnID
	several := slices.ContainsFunc(in.Txns, func(txn tables.RenderTxn) bool { return len(txn.Tables) > 1 })
	for _, txn := range in.Txns {
		ids = append(ids, txn.ID)
		if several {
			p := tables.Participants{Count: len(txn.Tables)}
			if len(txn.Tables) <= 128 {
				p.Tables = slices.Sorted(slices.Values(txn.Tables))
			}
			want.Participants = append(want.Participants, p)
		}
		for _, d := range txn.Digests {
			want.Transactions = append(want.Transactions, tables.TxnRef{ID: txn.ID, Digest: d})
		}
	}
	if diff := cmp.Diff(want, tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(ids, tags.Txns()); diff != "" {
		t.Errorf("transactions (-want +got):\n%s", diff)
	}
	if m, ok := c.Marker(in.Catalog); !ok || m != in.Marker {
		t.Errorf("marker %d, %t, want %d", m, ok, in.Marker)
	}
	if c.Timestamp != in.Time || in.Tail != nil && c.InCommitTimestamp != in.Time-2 {
		t.Errorf("times %d, %d", c.Timestamp, c.InCommitTimestamp)
	}
}

var fileName = strings.NewReplacer(" ", "-", ",", "").Replace

// golden compares with a file in testdata, or writes it with -rewrite.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := "testdata/" + name
	if *rewrite {
		if err := os.MkdirAll(file[:strings.LastIndexByte(file, '/')], 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// The payload is published byte for byte.
func TestRenderKeepsBytes(t *testing.T) {
	lines := []string{
		`{"add":{"path":"a%20b","partitionValues":{},"size":9007199254740993,"modificationTime":1,"dataChange":true,"new":{"x":[1e400,-0.0]},"stats":"{\"a\":\"\\u003c\"}","tags":null}}`,
		`  {"txn": {"appId":"\u00e9<>&", "version": 3}}  `,
	}
	got, err := tables.RenderCommit(oneTxn([]byte(strings.Join(lines, "\n"))))
	if err != nil {
		t.Fatal(err)
	}
	body := strings.SplitN(string(got.Data), "\n", 3)[2]
	if want := strings.Join(lines, "\n") + "\n"; body != want {
		t.Errorf("got\n%s\nwant\n%s", body, want)
	}
}

func TestRenderCommitRefuses(t *testing.T) {
	both := oneTxn(text(addLine("a")))
	both.NotApplied = []tables.TxnRef{{}}
	for name, in := range map[string]tables.RenderInput{"nothing": renderOf(1), "both": both} {
		if got, err := tables.RenderCommit(in); err == nil {
			t.Errorf("%s: got %s", name, got.Data)
		}
	}
}
