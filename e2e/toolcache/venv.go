package toolcache

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Venv is a Python environment with pinned packages.
type Venv struct{ dir string }

// OpenVenv returns the environment with these packages, building it if there is
// none for them and this machine's interpreter. Safe to call from several processes
// at once: one builds, the others wait.
func OpenVenv(ctx context.Context, name string, requirements []byte) (Venv, error) {
	system, err := exec.LookPath("python3")
	if err != nil {
		return Venv{}, fmt.Errorf("%w: there is no python3 in the path", ErrUnavailable)
	}
	version, err := exec.CommandContext(ctx, system, "-c", "import sys, venv; print(sys.executable, sys.version)").CombinedOutput()
	if err != nil {
		return Venv{}, fmt.Errorf("%w: python3 with its venv module does not run: %w: %s", ErrUnavailable, err, tail(version))
	}
	folder, err := Folder()
	if err != nil {
		return Venv{}, err
	}
	unlock, err := Lock(ctx, filepath.Join(folder, name+".lock"))
	if err != nil {
		return Venv{}, fmt.Errorf("make environment: %w", err)
	}
	defer unlock()
	v := Venv{filepath.Join(folder, name+"-"+shortHash(version, requirements))}
	return v, buildOnce(v.dir, func() error { return v.build(ctx, system, requirements) })
}

func (v Venv) build(ctx context.Context, system string, requirements []byte) error {
	if err := run(ctx, system, "-m", "venv", v.dir); err != nil {
		return err
	}
	packages := filepath.Join(v.dir, "requirements.txt")
	if err := os.WriteFile(packages, requirements, 0o644); err != nil {
		return fmt.Errorf("pin packages: %w", err)
	}
	return run(ctx, v.Python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", packages)
}

// Python is the environment's interpreter.
func (v Venv) Python() string {
	if runtime.GOOS == "windows" {
		return filepath.Join(v.Bin(), "python.exe")
	}
	return filepath.Join(v.Bin(), "python")
}

// Bin is the folder of its programs.
func (v Venv) Bin() string {
	if runtime.GOOS == "windows" {
		return filepath.Join(v.dir, "Scripts")
	}
	return filepath.Join(v.dir, "bin")
}

// Scripts puts the files that fit a pattern beside the packages, in a folder named
// for their content, so that two states of the repository never share one.
func (v Venv) Scripts(ctx context.Context, from fs.FS, pattern string) (string, error) {
	files, err := fs.Glob(from, pattern)
	if err != nil {
		return "", err
	}
	var all [][]byte
	for _, name := range files {
		b, err := fs.ReadFile(from, name)
		if err != nil {
			return "", err
		}
		all = append(all, []byte(name), b)
	}
	unlock, err := Lock(ctx, filepath.Join(v.dir, "scripts.lock"))
	if err != nil {
		return "", fmt.Errorf("write scripts: %w", err)
	}
	defer unlock()
	dir := filepath.Join(v.dir, "scripts-"+shortHash(all...))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("write scripts: %w", err)
	}
	for i, name := range files {
		if err := writeOnce(filepath.Join(dir, filepath.Base(name)), all[2*i+1]); err != nil {
			return "", fmt.Errorf("write scripts: %w", err)
		}
	}
	return dir, nil
}

// writeOnce leaves a complete file alone: another process may be running it.
func writeOnce(name string, b []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, b) {
		return nil
	}
	return os.WriteFile(name, b, 0o644)
}

func run(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s %s: %w: %s", ErrUnavailable, filepath.Base(name), strings.Join(args[:3], " "), err, tail(out))
	}
	return nil
}
