package tables_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
)

func TestParseInterval(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"interval 30 days": 30 * day, "interval 1 day": day, "INTERVAL 1 WEEK": 7 * day, "interval 1 week 12 hours": 7*day + 12*time.Hour,
		"30 days": 30 * day, "interval 0 days": 0, "interval 90 minutes": 90 * time.Minute, "interval 1 second 5 milliseconds 7 microseconds": time.Second + 5*time.Millisecond + 7*time.Microsecond,
	} {
		if got, err := tables.ParseInterval(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "interval", "interval days", "interval 3 months", "interval 1 year", "interval -1 days", "interval x days", "interval 1.5 days", "interval 99999999999999 days", "interval 100000 days 9999999999 minutes 99999999999 seconds", "interval 1 day 3"} {
		if got, err := tables.ParseInterval(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

func TestCheckRegister(t *testing.T) {
	table := func(config string) *fixture {
		return newFixture(t).commit(plainProtocol, metaOf(schemaJSON, nil, config))
	}
	for name, c := range map[string]struct {
		f      *fixture
		field  string // refused for this property or feature
		remedy string
		warns  []string
	}{
		"plain":                       {table(""), "", "", nil},
		"long retention":              {table(`"delta.logRetentionDuration":"interval 1 day"`), "", "", nil},
		"short retention":             {table(`"delta.logRetentionDuration":"interval 23 hours"`), "delta.logRetentionDuration", "interval 30 days", nil},
		"retention that nobody reads": {table(`"delta.logRetentionDuration":"3 moons"`), "delta.logRetentionDuration", "interval 30 days", nil},
		"transaction retention":       {table(`"delta.setTransactionRetentionDuration":"interval 365 days"`), "delta.setTransactionRetentionDuration", "UNSET", nil},
		"feature":                     {newFixture(t).commit(featureProtocol([]string{"catalogManaged"}, []string{"catalogManaged"}), metaOf(schemaJSON, nil, "")), "catalogManaged", "", nil},
		"files are kept too short":    {table(`"delta.deletedFileRetentionDuration":"interval 2 hours"`), "", "", []string{"VACUUM"}},
		"file retention not readable": {table(`"delta.deletedFileRetentionDuration":"soon"`), "", "", []string{"cannot be read"}},
		"isolation not known":         {table(`"delta.isolationLevel":"Chaos"`), "", "", []string{"Serializable is used"}},
		"isolation known":             {table(`"delta.isolationLevel":"writeserializable"`), "", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			warnings, err := tables.CheckRegister(c.f.state(), 24*time.Hour, false)
			input, isInput := errors.AsType[*tables.InputError](err)
			feature, isFeature := errors.AsType[*tables.FeatureError](err)
			named := isInput && input.Field == c.field && strings.Contains(input.Remedy, c.remedy) || isFeature && feature.Feature == c.field
			if named != (c.field != "") || err != nil && !named {
				t.Errorf("got %v, want %q refused with %q", err, c.field, c.remedy)
			}
			if len(warnings) != len(c.warns) {
				t.Fatalf("warnings: %q, want %d", warnings, len(c.warns))
			}
			for i, w := range c.warns {
				if !strings.Contains(warnings[i], w) {
					t.Errorf("warning %q, want %q", warnings[i], w)
				}
			}
		})
	}
}

func TestOwner(t *testing.T) {
	f := plain(t)
	ctx := t.Context()
	mine := tables.Owner{Catalog: "cat", Incarnation: "i1", Table: "t1"}
	if _, err := f.log.Owner(ctx); !errors.Is(err, objstore.ErrNotFound) {
		t.Fatalf("no owner yet: %v", err)
	}
	if err := f.log.Disclaim(ctx, mine); err != nil {
		t.Errorf("disclaim what nobody claims: %v", err)
	}
	claim := func(o tables.Owner, takeOver bool) error { return f.log.Claim(ctx, o, takeOver) }
	holds := func(want tables.Owner) {
		t.Helper()
		want.Format = 1
		got, err := f.log.Owner(ctx)
		if err == nil && got.Since.IsZero() {
			t.Error("since when is not known")
		}
		if err == nil {
			got.Since = time.Time{}
		}
		if err != nil || cmp.Diff(&want, got) != "" {
			t.Errorf("owner: %+v, %v, want %+v", got, err, want)
		}
	}
	for range 2 {
		if err := claim(mine, false); err != nil {
			t.Fatal(err)
		}
		holds(mine)
	}
	raw, _, err := f.store.Get(ctx, tableKey+"/_delta_log/_txcoord/owner.json", objstore.Range{})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "owner.json", raw)
	if l, err := f.log.List(ctx, 0); err != nil || !l.Owner {
		t.Errorf("the listing does not show the owner: %+v, %v", l, err)
	}

	other := tables.Owner{Catalog: "dog", Incarnation: "i9", Table: "t7"}
	owned, ok := errors.AsType[*tables.OwnedError](claim(other, false))
	if !ok || owned.Owner.Catalog != "cat" || !strings.Contains(owned.Error(), "cat") {
		t.Errorf("claimed by another: %v", owned)
	}
	if _, ok := errors.AsType[*tables.OwnedError](claim(tables.Owner{Catalog: "cat", Incarnation: "i1", Table: "t2"}, false)); !ok {
		t.Error("another table of the catalog may claim it")
	}
	holds(mine)

	rebuilt := tables.Owner{Catalog: "cat", Incarnation: "i2", Table: "t1"}
	if err := claim(rebuilt, false); err != nil {
		t.Errorf("a new incarnation: %v", err)
	}
	holds(rebuilt)
	rebuilt.Name, rebuilt.Mode, rebuilt.OneTxnPerVersion = "orders", "delta-storage", true
	if err := claim(rebuilt, false); err != nil {
		t.Errorf("what the catalog calls it: %v", err)
	}
	holds(rebuilt)
	raw, _, err = f.store.Get(ctx, tableKey+"/_delta_log/_txcoord/owner.json", objstore.Range{})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "owner-named.json", raw)
	if err := claim(other, true); err != nil {
		t.Errorf("take over: %v", err)
	}
	holds(other)
	if _, ok := errors.AsType[*tables.OwnedError](f.log.Disclaim(ctx, mine)); !ok {
		t.Error("disclaimed by somebody else")
	}
	if err := f.log.Disclaim(ctx, other); err != nil {
		t.Error(err)
	}
	if _, err := f.log.Owner(ctx); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("owner after release: %v", err)
	}
	for _, junk := range []string{"", "{", "{}", `{"format":2,"catalog":"x"}`} {
		f.put("_txcoord/owner.json", []byte(junk))
		if e, ok := errors.AsType[*tables.LogError](claim(mine, false)); !ok || e.Fault != tables.BadTags {
			t.Errorf("owner object %q: %v", junk, e)
		}
	}
}

