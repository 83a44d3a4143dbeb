package coordinator_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

func isolated(r tables.ReadDeclaration, level tables.Isolation) tables.ReadDeclaration {
	r.Isolation = level
	return r
}

func readFiles(v twophase.Version, files ...string) tables.ReadDeclaration {
	return tables.ReadDeclaration{Version: &v, Kind: tables.ReadFiles, Files: files}
}

func partitionedAdd(path, day string) []byte {
	return fmt.Appendf(nil, `{"add":{"path":%q,"partitionValues":{"day":%q},"size":1,"modificationTime":1,"dataChange":true}}`+"\n", path, day)
}

// TestConflicts lets a winner commit, and then a loser that had read before it. The
// winner is ours in one run and a foreign engine in the other.
func TestConflicts(t *testing.T) {
	t.Parallel()
	seed := [][]byte{partitionedAdd("f1", "mon"), partitionedAdd("f2", "tue")}
	rm := func(path, day string) []byte {
		return fmt.Appendf(nil, `{"remove":{"path":%q,"deletionTimestamp":1,"dataChange":true,"extendedFileMetadata":true,"partitionValues":{"day":%q},"size":1}}`+"\n", path, day)
	}
	type part struct {
		read    tables.ReadDeclaration
		actions [][]byte
	}
	p := func(read tables.ReadDeclaration, actions ...[]byte) part { return part{read, actions} }
	for name, c := range map[string]struct {
		winner, loser part
		rule          twophase.Rule // RuleNone: both may commit
		path          string
	}{
		"delete/delete":                     {p(readAt(1), rm("f1", "mon")), p(readAt(1), rm("f1", "mon")), twophase.RuleDeleteDelete, "f1"},
		"delete/delete of other files":      {p(readAt(1), rm("f1", "mon")), p(readAt(1), rm("f2", "tue")), twophase.RuleNone, ""},
		"delete/read of a file":             {p(readAt(1), rm("f1", "mon")), p(readFiles(1, "f1"), partitionedAdd("n", "wed")), twophase.RuleDeleteRead, "f1"},
		"delete/read of another file":       {p(readAt(1), rm("f1", "mon")), p(readFiles(1, "f2"), partitionedAdd("n", "wed")), twophase.RuleNone, ""},
		"delete/read of the table":          {p(readAt(1), rm("f1", "mon")), p(readWhole(1), partitionedAdd("n", "wed")), twophase.RuleDeleteRead, ""},
		"delete/read of a partition":        {p(readAt(1), rm("f1", "mon")), p(readPartition(1, "day", "mon"), partitionedAdd("n", "wed")), twophase.RuleDeleteRead, ""},
		"delete/read of another partition":  {p(readAt(1), rm("f1", "mon")), p(readPartition(1, "day", "tue"), partitionedAdd("n", "wed")), twophase.RuleNone, ""},
		"append/read of the table":          {p(blindRead, partitionedAdd("w", "mon")), p(readWhole(1), partitionedAdd("n", "wed")), twophase.RuleAppendRead, ""},
		"append/read, WriteSerializable":    {p(blindRead, partitionedAdd("w", "mon")), p(isolated(readWhole(1), tables.WriteSerializable), partitionedAdd("n", "wed")), twophase.RuleNone, ""},
		"append that read/read, WriteSer.":  {p(readWhole(1), partitionedAdd("w", "mon")), p(isolated(readWhole(1), tables.WriteSerializable), partitionedAdd("n", "wed")), twophase.RuleAppendRead, ""},
		"append/read of a partition":        {p(blindRead, partitionedAdd("w", "mon")), p(readPartition(1, "day", "mon"), partitionedAdd("n", "wed")), twophase.RuleAppendRead, ""},
		"append/read of another partition":  {p(blindRead, partitionedAdd("w", "mon")), p(readPartition(1, "day", "tue"), partitionedAdd("n", "wed")), twophase.RuleNone, ""},
		"append/append":                     {p(blindRead, partitionedAdd("w", "mon")), p(readAt(1), partitionedAdd("n", "wed")), twophase.RuleNone, ""},
		"append of the same path":           {p(blindRead, partitionedAdd("w", "mon")), p(blindRead, partitionedAdd("w", "mon")), twophase.RulePathExists, "w"},
		"application, same version":         {p(blindRead, txnAction("app", 7), partitionedAdd("w", "mon")), p(blindRead, txnAction("app", 7), partitionedAdd("n", "mon")), twophase.RuleAppVersion, ""},
		"application, older version":        {p(blindRead, txnAction("app", 7), partitionedAdd("w", "mon")), p(blindRead, txnAction("app", 6), partitionedAdd("n", "mon")), twophase.RuleAppVersion, ""},
		"application, newer version":        {p(blindRead, txnAction("app", 7), partitionedAdd("w", "mon")), p(blindRead, txnAction("app", 8), partitionedAdd("n", "mon")), twophase.RuleNone, ""},
		"application that was read":         {p(blindRead, txnAction("app", 7), partitionedAdd("w", "mon")), p(tables.ReadDeclaration{Version: ptr(twophase.Version(1)), Apps: []string{"app"}}, partitionedAdd("n", "mon")), twophase.RuleAppVersion, ""},
		"metadata/append":                   {p(readAt(1), []byte("METADATA")), p(readAt(1), partitionedAdd("n", "mon")), twophase.RuleMetadata, ""},
		"metadata/blind append":             {p(readAt(1), []byte("METADATA")), p(blindRead, partitionedAdd("n", "mon")), twophase.RuleMetadata, ""},
		"metadata/metadata":                 {p(readAt(1), []byte("METADATA")), p(readAt(1), []byte("METADATA2")), twophase.RuleMetadata, ""},
		"delete of a file that is not live": {p(blindRead, partitionedAdd("w", "mon")), p(readAt(1), rm("never", "mon")), twophase.RulePathMissing, "never"},
	} {
		for _, foreign := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/foreign=%t", name, foreign), func(t *testing.T) {
				t.Parallel()
				w := (&world{}).open(t)
				info := w.createWith(coordinator.CreateRequest{Name: "t", Schema: partitioned, PartitionColumns: []string{"day"}, Mode: twophase.ModeOpen})
				w.create("other", twophase.ModeOpen)
				w.commit("seed", change("t", blindRead, seed...))
				fill := func(p part) [][]byte {
					actions := slices.Clone(p.actions)
					for i, a := range actions {
						if m, ok := strings.CutPrefix(string(a), "METADATA"); ok {
							actions[i] = renamed(info.MetaDataID, "called "+m)
						}
					}
					return actions
				}
				// Both are staged before either commits.
				loser := w.begin("loser")
				st := w.stage(loser.Token, change("t", c.loser.read, fill(c.loser)...))
				beside := w.stage(loser.Token, blind("other", "x"))
				var winner twophase.TxnID
				if foreign {
					blindAppend := "false"
					if c.winner.read.Blind {
						blindAppend = "true"
					}
					w.rawCommit("t", 2, `{"commitInfo":{"timestamp":1,"operation":"WRITE","isBlindAppend":`+blindAppend+"}}\n"+string(lines(fill(c.winner)...)))
				} else {
					winner = w.commit("winner", change("t", c.winner.read, fill(c.winner)...)).Txn
				}
				o, err := w.catalog.Commit(w.ctx(), coordinator.CommitRequest{
					Token:  loser.Token,
					Tables: []coordinator.TableParts{parts("t", st.Digest), parts("other", beside.Digest)},
				})
				if c.rule == twophase.RuleNone {
					if err != nil || deliveries(o)["t"] != 3 || deliveries(o)["other"] != 1 {
						t.Errorf("%+v, %v", o.Committed, err)
					}
					return
				}
				want := coordinator.Conflicted
				if c.rule == twophase.RuleAppVersion {
					want = coordinator.AppVersionApplied
				}
				refused := wantReason(t, "the loser", err, want)
				if says := "write them under other names"; strings.Contains(refused.Message, says) != (c.rule == twophase.RulePathExists) {
					t.Errorf("%s: whether it says %q", refused.Message, says)
				}
				got := refused.Conflict
				if got == nil || got.Rule != c.rule || got.Path != c.path || got.Table != "t" || got.Txn != loser.Txn {
					t.Errorf("conflict %+v, want rule %s, path %q", got, c.rule, c.path)
				}
				if !foreign && c.rule != twophase.RulePathMissing && !c.loser.read.Blind && got.Winner != winner {
					t.Errorf("the winner is %s, named is %s", winner, got.Winner)
				}
				if !c.loser.read.Blind && c.rule != twophase.RulePathMissing && got.Version != 2 {
					t.Errorf("the winner is in version 2, named is %d", got.Version)
				}
				if w.versions("other") != 1 || w.versions("t") != 3 {
					t.Error("something of the loser was published")
				}
				// The answer is final and stays.
				again, _, err := w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: "loser"}})
				if err != nil || again.Aborted == nil || again.Aborted.Rule != c.rule {
					t.Errorf("asked again: %+v, %v", again, err)
				}
			})
		}
	}
}

