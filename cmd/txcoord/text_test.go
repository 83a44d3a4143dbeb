package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWordsThatAreNoText: two keys that differ in a bad byte were one key, and serve
// opened another folder than the one that it was given.
func TestWordsThatAreNoText(t *testing.T) {
	folder := t.TempDir()
	for _, c := range []struct {
		env  map[string]string
		args []string
		says string
	}{
		{nil, []string{"tx", "begin", "--key", "a\xff"}, "--key: "},
		{nil, []string{"tx", "begin", "--key=a\xff"}, "--key: "},
		{nil, []string{"-o", "json", "tables", "describe", "t\xff"}, "argument 5: "},
		{nil, []string{"serve", "--warehouse", folder + "/l\xe9"}, "--warehouse: "},
		{map[string]string{"TXCOORD_WAREHOUSE": folder + "/l\xe9"}, []string{"serve"}, "$TXCOORD_WAREHOUSE: "},
		{map[string]string{"TXCOORD_CATALOG": "a\xff"}, []string{"status"}, "$TXCOORD_CATALOG: "},
		{map[string]string{"TXCOORD_TOKEN": "a\xff"}, []string{"status"}, "$TXCOORD_TOKEN: "},
	} {
		got := txcoord(t, c.env, "", c.args...)
		if got.code != exitUsage || !strings.Contains(got.stderr, c.says) || !strings.Contains(got.stderr, "UTF-8") {
			t.Errorf("%q: exit %d, %s", c.args, got.code, got.stderr)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestFilesThatAreNoText(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("warehouse: x\nlisten: \"\xe9\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"commit", file},
		{"tx", "stage", "t", file, "--token", "x"},
		{"config", "check", file},
		{"serve", "--config", file},
		{"access", "check", file},
		{"tables", "create", "t", "/t", "--schema", "@" + file},
	} {
		got := txcoord(t, nil, "", args...)
		if got.code != exitUsage || !strings.Contains(got.stderr, "UTF-8") || !strings.Contains(got.stderr, file) {
			t.Errorf("%q: exit %d, %s", args, got.code, got.stderr)
		}
	}
	if got := txcoord(t, nil, "{\"key\":\"\xff\"}", "commit", "-"); got.code != exitUsage || !strings.Contains(got.stderr, "standard input") {
		t.Errorf("standard input: exit %d, %s", got.code, got.stderr)
	}
}

// TestErrorsOfTheParserFollowOutput: a script that asked for JSON gets it, whatever is
// wrong with its command line.
func TestErrorsOfTheParserFollowOutput(t *testing.T) {
	for _, args := range [][]string{
		{"-o", "json", "nosuch"}, {"tables", "list", "-ojson", "--nosuch"}, {"--output=json", "tables"}, {"tables", "list", "--output", "json", "--limit", "x"},
	} {
		got := txcoord(t, nil, "", args...)
		if got.code != exitUsage || !strings.HasPrefix(got.stderr, `{"error":{"exit":2`) {
			t.Errorf("%q: exit %d, %s", args, got.code, got.stderr)
		}
	}
}
