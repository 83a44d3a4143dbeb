package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// allowed are the licences that let everybody pass the program on, in their SPDX names,
// with the texts kept. Another one is a decision, not an oversight.
var allowed = []string{
	"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC", "MIT", "PostgreSQL", "Unlicense", "Zlib",
}

// least is how much of a licence's file the classifier must have recognised, in
// percent: the rest is the names of who wrote it.
const least = 60

type licences struct {
	root        string
	packages    []string
	list, texts string
	check       bool
}

// licensed is a module with the texts that stand in it.
type licensed struct {
	module string
	names  []string // SPDX
	files  []document
}

type document struct {
	name string // below the module's folder
	text string
}

func (l licences) run(ctx context.Context) error {
	modules, err := l.modules(ctx)
	if err != nil {
		return err
	}
	var all []licensed
	var refused []error
	for _, m := range modules {
		found, err := m.licences()
		refused = append(refused, err)
		all = append(all, found)
	}
	if err := errors.Join(refused...); err != nil {
		return err
	}
	if err := l.put(l.list, page(all)); err != nil {
		return err
	}
	return l.put(l.texts, texts(all))
}

// put writes a file, or compares with it. A name that is empty is not wanted.
func (l licences) put(name, text string) error {
	if name == "" {
		return nil
	}
	name = filepath.Join(l.root, name)
	if !l.check {
		return os.WriteFile(name, []byte(text), 0o644)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if string(b) != text {
		return fmt.Errorf("%s is not what the modules say; run make licences and look at the difference", name)
	}
	return nil
}

var fileName = regexp.MustCompile(`(?i)^(un)?(licen[sc]e|copying|notice|patents)(\.(txt|md)|-.*)?$`)

// licences reads the texts of a module: those in its own folder, and in those of the
// packages that we use, which may be by somebody else.
func (m module) licences() (licensed, error) {
	found := licensed{module: m.path}
	for _, dir := range m.dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return found, err
		}
		for _, e := range entries {
			if e.IsDir() || !fileName.MatchString(e.Name()) {
				continue
			}
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return found, err
			}
			name, err := filepath.Rel(m.dir, filepath.Join(dir, e.Name()))
			if err != nil {
				return found, err
			}
			d := document{name: filepath.ToSlash(name), text: string(b)}
			found.files = append(found.files, d)
			names, err := classify(d)
			if err != nil {
				return found, fmt.Errorf("%s: %w", m.path, err)
			}
			found.names = append(found.names, names...)
		}
	}
	slices.Sort(found.names)
	found.names = slices.Compact(found.names)
	if len(found.names) == 0 {
		return found, fmt.Errorf("%s: no licence was found in it", m.path)
	}
	return found, nil
}

// classify names the licences of a text, and refuses those that are not allowed and
// texts that nobody knows.
func classify(d document) ([]string, error) {
	base := strings.ToLower(filepath.Base(d.name))
	if strings.HasPrefix(base, "notice") || strings.HasPrefix(base, "patents") {
		return nil, nil // names, and grants beside the licence
	}
	cover := licensecheck.Scan([]byte(d.text))
	if cover.Percent < least {
		return nil, fmt.Errorf("%s: %.0f %% of it is known to be a licence; look at it", d.name, cover.Percent)
	}
	var names []string
	for _, match := range cover.Match {
		if !slices.Contains(allowed, match.ID) {
			return nil, fmt.Errorf("%s: licence %s is not among those that are allowed: %s", d.name, match.ID, strings.Join(allowed, ", "))
		}
		names = append(names, match.ID)
	}
	return names, nil
}
