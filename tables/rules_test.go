package tables_test

import (
	"strings"
	"testing"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// ruleOf is the rule of a conflict, RuleNone for none.
func ruleOf(c *twophase.Conflict) twophase.Rule {
	if c == nil {
		return twophase.RuleNone
	}
	return c.Rule
}

func rearrange(line string) string {
	return strings.Replace(line, `"dataChange":true`, `"dataChange":false`, 1)
}

const (
	blindInfo = `{"commitInfo":{"isBlindAppend":true}}`
	readInfo  = `{"commitInfo":{"isBlindAppend":false}}`
)

func readFiles(files ...string) tables.ReadDeclaration {
	r := at(0, tables.ReadFiles)
	r.Files = files
	return r
}

func readDays(days ...string) tables.ReadDeclaration {
	r := at(0, tables.ReadPartitions)
	r.Partitions = []tables.PartitionMatch{{{Column: "day", Values: days}}}
	return r
}

func with(level tables.Isolation, r tables.ReadDeclaration) tables.ReadDeclaration {
	r.Isolation = level
	return r
}

func TestConflict(t *testing.T) {
	nothing, whole := at(0, tables.ReadNothing), at(0, tables.ReadWholeTable)
	type side struct {
		read  tables.ReadDeclaration
		lines []string
	}
	by := func(read tables.ReadDeclaration, lines ...string) side { return side{read, lines} }
	appended := by(nothing, addLine("new"))
	for name, c := range map[string]struct {
		table     func(testing.TB) *fixture
		candidate side
		winner    []string
		want      twophase.Rule
	}{
		"disjoint appends":                  {plain0, appended, []string{addLine("other")}, twophase.RuleNone},
		"protocol, additive":                {plain0, appended, []string{featureProtocol([]string{"deletionVectors"}, []string{"appendOnly", "invariants", "deletionVectors"})}, twophase.RuleNone},
		"protocol, unsupported":             {plain0, appended, []string{featureProtocol(nil, []string{"appendOnly", "invariants", "magic"})}, twophase.RuleProtocol},
		"protocol, unknown feature":         {plain0, appended, []string{featureProtocol(nil, []string{"appendOnly", "invariants", "nobodyKnows"})}, twophase.RuleProtocol},
		"protocol, feature dropped":         {plain0, appended, []string{featureProtocol(nil, []string{"appendOnly"})}, twophase.RuleProtocol},
		"protocol, constraints switched on": {plain0, appended, []string{`{"protocol":{"minReaderVersion":1,"minWriterVersion":3}}`}, twophase.RuleProtocol},
		"protocol on both sides":            {plain0, by(nothing, `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`), []string{plainProtocol}, twophase.RuleProtocol},
		"metadata changed":                  {plain0, appended, []string{metaOf(schemaJSON, nil, `"x":"y"`)}, twophase.RuleMetadata},
		"metadata written again":            {plain0, appended, []string{metaOf(schemaJSON, nil, "")}, twophase.RuleNone},
		"metadata on both sides":            {plain0, by(nothing, metaOf(schemaJSON, nil, `"a":"b"`)), []string{metaOf(schemaJSON, nil, "")}, twophase.RuleMetadata},
		"one domain":                        {vectored0, by(nothing, domainLine("d")), []string{domainLine("d")}, twophase.RuleDomain},
		"two domains":                       {vectored0, by(nothing, domainLine("d")), []string{domainLine("e")}, twophase.RuleNone},
		"app, newer":                        {plain0, by(nothing, txnLine("a", 5)), []string{txnLine("a", 4)}, twophase.RuleNone},
		"app, the same":                     {plain0, by(nothing, txnLine("a", 5)), []string{txnLine("a", 5)}, twophase.RuleAppVersion},
		"app, older":                        {plain0, by(nothing, txnLine("a", 5)), []string{txnLine("a", 6)}, twophase.RuleAppVersion},
		"app, another":                      {plain0, by(nothing, txnLine("a", 5)), []string{txnLine("b", 6)}, twophase.RuleNone},
		"app that was read":                 {plain0, by(tables.ReadDeclaration{Version: version(0), Apps: []string{"z", "a"}}, addLine("x")), []string{txnLine("a", 1)}, twophase.RuleAppVersion},
		"app that was not read":             {plain0, by(tables.ReadDeclaration{Version: version(0), Apps: []string{"z"}}, addLine("x")), []string{txnLine("a", 1)}, twophase.RuleNone},
		"our marker is no app":              {plain0, by(tables.ReadDeclaration{Version: version(0), Apps: []string{"txcoord/cat"}}, addLine("x")), []string{txnLine("txcoord/cat", 1)}, twophase.RuleNone},

		"whole table, append":                 {plain0, by(whole, addLine("x")), []string{addLine("y")}, twophase.RuleAppendRead},
		"whole table, blind append":           {plain0, by(whole, addLine("x")), []string{blindInfo, addLine("y")}, twophase.RuleAppendRead},
		"whole table, only an app":            {plain0, by(whole, addLine("x")), []string{txnLine("a", 1)}, twophase.RuleNone},
		"write-serializable, blind append":    {plain0, by(with(tables.WriteSerializable, whole), addLine("x")), []string{blindInfo, addLine("y")}, twophase.RuleNone},
		"write-serializable, append":          {plain0, by(with(tables.WriteSerializable, whole), addLine("x")), []string{readInfo, addLine("y")}, twophase.RuleAppendRead},
		"write-serializable, says nothing":    {plain0, by(with(tables.WriteSerializable, whole), addLine("x")), []string{addLine("y")}, twophase.RuleAppendRead},
		"write-serializable, metadata":        {plain0, by(with(tables.WriteSerializable, whole), addLine("x"), metaOf(schemaJSON, nil, `"a":"b"`)), []string{blindInfo, addLine("y")}, twophase.RuleAppendRead},
		"write-serializable by property":      {weak0, by(whole, addLine("x")), []string{blindInfo, addLine("y")}, twophase.RuleNone},
		"serializable overrides the property": {weak0, by(with(tables.Serializable, whole), addLine("x")), []string{blindInfo, addLine("y")}, twophase.RuleAppendRead},
		"rearrangement, append":               {plain0, by(whole, rearrange(removeLine("a.parquet")), rearrange(addLine("x"))), []string{addLine("y")}, twophase.RuleNone},
		"rearrangement, removal":              {plain0, by(whole, rearrange(removeLine("a.parquet")), rearrange(addLine("x"))), []string{removeLine("b")}, twophase.RuleDeleteRead},
		"whole table, removal":                {plain0, by(whole, addLine("x")), []string{removeLine("a.parquet")}, twophase.RuleDeleteRead},
		"whole table, rearranged removal":     {plain0, by(whole, addLine("x")), []string{rearrange(removeLine("a.parquet"))}, twophase.RuleDeleteRead},
		"read file, removed":                  {plain0, by(readFiles("z", "s3://lake/orders/a.parquet"), addLine("x")), []string{removeLine("a.parquet")}, twophase.RuleDeleteRead},
		"read file, another removed":          {plain0, by(readFiles("a.parquet"), addLine("x")), []string{removeLine("b.parquet")}, twophase.RuleNone},
		"read file, append":                   {plain0, by(readFiles("a.parquet"), addLine("x")), []string{addLine("y")}, twophase.RuleNone},
		"nothing read, removal":               {plain0, appended, []string{removeLine("a.parquet")}, twophase.RuleNone},

		"predicate, append inside":       {partitioned, by(readDays("2020-01-01", "2020-01-02"), addIn("x", "2021-01-01", "eu")), []string{addIn("y", "2020-01-02", "us")}, twophase.RuleAppendRead},
		"predicate, append outside":      {partitioned, by(readDays("2020-01-01"), addIn("x", "2021-01-01", "eu")), []string{addIn("y", "2020-01-02", "us")}, twophase.RuleNone},
		"predicate, removal inside":      {partitioned, by(readDays("2020-01-01"), addIn("x", "2021-01-01", "eu")), []string{removeIn("y", "2020-01-01", "us")}, twophase.RuleDeleteRead},
		"predicate, removal outside":     {partitioned, by(readDays("2020-01-01"), addIn("x", "2021-01-01", "eu")), []string{removeIn("y", "2020-01-02", "us")}, twophase.RuleNone},
		"predicate, removal, who knows":  {partitioned, by(readDays("2020-01-01"), addIn("x", "2021-01-01", "eu")), []string{removeLine("y")}, twophase.RuleDeleteRead},
		"predicate, null is not a value": {partitioned, by(readDays("2020-01-01"), addIn("x", "2021-01-01", "eu")), []string{addIn("y", "", "us")}, twophase.RuleNone},
		"predicate, odd spelling":        {partitioned, by(readDays("2020-1-1"), addIn("x", "2021-01-01", "eu")), []string{addIn("y", "2020-01-05", "us")}, twophase.RuleAppendRead},
		"both conditions fit":            {partitioned, by(tables.ReadDeclaration{Version: version(0), Kind: tables.ReadPartitions, Partitions: []tables.PartitionMatch{{{Column: "day", Values: []string{"2020-01-01"}}, {Column: "region", OrNull: true}}}}), []string{addIn("y", "2020-01-01", "")}, twophase.RuleAppendRead},
		"one condition fits":             {partitioned, by(tables.ReadDeclaration{Version: version(0), Kind: tables.ReadPartitions, Partitions: []tables.PartitionMatch{{{Column: "day", Values: []string{"2020-01-01"}}, {Column: "region", OrNull: true}}}}), []string{addIn("y", "2020-01-01", "eu")}, twophase.RuleNone},
		"the second match fits":          {partitioned, by(tables.ReadDeclaration{Version: version(0), Kind: tables.ReadPartitions, Partitions: []tables.PartitionMatch{{{Column: "day", Values: []string{"2020-01-01"}}}, {{Column: "region", Values: []string{"eu"}}}}}), []string{addIn("y", "2020-01-09", "eu")}, twophase.RuleAppendRead},

		"both remove":                  {vectored0, by(nothing, removeLine("a.parquet")), []string{removeLine("a.parquet")}, twophase.RuleDeleteDelete},
		"both add vectors to one file": {vectored0, by(nothing, removeLine("a.parquet"), addDV("a.parquet", "x")), []string{removeDV("a.parquet", "w"), addDV("a.parquet", "y")}, twophase.RuleDeleteDelete},
		"removals of two files":        {vectored0, by(nothing, removeLine("a.parquet")), []string{removeLine("b.parquet")}, twophase.RuleNone},
		"both add one path":            {plain0, by(nothing, addLine("x")), []string{addLine("s3a://lake/orders/x")}, twophase.RulePathExists},
		"adds again what was removed":  {plain0, by(nothing, addLine("a.parquet")), []string{removeLine("a.parquet")}, twophase.RuleDeleteRead},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.table(t)
			var candidate twophase.Facts
			if len(c.candidate.lines) == 0 {
				var err error
				if candidate, err = tables.ReadFacts(f.profile(), c.candidate.read); err != nil {
					t.Fatal(err)
				}
			} else {
				candidate = f.part(c.candidate.read, c.candidate.lines...)
			}
			if got := (tables.Rules{}).Checker().Conflict(candidate, f.foreign(c.winner...)); ruleOf(got) != c.want {
				t.Errorf("got %+v, want %v", got, c.want)
			}
		})
	}
}

