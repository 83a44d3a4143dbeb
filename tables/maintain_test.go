package tables_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// v2Table supports V2 checkpoints and asks for them.
func v2Table(t testing.TB, config string) *kept {
	t.Helper()
	k := newKept(t)
	if config != "" {
		config = "," + config
	}
	k.commit(featureProtocol([]string{"v2Checkpoint", "deletionVectors"}, []string{"v2Checkpoint", "deletionVectors", "domainMetadata"}),
		metaOf(schemaJSON, []string{"region"}, `"delta.checkpointPolicy":"v2"`+config))
	return k
}

// removedAt is a remove with the time of the deletion.
func removedAt(path string, ago time.Duration, more ...string) string {
	return fmt.Sprintf(`{"remove":{"path":%q,"deletionTimestamp":%d,"dataChange":true,"extendedFileMetadata":true,"partitionValues":{},"size":3,"tags":{"a":"b"},"stats":"{}"%s}}`,
		path, now.Add(-ago).UnixMilli(), tail(more))
}

const day = 24 * time.Hour

// TestCheckpointHoldsTheState: what a checkpoint has to hold, and no more.
func TestCheckpointHoldsTheState(t *testing.T) {
	for _, v2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("v2=%v", v2), func(t *testing.T) {
			k := newKept(t)
			if v2 {
				k = v2Table(t, `"delta.deletedFileRetentionDuration":"interval 2 days"`)
			} else {
				k.commit(featureProtocol([]string{"deletionVectors"}, []string{"deletionVectors", "domainMetadata"}),
					metaOf(schemaJSON, []string{"region"}, `"delta.deletedFileRetentionDuration":"interval 2 days"`))
			}
			k.commit(addLine("a.parquet", `"stats":"{\"numRecords\":1}"`, `"tags":{"k":"v"}`, `"baseRowId":5,"defaultRowCommitVersion":1`, `"novel":1`),
				addLine("special%20p@%23h", `"clusteringProvider":"liquid"`), addDV("d.parquet", "v1"), addLine("gone.parquet"), addLine("old.parquet"),
				txnLine("app", 1), txnLine("txcoord/c", 7), domainLine("d"), domainLine("e"),
				`{"commitInfo":{"timestamp":1}}`, `{"cdc":{"path":"c","partitionValues":{},"size":1,"dataChange":false}}`)
			k.commit(removedAt("gone.parquet", day), removedAt("old.parquet", 3*day), removedAt("never.parquet", time.Hour),
				removedAt("d.parquet", time.Hour, vector("v1")), addDV("d.parquet", "v2"),
				`{"txn":{"appId":"app","version":2,"lastUpdated":99}}`, `{"domainMetadata":{"domain":"e","configuration":"{}","removed":true}}`)
			want := k.seen()
			c := k.checkpoint()
			if c.V2 != v2 || c.Version != 2 || c.Adds != 3 || c.Removes != 3 || c.Existed {
				t.Errorf("written: %+v", c)
			}
			expiry := now.Add(-2 * day).UnixMilli()
			if diff := cmp.Diff(reconciled(t, k.commits(2), expiry), k.content(c.Name)); diff != "" {
				t.Errorf("content: %s", diff)
			}
			k.without(isCommit).wants(want)
			if got := k.state().Marker("c"); got != 7 {
				t.Errorf("marker %d, want 7", got)
			}
		})
	}
}

// TestCheckpointOnCheckpoint: one is made from the one before and the commits since.
func TestCheckpointOnCheckpoint(t *testing.T) {
	k := newKept(t)
	k.commit(plainProtocol, metaOf(schemaJSON, nil, ""), addLine("a"), addLine("b"), addLine("c"), removedAt("r", time.Hour), txnLine("app", 1))
	k.checkpoint()
	k.commit(removedAt("a", time.Hour), addLine("r"), addLine("b", `"tags":{"again":"1"}`), txnLine("app", 2), metaOf(schemaJSON, nil, `"x":"y"`))
	want, rows := k.seen(), reconciled(t, k.commits(1), 0)
	k.drop("00000000000000000000.json")
	c := k.checkpoint()
	if diff := cmp.Diff(rows, k.content(c.Name)); diff != "" {
		t.Error(diff)
	}
	k.without(isCommit).wants(want)
}

