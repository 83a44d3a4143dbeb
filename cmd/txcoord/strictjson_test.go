package main

import (
	"strings"
	"testing"
)

// TestCommitFileIsReadToTheLetter: encoding/json decodes a second list into the entries
// of the first, so that a repeated "tables" went to another table with the members that
// only the first one had.
func TestCommitFileIsReadToTheLetter(t *testing.T) {
	const one = `{"table":"o","blind":true,"actions":[{"add":{}}]}`
	for text, says := range map[string]string{
		"{\"key\":\"k\",\n\"tables\":[" + one + "],\n\"tables\":[{\"table\":\"other\"}]}":           "f: line 3: tables: is there twice",
		`{"key":"k","key":"l","tables":[` + one + `]}`:                                              "key: is there twice",
		`{"key":"k","tables":[{"table":"o","blind":true,"blind":false,"actions":[{"add":{}}]}]}`:    "tables.blind: is there twice",
		`{"key":"k","tables":[{"table":"o","blind":true,"actions":[{"add":{"size":1,"size":2}}]}]}`: "tables.actions.add.size: is there twice",
		`{"key":"k","tables":[{"table":"o","readVersion":1,"readPartitions":[{"p":"1","p":"2"}]}]}`: "tables.readPartitions.p: is there twice",
		`{"Key":"k","tables":[` + one + `]}`:                                                        `unknown field "Key"; did you mean "key"?`,
		`{"key":"k","TABLES":[` + one + `]}`:                                                        `unknown field "TABLES"; did you mean "tables"?`,
		`{"key":"k","tables":[{"table":"o","BLIND":true,"actions":[{"add":{}}]}]}`:                  `unknown field "BLIND"`,
		`{"key":"k","tables":[{"table":"o","create":{"Location":"/x"}}]}`:                           `unknown field "Location"`,
		`{"key":"k","tables":[{"table":"o","alter":{"addColumns":[{"Name":"/x"}]}}]}`:               `unknown field "Name"`,
		`{"key":"k","tables":[{"table":"o","reading":1}]}`:                                          `unknown field "reading"`,
		`{"key":"k","":1,"tables":[` + one + `]}`:                                                   `unknown field ""`,
		"{\"key\":\"k\\ud800\",\"tables\":[" + one + "]}":                                           "half a surrogate pair",
		"{\"key\":\"k\xff\",\"tables\":[" + one + "]}":                                              "not valid UTF-8",
	} {
		_, err := parseCommit("f", []byte(text))
		if err == nil || !strings.Contains(err.Error(), says) || exitCode(err) != exitUsage {
			t.Errorf("%s\ngives %v, want %q in it", text, err, says)
		}
	}
	// Names inside of actions and maps are the table's own.
	whole := `{"key":"k","attempt":2,"releases":null,"tables":[{"table":"o","readVersion":1,"readPartitions":[{"Key":null}],"alter":{"set":{"Key":"v"}},"actions":[{"add":{"Key":1,"key":2}}]}]}`
	if _, err := parseCommit("f", []byte(whole)); err != nil {
		t.Error(err)
	}
}