func version(v twophase.Version) *twophase.Version { return &v }

func plain0(t testing.TB) *fixture    { return plain(t) }
func vectored0(t testing.TB) *fixture { return vectored(t) }

// weak0 is a table that is write-serializable by its property.
func weak0(t testing.TB) *fixture {
	return newFixture(t).commit(plainProtocol, metaOf(schemaJSON, nil, `"delta.isolationLevel":"WriteSerializable"`))
}

// A read-only participant conflicts like a writer.
func TestConflictOfReaders(t *testing.T) {
	f := plain(t)
	reader, err := tables.ReadFacts(f.profile(), at(0, tables.ReadWholeTable))
	if err != nil {
		t.Fatal(err)
	}
	if got := (tables.Rules{}).Checker().Conflict(reader, f.part(blind, addLine("x"))); ruleOf(got) != twophase.RuleAppendRead {
		t.Errorf("got %+v, want append/read", got)
	}
	if got := (tables.Rules{}).Checker().Conflict(reader, f.part(blind, txnLine("a", 1))); got != nil {
		t.Errorf("got %+v, want none", got)
	}
}

func TestConflictNamesThePath(t *testing.T) {
	f := vectored(t)
	a := f.parse(addLine("new"), removeLine("a.parquet"))
	facts, err := tables.PartFacts(a, f.profile(), at(0, tables.ReadNothing))
	if err != nil {
		t.Fatal(err)
	}
	got := (tables.Rules{}).Checker().Conflict(facts, f.foreign(removeLine("a.parquet")))
	if got == nil || got.Path != tables.HashPath("a.parquet").String() {
		t.Fatalf("got %+v, want the path's hash", got)
	}
	if a.Explain(got).Path != "a.parquet" {
		t.Errorf("explained: %+v", got)
	}
	if a.Explain(nil) != nil {
		t.Error("nothing explained is something")
	}
	unknown := &twophase.Conflict{Path: tables.HashPath("nobody").String()}
	if a.Explain(unknown).Path != tables.HashPath("nobody").String() {
		t.Errorf("a path that the part does not name: %+v", unknown)
	}
}

