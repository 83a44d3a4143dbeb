package tables_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

const roundTime = twophase.Time(1764432000000)

const timesOn = `"delta.enableInCommitTimestamps":"true"`

// timed is a table with in-commit timestamps whose last version has one.
func timed(t testing.TB, last twophase.Time) *fixture {
	return newFixture(t).commit(fmt.Sprintf(`{"commitInfo":{"inCommitTimestamp":%d}}`, last),
		featureProtocol(nil, []string{"inCommitTimestamp", "appendOnly"}), metaOf(schemaJSON, nil, timesOn), addLine("a.parquet"))
}

func domainOf(name, configuration string) string {
	return fmt.Sprintf(`{"domainMetadata":{"domain":%q,"configuration":%q,"removed":false}}`, name, configuration)
}

// publish renders a version on top of the table and puts it.
func (f *fixture) publish(in tables.RenderInput) tables.Rendered {
	f.t.Helper()
	if err := f.log.Prepare(f.t.Context(), f.tail(), &in); err != nil {
		f.t.Fatal(err)
	}
	out, err := tables.RenderCommit(in)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.log.PutCommit(f.t.Context(), f.next, out.Data); err != nil {
		f.t.Fatal(err)
	}
	f.next++
	return out
}

// staged is a version of one transaction that had read a version.
func staged(read twophase.Version, lines ...string) tables.RenderInput {
	in := oneTxn(text(lines...))
	in.Txns[0].Read = read
	return in
}

func blindly(lines ...string) tables.RenderInput {
	in := oneTxn(text(lines...))
	in.Txns[0].Blind = true
	return in
}

func TestInCommitTimestamps(t *testing.T) {
	for name, c := range map[string]struct {
		last    twophase.Time
		later   int
		want    twophase.Time
		aligned bool
	}{
		"the only version":               {roundTime - 1000, 0, roundTime, true},
		"two more follow":                {roundTime - 1000, 2, roundTime - 2, true},
		"the one before it was just so":  {roundTime - 3, 2, roundTime - 2, true},
		"no room for those that follow":  {roundTime - 2, 2, roundTime - 1, false},
		"the table has that time":        {roundTime, 0, roundTime + 1, false},
		"the table is far ahead":         {roundTime + 1e9, 3, roundTime + 1e9 + 1, false},
		"the last version has no time":   {0, 0, roundTime, true},
		"a clock that stood before 1970": {-5, 0, roundTime, true},
		"the last time but one":          {math.MaxInt64 - 1, 2, math.MaxInt64, false},
		"the last time that there is":    {math.MaxInt64, 0, math.MaxInt64, false},
		"and more versions follow":       {math.MaxInt64, 2, math.MaxInt64, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := timed(t, c.last)
			in := blindly(`{"commitInfo":{"inCommitTimestamp":1}}`, addLine("x"))
			in.Later = c.later
			out := f.publish(in)
			if out.InCommitTimestamp != c.want || out.Aligned != c.aligned {
				t.Errorf("time %d, aligned %t, want %d, %t", out.InCommitTimestamp-roundTime, out.Aligned, c.want-roundTime, c.aligned)
			}
			if !strings.HasPrefix(string(out.Data), fmt.Sprintf(`{"commitInfo":{"inCommitTimestamp":%d,`, c.want)) {
				t.Errorf("the time is not first: %.100s", out.Data)
			}
			if got, _ := f.state().InCommitTimestamp(); got != c.want {
				t.Errorf("read back: %d", got)
			}
		})
	}
}

// A barrier is a version too, and a table without the feature has no time.
func TestInCommitTimestampsOfBarriers(t *testing.T) {
	barrier := renderOf(6)
	barrier.NotApplied = []tables.TxnRef{{ID: txnID(0xa1), Digest: digestOf(1)}}
	barrier.Later = 1
	if out := timed(t, 5).publish(barrier); out.InCommitTimestamp != roundTime-1 || !out.Aligned {
		t.Errorf("time %d, aligned %t", out.InCommitTimestamp, out.Aligned)
	}
	if out := plain(t).publish(barrier); out.InCommitTimestamp != 0 || !out.Aligned {
		t.Errorf("a plain table: time %d, aligned %t", out.InCommitTimestamp, out.Aligned)
	}
}