func TestRenderCreate(t *testing.T) {
	for name, c := range map[string]struct {
		in   tables.CreateInput
		want string // reader/writer versions
	}{
		"plain":         {tables.CreateInput{}, "1/2"},
		"partitioned":   {tables.CreateInput{PartitionColumns: []string{"day", "region"}, Name: "orders", Description: `all "orders" <€>`}, "1/2"},
		"append-only":   {tables.CreateInput{Properties: map[string]string{"delta.appendOnly": "true"}}, "1/2"},
		"constraint":    {tables.CreateInput{Properties: map[string]string{"delta.constraints.positive": "id > 0"}}, "1/3"},
		"change feed":   {tables.CreateInput{Properties: map[string]string{"delta.enableChangeDataFeed": "true"}}, "1/4"},
		"vectors":       {tables.CreateInput{Properties: map[string]string{"delta.enableDeletionVectors": "true", "x": "y"}}, "3/7"},
		"named feature": {tables.CreateInput{Properties: map[string]string{"delta.feature.domainMetadata": "supported"}}, "1/7"},
		"timestamp":     {tables.CreateInput{Schema: strings.Replace(schemaJSON, `"date"`, `"timestamp_ntz"`, 1)}, "3/7"},
	} {
		t.Run(name, func(t *testing.T) {
			in := c.in
			if in.Schema == "" {
				in.Schema = schemaJSON
			}
			in.URI, in.ID, in.Time, in.EngineVersion = tableURI, tableID, 1764432000000, "1.2.3"
			raw, err := tables.RenderCreate(in)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "create/"+fileName(name)+".json", raw)
			f := newFixture(t)
			if err := f.log.PutCommit(t.Context(), 0, raw); err != nil {
				t.Fatal(err)
			}
			s := f.state()
			p := s.Profile()
			if got := p.Protocol; c.want != strings.Join([]string{digit(got.MinReader), digit(got.MinWriter)}, "/") {
				t.Errorf("protocol %s, want %s", got.Raw, c.want)
			}
			if p.MetaData.Schema != in.Schema || p.MetaData.Name != in.Name || p.MetaData.Description != in.Description || p.MetaData.ID != tableID {
				t.Errorf("metaData: %s", p.MetaData.Raw)
			}
			if _, err := tables.CheckRegister(s, time.Hour, false); err != nil {
				t.Errorf("created, and not to be registered: %v", err)
			}
		})
	}
}

