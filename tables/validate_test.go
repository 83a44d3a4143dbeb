package tables_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

func TestValidateRefuses(t *testing.T) {
	appendOnly := newFixture(t).commit(plainProtocol, metaOf(schemaJSON, nil, `"delta.appendOnly":"true"`), addLine("a.parquet"))
	legacy := newFixture(t).commit(`{"protocol":{"minReaderVersion":1,"minWriterVersion":1}}`, metaOf(schemaJSON, nil, `"delta.appendOnly":"true"`), addLine("a.parquet"))
	mapped := newFixture(t).commit(`{"protocol":{"minReaderVersion":2,"minWriterVersion":5}}`, metaOf(mappedSchema, []string{"day"}, `"delta.columnMapping.mode":"name"`))
	noVectors := newFixture(t).commit(featureProtocol([]string{"deletionVectors"}, []string{"deletionVectors"}), metaOf(schemaJSON, nil, ""), addLine("a"))
	counted := newFixture(t).commit(`{"protocol":{"minReaderVersion":1,"minWriterVersion":6}}`, metaOf(identitySchema(1, "9"), nil, ""))
	downwards := newFixture(t).commit(`{"protocol":{"minReaderVersion":1,"minWriterVersion":6}}`, metaOf(identitySchema(-1, "-9"), nil, ""))
	for name, c := range map[string]struct {
		table  *fixture
		lines  []string
		line   int
		reason string
		rule   twophase.Rule
	}{
		"partition key missing":   {partitioned(t), []string{addIn("ok", "2020-01-01", "eu"), addLine("a")}, 2, "[day, region]", twophase.RuleSchema},
		"partition key misspelt":  {partitioned(t), []string{strings.Replace(addIn("a", "", ""), `"day"`, `"Day"`, 1)}, 1, "[day, region]", twophase.RuleSchema},
		"partition key too many":  {plain(t), []string{addIn("a", "", "")}, 1, "columns []", twophase.RuleSchema},
		"partition key of remove": {partitioned(t), []string{removeLine("a", `"partitionValues":{"x":"1"}`)}, 1, "[day, region]", twophase.RuleSchema},
		"logical partition name":  {mapped, []string{strings.Replace(addLine("a"), `"partitionValues":{}`, `"partitionValues":{"day":"2020-01-01"}`, 1)}, 1, "[col-day]", twophase.RuleSchema},
		"append-only":             {appendOnly, []string{addLine("b"), removeLine("a.parquet")}, 2, "append-only", twophase.RuleAppendOnly},
		"vector, no feature":      {plain(t), []string{removeLine("a.parquet"), addDV("a.parquet", "x")}, 2, "feature deletionVectors", twophase.RuleProtocol},
		"vector, not enabled":     {noVectors, []string{removeLine("a"), addDV("a", "x")}, 2, "enableDeletionVectors", twophase.RuleProtocol},
		"domain, no feature":      {plain(t), []string{domainLine("d")}, 0, "feature domainMetadata", twophase.RuleProtocol},
		"feature dropped":         {vectored(t), []string{featureProtocol([]string{"deletionVectors"}, []string{"deletionVectors", "domainMetadata", "appendOnly"})}, 0, "cannot be dropped", twophase.RuleProtocol},
		"protocol goes back":      {vectored(t), []string{plainProtocol}, 0, "cannot be dropped", twophase.RuleProtocol},
		"reader list missing":     {plain(t), []string{`{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"writerFeatures":["appendOnly","invariants"]}}`}, 0, "minReaderVersion 3", twophase.RuleProtocol},
		"writer list missing":     {plain(t), []string{`{"protocol":{"minReaderVersion":1,"minWriterVersion":7}}`}, 0, "minWriterVersion 7", twophase.RuleProtocol},
		"reader 3, writer 6":      {plain(t), []string{`{"protocol":{"minReaderVersion":3,"minWriterVersion":6,"readerFeatures":[]}}`}, 0, "must be 7", twophase.RuleProtocol},
		"reader feature alone":    {plain(t), []string{featureProtocol([]string{"deletionVectors"}, []string{"appendOnly", "invariants"})}, 0, "writerFeatures as well", twophase.RuleProtocol},
		"writer feature alone":    {plain(t), []string{featureProtocol([]string{}, []string{"appendOnly", "invariants", "deletionVectors"})}, 0, "readerFeatures as well", twophase.RuleProtocol},
		"another id":              {plain(t), []string{metaWithID("other", schemaJSON, nil, "")}, 0, "cannot be replaced|not the table's", twophase.RuleSchema},
		"no schema":               {plain(t), []string{metaOf("", nil, "")}, 0, "missing", twophase.RuleSchema},
		"schema is no JSON":       {plain(t), []string{metaOf("{", nil, "")}, 0, "schemaString", twophase.RuleSchema},
		"schema is no struct":     {plain(t), []string{metaOf(`{"type":"array"}`, nil, "")}, 0, "want struct", twophase.RuleSchema},
		"unknown type":            {plain(t), []string{metaOf(`{"type":"struct","fields":[{"name":"a","type":"int8"}]}`, nil, "")}, 0, "unknown type", twophase.RuleSchema},
		"column twice":            {plain(t), []string{metaOf(`{"type":"struct","fields":[{"name":"a","type":"long"},{"name":"A","type":"long"}]}`, nil, "")}, 0, "twice", twophase.RuleSchema},
		"partition not in schema": {plain(t), []string{metaOf(schemaJSON, []string{"x"}, "")}, 0, "not a column", twophase.RuleSchema},
		"property, no feature":    {plain(t), []string{metaOf(schemaJSON, nil, `"delta.enableDeletionVectors":"true"`)}, 0, "needs the table feature deletionVectors", twophase.RuleProtocol},
		"constraint, no feature":  {plain(t), []string{metaOf(schemaJSON, nil, `"delta.constraints.c":"id > 0"`)}, 0, "checkConstraints", twophase.RuleProtocol},
		"identity falls":          {counted, []string{metaOf(identitySchema(1, "8"), nil, "")}, 0, "may not go back; it is 9", twophase.RuleSchema},
		"identity starts anew":    {counted, []string{metaOf(identitySchema(1, "null"), nil, "")}, 0, "may not go back; it is 9", twophase.RuleSchema},
		"identity rises":          {downwards, []string{metaOf(identitySchema(-1, "-8"), nil, "")}, 0, "may not go back; it is -9", twophase.RuleSchema},
		"short log retention":     {plain(t), []string{metaOf(schemaJSON, nil, `"delta.logRetentionDuration":"interval 1 hour"`)}, 0, "shorter than a day", twophase.RuleNone},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := tables.ParseActions(tableURI, tables.Limits{}, text(c.lines...))
			if err != nil {
				t.Fatal(err)
			}
			err = tables.Validate(a, c.table.profile())
			in, ok := errors.AsType[*tables.InputError](err)
			if !ok {
				t.Fatalf("got %v, want an InputError", err)
			}
			reason, _, _ := strings.Cut(c.reason, "|")
			_, other, _ := strings.Cut(c.reason, "|")
			if in.Line != c.line || in.Rule != c.rule || !strings.Contains(in.Error(), reason) && (other == "" || !strings.Contains(in.Error(), other)) {
				t.Errorf("got line %d, %v: %v\nwant line %d, %v: %s", in.Line, in.Rule, in, c.line, c.rule, c.reason)
			}
		})
	}
	// Writer version 1 does not have the feature in force.
	legacy.parse(removeLine("a.parquet"))
}

