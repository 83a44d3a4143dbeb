package tables_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
)

// sidecarLine names a sidecar of that content.
func sidecarLine(path string, content []byte) string {
	return fmt.Sprintf(`{"sidecar":{"path":%q,"sizeInBytes":%d,"modificationTime":1}}`, path, len(content))
}

const (
	checkpointV2      = "00000000000000000002.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
	checkpointClassic = "00000000000000000002.checkpoint.parquet"
)

// spoiled are checkpoints of version 2 that are read without an error, and are not whole or
// contradict themselves.
var spoiled = map[string]struct {
	name  string
	lines []string
	says  string
}{
	"no checkpointMetadata":        {checkpointV2, []string{addLine("a.parquet")}, "has no checkpointMetadata"},
	"two checkpointMetadata":       {checkpointV2, []string{`{"checkpointMetadata":{"version":2}}`, `{"checkpointMetadata":{"version":2}}`}, "2 checkpointMetadata actions"},
	"of another version":           {checkpointV2, []string{`{"checkpointMetadata":{"version":1}}`}, "checkpointMetadata.version is 1, and its name says 2"},
	"of no version":                {checkpointV2, []string{`{"checkpointMetadata":{"version":null}}`}, "checkpointMetadata.version: is missing"},
	"a version that is no number":  {checkpointV2, []string{`{"checkpointMetadata":{"version":"2"}}`}, "checkpointMetadata.version: has the wrong type"},
	"checkpointMetadata is null":   {checkpointV2, []string{`{"checkpointMetadata":null}`}, "holds no action"},
	"classic, of another version":  {checkpointClassic, []string{`{"checkpointMetadata":{"version":3}}`}, "checkpointMetadata.version is 3"},
	"classic, and names a sidecar": {checkpointClassic, []string{sidecarLine("s1.parquet", sidecar1)}, "has no checkpointMetadata"},
	"classic, a file twice":        {checkpointClassic, []string{addLine("a.parquet"), addLine("c.parquet"), addLine("a.parquet")}, "the file a.parquet is in the checkpoint twice"},
	"a file twice":                 {checkpointV2, []string{`{"checkpointMetadata":{"version":2}}`, addLine("c.parquet"), addLine("c.parquet", `"stats":"{}"`)}, "the file c.parquet is in the checkpoint twice"},
	"a file and its vector twice":  {checkpointV2, []string{`{"checkpointMetadata":{"version":2}}`, addDV("c.parquet", "x"), addDV("c.parquet", "x")}, "the file c.parquet is in the checkpoint twice"},
	"a file in two sidecars":       {checkpointV2, []string{`{"checkpointMetadata":{"version":2}}`, sidecarLine("s1.parquet", sidecar1), sidecarLine("s2.parquet", sidecar2)}, "the file a.parquet is in the checkpoint twice"},
	"a sidecar twice":              {checkpointV2, []string{`{"checkpointMetadata":{"version":2}}`, sidecarLine("s1.parquet", sidecar1), sidecarLine("s1.parquet", sidecar1)}, "names a sidecar twice"},
	"a sidecar is null":            {checkpointV2, []string{`{"checkpointMetadata":{"version":2}}`, sidecarLine("s1.parquet", sidecar1), `{"sidecar":null}`}, "holds no action"},
	"a sidecar is empty":           {checkpointV2, []string{`{"checkpointMetadata":{"version":2}}`, `{"sidecar":{}}`}, "sidecar.path: is missing"},
	"a sidecar's path is null":     {checkpointV2, []string{`{"checkpointMetadata":{"version":2}}`, `{"sidecar":{"path":null,"sizeInBytes":1,"modificationTime":1}}`}, "sidecar.path: is missing"},
	"a sidecar's size is null":     {checkpointV2, []string{`{"checkpointMetadata":{"version":2}}`, `{"sidecar":{"path":"s1.parquet","sizeInBytes":null,"modificationTime":1}}`}, "sidecar.sizeInBytes: is missing"},
	"a sidecar of another size":    {checkpointV2, []string{`{"checkpointMetadata":{"version":2}}`, sidecarLine("s1.parquet", append(slices.Clone(sidecar1), ' '))}, "bytes, and its checkpoint says"},
	"a line is empty":              {checkpointV2, []string{`{"checkpointMetadata":{"version":2}}`, `{}`}, "holds no action"},
	"a sidecar with other actions": {checkpointV2, []string{`{"checkpointMetadata":{"version":2}}`, sidecarLine("s3.parquet", sidecar3)}, "a sidecar holds add and remove alone"},
}

