package toolcache

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Jars returns the files of artifacts, each `group:artifact:version`, without what
// they depend on. Maven fetches those that are not in the cache. Safe to call from
// several processes at once.
func Jars(ctx context.Context, name string, artifacts ...string) ([]string, error) {
	folder, err := Folder()
	if err != nil {
		return nil, err
	}
	unlock, err := Lock(ctx, filepath.Join(folder, name+".lock"))
	if err != nil {
		return nil, fmt.Errorf("fetch jars: %w", err)
	}
	defer unlock()
	dir := filepath.Join(folder, name+"-"+shortHash([]byte(strings.Join(artifacts, "\n"))))
	if err := buildOnce(dir, func() error { return fetch(ctx, dir, artifacts) }); err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(dir, "*.jar"))
}

func fetch(ctx context.Context, dir string, artifacts []string) error {
	maven, err := exec.LookPath("mvn")
	if err != nil {
		return fmt.Errorf("%w: there is no mvn in the path, to fetch %s", ErrUnavailable, strings.Join(artifacts, ", "))
	}
	for _, a := range artifacts {
		err := run(ctx, maven, "--batch-mode", "--quiet", copyGoal, "-Dartifact="+a, "-DoutputDirectory="+dir)
		if err != nil {
			return err
		}
	}
	return nil
}

// copyGoal is pinned like everything else.
const copyGoal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
