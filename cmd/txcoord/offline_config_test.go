package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Commands that open the store themselves take a server's file, as far as they have its flags:
// who needs them has no time to write all of it again.
func TestOfflineCommandsTakeAConfigurationFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "txcoord.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const served = "warehouse: lake\nstore: bolt:journal.db\nlisten: 127.0.0.1:0\nmaintain: true\nlimit:\n  default_ttl: 1h\n"
	write(served)
	t.Run("serving", func(t *testing.T) {
		s := &server{t: t, warehouse: filepath.Join(dir, "lake"), env: map[string]string{"TXCOORD_SERVER": serving(t, "--config", file)}}
		s.ok("tables", "create", "orders", filepath.Join(dir, "lake", "orders"), "--schema", schema)
	})
	run := func(code int, env map[string]string, args []string, says ...string) {
		t.Helper()
		wantCode(t, args, txcoord(t, env, "", args...), code, says...)
	}
	named := map[string]string{"TXCOORD_CONFIG": file}
	run(0, nil, []string{"fsck", "--config", file})
	run(0, named, []string{"fsck"})
	run(0, nil, []string{"store", "check", "--config", file})
	write("catalog: another\nwarehouse: lake\n")
	run(6, nil, []string{"fsck", "--config", file}, "there is no file", filepath.Join("_txcoord", "another.db"))
	write(served)
	run(0, named, []string{"store", "init"})
	run(6, nil, []string{"fsck", "--config", file, "--store", "bolt:" + filepath.Join(dir, "other.db")}, "there is no file", "other.db")
	run(0, nil, []string{"rebuild", "--config", file, "--store", "bolt:" + filepath.Join(dir, "other.db"), "--dry-run"})
	run(2, nil, []string{"store", "move", "--config", file, "--to", "nowhere:"}, `--to: "nowhere:"`)
	run(0, nil, []string{"store", "move", "--config", file, "--to", "bolt:" + filepath.Join(dir, "moved.db")})
	run(6, nil, []string{"serve", "--config", file}, "has moved to", "moved.db")

	write("warehouse: lake\nstroe: bolt:journal.db\n")
	run(2, nil, []string{"fsck", "--config", file}, file+`, line 2: there is no "stroe"`, `"store"`)
	write("warehouse: lake\nstore: \"nowhere:\"\n")
	run(2, nil, []string{"rebuild", "--config", file, "--dry-run"}, file+", line 2: store")
}
