// Package python_test runs the Python client's own tests, on a server of this checkout,
// and makes its stubs from the .proto files.
package python_test

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/e2e/toolcache"
)

var rewrite = flag.Bool("rewrite", false, "write the stubs anew instead of comparing them")

//go:embed requirements-test.txt
var requirements []byte

const requireVariable = "TXCOORD_REQUIRE_READERS"

// python is an interpreter that has what the client needs.
func python(t *testing.T) string {
	t.Helper()
	v, err := toolcache.OpenVenv(t.Context(), "client", requirements)
	switch {
	case errors.Is(err, toolcache.ErrUnavailable) && os.Getenv(requireVariable) != "1":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	return v.Python()
}

func run(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	return cmd.CombinedOutput()
}

// TestClient runs tests/ against servers that it starts and kills.
func TestClient(t *testing.T) {
	t.Parallel()
	interpreter := python(t)
	program := filepath.Join(t.TempDir(), "txcoord")
	if out, err := run(t.Context(), nil, "go", "build", "-o", program, "../../cmd/txcoord"); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	env := []string{"TXCOORD_BIN=" + program, "PYTHONPATH=.", "PYTHONDONTWRITEBYTECODE=1"}
	out, err := run(t.Context(), env, interpreter, "-W", "error::DeprecationWarning:txcoord", "-m", "unittest", "discover", "-v", "-s", "tests")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("\nOK")) || bytes.Contains(out, []byte("Ran 0 tests")) {
		t.Errorf("that ran no tests:\n%s", out)
	}
}

// TestStubs compares the generated stubs with what the .proto files say.
func TestStubs(t *testing.T) {
	t.Parallel()
	interpreter := python(t)
	into := t.TempDir()
	if *rewrite {
		into = "."
	}
	protos, err := filepath.Glob("../../proto/txcoord/v1/*.proto")
	if err != nil || len(protos) == 0 {
		t.Fatalf("no .proto files: %v", err)
	}
	args := append([]string{"-m", "grpc_tools.protoc", "-I../../proto", "--python_out=" + into, "--pyi_out=" + into, "--grpc_python_out=" + into}, protos...)
	if out, err := run(t.Context(), nil, interpreter, args...); err != nil {
		t.Fatalf("protoc: %v\n%s", err, out)
	}
	stubs := func(root string) map[string]string {
		out := map[string]string{}
		err := filepath.WalkDir(filepath.Join(root, "txcoord", "v1"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.Contains(d.Name(), "_pb2") || strings.HasSuffix(d.Name(), ".pyc") {
				return err
			}
			b, err := os.ReadFile(path)
			out[d.Name()] = string(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want, got := stubs(into), stubs(".")
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is stale: run go test ./clients/python -run Stubs -rewrite, and commit", name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s belongs to no .proto file: remove it", name)
		}
	}
}