func digit(n int) string { return string(rune('0' + n)) }

func TestRenderCreateRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*tables.CreateInput)
		want   string
	}{
		"no id":            {func(in *tables.CreateInput) { in.ID = "" }, "id: is missing"},
		"no schema":        {func(in *tables.CreateInput) { in.Schema = "" }, "schema: is missing"},
		"broken schema":    {func(in *tables.CreateInput) { in.Schema = "{" }, "schema"},
		"no columns":       {func(in *tables.CreateInput) { in.Schema = `{"type":"struct","fields":[]}` }, "no column"},
		"unknown column":   {func(in *tables.CreateInput) { in.PartitionColumns = []string{"x"} }, "not a column"},
		"column twice":     {func(in *tables.CreateInput) { in.PartitionColumns = []string{"day", "day"} }, "twice"},
		"all columns":      {func(in *tables.CreateInput) { in.PartitionColumns = []string{"id", "day", "region"} }, "every column"},
		"nested partition": {func(in *tables.CreateInput) { in.Schema = nested; in.PartitionColumns = []string{"s"} }, "nested type"},
		"catalog": {func(in *tables.CreateInput) {
			in.Properties = map[string]string{"delta.feature.catalogManaged": "supported"}
		}, "feature catalogManaged"},
		"unknown feature": {func(in *tables.CreateInput) { in.Properties = map[string]string{"delta.feature.magic": "supported"} }, "feature magic"},
		"column mapping":  {func(in *tables.CreateInput) { in.Properties = map[string]string{"delta.columnMapping.mode": "name"} }, "column"},
		"retention": {func(in *tables.CreateInput) {
			in.Properties = map[string]string{"delta.logRetentionDuration": "interval 1 hour"}
		}, "shorter than a day"},
	} {
		t.Run(name, func(t *testing.T) {
			in := tables.CreateInput{URI: tableURI, ID: tableID, Schema: schemaJSON}
			c.change(&in)
			if got, err := tables.RenderCreate(in); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %s, %v, want %q", got, err, c.want)
			}
		})
	}
}

const nested = `{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"s","nullable":true,"metadata":{},"type":{"type":"struct","fields":[` +
	`{"name":"x","type":{"type":"array","elementType":"long","containsNull":true},"nullable":true,"metadata":{}},` +
	`{"name":"m","type":{"type":"map","keyType":"string","valueType":"decimal(10,2)","valueContainsNull":true},"nullable":true,"metadata":{}}]}}]}`

func TestRetention(t *testing.T) {
	for config, want := range map[string][2]time.Duration{
		"": {30 * 24 * time.Hour, 7 * 24 * time.Hour},
		`"delta.logRetentionDuration":"interval 60 days","delta.deletedFileRetentionDuration":"interval 3 hours"`: {60 * 24 * time.Hour, 3 * time.Hour},
		`"delta.logRetentionDuration":"x","delta.deletedFileRetentionDuration":"y"`:                               {30 * 24 * time.Hour, 7 * 24 * time.Hour},
	} {
		p := newFixture(t).commit(plainProtocol, metaOf(schemaJSON, nil, config)).profile()
		if got := [2]time.Duration{p.LogRetention(), p.DeletedFileRetention()}; got != want {
			t.Errorf("%s: got %v, want %v", config, got, want)
		}
	}
}
