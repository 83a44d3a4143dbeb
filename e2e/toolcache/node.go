package toolcache

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Node returns the folder with the modules of npm packages, each `name@version`, and
// of what they depend on. Their install scripts are not run. Safe to call from several
// processes at once.
func Node(ctx context.Context, name string, packages ...string) (string, error) {
	folder, err := Folder()
	if err != nil {
		return "", err
	}
	unlock, err := Lock(ctx, filepath.Join(folder, name+".lock"))
	if err != nil {
		return "", fmt.Errorf("install node packages: %w", err)
	}
	defer unlock()
	dir := filepath.Join(folder, name+"-"+shortHash([]byte(strings.Join(packages, "\n"))))
	return filepath.Join(dir, "node_modules"), buildOnce(dir, func() error { return install(ctx, dir, packages) })
}

func install(ctx context.Context, dir string, packages []string) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return fmt.Errorf("%w: there is no npm in the path, to install %s", ErrUnavailable, strings.Join(packages, ", "))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return run(ctx, npm, append([]string{"install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", "--silent"}, packages...)...)
}
