package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// TestCommitFileKeepsActionsByteForByte: only white space between tokens goes.
func TestCommitFileKeepsActionsByteForByte(t *testing.T) {
	got, err := parseCommit("f", []byte(`{"key": "k", "tables": [{"table": "orders", "actions": [
		{ "add" : {"path":"a b.parquet", "size": 9007199254740993, "x": 1.0, "y": 1e400, "esc": "\u003c<\/é", "new": {"b":1,"a":2} } },
		{"txn":{"appId":"a","version":9223372036854775807}}
	]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"add":{"path":"a b.parquet","size":9007199254740993,"x":1.0,"y":1e400,"esc":"\u003c<\/é","new":{"b":1,"a":2}}}
{"txn":{"appId":"a","version":9223372036854775807}}
`
	same(t, want, string(got.GetTables()[0].GetActions()))
}

func TestCommitFileReads(t *testing.T) {
	day := "2026-11-29"
	for name, c := range map[string]struct {
		table string
		want  *txcoordv1.ReadDeclaration
	}{
		"blind by itself":   {`"actions": [{"add":{}},{"txn":{}},{"commitInfo":{}}]`, client.Blind()},
		"blind":             {`"blind": true, "actions": [{"add":{}}]`, client.Blind()},
		"version 0":         {`"readVersion": 0, "actions": [{"remove":{}}]`, client.AtVersion(0, nil)},
		"snapshot, table":   {`"readSnapshot": 7, "readTable": true, "actions": [{"add":{}}]`, client.AtSnapshot(7, client.WholeTable())},
		"files":             {`"readVersion": 3, "readFiles": ["a","b"], "actions": [{"add":{}}]`, client.AtVersion(3, client.Files("a", "b"))},
		"partitions":        {`"readVersion": 3, "readPartitions": [{"day":"2026-11-29","city":null}], "actions": [{"add":{}}]`, client.AtVersion(3, client.Partitions(client.Partition{"day": &day, "city": nil}))},
		"apps and the rest": {`"readVersion": 3, "readApps": ["x"], "isolation": "write-serializable", "actions": [{"add":{}}]`, &txcoordv1.ReadDeclaration{Point: &txcoordv1.ReadDeclaration_Version{Version: 3}, Apps: []string{"x"}, Isolation: txcoordv1.Isolation_ISOLATION_WRITE_SERIALIZABLE}},
	} {
		got, err := parseCommit("f", []byte(`{"key":"k","attempt":2,"tables":[{"table":"orders",`+c.table+`}],"reads":[{"table":"c","readVersion":1,"readTable":true}]}`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(c.want, got.GetTables()[0].GetRead(), protocmp.Transform()); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		want := []*txcoordv1.ReadParticipant{{Table: "c", Read: client.AtVersion(1, client.WholeTable())}}
		if d := cmp.Diff(want, got.GetReads(), protocmp.Transform()); d != "" || got.GetAttempt() != 2 {
			t.Errorf("%s: attempt %d, reads (-want +got):\n%s", name, got.GetAttempt(), d)
		}
	}
}

func TestCommitFilesThatAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		"":                                     "f: line 1: it is empty",
		"{\n\"key\": \"k\",\n\"tables\": [}":   "f: line 3",
		`{"key":"k","Tablse":[]}`:              `unknown field "Tablse"`,
		`{"key":7}`:                            "key is a JSON number, and has to be a string",
		`{"key":"k","tables":{}}`:              "tables is a JSON object, and has to be a list",
		`[]`:                                   "the transaction is a JSON array, and has to be an object",
		"{\"key\":\"k\",\n\"attempt\": \"1\"}": "f: line 2",
		`{"key":"k","tables":[{"table":"o","readversion2":1}]}`:                                             `unknown field "readversion2"`,
		`{"key":"k","tables":[{"table":"o","read_version":1}]}`:                                             `unknown field "read_version"; did you mean "readVersion"?`,
		`{"key":"k","tables":[{"table":"o","actions":[{"add":{}},{"replace":{}}]}]}`:                        `action: "replace": there is no such action; there are add, remove`,
		`{"key":"k","tables":[{"table":"o","actions":[{"add":{}}]}]} {}`:                                    "something stands behind",
		`{"tables":[{"table":"o","actions":[{"add":{}}]}]}`:                                                 "f: key",
		`{"key":"k","tables":[]}`:                                                                           "f: tables",
		`{"key":"k","tables":[{"table":"o","actions":["x"]}]}`:                                              `tables[0]: "o": actions[0] is not an object`,
		`{"key":"k","tables":[{"table":"o","actions":[{"remove":{}}]}]}`:                                    "readVersion: say at which version",
		`{"key":"k","tables":[{"table":"o","actions":[]}]}`:                                                 "there is no action",
		`{"key":"k","tables":[{"table":"o","readTable":true,"actions":[{"add":{}}]}]}`:                      "readVersion: say at which version",
		`{"key":"k","tables":[{"table":"o","blind":true,"readVersion":1,"actions":[{"add":{}}]}]}`:          "give one of it, readVersion and readSnapshot",
		`{"key":"k","tables":[{"table":"o","readVersion":1,"readTable":true,"readFiles":["a"]}]}`:           "give one of it, readFiles and readPartitions",
		`{"key":"k","tables":[{"table":"o","readVersion":1,"isolation":"none","actions":[{"add":{}}]}]}`:    "serializable or write-serializable",
		`{"key":"k","tables":[{"table":"o","actions":[{"add":{}}]}],"reads":[{"table":"c","blind":false}]}`: "reads[0]",
	} {
		_, err := parseCommit("f", []byte(text))
		if err == nil || !strings.Contains(err.Error(), says) || exitCode(err) != exitUsage {
			t.Errorf("%s\ngives %v, want %q in it", text, err, says)
		}
	}
}
