package tables_test

import (
	"strings"
	"testing"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

func TestUnreadableFacts(t *testing.T) {
	f := plain(t)
	good := f.part(at(0, tables.ReadWholeTable), addLine("x"), txnLine("a", 1), removeLine("a.parquet"))
	rules := tables.Rules{}
	bad := []twophase.Facts{nil, {}, {99}, append(good[:len(good):len(good)], 0)}
	for n := range good {
		bad = append(bad, good[:n])
	}
	for _, b := range bad {
		switch {
		case rules.Checker().Conflict(b, good) == nil, rules.Checker().Conflict(good, b) == nil,
			rules.Impossible(b, good) == nil, rules.Impossible(good, b) == nil,
			rules.ImpossibleAt([]twophase.Facts{b}, f.state())[0] == nil,
			rules.Without([]twophase.Facts{b}, []bool{false})[0] == nil,
			tables.NewView(f.state()).Try().Fits(b) == nil:
			t.Fatalf("%d bytes of %d are taken", len(b), len(good))
		}
		if _, err := tables.NewView(f.state()).Apply(1, b); err == nil {
			t.Fatalf("%d bytes of %d are applied", len(b), len(good))
		}
	}
}

func TestReadDeclarationCheck(t *testing.T) {
	snapshot := twophase.SnapshotVersion(3)
	for name, c := range map[string]struct {
		read tables.ReadDeclaration
		ok   bool
	}{
		"blind":                 {blind, true},
		"version":               {at(4, tables.ReadNothing), true},
		"snapshot":              {tables.ReadDeclaration{Snapshot: &snapshot, Kind: tables.ReadWholeTable}, true},
		"no files":              {at(4, tables.ReadFiles), true},
		"none":                  {tables.ReadDeclaration{}, false},
		"two":                   {tables.ReadDeclaration{Version: version(1), Snapshot: &snapshot}, false},
		"blind and version":     {tables.ReadDeclaration{Blind: true, Version: version(1)}, false},
		"negative":              {at(-1, tables.ReadNothing), false},
		"blind with a read set": {tables.ReadDeclaration{Blind: true, Kind: tables.ReadWholeTable}, false},
		"blind with apps":       {tables.ReadDeclaration{Blind: true, Apps: []string{"a"}}, false},
		"files of another kind": {tables.ReadDeclaration{Version: version(1), Kind: tables.ReadWholeTable, Files: []string{"a"}}, false},
		"partitions, none":      {at(1, tables.ReadPartitions), false},
		"partitions, empty":     {tables.ReadDeclaration{Version: version(1), Kind: tables.ReadPartitions, Partitions: []tables.PartitionMatch{{}}}, false},
		"partitions, no value":  {tables.ReadDeclaration{Version: version(1), Kind: tables.ReadPartitions, Partitions: []tables.PartitionMatch{{{Column: "day"}}}}, false},
		"unknown kind":          {at(1, 9), false},
		"unknown isolation":     {with(9, at(1, tables.ReadNothing)), false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.read.Check(); (err == nil) != c.ok {
				t.Errorf("got %v, want ok: %t", err, c.ok)
			}
		})
	}
}

func TestPartFactsRefuses(t *testing.T) {
	f := vectored(t)
	for name, c := range map[string]struct {
		read  tables.ReadDeclaration
		lines []string
	}{
		"blind with a removal":  {blind, []string{removeLine("a.parquet")}},
		"blind with a domain":   {blind, []string{domainLine("d")}},
		"blind with metaData":   {blind, []string{metaOf(schemaJSON, nil, `"delta.enableDeletionVectors":"true"`)}},
		"blind with a protocol": {blind, []string{featureProtocol([]string{"deletionVectors"}, []string{"deletionVectors", "domainMetadata", "appendOnly", "changeDataFeed"})}},
		"blind with cdc":        {blind, []string{addLine("x"), `{"cdc":{"path":"c","partitionValues":{},"size":1,"dataChange":false}}`}},
		"no read point":         {tables.ReadDeclaration{}, []string{addLine("x")}},
		"bad path":              {readFiles("a%zz"), []string{addLine("x")}},
		"no partition column":   {readDays("2020-01-01"), []string{addLine("x")}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := tables.PartFacts(f.parse(c.lines...), f.profile(), c.read); err == nil {
				t.Error("taken")
			}
		})
	}
	if _, err := tables.ReadFacts(f.profile(), blind); err == nil {
		t.Error("a blind reader is taken")
	}
}

