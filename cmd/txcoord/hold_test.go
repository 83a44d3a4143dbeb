package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestHoldOfWhatIsGone: a snapshot that cannot be read any more gets no tag and no lease.
func TestHoldOfWhatIsGone(t *testing.T) {
	s := startServer(t)
	root := s.table("orders")
	var at string
	for _, key := range []string{"1", "2", "3"} {
		file := filepath.Join(t.TempDir(), key)
		if err := os.WriteFile(file, []byte(`{"key":"`+key+`","tables":[{"table":"orders","blind":true,"actions":[`+line(add(key))+`]}]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		s.ok("commit", file)
		if key == "2" {
			at = line(s.ok("snapshot", "get", "-o", "id"))
		}
	}
	if err := os.Remove(filepath.Join(root, "_delta_log", "00000000000000000001.json")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"snapshot", "tag", "late", at}, {"snapshot", "lease", at}} {
		s.fails(9, args, "SNAPSHOT_OUT_OF_RANGE", "version 2 of table orders")
	}
	same(t, "", s.ok("snapshot", "tags", "-o", "id"))
}