var (
	sidecar1 = text(addLine("a.parquet"))
	sidecar2 = text(addLine("c.parquet"), addLine("a.parquet"))
	sidecar3 = text(addLine("a.parquet"), sidecarLine("s1.parquet", nil))
)

// TestCheckpointContents: such a checkpoint is not used. Where older files tell the same they
// are read, and otherwise the error names file and cause.
func TestCheckpointContents(t *testing.T) {
	for name, c := range spoiled {
		t.Run(name, func(t *testing.T) {
			f := plain(t).commit(addLine("b.parquet")).commit(removeLine("b.parquet"), addLine("c.parquet")).
				put("_sidecars/s1.parquet", sidecar1).put("_sidecars/s2.parquet", sidecar2).put("_sidecars/s3.parquet", sidecar3).
				put(c.name, text(append(slices.Clone(c.lines), plainProtocol, metaOf(schemaJSON, nil, ""))...)).commit(addLine("d.parquet"))
			s := f.state()
			if s.NumFiles() != 3 || s.TotalSize() != 300 || s.Skipped() == nil || !strings.Contains(s.Skipped().Error(), c.says) {
				t.Errorf("%d files, %d bytes, passed over: %v; want 3, 300, …%s…", s.NumFiles(), s.TotalSize(), s.Skipped(), c.says)
			}
			if files, err := f.log.LiveFiles(t.Context(), tables.Latest); err != nil || len(files) != 3 {
				t.Errorf("live files %v, %v", files, err)
			}
			f.drop("00000000000000000000.json")
			_, err := f.log.State(t.Context(), tables.Latest)
			bad, ok := errors.AsType[*tables.LogError](err)
			if !ok || bad.Fault != tables.BadCheckpoint || bad.File == "" || bad.Version != 2 || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want …%s…", err, c.says)
			}
		})
	}
}

// TestLegalCheckpointContents: what looks alike and is legal.
func TestLegalCheckpointContents(t *testing.T) {
	gone := text(removeLine("gone.parquet"))
	for name, lines := range map[string][]string{
		"a tombstone beside the file":                   {removeLine("a.parquet"), addDV("a.parquet", "x")},
		"tombstones of one path":                        {removeLine("a.parquet"), removeDV("a.parquet", "y"), addDV("a.parquet", "x")},
		"an action of tomorrow":                         {`{"novel":{"a":1}}`, addDV("a.parquet", "x")},
		"a field of tomorrow in what it says of itself": {`{"sidecar":{"path":"s.parquet","sizeInBytes":` + strconv.Itoa(len(gone)) + `,"modificationTime":1,"novel":{},"tags":null}}`, addDV("a.parquet", "x")},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t).put("_sidecars/s.parquet", gone).
				put(checkpointV2, text(append([]string{`{"checkpointMetadata":{"version":2,"tags":{}}}`, plainProtocol, metaOf(schemaJSON, nil, "")}, lines...)...))
			if s := f.state(); s.NumFiles() != 1 || s.Skipped() != nil {
				t.Errorf("%d files, passed over: %v", s.NumFiles(), s.Skipped())
			}
		})
	}
}

