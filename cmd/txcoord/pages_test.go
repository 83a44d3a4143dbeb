//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/e2e/servers"
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
			text, _, _ := strings.Cut(readPage(t, page), etcdSection)
			runProcesses(t, bash, text, programFolder(t))
		})
	}
}

// TestTokenPage runs what docs/security.md says of a token and its entry, which are whole then,
// and apart.
func TestTokenPage(t *testing.T) {
	runProcesses(t, needsBash(t), readPage(t, "security.md")+`
`+"```sh"+`
[ $(wc -w < etl.token) = 1 ]
[ "$(stat -c %a etl.token 2>/dev/null || stat -f %Lp etl.token)" = 600 ]
grep -q '^txcoord_' "$TXCOORD_TOKEN_FILE"
if grep -q txcoord_ etl-entry.yaml; then exit 1; fi
grep -q "$(printf %s "$(cat etl.token)" | { sha256sum 2>/dev/null || shasum -a 256; } | cut -d ' ' -f 1)" access.yaml
txcoord access check access.yaml --principal token:etl
`+"```"+`
`, programFolder(t))
}

const etcdSection = "## etcd, step by step"

// TestEtcdBackupPage runs what docs/backup.md says of etcd, with its server and its tools,
// at other addresses.
func TestEtcdBackupPage(t *testing.T) {
	bash := needsBash(t)
	_, text, ok := strings.Cut(readPage(t, "backup.md"), etcdSection)
	if !ok {
		t.Fatal("the page says nothing of etcd")
	}
	// At once: the free port that takes the place of one may begin with the other one.
	text = strings.NewReplacer("127.0.0.1:2379", freeAddress(t), "127.0.0.1:2380", freeAddress(t)).Replace(text)
	runProcesses(t, bash, text, programFolder(t), servers.EtcdPrograms(t))
}

func readPage(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// runProcesses runs a page's scripts as one, with programs from folders, in processes.
func runProcesses(t *testing.T, bash, text string, folders ...string) {
	t.Helper()
	script := "set -euo pipefail\ntrap 'for j in $(jobs -p); do kill $j; done; wait' EXIT\n"
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		script += m[1]
	}
	address := freeAddress(t)
	cmd := exec.CommandContext(t.Context(), bash, "-xc", script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+strings.Join(append(folders, os.Getenv("PATH")), ":"), "TXCOORD_SERVER="+address, "TXCOORD_LISTEN="+address)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
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