// The version that switches the feature on says since when, and its time is above
// that of the file before it.
func TestInCommitTimestampsBegin(t *testing.T) {
	protocol := featureProtocol(nil, []string{"inCommitTimestamp", "appendOnly", "invariants"})
	for name, config := range map[string]string{
		"plain":                timesOn,
		"with other values":    timesOn + `,"delta.inCommitTimestampEnablementVersion":"77","n":"9007199254740993"`,
		"with both properties": `"delta.inCommitTimestampEnablementTimestamp":"1","delta.inCommitTimestampEnablementVersion":"1",` + timesOn,
	} {
		t.Run(name, func(t *testing.T) {
			f := plain(t).commit(addLine("b"))
			in := staged(1, protocol, strings.Replace(metaOf(schemaJSON, nil, config), `"createdTime":1`, `"createdTime":1,"odd":{"x":[1e400]}`, 1))
			before := twophase.TimeOf(time.Now().Add(-time.Minute))
			in.Time = before // the file below was written later than that
			out := f.publish(in)
			if out.InCommitTimestamp <= before || out.Aligned {
				t.Errorf("time %d, aligned %t, want above the file's %d", out.InCommitTimestamp, out.Aligned, before)
			}
			p := f.profile()
			got := []string{p.Property("delta.inCommitTimestampEnablementVersion"), p.Property("delta.inCommitTimestampEnablementTimestamp")}
			if diff := cmp.Diff([]string{"2", fmt.Sprint(out.InCommitTimestamp)}, got); diff != "" {
				t.Error(diff)
			}
			if !strings.Contains(string(out.Data), `"odd":{"x":[1e400]}`) {
				t.Errorf("bytes were lost: %s", out.Data)
			}
			// The next one goes on from there.
			in = blindly(addLine("c"))
			in.Time = before
			if next := f.publish(in); next.InCommitTimestamp != out.InCommitTimestamp+1 {
				t.Errorf("then time %d after %d", next.InCommitTimestamp, out.InCommitTimestamp)
			}
			// And it ends with the property.
			off := strings.Replace(config, `"true"`, `"false"`, 1)
			if last := f.publish(staged(3, metaOf(schemaJSON, nil, off))); last.InCommitTimestamp != 0 {
				t.Errorf("time %d after the end", last.InCommitTimestamp)
			}
		})
	}
}

// TestInCommitTimestampsAnew: a table whose times have come to their end has some again
// once the feature was switched off and on.
func TestInCommitTimestampsAnew(t *testing.T) {
	f := timed(t, math.MaxInt64)
	if last := f.publish(staged(0, addLine("b"))); last.InCommitTimestamp != math.MaxInt64 || last.Aligned {
		t.Errorf("time %d, aligned %t; want the last", last.InCommitTimestamp, last.Aligned)
	}
	if off := f.publish(staged(1, metaOf(schemaJSON, nil, strings.Replace(timesOn, "true", "false", 1)))); off.InCommitTimestamp != 0 {
		t.Errorf("time %d while it is off", off.InCommitTimestamp)
	}
	again := f.publish(staged(2, metaOf(schemaJSON, nil, timesOn)))
	if again.InCommitTimestamp < roundTime || again.InCommitTimestamp == math.MaxInt64 {
		t.Errorf("time %d, want a new beginning", again.InCommitTimestamp)
	}
	if p := f.profile(); p.Property("delta.inCommitTimestampEnablementVersion") != "3" {
		t.Errorf("begins at version %s", p.Property("delta.inCommitTimestampEnablementVersion"))
	}
}

// Where only a checkpoint is left, the time comes from what else tells it.
func TestTailFindsTheTime(t *testing.T) {
	meta := metaOf(schemaJSON, nil, timesOn+`,"delta.inCommitTimestampEnablementVersion":"1","delta.inCommitTimestampEnablementTimestamp":"40"`)
	checkpoint := func() *fixture {
		f := newFixture(t).put("00000000000000000003.checkpoint.parquet", text(featureProtocol(nil, []string{"inCommitTimestamp"}), meta))
		f.next = 4
		return f
	}
	for name, c := range map[string]struct {
		f    *fixture
		want twophase.Time
	}{
		"the commit":   {checkpoint().put("00000000000000000003.json", text(`{"commitInfo":{"inCommitTimestamp":60}}`)), 61},
		"the checksum": {checkpoint().put("00000000000000000003.crc", []byte(`{"inCommitTimestampOpt":50}`)), 51},
		"neither":      {checkpoint(), 41},
		"nonsense":     {checkpoint().put("00000000000000000003.crc", []byte(`{`)), 41},
	} {
		in := blindly(addLine("x"))
		in.Time = 1
		if out := c.f.publish(in); out.InCommitTimestamp != c.want {
			t.Errorf("%s: time %d, want %d", name, out.InCommitTimestamp, c.want)
		}
	}
}

