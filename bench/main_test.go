// In-package: the command has no other face than its flags.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/bench/measure"
	"github.com/txcoord/txcoord/bench/self"
	"github.com/txcoord/txcoord/bench/upkeep"
	"github.com/txcoord/txcoord/e2e/servers"
)

// TestMain lets the test binary be the server that the benchmark starts itself as.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == self.Command {
		serve()
		return
	}
	if len(os.Args) > 1 && os.Args[1] == upkeep.Command {
		if err := upkeep.Step(context.Background(), os.Args[2:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// The server of the benchmark's own: all benchmarks, with counts and profiles.
func TestRunItself(t *testing.T) {
	profiles := t.TempDir()
	var out strings.Builder
	err := run(t.Context(), []string{
		"-run", "B1,B2,B3,B4,B6", "-spread", "10", "-races", "2", "-contenders", "txcoord,txcoord-open", "-rounds", "1", "-transactions", "2", "-tables", "2", "-writers", "3",
		"-duration", "50ms", "-inflight", "20", "-warm", "100ms", "-profile", profiles,
	}, &out, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`(?m)^ +2 +txcoord .* \S+  +key along 1, key delete 1, key put 2, put 3$`, "MISSED|met", "txcoord-open"} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	if files, err := os.ReadDir(profiles); err != nil || len(files) < 4 {
		t.Errorf("%d profiles, %v", len(files), err)
	}
}

// A light principal beside a heavy one that is refused: a quota of one a second is met
// by whoever asks twice at once.
func TestRunFair(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), []string{"-run", "fair", "-rounds", "1", "-duration", "100ms", "-quota", "1", "-heavy", "8"}, &out, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`(?m)^ +alone +[1-9]`, `(?m)^ +beside it +[1-9].* [1-9]\d*$`, "light, p99 beside / alone"} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}

// Small ones of those that are not run by themselves. The requests of one at a time are exact.
func TestRunWhatGrows(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), []string{
		"-run", "B7,B8,B13", "-contenders", "dstor,txcoord", "-rounds", "1", "-transactions", "2", "-writers", "3", "-growth", "60", "-spread", "12",
		"-many", "12", "-profile", t.TempDir(),
	}, &out, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`txcoord +60 .* 0 +\d`, `dstor +60 .* 180 `, "serving 12 tables",
		`one at a time, 3 tables +txcoord +2 .* key along 1, key delete 1, key put 2, put 4 `,
		`one at a time, 3 tables +dstor +2 +37.73 `,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}

// The journal is in a real etcd.
func TestRunEtcd(t *testing.T) {
	etcd := servers.StartEtcd(t, servers.EtcdConfig{})
	address := strings.TrimPrefix(etcd.Endpoints()[0], "http://")
	var out strings.Builder
	err := run(t.Context(), []string{
		"-run", "B3", "-etcd", address, "-contenders", "occ,dstor,txcoord-decided", "-rounds", "1", "-writers", "3", "-spread", "9", "-duration", "200ms",
	}, &out, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"txcoord-decided, three of its own, published/s of acknowledged/s", "dstor .* key put 2, put 2", "puts a second"} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	if err := run(t.Context(), []string{"-etcd", address, "-stores", "sim"}, &out, t.Output()); err == nil {
		t.Error("-etcd with -stores sim: no error")
	}
}

// The object store is away for a moment: nothing is refused, and all of it is published.
func TestRunOutage(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), []string{"-run", "B12", "-contenders", "seq,txcoord-decided", "-outage", "500ms", "-rate", "60"}, &out, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`txcoord-decided +30 +30 +0 +0 +0 `).MatchString(out.String()) {
		t.Errorf("not all of 30 were answered:\n%s", out.String())
	}
	for _, args := range [][]string{{"-run", "B12", "-contenders", "seq"}, {"-run", "B8", "-stores", "other"}} {
		if err := run(t.Context(), args, &out, t.Output()); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

// Over slow stores the figures are those of waiting, and the requests the same.
func TestRunSimulated(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), []string{"-run", "B1", "-stores", "sim", "-contenders", "txcoord,txcoord-ungathered,txcoord-hedged", "-rounds", "1", "-transactions", "2", "-tables", "2"}, &out, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`(?m)bare .* \S+  +key put 4, put 2$`, `(?m)txcoord .* \S+  +key delete 1, key put 3, put 3$`, `(?m)txcoord-ungathered .* \S+  +key delete 1, key put 3, put 3$`, `(?m)txcoord-hedged .* \S+  +key delete 1, key put 3, put 3, put twice 3$`, "goal <= 1.15"} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	if err := run(t.Context(), []string{"-stores", "other"}, &out, t.Output()); err == nil || !strings.Contains(err.Error(), "-stores") {
		t.Errorf("other stores: %v", err)
	}
}

// Simulated stores outlive a kill where that is what is measured.
func TestRunSimulatedKill(t *testing.T) {
	for _, stores := range []string{"sim", "sim-etcd"} {
		var out strings.Builder
		args := []string{"-run", "B6", "-stores", stores, "-contenders", "txcoord", "-rounds", "1", "-inflight", "20", "-warm", "300ms", "-history", "40"}
		if err := run(t.Context(), args, &out, t.Output()); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`(?m)txcoord +1 +20 .* 20 +0$`, `(?m)txcoord after 40 +1 +20 .* 20 +0$`, `all resolved, median, ms: .* \(goal <= 4000\)`} {
			if !regexp.MustCompile(want).MatchString(out.String()) {
				t.Errorf("%q is not in:\n%s", want, out.String())
			}
		}
	}
}

// As in etcd, payloads go along with the entry: a transaction is two requests for keys,
// and the removal of its payloads.
func TestRunSimulatedEtcd(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), []string{"-run", "B1", "-stores", "sim-etcd", "-contenders", "txcoord", "-rounds", "1", "-transactions", "2", "-tables", "2"}, &out, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`(?m)bare .* \S+  +key put 2, put 2$`, `(?m)txcoord .* \S+  +key along 1, key delete 1, key put 2, put 3$`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}

// The server that is shipped.
func TestRunServer(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), []string{"-run", "B1", "-contenders", "txcoord", "-rounds", "1", "-transactions", "2", "-tables", "2"}, &out, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "key along 1, key delete 1, key put 2, put 3") {
		t.Errorf("a transaction over two tables asks for other than two appends, two versions and a manifest:\n%s", out.String())
	}
}

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

// Small ones of those that read and keep logs.
func TestRunUpkeep(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), []string{"-run", "B9,replay", "-rounds", "1", "-files", "3000", "-versions", "30"}, &out, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`classic +of all`, `v2 +after 1,000 more .* 2 +1 `, `txcoord, state`, `txcoord, live files`, "DeltaTable\\(path\\)|delta-rs is not here",
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}