func TestImpossible(t *testing.T) {
	nothing := at(0, tables.ReadWholeTable)
	for name, c := range map[string]struct {
		table   func(testing.TB) *fixture
		decided []string
		foreign []string
		want    twophase.Rule
	}{
		"append after append":               {plain0, []string{addLine("x")}, []string{addLine("y")}, twophase.RuleNone},
		"append after a read-set hit":       {plain0, []string{addLine("x")}, []string{removeLine("a.parquet")}, twophase.RuleNone},
		"the file is gone":                  {plain0, []string{removeLine("a.parquet")}, []string{removeLine("a.parquet")}, twophase.RulePathMissing},
		"the file got a vector":             {vectored0, []string{removeLine("a.parquet"), addLine("a2")}, []string{removeLine("a.parquet"), addDV("a.parquet", "w")}, twophase.RulePathMissing},
		"another pair is gone":              {vectored0, []string{removeLine("a.parquet")}, []string{removeDV("a.parquet", "w")}, twophase.RuleNone},
		"the path is taken":                 {plain0, []string{addLine("x")}, []string{addLine("x")}, twophase.RuleNone},
		"the path is taken by another pair": {vectored0, []string{addLine("x")}, []string{addDV("x", "w")}, twophase.RulePathExists},
		"the pair that is replaced came":    {vectored0, []string{removeDV("x", "w"), addDV("x", "v")}, []string{addDV("x", "w")}, twophase.RuleNone},
		"the app has passed":                {plain0, []string{txnLine("a", 5)}, []string{txnLine("a", 5)}, twophase.RuleAppVersion},
		"the app is behind":                 {plain0, []string{txnLine("a", 5)}, []string{txnLine("a", 4)}, twophase.RuleNone},
		"protocol, unsupported":             {plain0, []string{addLine("x")}, []string{featureProtocol(nil, []string{"appendOnly", "invariants", "magic"})}, twophase.RuleProtocol},
		"protocol, feature dropped":         {plain0, []string{addLine("x")}, []string{featureProtocol(nil, []string{"appendOnly"})}, twophase.RuleNone},
		"protocol that ours would undo":     {plain0, []string{`{"protocol":{"minReaderVersion":1,"minWriterVersion":3}}`}, []string{featureProtocol([]string{"deletionVectors"}, []string{"appendOnly", "invariants", "deletionVectors"})}, twophase.RuleProtocol},
		"properties":                        {plain0, []string{addLine("x")}, []string{metaOf(schemaJSON, nil, `"k":"v"`)}, twophase.RuleNone},
		"a column more":                     {plain0, []string{addLine("x")}, []string{metaOf(moreColumns(true), nil, "")}, twophase.RuleNone},
		"a required column more":            {plain0, []string{addLine("x")}, []string{metaOf(moreColumns(false), nil, "")}, twophase.RuleSchema},
		"a column of another type":          {plain0, []string{addLine("x")}, []string{metaOf(strings.Replace(schemaJSON, `"long"`, `"string"`, 1), nil, "")}, twophase.RuleSchema},
		"another type, nothing added":       {plain0, []string{txnLine("a", 1)}, []string{metaOf(strings.Replace(schemaJSON, `"long"`, `"string"`, 1), nil, "")}, twophase.RuleNone},
		"a column less":                     {plain0, []string{addLine("x")}, []string{metaOf(`{"type":"struct","fields":[]}`, nil, "")}, twophase.RuleNone},
		"other partitions":                  {plain0, []string{addLine("x")}, []string{metaOf(schemaJSON, []string{"day"}, "")}, twophase.RuleSchema},
		"append-only, append":               {plain0, []string{addLine("x")}, []string{metaOf(schemaJSON, nil, `"delta.appendOnly":"true"`)}, twophase.RuleNone},
		"append-only, removal":              {plain0, []string{removeLine("a.parquet")}, []string{metaOf(schemaJSON, nil, `"delta.appendOnly":"true"`)}, twophase.RuleAppendOnly},
		"append-only, rearrangement":        {plain0, []string{rearrange(removeLine("a.parquet")), rearrange(addLine("x"))}, []string{metaOf(schemaJSON, nil, `"delta.appendOnly":"true"`)}, twophase.RuleNone},
		"table replaced":                    {plain0, []string{addLine("x")}, []string{metaWithID("other", schemaJSON, nil, "")}, twophase.RuleTableReplaced},
		"metadata that ours would undo":     {plain0, []string{metaOf(schemaJSON, nil, `"a":"b"`)}, []string{metaOf(schemaJSON, nil, `"k":"v"`)}, twophase.RuleMetadata},
		"metadata written again":            {plain0, []string{metaOf(schemaJSON, nil, `"a":"b"`)}, []string{metaOf(schemaJSON, nil, "")}, twophase.RuleNone},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.table(t)
			got := (tables.Rules{}).Impossible(f.part(nothing, c.decided...), f.foreign(c.foreign...))
			if ruleOf(got) != c.want {
				t.Errorf("got %+v, want %v", got, c.want)
			}
		})
	}
}

