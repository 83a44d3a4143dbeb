package tables_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/tables"
)

func clustered(t testing.TB) *fixture {
	return newFixture(t).commit(featureProtocol(nil, []string{"clustering", "domainMetadata"}), metaOf(schemaJSON, nil, ""),
		domainOf("delta.clustering", `{"clusteringColumns":[["id"],["day"]],"domainName":"delta.clustering"}`))
}

func iceberg(t testing.TB) *fixture {
	return newFixture(t).commit(featureProtocol([]string{"deletionVectors", "columnMapping"}, []string{"deletionVectors", "columnMapping", "icebergCompatV2"}),
		metaOf(mappedSchema, nil, `"delta.enableIcebergCompatV2":"true","delta.enableDeletionVectors":"true","delta.columnMapping.mode":"name","delta.columnMapping.maxColumnId":"2"`), addRows("a.parquet", 1))
}

func statsLine(path, stats string) string { return addLine(path, fmt.Sprintf(`"stats":%q`, stats)) }

// What features ask of a part is refused when it is staged, with line and remedy.
func TestFeaturesAreChecked(t *testing.T) {
	const whole = `{"numRecords":2,"minValues":{"id":1,"day":"2020-01-01"},"maxValues":{"id":1},"nullCount":{"id":0,"day":1}}`
	ict := newFixture(t).commit(`{"commitInfo":{"inCommitTimestamp":5}}`, featureProtocol(nil, []string{"inCommitTimestamp"}),
		metaOf(schemaJSON, nil, timesOn+`,"delta.inCommitTimestampEnablementVersion":"3","delta.inCommitTimestampEnablementTimestamp":"4"`))
	waiting := newFixture(t).commit(featureProtocol(nil, []string{"appendOnly"}), metaOf(schemaJSON, nil, timesOn))
	mapping := `"delta.enableIcebergCompatV2":"true","delta.enableDeletionVectors":"true","delta.columnMapping.mode":"%s","delta.columnMapping.maxColumnId":"%d"`
	protected := newFixture(t).commit(featureProtocol(nil, []string{"checkpointProtection"}), metaOf(schemaJSON, nil, `"delta.requireCheckpointProtectionBeforeVersion":"7"`))
	names := `"delta.enableRowTracking":"true","delta.rowTracking.materializedRowIdColumnName":"r","delta.enableDeletionVectors":"true"`
	for name, c := range map[string]struct {
		table  *fixture
		lines  []string
		reason string // empty: it is taken
	}{
		"row ids, no count":             {tracked(t, ""), []string{addRows("x", 1), addLine("y")}, "line 2: add.stats: numRecords is missing, which the table's feature rowTracking needs"},
		"row ids, suspended":            {tracked(t, `,"delta.rowTrackingSuspended":"true"`), []string{addLine("y")}, ""},
		"row ids, mark while suspended": {tracked(t, `,"delta.rowTrackingSuspended":"true"`), []string{domainOf("delta.rowTracking", `{"rowIdHighWaterMark":20}`)}, "suspended"},
		"row ids, given out":            {tracked(t, ""), []string{addRows("x", 2, `"baseRowId":10,"defaultRowCommitVersion":1`), domainOf("delta.rowTracking", `{"rowIdHighWaterMark":11}`)}, ""},
		"row ids, only reserved":        {tracked(t, ""), []string{addRows("x", 2), domainOf("delta.rowTracking", `{"rowIdHighWaterMark":1000}`)}, "cannot be reserved"},
		"row ids, a mark of nothing":    {tracked(t, ""), []string{domainOf("delta.rowTracking", `{"mark":3}`)}, "does not hold rowIdHighWaterMark"},
		"row ids, domain removed":       {tracked(t, ""), []string{`{"domainMetadata":{"domain":"delta.rowTracking","configuration":"{}","removed":true}}`}, "does not hold"},
		"row ids, no feature":           {plain(t), []string{addLine("x", `"baseRowId":1`)}, "line 1: add.baseRowId: the table does not have the feature rowTracking"},
		"row ids, null, no feature":     {plain(t), []string{addLine("x", `"baseRowId":null,"defaultRowCommitVersion":null`)}, ""},
		"row ids, domain, no feature":   {vectored(t), []string{domainOf("delta.rowTracking", `{"rowIdHighWaterMark":1}`)}, "feature rowTracking"},
		"row tracking, one name":        {tracked(t, ""), []string{metaOf(schemaJSON, nil, names)}, "materializedRowCommitVersionColumnName"},
		"row tracking, both states":     {tracked(t, ""), []string{metaOf(schemaJSON, nil, names+`,"delta.rowTrackingSuspended":"true"`)}, "enabled and suspended"},

		"iceberg, no count":     {iceberg(t), []string{addLine("x")}, "feature icebergCompatV2 needs"},
		"iceberg, vector":       {iceberg(t), []string{removeLine("a.parquet"), addDV("a.parquet", "v")}, "does not allow deletion vectors"},
		"iceberg, partitions":   {iceberg(t), []string{metaOf(mappedSchema, []string{"day"}, fmt.Sprintf(mapping, "name", 2))}, "partitionColumns: cannot change"},
		"iceberg, counted":      {iceberg(t), []string{addRows("x", 3)}, ""},
		"mapping, switched off": {iceberg(t), []string{metaOf(mappedSchema, nil, fmt.Sprintf(mapping, "none", 2))}, "delta.columnMapping.mode: cannot be changed from name"},
		"mapping, the id falls": {iceberg(t), []string{metaOf(mappedSchema, nil, fmt.Sprintf(mapping, "name", 1))}, "may not fall"},
		"mapping, the id rises": {iceberg(t), []string{metaOf(mappedSchema, nil, fmt.Sprintf(mapping, "name", 9))}, ""},

		"clustering, statistics":       {clustered(t), []string{statsLine("x", whole)}, ""},
		"clustering, all null":         {clustered(t), []string{statsLine("x", `{"numRecords":1,"minValues":{"id":1},"maxValues":{"id":1},"nullCount":{"id":0,"day":1}}`)}, ""},
		"clustering, no statistics":    {clustered(t), []string{statsLine("y", whole), addLine("x")}, "line 2: add.stats: the table is clustered, and there are no statistics on column id"},
		"clustering, no count of null": {clustered(t), []string{statsLine("x", `{"numRecords":1,"minValues":{"id":1,"day":"2020-01-01"},"nullCount":{"id":0}}`)}, "column day"},
		"clustering, no least value":   {clustered(t), []string{statsLine("x", `{"numRecords":2,"minValues":{"id":1},"nullCount":{"id":0,"day":1}}`)}, "column day"},
		"clustering, other columns":    {clustered(t), []string{domainOf("delta.clustering", `{"clusteringColumns":[["region"]]}`), statsLine("x", whole)}, "column region"},
		"clustering, given up":         {clustered(t), []string{domainOf("delta.clustering", `{"clusteringColumns":[]}`), addLine("x")}, ""},
		"clustering, broken":           {clustered(t), []string{domainOf("delta.clustering", `{"clusteringColumns":1}`)}, "clusteringColumns"},
		"clustering, no feature":       {vectored(t), []string{domainOf("delta.clustering", `{}`)}, "feature clustering"},

		"times, properties lost":          {ict, []string{metaOf(schemaJSON, nil, timesOn)}, "EnablementVersion: says since when"},
		"times, switched off":             {ict, []string{metaOf(schemaJSON, nil, "")}, ""},
		"times, begin without metaData":   {waiting, []string{featureProtocol(nil, []string{"appendOnly", "inCommitTimestamp"})}, "cannot begin without a metaData"},
		"protection, moved":               {protected, []string{metaOf(schemaJSON, nil, `"delta.requireCheckpointProtectionBeforeVersion":"8"`)}, "in a version of its own"},
		"protection, kept":                {protected, []string{metaOf(schemaJSON, nil, `"delta.requireCheckpointProtectionBeforeVersion":"7","k":"v"`)}, ""},
		"a feature for readers, reader 1": {plain(t), []string{featureProtocol(nil, []string{"appendOnly", "invariants", "variantType"})}, "needs minReaderVersion 3"},
		"row tracking without domains":    {plain(t), []string{featureProtocol(nil, []string{"appendOnly", "invariants", "rowTracking"})}, "needs domainMetadata"},
		"catalog-managed":                 {plain(t), []string{featureProtocol([]string{"catalogManaged"}, []string{"appendOnly", "invariants", "catalogManaged"})}, "feature catalogManaged: commits of such a table go through its own catalog"},
		"a proposal":                      {plain(t), []string{featureProtocol(nil, []string{"appendOnly", "invariants", "icebergCompatV3"})}, "icebergCompatV3: this build does not know it: it is a proposal"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := tables.ParseActions(tableURI, tables.Limits{}, text(c.lines...))
			if err != nil {
				t.Fatal(err)
			}
			err = tables.Validate(a, c.table.profile())
			if c.reason == "" && err != nil || c.reason != "" && (err == nil || !strings.Contains(err.Error(), c.reason)) {
				t.Errorf("got %v, want %q", err, c.reason)
			}
		})
	}
}

func TestParseActionsRefusesOddTagsAndRowIDs(t *testing.T) {
	for line, field := range map[string]string{
		`{"commitInfo":{"tags":{"a":"1","n":2}}}`:     "commitInfo.tags.n",
		`{"commitInfo":{"tags":[]}}`:                  "commitInfo.tags",
		addLine("x", `"baseRowId":-1`):                "add.baseRowId",
		addLine("x", `"baseRowId":1.5`):               "add.baseRowId",
		addLine("x", `"defaultRowCommitVersion":"1"`): "add.baseRowId",
	} {
		_, err := tables.ParseActions(tableURI, tables.Limits{}, text(line))
		if in, ok := errors.AsType[*tables.InputError](err); !ok || in.Field != field || in.Line != 1 {
			t.Errorf("%s: got %v, want field %s", line, err, field)
		}
	}
	if _, err := tables.ParseActions(tableURI, tables.Limits{}, text(`{"commitInfo":{"tags":{"a":"1","b":null}}}`)); err != nil {
		t.Error(err)
	}
}
