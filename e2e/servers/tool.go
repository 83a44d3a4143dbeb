//go:build unix

package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/e2e/toolcache"
)

// Tool returns the binary of a program that tests run, of a module below tools/, as it
// does with servers; or skips the test and says why there is none. Flags are those of
// `go build`.
func Tool(t testing.TB, module, pkg string, flags ...string) string {
	t.Helper()
	return require(t, func(ctx context.Context) (string, error) { return tool(ctx, module, pkg, flags...) })
}

// tool returns the binary of the one program of a module below tools/, which is named
// like it.
func tool(ctx context.Context, module, pkg string, flags ...string) (string, error) {
	return program(ctx, module, module, pkg, flags...)
}

// program returns the binary of a package in a module below tools/, building it if the
// cache holds none of this version. Safe to call from several processes at once:
// one builds, the others wait.
func program(ctx context.Context, module, name, pkg string, flags ...string) (string, error) {
	source, err := inRepository("tools", module)
	if err != nil {
		return "", err
	}
	key, err := sourceKey(source, flags)
	if err != nil {
		return "", fmt.Errorf("name the version of %s: %w", module, err)
	}
	cache, err := toolcache.Folder()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(cache, module+"-"+runtime.Version()+"-"+key, name)
	if isFile(binary) {
		return binary, nil
	}
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return "", fmt.Errorf("make cache folder: %w", err)
	}
	unlock, err := toolcache.Lock(ctx, filepath.Join(cache, module+".lock"))
	if err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	defer unlock()
	if isFile(binary) {
		return binary, nil
	}
	return binary, build(ctx, source, pkg, binary, flags)
}

// build compiles beside the binary's place and renames, so that what stands in the
// cache is complete.
func build(ctx context.Context, source, pkg, binary string, flags []string) error {
	part := binary + ".part"
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-o", part}, flags, []string{pkg})...)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: build %s: %w: %s", ErrUnavailable, pkg, err, tail(out))
	}
	if err := os.Rename(part, binary); err != nil {
		return fmt.Errorf("keep %s: %w", pkg, err)
	}
	return nil
}

// sourceKey is a hash over what a tool is built from, and how.
func sourceKey(source string, flags []string) (string, error) {
	names, err := filepath.Glob(filepath.Join(source, "*"))
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, name := range slices.Sorted(slices.Values(names)) {
		b, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", filepath.Base(name), len(b), b)
	}
	for _, f := range flags {
		fmt.Fprintf(h, "%s\n", f)
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// inRepository is a path below the folder that holds go.mod, above the working directory.
func inRepository(elems ...string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for !isFile(filepath.Join(dir, "go.mod")) {
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
	return filepath.Join(append([]string{dir}, elems...)...), nil
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// tail is the end of a program's output, where the reason is.
func tail(out []byte) string {
	const most = 800
	text := strings.TrimSpace(string(out))
	if len(text) > most {
		text = "… " + text[len(text)-most:]
	}
	return text
}
