package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// examined is what doctor -o json prints.
type examined struct {
	Errors, Warnings, Notes int
	Checks                  []string
	Findings                []struct{ Severity, Check, Where, What, Remedy string }
	Asked                   struct{ Address, From string }
}

// doctor runs it, wants an exit code, and for each finding that is wanted (severity,
// check, and a text in where or what) one that fits.
func doctor(t *testing.T, env map[string]string, code int, args []string, want ...[3]string) examined {
	t.Helper()
	o := txcoord(t, env, "", append(append([]string{"doctor"}, args...), "-o", "json")...)
	wantCode(t, args, o, code)
	var x examined
	if err := json.Unmarshal([]byte(o.out), &x); err != nil {
		t.Fatalf("%v: %s%s", err, o.out, o.stderr)
	}
	for _, w := range want {
		if !slices.ContainsFunc(x.Findings, func(f struct{ Severity, Check, Where, What, Remedy string }) bool {
			return f.Severity == w[0] && f.Check == w[1] && strings.Contains(f.Where+" "+f.What, w[2])
		}) {
			t.Errorf("no finding %v in %s", w, o.out)
		}
	}
	return x
}

// TestDoctor: a server that is well, and what its tables and other writers have.
func TestDoctor(t *testing.T) {
	s := startServer(t)
	config := filepath.Join(t.TempDir(), "txcoord.yaml")
	put(t, config, "warehouse: "+s.warehouse+"\n")
	x := doctor(t, s.env, 0, []string{config}, [3]string{"note", "store", "a server has it open"})
	for _, check := range []string{"configuration", "store", "objects", "server", "clocks", "replicas", "journal", "tables", "retention", "writers", "fences"} {
		if !slices.Contains(x.Checks, check) {
			t.Errorf("does not look at %s: %v", check, x.Checks)
		}
	}
	s.table("orders", "--property", "delta.deletedFileRetentionDuration=interval 1 hours")
	s.table("items")
	s.foreign("items", 1, add("x"))
	s.ok("commit", s.transaction("k", 1, "a", "items"))
	s.ok("tables", "freeze", "orders", "--reason", "audit")
	doctor(t, s.env, 13, nil,
		[3]string{"note", "configuration", "no configuration was named"},
		[3]string{"note", "tables", "audit"},
		[3]string{"warning", "retention", "orders"},
		[3]string{"note", "writers", "delta-rs:1.6.6"},
	)
	if x := doctor(t, s.env, 0, []string{"--no-tables"}); slices.Contains(x.Checks, "retention") {
		t.Errorf("%v", x.Checks)
	}
	if got := txcoord(t, s.env, "", "doctor"); !strings.Contains(got.out, "WARNING: orders") || !strings.Contains(got.out, "what to do") || !strings.Contains(got.stderr, ": 1 warning\n") {
		t.Errorf("%s%s", got.out, got.stderr)
	}
}

// TestDoctorOnTags: what a tag or a lease needs beyond the table's retention was said when
// it was made. It is no fault, however long it stands.
func TestDoctorOnTags(t *testing.T) {
	s := startServer(t)
	s.table("orders")
	s.ok("commit", s.transaction("k", 1, "a", "orders"))
	s.ok("snapshot", "tag", "month-end")
	s.ok("snapshot", "lease", "--ttl", "700h")
	x := doctor(t, s.env, 0, nil, [3]string{"note", "retention", "tag month-end"}, [3]string{"note", "retention", "lease"})
	if x.Errors != 0 || x.Warnings != 0 {
		t.Errorf("%+v", x)
	}
	if got := txcoord(t, s.env, "", "doctor").out; !strings.Contains(got, "0 errors, 0 warnings, ") {
		t.Errorf("%s", got)
	}
}

// TestDoctorOnConfigurations: what is wrong before any server runs.
func TestDoctorOnConfigurations(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "txcoord.yaml")
	env := map[string]string{"TXCOORD_SERVER": freeAddress(t)}
	put(t, config, "warehouse: w\nno_such: 1\n")
	doctor(t, env, 14, []string{config}, [3]string{"error", "configuration", "no_such"})
	put(t, config, "warehouse: "+dir+"\nstore: mem\nno-probe: true\nlimit: {outcome_retention: 1h}\n# s3://lake/a and s3a://lake/b\n")
	doctor(t, env, 13, []string{config},
		[3]string{"warning", "configuration", "no-probe"},
		[3]string{"warning", "configuration", "in memory"},
		[3]string{"warning", "configuration", "outcomes are remembered for 1h0m0s"},
		[3]string{"warning", "schemes", "lake"},
		[3]string{"warning", "server", env["TXCOORD_SERVER"]},
	)
	put(t, filepath.Join(dir, "file"), "")
	put(t, config, "warehouse: "+filepath.Join(dir, "file")+"\nstore: mem\n")
	doctor(t, env, 14, []string{config}, [3]string{"error", "objects", filepath.Join(dir, "file")})
	doctor(t, env, 14, nil, [3]string{"error", "server", env["TXCOORD_SERVER"]})
}