// Type changes of the preview name the version that made them.
func TestTypeChangesAreStamped(t *testing.T) {
	changed := func(versions ...int) string {
		var list []string
		for _, v := range versions {
			list = append(list, fmt.Sprintf(`{"toType":"integer","fromType":"short","tableVersion":%d,"<\u00e9>":9007199254740993}`, v))
		}
		return `{"type":"struct","fields":[{"name":"id","type":"integer","nullable":true,"metadata":{"delta.typeChanges":[` + strings.Join(list, ", ") + `],"n":1.0}},` +
			`{"name":"s","type":{"type":"struct","fields":[{"name":"x","type":"long","nullable":true,"metadata":{"delta.typeChanges":[{"fromType":"integer","toType":"long"}]}}]},"nullable":true,"metadata":{}}]}`
	}
	for _, feature := range []string{"typeWidening", "typeWidening-preview"} {
		f := newFixture(t).commit(featureProtocol([]string{feature}, []string{feature}), metaOf(changed(0), nil, `"delta.enableTypeWidening":"true"`)).
			commit(txnLine("a", 1)).commit(txnLine("b", 1))
		f.parse(metaOf(changed(0, 1), nil, `"delta.enableTypeWidening":"true"`))
		out := f.publish(staged(0, metaOf(changed(0, 1), nil, `"delta.enableTypeWidening":"true"`)))
		if got, want := f.profile().MetaData.Schema, changed(0, 3); got != want {
			t.Errorf("%s: schema\n%s\nwant\n%s", feature, got, want)
		}
		// Not a byte besides the number.
		want := strings.Replace(metaOf(changed(0, 1), nil, `"delta.enableTypeWidening":"true"`), `\"tableVersion\":1`, `\"tableVersion\":3`, 1)
		if !strings.Contains(string(out.Data), want) {
			t.Errorf("%s: got %s\nwant %s", feature, out.Data, want)
		}
	}
}

func TestTailKnowsItsNext(t *testing.T) {
	f := plain(t).commit(addLine("b"))
	tail, err := f.log.Tail(t.Context(), 0)
	if err != nil || tail.Version() != 0 || tail.Profile().MetaData.ID != tableID {
		t.Fatalf("%+v, %v", tail, err)
	}
	if err := tail.Advance(2, text(addLine("x"))); err == nil {
		t.Error("a version was left out")
	}
	if err := tail.Advance(1, text(addLine("b"))); err != nil || tail.Version() != 1 {
		t.Errorf("at %d, %v", tail.Version(), err)
	}
	if err := tail.Advance(2, []byte("{")); err != nil {
		t.Errorf("a line that says nothing of what it keeps: %v", err)
	}
	if err := tail.Advance(3, []byte(`{"metaData":1}`)); err == nil {
		t.Error("nonsense is taken")
	}
	tail = f.tail()
	if err := tail.Advance(2, text(featureProtocol(nil, []string{"rowTracking", "domainMetadata"}))); err == nil {
		t.Error("row tracking begins, and the tail knows no files")
	}
	// A writer that names all that a line does not hold.
	named := strings.Replace(featureProtocol(nil, []string{"rowTracking", "domainMetadata"}), `{`, `{ "add" : null,"remove":null , `, 1)
	if err := f.tail().Advance(2, text(named)); err == nil {
		t.Error("row tracking begins behind a null, and the tail does not see it")
	}
	if _, err := f.log.Tail(t.Context(), 9); err == nil {
		t.Error("a version that is not there")
	} else if _, ok := errors.AsType[*tables.LogError](err); !ok {
		t.Error(err)
	}
}

// FuzzRewrite: whatever a client may stage, row ids go into it without a change to
// anything else.
func FuzzRewrite(f *testing.F) {
	for _, line := range []string{
		addRows("x", 1), addRows("x", 1, `"baseRowId":null`), addRows("x", 1, `"\u0062aseRowId": 3 ,"defaultRowCommitVersion":1e0`),
		`{"add":{"path":"x","partitionValues":{},"size":9007199254740993,"modificationTime":1,"dataChange":true,"stats":"{\"numRecords\":1}","x":[1e400,{}],"\u00e9":"<&>"}}`,
		removeLine("a.parquet", `"tags":null`), `{"txn":{"appId":"\ud83d\ude00","version":1}}`, domainOf("delta.rowTracking", `{"rowIdHighWaterMark":8}`),
	} {
		f.Add([]byte(line))
	}
	table := tracked(f, "")
	profile, tail := table.profile(), table.tail()
	f.Fuzz(func(t *testing.T, line []byte) {
		a, err := tables.ParseActions(tableURI, tables.Limits{LineBytes: 1 << 16}, line)
		if err != nil || tables.Validate(a, profile) != nil {
			return
		}
		in := staged(0)
		in.Txns[0].Pieces, in.Tail = [][]byte{line}, tail
		out, err := tables.RenderCommit(in)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tables.ParseCommit(tableURI, 1, out.Data); err != nil {
			t.Fatalf("%v\n%s", err, out.Data)
		}
		plainly, err := tables.RenderCommit(tables.RenderInput{Txns: in.Txns})
		if err != nil {
			t.Fatal(err)
		}
		before, after := withoutRowIDs(t, plainly.Data), withoutRowIDs(t, out.Data)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatalf("more than row ids changed (-before +after):\n%s", diff)
		}
	})
}

// withoutRowIDs decodes a version's payload and takes out what row tracking writes.
func withoutRowIDs(t *testing.T, raw []byte) (out []any) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n")[2:] {
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		var action map[string]map[string]any
		if err := d.Decode(&action); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if domain := action["domainMetadata"]; domain != nil && domain["domain"] == "delta.rowTracking" {
			continue
		}
		for _, fields := range action {
			delete(fields, "baseRowId")
			delete(fields, "defaultRowCommitVersion")
		}
		out = append(out, action)
	}
	return out
}