const mappedSchema = `{"type":"struct","fields":[` +
	`{"name":"id","type":"long","nullable":true,"metadata":{"delta.columnMapping.id":1,"delta.columnMapping.physicalName":"col-id"}},` +
	`{"name":"day","type":"date","nullable":true,"metadata":{"delta.columnMapping.id":2,"delta.columnMapping.physicalName":"col-day"}}]}`

// identitySchema is one with an identity column, and how far its values go.
func identitySchema(step int, mark string) string {
	return strings.Replace(schemaJSON, `"metadata":{}`, fmt.Sprintf(`"metadata":{"delta.identity.start":1,"delta.identity.step":%d,"delta.identity.highWaterMark":%s}`, step, mark), 1)
}

func TestValidateAccepts(t *testing.T) {
	const six = `{"protocol":{"minReaderVersion":1,"minWriterVersion":6}}`
	rearranged := func(line string) string { return strings.Replace(line, `"dataChange":true`, `"dataChange":false`, 1) }
	for name, c := range map[string]struct {
		table *fixture
		lines []string
	}{
		"partition values":                                   {partitioned(t), []string{addIn("a", "2020-01-01", ""), removeIn("b", "", "eu"), removeLine("c")}},
		"physical partition name":                            {newFixture(t).commit(`{"protocol":{"minReaderVersion":2,"minWriterVersion":5}}`, metaOf(mappedSchema, []string{"day"}, `"delta.columnMapping.mode":"name"`)), []string{strings.Replace(addLine("a"), `"partitionValues":{}`, `"partitionValues":{"col-day":"2020-01-01"}`, 1)}},
		"append-only, only moves":                            {newFixture(t).commit(plainProtocol, metaOf(schemaJSON, nil, `"delta.appendOnly":"true"`)), []string{rearranged(removeLine("a")), rearranged(addLine("b"))}},
		"append-only property, but the feature is not named": {newFixture(t).commit(featureProtocol(nil, []string{"invariants"}), metaOf(schemaJSON, nil, `"delta.appendOnly":"true"`)), []string{removeLine("a")}},
		"vectors":               {vectored(t), []string{removeLine("a.parquet"), addDV("a.parquet", "x"), domainLine("d")}},
		"protocol and property": {plain(t), []string{featureProtocol([]string{"deletionVectors"}, []string{"deletionVectors", "appendOnly", "invariants"}), metaOf(schemaJSON, nil, `"delta.enableDeletionVectors":"true"`), removeLine("a.parquet"), addDV("a.parquet", "x")}},
		"identity goes on":      {newFixture(t).commit(six, metaOf(identitySchema(1, "9"), nil, "")), []string{metaOf(identitySchema(1, "12"), nil, "")}},
		"identity goes down":    {newFixture(t).commit(six, metaOf(identitySchema(-2, "-9"), nil, "")), []string{metaOf(identitySchema(-2, "-11"), nil, "")}},
		"identity begins":       {newFixture(t).commit(six, metaOf(identitySchema(1, "null"), nil, "")), []string{metaOf(identitySchema(1, "1"), nil, "")}},
		"identity ends":         {newFixture(t).commit(six, metaOf(identitySchema(1, "9"), nil, "")), []string{metaOf(schemaJSON, nil, "")}},
		"partitioning changes":  {plain(t), []string{metaOf(schemaJSON, []string{"day", "region"}, ""), removeLine("a.parquet"), addIn("b", "2020-01-01", "eu")}},
		"legacy protocol rises": {plain(t), []string{`{"protocol":{"minReaderVersion":1,"minWriterVersion":4}}`, metaOf(schemaJSON, nil, `"delta.enableChangeDataFeed":"true"`)}},
	} {
		t.Run(name, func(t *testing.T) { c.table.parse(c.lines...) })
	}
}

