package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/txcoord/txcoord/tables/datafile"
)

const page = "../../docs/cli.md"

// TestDocumentedCommandsWork runs docs/cli.md from top to bottom, as a reader
// would.
func TestDocumentedCommandsWork(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("skipped: the page is a script for bash, which is not here")
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	runScripts(t, bash, string(text))
}

// TestReadmeWorks runs what README.md says under "Use it", but for the build.
func TestReadmeWorks(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("skipped: the page is a script for bash, which is not here")
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, use, _ := strings.Cut(string(text), "## Use it")
	use, _, _ = strings.Cut(use, "From Go")
	before, after, ok := strings.Cut(use, "go build -o bin/ ./cmd/txcoord && export PATH=$PWD/bin:$PATH\n")
	if !ok {
		t.Fatal("the page begins with something else")
	}
	runScripts(t, bash, before+after)
}

// runScripts runs a page's scripts one after the other, in a folder of their own.
func runScripts(t *testing.T, bash, text string) {
	t.Helper()
	script := "set -euo pipefail\ntrap 'kill %1; wait' EXIT\n" + inProcess
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		script += m[1]
	}
	calls := t.TempDir()
	t.Chdir(t.TempDir())
	t.Setenv(selfVariable, "1") // for the servers of the demo
	parquet(t, "new-orders.parquet", []datafile.Column{{Name: "id", Type: "long", Nullable: true}}, []any{int64(1)}, []any{int64(2)})
	stop := answerCalls(t, calls)
	cmd := exec.CommandContext(t.Context(), bash, "-xc", script)
	cmd.Env = append(os.Environ(), "CALLS="+calls)
	out, err := cmd.CombinedOutput()
	stop()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// inProcess is a txcoord for bash that has each call made in the test's process,
// because a binary with the race detector takes most of a second to start.
const inProcess = `txcoord() {
  local call code
  call=$(mktemp -d "$CALLS/XXXXXX")
  mkfifo "$call/code"
  printf '%s\0' "$@" > "$call/args"
  if [ -p /dev/stdin ] || [ -f /dev/stdin ]; then cat > "$call/in"; else : > "$call/in"; fi
  echo "$call" > "$CALLS/queue"
  read -r code < "$call/code"
  cat "$call/out"
  cat "$call/err" >&2
  return "$code"
}
`

// answerCalls serves the script until stop, which ends what still runs.
func answerCalls(t *testing.T, folder string) (stop func()) {
	t.Helper()
	queueName := filepath.Join(folder, "queue")
	if out, err := exec.Command("mkfifo", queueName).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	queue, err := os.OpenFile(queueName, os.O_RDWR, 0) // a writer of our own keeps it open
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	env := map[string]string{"TXCOORD_SERVER": address, "TXCOORD_LISTEN": address}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		for lines := bufio.NewScanner(queue); lines.Scan(); {
			call := lines.Text()
			all.Go(func() {
				if err := answerCall(ctx, call, env); err != nil {
					t.Errorf("call %s: %v", call, err)
				}
			})
		}
	})
	return func() {
		cancel()
		queue.Close()
		all.Wait()
	}
}

func answerCall(ctx context.Context, call string, env map[string]string) error {
	args, err := os.ReadFile(filepath.Join(call, "args"))
	if err != nil {
		return err
	}
	stdin, err := os.Open(filepath.Join(call, "in"))
	if err != nil {
		return err
	}
	defer stdin.Close()
	var out, stderr bytes.Buffer
	code := run(ctx, strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00"), stdin, &out, &stderr, func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
	err = errors.Join(os.WriteFile(filepath.Join(call, "out"), out.Bytes(), 0o600), os.WriteFile(filepath.Join(call, "err"), stderr.Bytes(), 0o600))
	if ctx.Err() != nil {
		return err // the script is over, and nobody waits for the code
	}
	return errors.Join(err, os.WriteFile(filepath.Join(call, "code"), []byte(strconv.Itoa(code)+"\n"), 0o600))
}

// TestEveryFlagIsDocumented: each command stands in a script of the page, each flag
// somewhere on it.
func TestEveryFlagIsDocumented(t *testing.T) {
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	parser, err := kong.New(&commands{}, kong.Vars{"server": defaultServer, "stores": storeForms(), "rebuild_losses": rebuildLosses()})
	if err != nil {
		t.Fatal(err)
	}
	leaves := 0
	for _, leaf := range parser.Model.Leaves(true) {
		leaves++
		if path := "txcoord " + leaf.Path(); !strings.Contains(text, "\n"+path) && !strings.Contains(text, "("+path) && !strings.Contains(text, "  "+path) {
			t.Errorf("no script has %s", path)
		}
		for _, flag := range slices.Concat(leaf.Flags, parser.Model.Flags) {
			if flag.Name != "help" && !strings.Contains(text, "--"+flag.Name) {
				t.Errorf("%s: --%s is not documented", leaf.Path(), flag.Name)
			}
		}
	}
	if leaves < 20 {
		t.Errorf("found %d commands", leaves)
	}
}
