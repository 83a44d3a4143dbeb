package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// platforms are those of the releases: what is linked differs between them.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}

// module is one that is linked, with the folders of its own in which a licence may
// stand: that of the module and those down to the packages that are used.
type module struct {
	path, dir string
	dirs      []string
}

// modules lists what is linked on any platform, but for what is ours, by path.
func (l licences) modules(ctx context.Context) ([]module, error) {
	found := map[string]*module{}
	for _, platform := range platforms {
		packages, err := l.linked(ctx, platform)
		if err != nil {
			return nil, err
		}
		for _, p := range packages {
			if p.Module == nil || p.Module.Main {
				continue
			}
			m := found[p.Module.Path]
			if m == nil {
				m = &module{path: p.Module.Path, dir: p.Module.Dir}
				found[m.path] = m
			}
			for dir := p.Dir; strings.HasPrefix(dir, m.dir) && !slices.Contains(m.dirs, dir); dir = filepath.Dir(dir) {
				m.dirs = append(m.dirs, dir)
			}
		}
	}
	var all []module
	for _, m := range found {
		slices.Sort(m.dirs)
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

type linked struct {
	Dir    string
	Module *struct {
		Path, Dir string
		Main      bool
	}
}

func (l licences) linked(ctx context.Context, platform string) ([]linked, error) {
	goos, goarch, _ := strings.Cut(platform, "/")
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-json=Dir,Module"}, l.packages...)...)
	cmd.Dir = l.root
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages for %s: %w", platform, errors.Join(err, stderr(err)))
	}
	var all []linked
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p linked
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the packages for %s: %w", platform, err)
		}
		all = append(all, p)
	}
}