func TestPointer(t *testing.T) {
	k := newKept(t)
	k.commit(plainProtocol, metaOf(schemaJSON, nil, ""), addLine("a"), txnLine("app", 1))
	c := k.checkpoint()
	var got map[string]any
	if err := json.Unmarshal(k.get("_last_checkpoint"), &got); err != nil {
		t.Fatal(err)
	}
	if sum, _ := got["checksum"].(string); len(sum) != 32 {
		t.Errorf("checksum %q", sum)
	}
	delete(got, "checksum")
	want := map[string]any{"version": 0.0, "size": 4.0, "sizeInBytes": float64(len(k.get(c.Name))), "numOfAddFiles": 1.0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(string(k.get("_last_checkpoint")), `{"version":0,"size":4,`) {
		t.Errorf("a torn file would not say the version: %s", k.get("_last_checkpoint"))
	}
	// A newer pointer of somebody else stays.
	k.put("_last_checkpoint", []byte(`{"version":5,"size":1}`)).commit(addLine("b"))
	k.checkpoint()
	if got := string(k.get("_last_checkpoint")); got != `{"version":5,"size":1}` {
		t.Errorf("the pointer went back: %s", got)
	}
}

func TestNotWhereOneStands(t *testing.T) {
	k := newKept(t)
	k.commit(plainProtocol, metaOf(schemaJSON, nil, ""), addLine("a"))
	if c := k.checkpoint(); c.Existed {
		t.Errorf("the first: %+v", c)
	}
	before := k.get("00000000000000000000.checkpoint.parquet")
	if c := k.checkpoint(); !c.Existed {
		t.Errorf("again: %+v", c)
	}
	// Somebody else's that comes between survey and put stays too.
	k.commit(addLine("b"))
	keeper, s := k.survey(tables.Latest)
	k.put("00000000000000000001.checkpoint.parquet", before)
	c, err := keeper.Checkpoint(t.Context(), s, nil)
	if err != nil || !c.Existed {
		t.Errorf("raced: %+v, %v", c, err)
	}
	if !slices.Equal(before, k.get("00000000000000000001.checkpoint.parquet")) {
		t.Error("somebody else's checkpoint was overwritten")
	}
}

var errReplaced = errors.New("another table")

// TestTakenBack: the log turned out to be another one after the put.
func TestTakenBack(t *testing.T) {
	k := newKept(t)
	k.commit(plainProtocol, metaOf(schemaJSON, nil, ""), addLine("a"))
	keeper, s := k.survey(tables.Latest)
	for _, after := range []int{1, 2} {
		asked := 0
		_, err := keeper.Checkpoint(t.Context(), s, func(context.Context) error {
			if asked++; asked == after {
				return errReplaced
			}
			return nil
		})
		if !errors.Is(err, errReplaced) {
			t.Errorf("asked %d times: got %v", after, err)
		}
		if diff := cmp.Diff([]string{"00000000000000000000.json"}, k.names()); diff != "" {
			t.Errorf("asked %d times: %s", after, diff)
		}
	}
}

func TestDue(t *testing.T) {
	k := newKept(t)
	k.commit(plainProtocol, metaOf(schemaJSON, nil, `"delta.checkpointInterval":"3"`))
	var due []bool
	for v := range 8 {
		if v > 0 {
			k.commit(addLine(fmt.Sprint(v)))
		}
		_, s := k.survey(tables.Latest)
		if due = append(due, s.Due()); s.Due() {
			k.checkpoint()
		}
	}
	if diff := cmp.Diff([]bool{false, false, false, true, false, false, true, false}, due); diff != "" {
		t.Error(diff)
	}
}

func TestSurveyRefuses(t *testing.T) {
	tests := []struct {
		name  string
		make  func(k *kept)
		fault tables.Fault
	}{
		{"no table", func(*kept) {}, tables.NotATable},
		{"no metadata", func(k *kept) { k.commit(plainProtocol) }, tables.NoMetaData},
		{"no protocol", func(k *kept) { k.commit(metaOf(schemaJSON, nil, "")) }, tables.NoProtocol},
		{"a gap", func(k *kept) {
			k.commit(plainProtocol, metaOf(schemaJSON, nil, "")).commit(addLine("a")).commit(addLine("b"))
			k.drop("00000000000000000001.json")
		}, tables.Gap},
		{"an empty commit", func(k *kept) {
			k.commit(plainProtocol, metaOf(schemaJSON, nil, "")).put("00000000000000000001.json", nil)
		}, tables.Empty},
		{"a broken line", func(k *kept) {
			k.commit(plainProtocol, metaOf(schemaJSON, nil, "")).put("00000000000000000001.json", []byte(`{"txn":{`))
		}, tables.Malformed},
		{"an unknown reader feature", func(k *kept) {
			k.commit(featureProtocol([]string{"novel"}, []string{"novel"}), metaOf(schemaJSON, nil, ""))
		}, tables.Unsupported},
		{"a checkpoint that is none, and nothing below it", func(k *kept) {
			k.commit(plainProtocol, metaOf(schemaJSON, nil, "")).put("00000000000000000000.checkpoint.parquet", []byte("PAR1"))
			k.drop("00000000000000000000.json")
		}, tables.BadCheckpoint},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newKept(t)
			tt.make(k)
			_, err := tables.NewKeeper(k.cfg).Survey(t.Context(), tables.Latest)
			var got *tables.LogError
			if !errors.As(err, &got) || got.Fault != tt.fault {
				t.Errorf("got %v, want fault %q", err, tt.fault)
			}
		})
	}
}