func ptr[T any](v T) *T { return &v }

// renamed is the partitioned table's metadata with another description.
func renamed(id, description string) []byte {
	return fmt.Appendf(nil, `{"metaData":{"id":%q,"description":%q,"format":{"provider":"parquet","options":{}},"schemaString":%q,"partitionColumns":["day"],"configuration":{"note":%q},"createdTime":1}}`+"\n",
		id, description, partitioned, description)
}

// Two transactions that each read what the other writes: only one commits, also where
// the table that was read is only read.
func TestWriteSkewIsRefused(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("a", twophase.ModeExclusive)
	w.create("b", twophase.ModeExclusive)
	for i := range 20 {
		va, vb := w.info("a").Version, w.info("b").Version
		skew := func(writes, reads string, v twophase.Version) error {
			_, _, err := w.catalog.CommitOnce(w.ctx(), coordinator.OnceRequest{
				Key:    fmt.Sprint(writes, i),
				Tables: []coordinator.OnceTable{blind(writes, fmt.Sprint(i))},
				Reads:  []coordinator.ReadOnly{{Table: reads, Read: readWhole(v)}},
			})
			return err
		}
		var wg sync.WaitGroup
		var errA, errB error
		wg.Go(func() { errA = skew("a", "b", vb) })
		wg.Go(func() { errB = skew("b", "a", va) })
		wg.Wait()
		lost := errA
		if errB != nil {
			lost = errB
		}
		if (errA == nil) == (errB == nil) {
			t.Fatalf("round %d: %v and %v", i, errA, errB)
		}
		if got := wantReason(t, "the one that lost", lost, coordinator.Conflicted).Conflict; got.Rule != twophase.RuleAppendRead {
			t.Errorf("round %d: %+v", i, got)
		}
	}
}