// TestDoctorOnServers: clocks, replicas, the ring, the manifests, as the status has them.
func TestDoctorOnServers(t *testing.T) {
	now := time.Now()
	address := serveFake(t, fakeStatus{get: func() (*txcoordv1.GetStatusResponse, error) {
		return &txcoordv1.GetStatusResponse{
			Codec: 2, Position: 1000, CheckpointPosition: 50, RingSlots: 1024, LatestSnapshot: 1051, ManifestSnapshot: 50,
			ServerTime: timestamppb.New(now.Add(time.Hour)), LastEntryAt: timestamppb.New(now.Add(2 * time.Hour)), AheadOfStore: durationpb.New(time.Hour),
			BacklogBytes: 90, BacklogLimit: 100,
			Troubles:   []*txcoordv1.Trouble{{Place: "store", Text: "no space", Remedy: "make some"}},
			OpenRounds: []*txcoordv1.Round{{Id: "7.0", OpenedAt: timestamppb.New(now), Tables: []string{"orders"}}},
			Opened:     []*txcoordv1.OpenedTable{{Table: "items", Reason: "spark wrote version 4"}},
			Frozen:     []*txcoordv1.FrozenTable{{Table: "orders", Freeze: &txcoordv1.Freeze{Cause: txcoordv1.FreezeCause_FREEZE_CAUSE_DIVERGED, Reason: "gone"}}},
			Replicas: []*txcoordv1.Replica{
				{Id: "self", Codec: 3, Self: true, Alive: true},
				{Id: "old", Codec: 1, Alive: true, ClockAhead: durationpb.New(-time.Minute)},
				{Id: "behind", Codec: 2, Alive: true},
				{Id: "silent", Codec: 3, Silent: durationpb.New(time.Minute)},
			},
		}, nil
	}})
	doctor(t, map[string]string{"TXCOORD_SERVER": address}, 14, []string{"--no-tables"},
		[3]string{"error", "clocks", "ahead of that of this machine"},
		[3]string{"error", "clocks", "ahead of that of its store"},
		[3]string{"error", "clocks", "replica old its clock is at least 1m0s behind"},
		[3]string{"warning", "clocks", "in the future"},
		[3]string{"error", "replicas", "old"},
		[3]string{"warning", "replicas", "behind"},
		[3]string{"warning", "replicas", "silent"},
		[3]string{"error", "journal", "ring"},
		[3]string{"warning", "journal", "manifests"},
		[3]string{"warning", "journal", "backlog"},
		[3]string{"error", "journal", "no space"},
		[3]string{"warning", "journal", "7.0"},
		[3]string{"warning", "writers", "items"},
		[3]string{"error", "tables", "orders"},
	)
}

// What can be told of another writer by its name, and what cannot.
func TestDoctorOnWriters(t *testing.T) {
	for _, c := range []struct {
		uri, engine string
		mode        txcoordv1.TableMode
		want        string
	}{
		{"s3://lake/t", "Apache-Spark/4.1.1 Delta-Lake/4.2.0", txcoordv1.TableMode_TABLE_MODE_OPEN, severityWarning},
		{"s3://lake/t", "Apache-Spark/4.1.1 Delta-Lake/4.2.0", txcoordv1.TableMode_TABLE_MODE_DELTA_STORAGE, severityNote},
		{"file:///lake/t", "Apache-Spark/4.1.1 Delta-Lake/4.2.0", txcoordv1.TableMode_TABLE_MODE_OPEN, severityNote},
		{"s3://lake/t", "delta-rs:1.6.6", txcoordv1.TableMode_TABLE_MODE_OPEN, severityNote},
		{"s3://lake/t", "", txcoordv1.TableMode_TABLE_MODE_OPEN, severityWarning},
	} {
		x := &examination{s: &session{out: io.Discard}}
		x.engine(&txcoordv1.Table{Name: "t", Uri: c.uri, Mode: c.mode}, &txcoordv1.Finding{Winner: c.engine, Text: "it commits"})
		if len(x.found) != 1 || x.found[0].severity != c.want {
			t.Errorf("%+v: %s", c, fmt.Sprint(x.found))
		}
	}
	x := &examination{s: &session{out: io.Discard}}
	x.table(&txcoordv1.Table{Name: "t", Fence: &txcoordv1.Fence{}}, nil)
	if len(x.found) != 1 || x.found[0].check != "fences" {
		t.Errorf("%+v", x.found)
	}
}

// A place that did not answer when a table was looked at is told, and once where several
// tables say the same, or the status has.
func TestDoctorSaysThatAPlaceDoesNotAnswer(t *testing.T) {
	t.Parallel()
	x := &examination{}
	trouble := &txcoordv1.Finding{Code: txcoordv1.FindingCode_FINDING_CODE_STORE_TROUBLE, Text: "it has not answered", Remedy: "look at it"}
	for _, name := range []string{"a", "b"} {
		x.table(&txcoordv1.Table{Name: name}, []*txcoordv1.Finding{trouble})
	}
	if len(x.found) != 1 || x.found[0].severity != severityWarning || x.found[0].what != trouble.GetText() {
		t.Errorf("%+v", x.found)
	}
}
