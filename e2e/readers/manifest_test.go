package readers_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/e2e/readers"
)

// TestTheReaderOfTheManual runs the reader that docs/manifest.md shows, on files that are
// made by that page's words: however snapshots share files, it finds each of them.
func TestTheReaderOfTheManual(t *testing.T) {
	p := readers.Require(t)
	page, err := os.ReadFile("../../docs/manifest.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(page), "```python\n")
	code, _, ok := strings.Cut(code, "\n```")
	if !ok {
		t.Fatal("docs/manifest.md has no reader in Python")
	}
	script := filepath.Join(t.TempDir(), "read.py")
	if err := os.WriteFile(script, []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	read := func(folder string, wanted ...any) (string, error) {
		args := []string{script, folder}
		for _, w := range wanted {
			args = append(args, fmt.Sprint(w))
		}
		out, err := exec.CommandContext(t.Context(), p.Path, args...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	for seed := range uint64(3) {
		folder := t.TempDir()
		files := writeManifests(t, folder, rand.New(rand.NewPCG(seed, 0)), 12)
		for _, wanted := range [][]any{{}, {12}, {1}, {5}, {8}, {11}} {
			k := 12
			if len(wanted) > 0 {
				k = wanted[0].(int)
			}
			got, err := read(folder, wanted...)
			if diff := cmp.Diff(answer(t, k), got); err != nil || diff != "" {
				t.Errorf("seed %d, snapshot %v: %v (-want +got):\n%s", seed, wanted, err, diff)
			}
		}
		if out, err := read(folder, 13); err == nil || !strings.Contains(out, "no manifest 13") {
			t.Errorf("a snapshot that there is not: %s", out)
		}
		missing := files[len(files)-2]
		if err := os.Remove(filepath.Join(folder, fmt.Sprintf("%020d.json", missing))); err != nil {
			t.Fatal(err)
		}
		out, err := read(folder)
		if covered := strings.Contains(out, "[12,"); (err == nil) != covered || err != nil && !strings.Contains(out, fmt.Sprint("no manifest ", missing)) {
			t.Errorf("seed %d, without manifest %d: %s", seed, missing, out)
		}
	}
}

func versionAt(k int) (a, b int) { return k - 1, k / 3 }

// answer is what the reader prints of a snapshot.
func answer(t *testing.T, k int) string {
	t.Helper()
	a, b := versionAt(k)
	tables := fmt.Sprintf(`{"a": ["file:///a", %d]`, a)
	if k >= 3 && k < 11 {
		tables += fmt.Sprintf(`, "b": ["file:///b", %d]`, b)
	}
	return fmt.Sprintf("[%d, %s}]", k, tables)
}

// writeManifests writes so many snapshots, each file a range; full ones where some end. The
// table b comes with snapshot 3 and leaves with 11.
func writeManifests(t *testing.T, folder string, rng *rand.Rand, snapshots int) (files []int) {
	t.Helper()
	row := func(name string, version int) map[string]any {
		return map[string]any{"id": "t-" + name, "name": name, "uri": "file:///" + name, "version": version}
	}
	write := func(name string, full bool, all []map[string]any) {
		doc := map[string]any{"format": 2, "catalog": "c", "incarnation": "1", "snapshots": all}
		if full {
			doc["full"] = true
		}
		b, err := json.Marshal(doc)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for first := 1; first <= snapshots; {
		last := min(first+rng.IntN(4), snapshots)
		if first == 1 {
			last = 2 // so that there are two files at least
		}
		var all []map[string]any
		for k := first; k <= last; k++ {
			a, b := versionAt(k)
			s := map[string]any{"snapshot": k, "timestamp": k, "kind": "publication", "transactions": []string{}}
			tables := []any{row("a", a)}
			if k%3 == 0 && k < 11 {
				tables = append(tables, row("b", b))
			}
			if k == 11 {
				s["removed"] = []string{"t-b"}
			}
			s["tables"] = tables
			all = append(all, s)
		}
		write(fmt.Sprintf("%020d.json", first), false, all)
		if rng.IntN(2) == 0 {
			a, b := versionAt(last)
			tables := []any{row("a", a)}
			if last >= 3 && last < 11 {
				tables = append(tables, row("b", b))
			}
			s := map[string]any{"snapshot": last, "timestamp": last, "kind": "publication", "transactions": []string{}, "tables": tables}
			write(fmt.Sprintf("%020d.checkpoint.json", last), true, []map[string]any{s})
		}
		files, first = append(files, first), last+1
	}
	return files
}