func moreColumns(nullable bool) string {
	more := `,{"name":"extra","type":"long","nullable":true,"metadata":{}}]}`
	if !nullable {
		more = strings.Replace(more, "true", "false", 1)
	}
	return strings.TrimSuffix(schemaJSON, "]}") + more
}

// A schema that a change was staged under may be older than the one just before
// the foreign version.
func TestImpossibleKnowsEarlierSchemas(t *testing.T) {
	f := plain(t)
	decided := f.part(at(0, tables.ReadNothing), addLine("x"))
	f.commit(metaOf(moreColumns(true), nil, ""))
	ok := f.foreign(metaOf(strings.Replace(moreColumns(true), "extra", "other", 1), nil, ""))
	bad := f.foreign(metaOf(strings.Replace(moreColumns(true), `"id","type":"long"`, `"id","type":"binary"`, 1), nil, ""))
	if got := (tables.Rules{}).Impossible(decided, ok); got != nil {
		t.Errorf("got %+v, want none", got)
	}
	if got := (tables.Rules{}).Impossible(decided, bad); ruleOf(got) != twophase.RuleSchema {
		t.Errorf("got %+v, want schema", got)
	}
}

func TestImpossibleAt(t *testing.T) {
	f := vectored(t)
	read := at(0, tables.ReadNothing)
	pending := []twophase.Facts{
		f.part(read, addLine("x"), txnLine("a", 5)),                    // possible
		f.part(read, removeLine("x"), addDV("x", "v")),                 // on top of the first
		f.part(read, removeLine("x")),                                  // its vector is another one now
		f.part(read, removeDV("x", "v")),                               // possible
		f.part(read, txnLine("a", 5)),                                  // not newer than the first
		f.part(read, removeLine("a.parquet"), addDV("a.parquet", "v")), // the foreign engine was quicker
		f.part(read, addLine("b.parquet")),                             // the same pair again
		f.part(read, addDV("c.parquet", "v")),                          // there without a vector
		f.part(read, removeLine("b.parquet")),
	}
	want := []twophase.Rule{
		twophase.RuleNone, twophase.RuleNone, twophase.RulePathMissing, twophase.RuleNone, twophase.RuleAppVersion,
		twophase.RulePathMissing, twophase.RuleNone, twophase.RulePathExists, twophase.RuleNone,
	}
	f.commit(removeLine("a.parquet"), addDV("a.parquet", "w"), addLine("c.parquet"))
	for i, got := range (tables.Rules{}).ImpossibleAt(pending, f.state()) {
		if ruleOf(got) != want[i] {
			t.Errorf("change %d: got %+v, want %v", i, got, want[i])
		}
	}
	for name, g := range map[string]*fixture{
		"replaced":    vectored(t).commit(metaWithID("other", schemaJSON, nil, `"delta.enableDeletionVectors":"true"`)),
		"unsupported": vectored(t, "magic"),
	} {
		for i, got := range (tables.Rules{}).ImpossibleAt(pending, g.state()) {
			if got == nil {
				t.Errorf("%s: change %d is possible", name, i)
			}
		}
	}
	if got := (tables.Rules{}).ImpossibleAt(pending[:1], nil); got[0] == nil {
		t.Error("judged against nothing, and possible")
	}
}

