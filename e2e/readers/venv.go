package readers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

//go:embed py/*.py
var scripts embed.FS

//go:embed py/requirements.txt
var requirements []byte

// Python is a Python interpreter that has the engines' packages.
type Python struct {
	// Path is the interpreter.
	Path string
	// scripts is the folder that holds this package's scripts.
	scripts string
}

// finished is written into an environment last: without it, the environment is
// the remains of a build that was interrupted.
const finished = "finished"

// Open returns the environment, building it if there is none for these scripts,
// pinned packages and interpreter. Safe to call from several processes at once:
// one builds, the others wait.
func Open(ctx context.Context) (*Python, error) {
	system, err := exec.LookPath("python3")
	if err != nil {
		return nil, fmt.Errorf("%w: there is no python3 in the path", ErrUnavailable)
	}
	root, err := repositoryRoot()
	if err != nil {
		return nil, err
	}
	key, err := environmentKey(ctx, system)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(root, ".venv")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("make environment: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(folder, "lock"))
	if err != nil {
		return nil, fmt.Errorf("make environment: %w", err)
	}
	defer unlock()
	env := filepath.Join(folder, "readers-"+key)
	if err := buildOnce(ctx, system, env); err != nil {
		return nil, err
	}
	p := &Python{Path: interpreter(env)}
	if p.scripts, err = writeScripts(env); err != nil {
		return nil, fmt.Errorf("write scripts: %w", err)
	}
	return p, nil
}

func interpreter(env string) string {
	if runtime.GOOS == "windows" {
		return filepath.Join(env, "Scripts", "python.exe")
	}
	return filepath.Join(env, "bin", "python")
}

// repositoryRoot is the folder above the working directory that holds go.mod.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory, so no place for the environment")
		}
		dir = parent
	}
}

// environmentKey names what an environment is made from: the interpreter and its
// version, and the pinned packages.
func environmentKey(ctx context.Context, system string) (string, error) {
	version, err := exec.CommandContext(ctx, system, "-c", "import sys, venv; print(sys.executable, sys.version)").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: python3 with its venv module does not run: %w: %s", ErrUnavailable, err, tail(version))
	}
	return shortHash(version, requirements), nil
}

func shortHash(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d\n%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// buildOnce builds the environment unless a finished one is there. The caller
// holds the lock.
func buildOnce(ctx context.Context, system, env string) error {
	mark := filepath.Join(env, finished)
	if _, err := os.Stat(mark); err == nil {
		return nil
	}
	if err := os.RemoveAll(env); err != nil {
		return fmt.Errorf("clear environment: %w", err)
	}
	if err := run(ctx, system, "-m", "venv", env); err != nil {
		return err
	}
	packages := filepath.Join(env, "requirements.txt")
	if err := os.WriteFile(packages, requirements, 0o644); err != nil {
		return fmt.Errorf("pin packages: %w", err)
	}
	if err := run(ctx, interpreter(env), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", packages); err != nil {
		return err
	}
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		return fmt.Errorf("finish environment: %w", err)
	}
	return nil
}

func run(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: python3 %s: %w: %s", ErrUnavailable, strings.Join(args[:3], " "), err, tail(out))
	}
	return nil
}

// writeScripts puts the scripts beside the packages, in a folder named for their
// content, so that two states of this repository never share one. The caller holds
// the lock.
func writeScripts(env string) (string, error) {
	files, err := fs.Glob(scripts, "py/*.py")
	if err != nil {
		return "", err
	}
	var all [][]byte
	for _, name := range files {
		b, err := scripts.ReadFile(name)
		if err != nil {
			return "", err
		}
		all = append(all, []byte(name), b)
	}
	dir := filepath.Join(env, "scripts-"+shortHash(all...))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for i, name := range files {
		if err := writeOnce(filepath.Join(dir, filepath.Base(name)), all[2*i+1]); err != nil {
			return "", err
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

// tail is the end of a program's output, where the reason is.
func tail(out []byte) string {
	const most = 800
	text := strings.TrimSpace(string(out))
	if len(text) > most {
		text = "… " + text[len(text)-most:]
	}
	return text
}