func TestFeatures(t *testing.T) {
	identity := strings.Replace(schemaJSON, `"metadata":{}`, `"metadata":{"delta.identity.start":1,"delta.identity.step":1}`, 1)
	var readers, writers []string
	for _, f := range tables.Features() {
		switch {
		case f.Policy == tables.Refuse:
		case f.Reader:
			readers = append(readers, f.Name)
		default:
			writers = append(writers, f.Name)
		}
	}
	for name, c := range map[string]struct {
		protocol, schema string
		read, write      string // the feature that keeps us out; empty if none does
	}{
		"legacy 1/1":                             {`{"protocol":{"minReaderVersion":1,"minWriterVersion":1}}`, schemaJSON, "", ""},
		"legacy 2/5":                             {`{"protocol":{"minReaderVersion":2,"minWriterVersion":5}}`, schemaJSON, "", ""},
		"legacy 1/6":                             {`{"protocol":{"minReaderVersion":1,"minWriterVersion":6}}`, schemaJSON, "", ""},
		"legacy 1/6, identity":                   {`{"protocol":{"minReaderVersion":1,"minWriterVersion":6}}`, identity, "", ""},
		"everything that is released":            {featureProtocol(slices.Clone(readers), slices.Concat(writers, readers)), schemaJSON, "", ""},
		"catalog-managed":                        {featureProtocol([]string{"catalogManaged"}, []string{"catalogManaged"}), schemaJSON, "", "catalogManaged"},
		"a writer's, unknown":                    {featureProtocol(nil, []string{"appendOnly", "nobodyKnows"}), schemaJSON, "", "nobodyKnows"},
		"a reader's, unknown":                    {featureProtocol([]string{"adaptiveMetadata"}, []string{"adaptiveMetadata"}), schemaJSON, "adaptiveMetadata", "adaptiveMetadata"},
		"a reader's name that only writers have": {featureProtocol([]string{"appendOnly"}, []string{"appendOnly"}), schemaJSON, "appendOnly", "appendOnly"},
		"reader version 4":                       {`{"protocol":{"minReaderVersion":4,"minWriterVersion":7,"readerFeatures":[],"writerFeatures":[]}}`, schemaJSON, "minReaderVersion 4", "minReaderVersion 4"},
		"writer version 8":                       {`{"protocol":{"minReaderVersion":1,"minWriterVersion":8,"writerFeatures":[]}}`, schemaJSON, "", "minWriterVersion 8"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t).commit(c.protocol, metaOf(c.schema, nil, ""))
			s, err := f.log.State(t.Context(), tables.Latest)
			if c.read != "" {
				fault, ok := errors.AsType[*tables.LogError](err)
				feature, named := errors.AsType[*tables.FeatureError](err)
				if !ok || fault.Fault != tables.Unsupported || !named || feature.Feature != c.read {
					t.Fatalf("read: got %v, want %s", err, c.read)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			err = s.Profile().CheckWritable()
			if feature, ok := errors.AsType[*tables.FeatureError](err); c.write == "" && err != nil ||
				c.write != "" && (!ok || feature.Feature != c.write || !feature.Write || feature.Table != tableURI) {
				t.Errorf("write: got %v, want %q", err, c.write)
			}
		})
	}
}