func TestWithout(t *testing.T) {
	f := vectored(t)
	read := at(0, tables.ReadNothing)
	enabled := `"delta.enableDeletionVectors":"true"`
	alter := f.part(read, metaOf(moreColumns(true), nil, enabled))
	protocol := f.part(read, featureProtocol([]string{"deletionVectors"}, []string{"deletionVectors", "domainMetadata", "appendOnly", "changeDataFeed", "checkConstraints"}))
	first := f.part(read, addLine("x"), removeLine("b.parquet"))
	altered := newFixture(t).commit(featureProtocol([]string{"deletionVectors"}, []string{"deletionVectors", "domainMetadata", "appendOnly", "changeDataFeed", "checkConstraints"}),
		metaOf(moreColumns(true), nil, enabled), addLine("a.parquet"))
	decided := []twophase.Facts{
		first, alter, protocol,
		f.part(read, addLine("y")),                     // rests on nothing
		f.part(read, removeLine("x"), addDV("x", "v")), // rests on 0
		f.part(read, removeDV("x", "v")),               // rests on 4
		altered.part(read, addLine("z")),               // rests on 1 and 2
		f.part(read, addDV("b.parquet", "v")),          // 0 removes what stands there
		f.part(read, addLine("b.parquet")),             // the very pair
	}
	for name, c := range map[string]struct {
		lost []int
		want map[int]twophase.Rule
	}{
		"nothing":    {nil, nil},
		"the first":  {[]int{0}, map[int]twophase.Rule{4: twophase.RulePathMissing, 5: twophase.RulePathMissing, 7: twophase.RulePathExists}},
		"the schema": {[]int{1}, map[int]twophase.Rule{6: twophase.RuleMetadata}},
		"protocol":   {[]int{2}, map[int]twophase.Rule{6: twophase.RuleProtocol}},
		"a leaf":     {[]int{5}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			lost := make([]bool, len(decided))
			for _, i := range c.lost {
				lost[i] = true
			}
			for i, got := range (tables.Rules{}).Without(decided, lost) {
				if ruleOf(got) != c.want[i] {
					t.Errorf("change %d: got %+v, want %v", i, got, c.want[i])
				}
			}
		})
	}
}

// Facts that this build cannot read are never taken for harmless.
// Two spellings of one partition value are one value; what cannot be told is taken
// for equal.
// Facts of many files are searched, not walked; the answer is the same.
// Facts come out of journals and objects: whatever stands there, nobody panics.
