package e2e_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/e2e/servers"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// TestRestoredUnderReplicas puts an older backup of etcd under three replicas that run:
// none of them decides anything any more, nor does one that is started on it, and the
// tables stay as they are (R7).
func TestRestoredUnderReplicas(t *testing.T) {
	t.Parallel()
	cluster := servers.StartEtcd(t, servers.EtcdConfig{Members: 1})
	f := newFleet(t, nil, func(int) *sharedStore { return &sharedStore{Endpoints: cluster.Endpoints()} })
	for _, p := range f.replicas {
		p.start(nil)
	}
	f.create("accounts", txcoordv1.TableMode_TABLE_MODE_OPEN)
	f.look()
	member, backup := cluster.Members[0], t.TempDir()
	f.commitOnce("before the backup", f.rows("accounts"))
	f.level()
	member.Kill()
	if err := os.CopyFS(backup, os.DirFS(member.Dir)); err != nil {
		t.Fatal(err)
	}
	startMember(t, member)
	f.commitOnce("after the backup", f.rows("accounts"))
	f.rest()
	f.level()

	member.Kill()
	if err := os.RemoveAll(member.Dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(member.Dir, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	startMember(t, member)
	logs := f.versions("accounts")
	for i, p := range f.replicas {
		f.stopped(p, i)
	}
	anew := &process{t: t, config: f.config}
	if anew.start(&kill{Nth: 1 << 40}) {
		t.Error("a replica starts on the restored journal")
	}
	if told := anew.log(); !strings.Contains(told, "JOURNAL_CONTRADICTION: manifest") {
		t.Errorf("it does not say why it does not start: %s", told)
	}
	if now := f.versions("accounts"); !slices.Equal(now, logs) {
		t.Errorf("the log was %q, and is %q", logs, now)
	}
	f.judge(false)
}

func startMember(t *testing.T, m *servers.Member) {
	t.Helper()
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// stopped wants a replica to refuse commits because the journal went back, as soon as
// it has seen that.
func (f *fleet) stopped(p *process, n int) {
	f.t.Helper()
	alone := process{t: f.t, address: p.address, running: p.running}
	c := alone.dial()
	changes := f.rows("accounts")
	f.waitFor("a replica to see that the journal went back", func() bool {
		ctx, cancel := context.WithTimeout(f.ctx(), 5*time.Second)
		defer cancel()
		r, err := c.CommitOnce(ctx, onceRequest("after the restore", changes, client.Blind()))
		if err == nil {
			f.t.Fatalf("replica %d committed on the restored journal: %v", n, r.Outcome)
		}
		var told *client.Error
		return errors.As(err, &told) && told.Reason == string(coordinator.JournalContradiction)
	})
}

// versions are the commit files of a table.
func (w *world) versions(table string) []string {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.table(table), "_delta_log", "*.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	return files
}
