// In-package: the command has no other face than its flags.
package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/bench/measure"
)

func TestRunWritesTextAndJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.json")
	var out strings.Builder
	err := run(t.Context(), []string{
		"-run", "B1,B2", "-contenders", "seq,occ", "-rounds", "2", "-transactions", "2", "-tables", "1,2", "-writers", "1,2",
		"-duration", "50ms", "-json", file,
	}, &out, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"B1: ", "B2: ", "bare", "seq", "occ"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var report measure.Report
	if err := json.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Results) != 2 || len(report.Results[0].Rows) != 6 || report.CPUs == 0 {
		t.Errorf("%+v", report)
	}
}

func TestRunRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"-run", "B99"}, {"-contenders", "nobody"}, {"-tables", "0"}, {"-writers", "x"}, {"-rounds", "0"}, {"-unknown"},
	} {
		args = append([]string{"-contenders", "seq", "-transactions", "1", "-rounds", "1", "-tables", "1"}, args...)
		if err := run(t.Context(), args, t.Output(), t.Output()); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

func TestStrictNamesWhatWasMissed(t *testing.T) {
	r := &measure.Result{Name: "B1"}
	r.AtMost("too slow", 2, 1)
	r.AtMost("quick", 1, 2)
	report := &measure.Report{Results: []*measure.Result{r}}
	if err := finish(options{}, report); err != nil {
		t.Errorf("without -strict: %v", err)
	}
	err := finish(options{strict: true}, report)
	if err == nil || !strings.Contains(err.Error(), "too slow") || strings.Contains(err.Error(), "quick") {
		t.Errorf("with -strict: %v", err)
	}
}
