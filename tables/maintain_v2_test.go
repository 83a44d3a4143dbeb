package tables_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sidecars are the names that a V2 checkpoint gives.
func (k *kept) sidecars(name string) (out []string) {
	k.t.Helper()
	for _, line := range k.rows(name) {
		var row struct{ Sidecar *struct{ Path string } }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			k.t.Fatal(err)
		}
		if row.Sidecar != nil {
			out = append(out, row.Sidecar.Path)
		}
	}
	return out
}

func TestPointerToV2(t *testing.T) {
	k := v2Table(t, "")
	k.commit(addLine("a"), removedAt("r", time.Hour), txnLine("app", 1))
	c := k.checkpoint()
	var got struct {
		Version, Size, SizeInBytes, NumOfAddFiles int64
		V2                                        struct {
			Path             string
			SizeInBytes      int64
			ModificationTime int64
			NonFileActions   []map[string]any
			SidecarFiles     []struct {
				Path        string
				SizeInBytes int64
			}
		} `json:"v2Checkpoint"`
	}
	if err := json.Unmarshal(k.get("_last_checkpoint"), &got); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, a := range got.V2.NonFileActions {
		for kind := range a {
			kinds = append(kinds, kind)
		}
	}
	size := int64(len(k.get(c.Name)))
	var names []string
	for _, s := range got.V2.SidecarFiles {
		names = append(names, s.Path)
		size += s.SizeInBytes
	}
	if diff := cmp.Diff([]string{"protocol", "metaData", "txn", "checkpointMetadata"}, kinds); diff != "" {
		t.Errorf("actions: %s", diff)
	}
	if diff := cmp.Diff(k.sidecars(c.Name), names); diff != "" || len(names) != 2 {
		t.Errorf("sidecars: %s", diff)
	}
	want := []any{int64(1), int64(8), size, int64(1), c.Name, int64(len(k.get(c.Name)))}
	if diff := cmp.Diff(want, []any{got.Version, got.Size, got.SizeInBytes, got.NumOfAddFiles, got.V2.Path, got.V2.SizeInBytes}); diff != "" {
		t.Error(diff)
	}
}

// TestSidecarsAreUsedAgain: what is written grows with the change and not with the table.
func TestSidecarsAreUsedAgain(t *testing.T) {
	k := v2Table(t, "")
	k.cfg.SidecarRows = 20
	var lines []string
	for i := range 200 {
		lines = append(lines, addLine(fmt.Sprintf("f%04d", i)))
	}
	k.commit(lines...)
	first := k.checkpoint()
	if first.Sidecars != 10 || first.Reused != 0 {
		t.Fatalf("first: %+v", first)
	}
	check := func(what string, reused, sidecars int, lines ...string) {
		t.Helper()
		k.commit(lines...)
		want := k.seen()
		c := k.checkpoint()
		if c.Reused != reused || c.Sidecars != sidecars || c.Adds != int64(len(want.Files)) {
			t.Errorf("%s: %d sidecars, %d of them used again, %d adds; want %d, %d, %d", what, c.Sidecars, c.Reused, c.Adds, sidecars, reused, len(want.Files))
		}
		k.without(isCommit).wants(want)
	}
	check("adds", 10, 11, addLine("g1"), addLine("g2"))
	check("nothing but a txn", 11, 11, txnLine("app", 1))
	check("a remove", 10, 12, removedAt("f0000", time.Hour))
	check("an add that is there already", 10, 12, addLine("f0199", `"tags":{"a":"b"}`))
	check("other columns", 0, 12, metaOf(schemaJSON, nil, `"delta.checkpointPolicy":"v2","delta.checkpoint.writeStatsAsStruct":"true"`))
}

// TestSmallSidecarsAreGathered: otherwise there would be one more with every checkpoint.
func TestSmallSidecarsAreGathered(t *testing.T) {
	k := v2Table(t, "")
	most := 0
	for i := range 20 {
		k.commit(addLine(fmt.Sprint(i)))
		c := k.checkpoint()
		most = max(most, c.Sidecars)
		if c.Adds != int64(i+1) {
			t.Fatalf("%d: %+v", i, c)
		}
	}
	if most > 18 {
		t.Errorf("%d sidecars", most)
	}
}

// TestTombstonesExpire although the sidecars around them are used again.
func TestTombstonesExpire(t *testing.T) {
	k := v2Table(t, "")
	k.commit(addLine("a"), removedAt("r", 6*day))
	if c := k.checkpoint(); c.Removes != 1 {
		t.Errorf("first: %+v", c)
	}
	k.cfg.Now = func() time.Time { return now.Add(2 * day) }
	k.commit(addLine("b"))
	if c := k.checkpoint(); c.Removes != 0 || c.Reused != 1 {
		t.Errorf("second: %+v", c)
	}
}

// TestClassicNameNowAndThen: the first of all, and one in ten.
func TestClassicNameNowAndThen(t *testing.T) {
	k := v2Table(t, `"delta.checkpointInterval":"2"`)
	var classic []int
	for v := 2; v <= 22; v += 2 {
		k.commit(addLine(fmt.Sprint(v)))
		k.commit(addLine(fmt.Sprint(v + 1)))
		if c := k.checkpoint(); strings.Count(c.Name, ".") == 2 {
			classic = append(classic, v)
		}
	}
	if diff := cmp.Diff([]int{2, 20}, classic); diff != "" {
		t.Error(diff)
	}
}

// TestFromV2ToClassicAndBack: each form is made from the other.
func TestFromV2ToClassicAndBack(t *testing.T) {
	k := v2Table(t, "")
	for i, policy := range []string{"v2", "classic", "v2", "V2", "classic"} {
		k.commit(metaOf(schemaJSON, nil, fmt.Sprintf(`"delta.checkpointPolicy":%q`, policy)), addLine(fmt.Sprint(i)))
		want := k.seen()
		if c := k.checkpoint(); c.V2 != strings.EqualFold(policy, "v2") {
			t.Errorf("%s: %+v", policy, c)
		}
		k.without(isCommit).wants(want)
	}
}

// TestV2InJSON: another engine's checkpoint with inline actions is a base like any other.
func TestV2InJSON(t *testing.T) {
	k := v2Table(t, "")
	k.commit(addLine("a"), addLine("b"))
	lines := slices.Concat([]string{`{"checkpointMetadata":{"version":1}}`},
		strings.Split(strings.TrimSpace(string(k.get("00000000000000000000.json"))), "\n"), []string{addLine("a"), addLine("b")})
	k.put("00000000000000000001.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", text(lines...))
	k.commit(removedAt("a", time.Hour))
	want := k.seen()
	k.checkpoint()
	k.without(isCommit).wants(want)
	if len(want.Files) != 1 {
		t.Errorf("files: %v", want.Files)
	}
}