// TestCheckpointRefuses: nothing is written.
func TestCheckpointRefuses(t *testing.T) {
	tests := []struct {
		name string
		make func(k *kept)
		says string
	}{
		{"a writer feature that we do not know", func(k *kept) {
			k.commit(featureProtocol(nil, []string{"novel"}), metaOf(schemaJSON, nil, ""))
		}, "novel"},
		{"a broken add", func(k *kept) {
			k.commit(plainProtocol, metaOf(schemaJSON, nil, ""), `{"add":{"partitionValues":{}}}`)
		}, "add.path: is missing"},
		{"an add that no column holds", func(k *kept) {
			k.commit(plainProtocol, metaOf(schemaJSON, nil, ""), addLine("a", `"baseRowId":1.5`))
		}, "baseRowId: 1.5 is not a 64-bit integer"},
		{"more than it may read", func(k *kept) {
			k.commit(plainProtocol, metaOf(schemaJSON, nil, ""), addLine("a"))
			k.cfg.MaxBytes = 10
		}, "maintain_bytes"},
		{"a sidecar that is missing", func(k *kept) {
			*k = *v2Table(t, "")
			k.commit(addLine("a"))
			k.checkpoint()
			k.without(func(name string) bool { return strings.HasPrefix(name, "_sidecars/") }).commit(addLine("b"))
		}, "the sidecar is missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newKept(t)
			tt.make(k)
			before := k.names()
			keeper, s := k.survey(tables.Latest)
			_, err := keeper.Checkpoint(t.Context(), s, nil)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want …%s…", err, tt.says)
			}
			if diff := cmp.Diff(before, k.names()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNoRoom: a checkpoint of some ten megabytes, and no temporary folder.
func TestNoRoom(t *testing.T) {
	k := newKept(t)
	lines := []string{plainProtocol, metaOf(schemaJSON, nil, "")}
	noise, r := make([]byte, 50_000), rand.NewChaCha8([32]byte{})
	for i := range 200 {
		_, _ = r.Read(noise) // never fails
		lines = append(lines, addLine(fmt.Sprint(i), fmt.Sprintf(`"tags":{"noise":"%x"}`, noise)))
	}
	k.commit(lines...)
	k.cfg.TempDir += "/missing"
	keeper, s := k.survey(tables.Latest)
	if _, err := keeper.Checkpoint(t.Context(), s, nil); !errors.Is(err, tables.ErrNoRoom) {
		t.Errorf("got %v", err)
	}
}

// TestCheckpointDiesAnywhere stops before and after each write of a checkpoint. At
// each point the table reads as before, and the next try succeeds.
func TestCheckpointDiesAnywhere(t *testing.T) {
	for _, v2 := range []bool{false, true} {
		for _, fate := range []objtest.Fate{objtest.Refused(), objtest.Lost(), objtest.Landed()} {
			for stop := 1; ; stop++ {
				k := newKept(t)
				if v2 {
					k = v2Table(t, "")
				} else {
					k.commit(plainProtocol, metaOf(schemaJSON, nil, ""))
				}
				k.cfg.SidecarRows = 2
				k.commit(addLine("a"), addLine("b"), addLine("c"), removedAt("d", time.Hour), txnLine("app", 1))
				want := k.seen()
				puts := 0
				sound := k.cfg
				k.cfg.Log.Store = objtest.Faulty{Store: k.cfg.Log.Store, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
					if op.Kind == objtest.Put || op.Kind == objtest.PutIfAbsent {
						if puts++; puts == stop {
							return fate
						}
					}
					return objtest.Done()
				}}
				keeper, s := k.survey(tables.Latest)
				_, err := keeper.Checkpoint(t.Context(), s, nil)
				if puts < stop {
					if err != nil || stop < 3 {
						t.Fatalf("v2=%v: %d puts without a fault, %v", v2, puts, err)
					}
					break
				}
				k.wants(want)
				k.cfg = sound
				k.checkpoint()
				k.without(isCommit).wants(want)
			}
		}
	}
}

// TestLostReply: a checkpoint that landed although the store did not say so counts.
func TestLostReply(t *testing.T) {
	k := newKept(t)
	k.commit(plainProtocol, metaOf(schemaJSON, nil, ""), addLine("a"))
	k.cfg.Log.Store = objtest.Faulty{Store: k.cfg.Log.Store, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
		if op.Kind == objtest.PutIfAbsent {
			return objtest.Landed()
		}
		return objtest.Done()
	}}
	if c := k.checkpoint(); c.Existed || c.Name == "" {
		t.Errorf("written: %+v", c)
	}
	k.get("_last_checkpoint")
}

// TestLargeCommit: a commit past the size that is fetched at once is read from its end.
func TestLargeCommit(t *testing.T) {
	k := newKept(t)
	lines := []string{plainProtocol, metaOf(schemaJSON, nil, "")}
	pad := strings.Repeat("x", 1000)
	for i := range 1500 {
		lines = append(lines, addLine(fmt.Sprintf("f%04d", i), fmt.Sprintf(`"tags":{"pad":"%s"}`, pad)))
	}
	lines = append(lines, addLine("wide", fmt.Sprintf(`"tags":{"pad":"%s"}`, strings.Repeat("y", 3<<20))))
	k.commit(lines...).commit(removedAt("f0000", time.Hour))
	want := k.seen()
	if c := k.checkpoint(); c.Adds != 1500 {
		t.Errorf("written: %+v", c)
	}
	k.without(isCommit).wants(want)
}

func TestCommitIdentity(t *testing.T) {
	k := newKept(t)
	k.commit(plainProtocol, metaOf(schemaJSON, nil, ""), addLine(strings.Repeat("x", 3<<20)))
	keeper := tables.NewKeeper(k.cfg)
	got, err := keeper.CommitIdentity(t.Context(), 0)
	if want := twophase.HashOf(k.get("00000000000000000000.json")); err != nil || got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if _, err := keeper.CommitIdentity(t.Context(), 1); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("no such version: got %v", err)
	}
}