// TestMaintainingSpoiledCheckpoints: no checkpoint is made of such a one. Where the commits are
// there one is made of these, and otherwise nothing is put, nor removed, nor left behind.
func TestMaintainingSpoiledCheckpoints(t *testing.T) {
	for _, policy := range []string{"v2", "classic"} {
		k := v2Table(t, "")
		k.commit(addLine("a"), addDV("b", "x"))
		main, first := k.checkpoint().Name, k.get("00000000000000000000.json")
		k.commit(metaOf(schemaJSON, nil, `"delta.checkpointPolicy":"`+policy+`"`), addLine("c"))
		rows := k.rows(main)
		k.drop(main)
		sidecar := func(line string) bool { return strings.HasPrefix(line, `{"sidecar"`) }
		of := slices.IndexFunc(rows, sidecar)
		content := k.get("_sidecars/" + strings.Split(rows[of], `"`)[5])
		for name, c := range map[string]struct {
			rows []string
			says string
		}{
			"a file twice":          {append(slices.Clone(rows), addLine("a")), "live files are in it twice (1)"},
			"a vector twice":        {append(slices.Clone(rows), addDV("b", "x")), "live files are in it twice (1)"},
			"in two sidecars":       {append(slices.Clone(rows), sidecarLine("again.parquet", content)), "live files are in it twice (2)"},
			"no checkpointMetadata": {slices.DeleteFunc(slices.Clone(rows), func(line string) bool { return strings.HasPrefix(line, `{"checkpointMetadata"`) }), "has no checkpointMetadata"},
			"a sidecar is null":     {append(slices.Clone(rows), `{"sidecar":null}`), "holds no action"},
			"of another size":       {append(slices.DeleteFunc(slices.Clone(rows), sidecar), sidecarLine("again.parquet", content[1:])), "its checkpoint says"},
		} {
			t.Run(policy+"/"+name, func(t *testing.T) {
				k.put("_sidecars/again.parquet", content)
				k.put("00000000000000000001.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", text(c.rows...))
				if _, err := tables.NewKeeper(k.cfg).DifferingCheckpoints(t.Context()); !strings.Contains(fmt.Sprint(err), c.says) {
					t.Errorf("compared with the commits: %v, want …%s…", err, c.says)
				}
				whole := k.clone()
				want := whole.seen()
				made, passedOver, err := whole.maintained()
				if err != nil || len(passedOver) != 1 || !strings.Contains(passedOver[0].Error(), c.says) || made.Existed {
					t.Errorf("beside the commits: %+v, %v, passed over %v", made, err, passedOver)
				}
				whole.wants(want)
				whole.without(isCommit).wants(want)

				k.drop("00000000000000000000.json")
				defer k.put("00000000000000000000.json", first)
				before := k.names()
				_, _, err = k.maintained()
				bad, ok := errors.AsType[*tables.LogError](err)
				if !ok || bad.Fault != tables.BadCheckpoint || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want …%s…", err, c.says)
				}
				if diff := cmp.Diff(before, k.names()); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// maintained makes a checkpoint of the newest version as maintenance does: a bad one that it
// would be made of may show when it is surveyed, or when it is read.
func (k *kept) maintained() (*tables.Checkpoint, []*tables.LogError, error) {
	keeper := tables.NewKeeper(k.cfg)
	for {
		s, err := keeper.Survey(k.t.Context(), tables.Latest)
		if err != nil {
			return nil, keeper.PassedOver(), err
		}
		made, err := keeper.Checkpoint(k.t.Context(), s, nil)
		if bad, ok := errors.AsType[*tables.LogError](err); !ok || bad.Fault != tables.BadCheckpoint {
			return made, keeper.PassedOver(), err
		}
	}
}

// TestBadCheckpointOfTheVersion: a classic one has the only name that ours could have, so the
// next version has to come. One with sidecars can stand beside it. The bad file stays.
func TestBadCheckpointOfTheVersion(t *testing.T) {
	for _, v2 := range []bool{false, true} {
		k := newKept(t)
		if v2 {
			k = v2Table(t, "")
		} else {
			k.commit(plainProtocol, metaOf(schemaJSON, nil, ""))
		}
		k.commit(addLine("a")).put("00000000000000000001.checkpoint.parquet", []byte("PAR1")).put("_last_checkpoint", []byte(`{"version":1,"size":4}`))
		want := k.seen()
		_, s := k.survey(tables.Latest)
		made, passedOver, err := k.maintained()
		if err != nil || len(passedOver) != 1 || s.Taken == v2 || made.Existed == v2 {
			t.Errorf("v2 %v: %+v, %v, passed over %v, taken %v", v2, made, err, passedOver, s.Taken)
		}
		k.wants(want)
		k.commit(addLine("b"))
		want = k.seen()
		if made, _, err := k.maintained(); err != nil || made.Existed || !strings.Contains(string(k.get("_last_checkpoint")), `"version":2`) {
			t.Errorf("v2 %v, a version later: %+v, %v", v2, made, err)
		}
		if string(k.get("00000000000000000001.checkpoint.parquet")) != "PAR1" {
			t.Error("the bad one was touched")
		}
		k.without(isCommit).wants(want)
	}
}
