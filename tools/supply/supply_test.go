package main // of a command, which cannot be imported

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// found is what govulncheck says of one vulnerability in a module, as deep as its code is
// reached: only required, imported, or called.
func found(module, depth string) string {
	frame := map[string]string{
		"module":  `{"module": "` + module + `", "version": "v1.0.0"}`,
		"package": `{"module": "` + module + `", "version": "v1.0.0", "package": "p"}`,
		"symbol":  `{"module": "` + module + `", "version": "v1.0.0", "package": "p", "function": "F"}`,
	}[depth]
	return `{"finding": {"osv": "GO-1", "fixed_version": "v1.0.1", "trace": [` + frame + `]}}`
}

func TestVulnerabilities(t *testing.T) {
	for _, c := range []struct {
		name, imported, called string
		std                    bool
		scans                  string
		err, warning           string
	}{
		{"none", "", "", false, "package", "", ""},
		{"a module that is not imported", found("m", "module"), "", false, "package", "", ""},
		{"imported and not called", found("m", "package"), found("m", "package"), false, "package symbol", "", ""},
		{"called", found("m", "package"), found("m", "symbol"), false, "package symbol", "GO-1 in m v1.0.0, mended in v1.0.1", ""},
		{"standard library", found(standard, "package"), "", false, "package", "", "GO-1 in stdlib"},
		{"standard library, for a release", found(standard, "package"), found(standard, "symbol"), true, "package symbol", "GO-1 in stdlib", ""},
		{"standard library, not called, for a release", found(standard, "package"), found(standard, "package"), true, "package symbol", "", ""},
		{"both", found(standard, "package") + found("m", "package"), found(standard, "symbol") + found("m", "symbol"), false, "package symbol", "in m v1.0.0", "in stdlib"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			var scans []string
			v := vulnerabilities{db: "file:///db", std: c.std, out: &out, scan: func(_ context.Context, _, level string) ([]finding, error) {
				scans = append(scans, level)
				return findings(strings.NewReader(`{"config": {}}` + map[string]string{"package": c.imported, "symbol": c.called}[level]))
			}}
			err := v.check(t.Context())
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if strings.Contains(out.String(), "WARNING") != (c.warning != "") || !strings.Contains(out.String(), c.warning) {
				t.Errorf("said %q, want a warning with %q", &out, c.warning)
			}
			if got := strings.Join(scans, " "); got != c.scans {
				t.Errorf("scanned %s, want %s", got, c.scans)
			}
		})
	}
}

// What was not scanned has no findings, and is not clean for that.
func TestSilenceIsNoScan(t *testing.T) {
	for _, said := range []string{"", `{"progress": {}}`, "nonsense"} {
		if _, err := findings(strings.NewReader(said)); err == nil {
			t.Errorf("%q counts as a scan", said)
		}
	}
	broken := errors.New("no database")
	v := vulnerabilities{db: "file:///db", out: &bytes.Buffer{}, scan: func(context.Context, string, string) ([]finding, error) { return nil, broken }}
	if err := v.check(t.Context()); !errors.Is(err, broken) {
		t.Errorf("a scan that failed: %v", err)
	}
}

func TestClassify(t *testing.T) {
	apache, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, want, err string }{
		{"LICENSE", string(apache), "Apache-2.0", ""},
		{"LICENSE", mit, "MIT", ""},
		{"NOTICE", "by somebody", "", ""},
		{"COPYING", "This is free software; do with it what you like, but for evil.", "", "look at it"},
		{"LICENSE", beer, "", "licence Beerware is not among"},
	} {
		names, err := classify(document{c.name, c.text})
		if got := strings.Join(names, ", "); got != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s %.20q: %s, %v; want %s, %s", c.name, c.text, got, err, c.want, c.err)
		}
	}
}

const beer = `"THE BEER-WARE LICENSE" (Revision 42): <phk@FreeBSD.ORG> wrote this file. As long as you retain this notice you can do whatever you want with this stuff. If we meet some day, and you think this stuff is worth it, you can buy me a beer in return Poul-Henning Kamp
`

const mit = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:
The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.
THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`

func TestModulesHaveLicences(t *testing.T) {
	dir := t.TempDir()
	m := module{path: "m", dir: dir, dirs: []string{dir, filepath.Join(dir, "sub")}}
	if err := os.Mkdir(m.dirs[1], 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := m.licences(); err == nil || !strings.Contains(err.Error(), "no licence") {
		t.Errorf("without a licence: %v", err)
	}
	if err := os.WriteFile(filepath.Join(m.dirs[1], "LICENSE.txt"), []byte(mit), 0o644); err != nil {
		t.Fatal(err)
	}
	found, err := m.licences()
	if err != nil || len(found.files) != 1 || found.files[0].name != "sub/LICENSE.txt" || page([]licensed{found}) != listHead+"| `m` | MIT |\n" {
		t.Errorf("%v, %v", found, err)
	}
	l := licences{root: dir, check: true}
	if err := l.put("sub/LICENSE.txt", mit+"more"); err == nil || !strings.Contains(err.Error(), "make licences") {
		t.Errorf("a stale list: %v", err)
	}
	if err := l.put("sub/LICENSE.txt", mit); err != nil {
		t.Errorf("a list as it should be: %v", err)
	}
}
