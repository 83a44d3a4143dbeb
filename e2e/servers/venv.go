//go:build unix

package servers

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed moto.txt
var motoPackages []byte

// finished is written into an environment last: without it, the environment is the
// remains of a build that was interrupted.
const finished = "finished"

// venv returns the folder of programs of a virtual environment with the packages,
// building it if there is none for them and this interpreter. Safe to call from
// several processes at once: one builds, the others wait.
func venv(ctx context.Context, name string, packages []byte) (bin string, err error) {
	system, err := exec.LookPath("python3")
	if err != nil {
		return "", fmt.Errorf("%w: there is no python3 in the path", ErrUnavailable)
	}
	version, err := exec.CommandContext(ctx, system, "-c", "import sys, venv; print(sys.executable, sys.version)").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: python3 with its venv module does not run: %w: %s", ErrUnavailable, err, tail(version))
	}
	folder, err := inRepository(".venv")
	if err == nil {
		err = os.MkdirAll(folder, 0o755)
	}
	if err != nil {
		return "", fmt.Errorf("make environment: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(folder, name+".lock"))
	if err != nil {
		return "", fmt.Errorf("make environment: %w", err)
	}
	defer unlock()
	key := sha256.Sum256(append(version, packages...))
	env := filepath.Join(folder, name+"-"+hex.EncodeToString(key[:])[:12])
	return filepath.Join(env, "bin"), buildVenv(ctx, system, env, packages)
}

// buildVenv builds the environment unless a finished one is there. The caller holds
// the lock.
func buildVenv(ctx context.Context, system, env string, packages []byte) error {
	mark := filepath.Join(env, finished)
	if isFile(mark) {
		return nil
	}
	if err := os.RemoveAll(env); err != nil {
		return fmt.Errorf("clear environment: %w", err)
	}
	if err := python(ctx, system, "-m", "venv", env); err != nil {
		return err
	}
	list := filepath.Join(env, "requirements.txt")
	if err := os.WriteFile(list, packages, 0o644); err != nil {
		return fmt.Errorf("pin packages: %w", err)
	}
	if err := python(ctx, filepath.Join(env, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", list); err != nil {
		return err
	}
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		return fmt.Errorf("finish environment: %w", err)
	}
	return nil
}

func python(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: python3 %s: %w: %s", ErrUnavailable, strings.Join(args[:3], " "), err, tail(out))
	}
	return nil
}
