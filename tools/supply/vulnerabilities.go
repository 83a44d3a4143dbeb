package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/vuln/scan"
)

// vulnerabilities looks for code that is known to be vulnerable and is called.
type vulnerabilities struct {
	root     string
	packages []string
	db       string
	std      bool
	out      io.Writer
	scan     func(ctx context.Context, db, level string) ([]finding, error)
}

// finding is one line of govulncheck's output, as far as we need it.
type finding struct {
	OSV   string `json:"osv"`
	Fixed string `json:"fixed_version"`
	Trace []struct {
		Module   string `json:"module"`
		Version  string `json:"version"`
		Package  string `json:"package"`
		Function string `json:"function"`
	} `json:"trace"`
}

const standard = "stdlib"

// check scans twice only where it has to: which packages are vulnerable is known in
// seconds, whether the code in question is called only after a minute, and what is not
// imported is not called.
func (v vulnerabilities) check(ctx context.Context) error {
	db, err := v.database(ctx)
	if err != nil {
		return err
	}
	imported, err := v.scan(ctx, db, "package")
	if err != nil {
		return err
	}
	imported = slices.DeleteFunc(imported, func(f finding) bool { return f.Trace[0].Package == "" })
	std, others := split(imported)
	if len(others) > 0 || v.std && len(std) > 0 {
		called, err := v.scan(ctx, db, "symbol")
		if err != nil {
			return err
		}
		called = slices.DeleteFunc(called, func(f finding) bool { return f.Trace[0].Function == "" })
		std, others = split(called)
	}
	if v.std {
		others = append(others, std...)
	} else if len(std) > 0 {
		fmt.Fprintf(v.out, "WARNING: Go's own library is imported with known vulnerabilities; build releases with a newer Go:\n%s", report(std))
	}
	if len(others) > 0 {
		return fmt.Errorf("vulnerable code is called; take a version in which it is mended:\n%s", report(others))
	}
	fmt.Fprintln(v.out, "no known vulnerability in the modules that are used")
	return nil
}

func split(all []finding) (std, others []finding) {
	for _, f := range all {
		if f.Trace[0].Module == standard {
			std = append(std, f)
		} else {
			others = append(others, f)
		}
	}
	return std, others
}

// report names each vulnerability once.
func report(all []finding) string {
	var lines []string
	for _, f := range all {
		at := f.Trace[0]
		mended := "mended in " + f.Fixed
		if f.Fixed == "" {
			mended = "mended in no version"
		}
		lines = append(lines, fmt.Sprintf("  %s in %s %s, %s: https://pkg.go.dev/vuln/%s\n", f.OSV, at.Module, at.Version, mended, f.OSV))
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "")
}

// database returns the URL of what is asked.
func (v vulnerabilities) database(ctx context.Context) (string, error) {
	if v.db != "" {
		return v.db, nil
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", "golang.org/x/vulndb")
	out, err := cmd.Output()
	var module struct{ Version, Dir, Error string }
	if jsonErr := json.Unmarshal(out, &module); jsonErr != nil {
		return "", fmt.Errorf("download the database of vulnerabilities: %w", errors.Join(err, jsonErr, stderr(err)))
	}
	if module.Error != "" || err != nil {
		return "", fmt.Errorf("download the database of vulnerabilities: %s: %w", module.Error, err)
	}
	fmt.Fprintf(v.out, "database of vulnerabilities: golang.org/x/vulndb %s\n", module.Version)
	return "file://" + filepath.ToSlash(filepath.Join(module.Dir, "data", "osv")), nil
}

func stderr(err error) error {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return errors.New(string(exit.Stderr))
	}
	return nil
}

// govulncheck scans at a level: module, package or symbol.
func (v vulnerabilities) govulncheck(ctx context.Context, db, level string) ([]finding, error) {
	var out, messages bytes.Buffer
	args := append([]string{"-C", v.root, "-db", db, "-format", "json", "-scan", level}, v.packages...)
	cmd := scan.Command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("govulncheck %s: %w\n%s", strings.Join(args, " "), err, &messages)
	}
	return findings(&out)
}

// findings reads govulncheck's output. One without the line that says what was scanned
// is none.
func findings(r io.Reader) ([]finding, error) {
	var all []finding
	scanned := false
	for dec := json.NewDecoder(r); ; {
		var m struct {
			Config  *struct{} `json:"config"`
			Finding *finding  `json:"finding"`
		}
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			if !scanned {
				return nil, errors.New("govulncheck said nothing")
			}
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read what govulncheck says: %w", err)
		}
		scanned = scanned || m.Config != nil
		if m.Finding != nil && len(m.Finding.Trace) > 0 {
			all = append(all, *m.Finding)
		}
	}
}
