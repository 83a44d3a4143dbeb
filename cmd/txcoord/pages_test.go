//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestQuickstartWorks runs docs/quickstart.md, but for what installs.
func TestQuickstartWorks(t *testing.T) {
	text, err := os.ReadFile("../../docs/quickstart.md")
	if err != nil {
		t.Fatal(err)
	}
	runScripts(t, needsBash(t), string(text))
}

func needsBash(t *testing.T) string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("skipped: the page is a script for bash, which is not here")
	}
	return bash
}

// TestPagesThatEndServers runs pages whose servers are ended and started again, in
// processes of their own.
func TestPagesThatEndServers(t *testing.T) {
	bash := needsBash(t)
	for _, page := range []string{"backup.md", "upgrade.md"} {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
			if err != nil {
				t.Fatal(err)
			}
			script := "set -euo pipefail\ntrap 'for j in $(jobs -p); do kill $j; done; wait' EXIT\n"
			for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
				script += m[1]
			}
			address := freeAddress(t)
			cmd := exec.CommandContext(t.Context(), bash, "-xc", script)
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), "PATH="+programFolder(t)+":"+os.Getenv("PATH"), "TXCOORD_SERVER="+address, "TXCOORD_LISTEN="+address)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// programFolder holds a txcoord that is this test's binary.
func programFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\n" + selfVariable + "=1 exec '" + os.Args[0] + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "txcoord"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}