func TestPartitionValueSpellings(t *testing.T) {
	schema := func(dataType string) string {
		return `{"type":"struct","fields":[{"name":"v","type":"long"},{"name":"p","type":"` + dataType + `","nullable":true,"metadata":{}}]}`
	}
	for _, c := range []struct {
		dataType, read, written string
		conflict                bool
	}{
		{"string", "a", "a", true},
		{"string", "a", "A", false},
		{"string", "1", "01", false},
		{"string", "", "", true},
		{"string", "a", "", false},
		{"integer", "1", "01", true},
		{"integer", "1", "+1", true},
		{"integer", "1", "2", false},
		{"long", "1", "one", true},
		{"long", "99999999999999999999", "3", true},
		{"boolean", "true", "TRUE", true},
		{"boolean", "true", "false", false},
		{"boolean", "true", "yes", true},
		{"date", "2020-01-01", "2020-01-01", true},
		{"date", "2020-01-01", "2020-01-02", false},
		{"date", "2020-01-01", "2020-1-2", true},
		{"date", "2020-01-01", "2020/01/02", true},
		{"timestamp", "2020-01-01 00:00:00", "2021-01-01T00:00:00Z", true},
		{"timestamp", "2020-01-01 00:00:00", "", true},
		{"timestamp", "2020-01-01 00:00:00", "2021-01-01 00:00:00", true}, // in whose zone?
		{"timestamp", "2020-01-01T00:00:00.000000Z", "2020-01-01T01:00:00+01:00", true},
		{"timestamp", "2020-01-01T00:00:00.000000Z", "2020-01-01T00:00:00.000001Z", false},
		{"timestamp_ntz", "2020-01-01 00:00:00", "2020-01-01T00:00:00.000", true},
		{"timestamp_ntz", "2020-01-01 00:00:00", "2020-01-01 00:00:00.5", false},
		{"timestamp_ntz", "2020-01-01 00:00:00", "2020-01-01T00:00:00Z", true},
		{"decimal(10,2)", "1.0", "2", false},
		{"decimal(10,2)", "1.0", "+01.", true},
		{"decimal(10,2)", "-0.00", "0", true},
		{"decimal(10,2)", "-1.50", "1.5", false},
		{"decimal(10,2)", "-1.50", "-1.5", true},
		{"decimal(10,2)", "1E+1", "3", true},
		{"double", "1", "2", false},
		{"double", "1", "1.0E0", true},
		{"double", "-0.0", "0", true},
		{"double", "0.1", "0.10000000149011612", false},
		{"float", "0.1", "0.10000000149011612", true},
		{"double", "NaN", "1", true},
		{"double", "0x1p3", "7", true},
		{"binary", "a", "b", true},
	} {
		f := newFixture(t).commit(plainProtocol, metaOf(schema(c.dataType), []string{"p"}, ""))
		read := at(0, tables.ReadPartitions)
		condition := tables.PartitionCondition{Column: "P", Values: []string{c.read}}
		if c.read == "" {
			condition = tables.PartitionCondition{Column: "p", OrNull: true}
		}
		read.Partitions = []tables.PartitionMatch{{condition}}
		add := strings.Replace(addLine("x"), `"partitionValues":{}`, `"partitionValues":{"p":"`+c.written+`"}`, 1)
		got := (tables.Rules{}).Checker().Conflict(f.part(read, txnLine("a", 1)), f.foreign(add))
		if (got != nil) != c.conflict {
			t.Errorf("%s: read %q, written %q: got %+v, want a conflict: %t", c.dataType, c.read, c.written, got, c.conflict)
		}
	}
}

func TestConflictOfManyFiles(t *testing.T) {
	f := plain(t)
	big := f.part(at(0, tables.ReadNothing), append(manyAdds(1000), removeLine("a.parquet"))...)
	rules := tables.Rules{}
	for path, want := range map[string]twophase.Rule{"f0": twophase.RulePathExists, "f999": twophase.RulePathExists, "f1000": twophase.RuleNone} {
		small := f.part(blind, addLine(path))
		if a, b := rules.Checker().Conflict(big, small), rules.Checker().Conflict(small, big); ruleOf(a) != want || ruleOf(b) != want {
			t.Errorf("%s: got %+v and %+v, want %v", path, a, b, want)
		}
	}
}

func FuzzFacts(f *testing.F) {
	table := partitioned(f)
	good := table.part(readDays("2020-01-01"), addIn("x", "2020-01-01", "eu"), txnLine("a", 1), removeLine("y"))
	f.Add([]byte(good), []byte(good))
	f.Add([]byte(table.foreign(metaOf(moreColumns(false), nil, ""), plainProtocol)), []byte(good))
	f.Add([]byte{}, []byte{1})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		table := &fixture{t: t, log: table.log}
		rules := tables.Rules{}
		rules.Checker().Conflict(a, b)
		rules.Impossible(a, b)
		rules.Without([]twophase.Facts{a, b}, []bool{true, false})
		rules.ImpossibleAt([]twophase.Facts{a, b}, table.state())
		view := tables.NewView(table.state())
		if _, err := view.Apply(1, a); err == nil {
			trial := view.Try()
			trial.Take(b)
			trial.Fits(a)
		}
	})
}
