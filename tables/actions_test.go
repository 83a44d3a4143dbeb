package tables_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

func TestParseActions(t *testing.T) {
	piece := text(
		`{"commitInfo":{"operation":"MERGE","big":9223372036854775807}}`,
		`{"add":{"path":"day=1/a%20b.parquet","partitionValues":{"region":"eu","day":null},"size":9007199254740993,"modificationTime":1,"dataChange":true,"stats":"{\"numRecords\":3}","tags":null}}`,
		``,
		addIn("c.parquet", "", "eu"),
		removeDV("s3a://lake/orders/gone.parquet", "abc"),
		txnLine("job", 1<<62),
		`{"cdc":{"path":"_change_data/x","partitionValues":{},"size":1,"dataChange":false}}`,
		domainLine("mine"),
	)
	got, err := tables.ParseActions(tableURI, tables.Limits{}, piece, text(addLine("other.parquet")))
	if err != nil {
		t.Fatal(err)
	}
	want := &tables.Actions{
		Adds: []tables.File{
			{Line: 2, Path: "day=1/a b.parquet", Hash: tables.HashPath("day=1/a b.parquet"), Size: 9007199254740993, DataChange: true, NumRecords: true},
			{Line: 4, Path: "c.parquet", Hash: tables.HashPath("c.parquet"), Size: 100, DataChange: true, Partition: 1},
			{Line: 1, Path: "other.parquet", Hash: tables.HashPath("other.parquet"), Size: 100, DataChange: true, Partition: 2},
		},
		Removes: []tables.File{{Line: 5, Path: "gone.parquet", Hash: tables.HashPath("gone.parquet"), DV: got.Removes[0].DV, DataChange: true, Partition: -1}},
		Partitions: []tables.PartitionValues{
			{{Column: "day", Null: true}, {Column: "region", Value: "eu"}},
			{{Column: "day", Null: true}, {Column: "region", Value: "eu"}},
			nil,
		},
		CDCs:    1,
		Txns:    []twophase.AppVersion{{App: "job", Version: 1 << 62}},
		Domains: []tables.Domain{{Name: "mine", Configuration: "{}"}},
		Info:    []byte(`{"operation":"MERGE","big":9223372036854775807}`),
		Lines:   8,
		Bytes:   len(piece) + len(text(addLine("other.parquet"))),
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(tables.Actions{})); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if got.Removes[0].DV == 0 {
		t.Error("the remove's deletion vector has no hash")
	}
}

func TestParseActionsRefuses(t *testing.T) {
	good := addLine("good.parquet")
	for name, c := range map[string]struct {
		lines  []string
		line   int
		field  string
		reason string
	}{
		"broken JSON":                         {[]string{good, `{"add":{"path":"x"`}, 2, "", "not JSON"},
		"not an object":                       {[]string{`[1]`}, 1, "", "not JSON"},
		"text after the object":               {[]string{good + ` x`}, 1, "", "not JSON"},
		"two objects on a line":               {[]string{good + good}, 1, "", "not JSON"},
		"trailing comma":                      {[]string{`{"txn":{"appId":"a","version":1,}}`}, 1, "", "not JSON"},
		"leading zero":                        {[]string{`{"txn":{"appId":"a","version":01}}`}, 1, "", "not JSON"},
		"raw control character":               {[]string{"{\"txn\":{\"appId\":\"a\x01\",\"version\":1}}"}, 1, "", "not JSON"},
		"broken UTF-8":                        {[]string{good, "{\"txn\":{\"appId\":\"\xff\",\"version\":1}}"}, 2, "", "UTF-8"},
		"pretty-printed":                      {[]string{"{", `"txn":{}}`}, 1, "", "not JSON"},
		"nested too deeply":                   {[]string{`{"add":` + strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat(`}`, 201)}, 1, "", "nested too deeply"},
		"empty object":                        {[]string{`{}`}, 1, "", "holds no action"},
		"two actions":                         {[]string{`{"add":{},"remove":{}}`}, 1, "", "one action"},
		"null beside an action":               {[]string{txnLine("a", 1)[:len(txnLine("a", 1))-1] + `,"add":null}`}, 1, "", "one action"},
		"action is no object":                 {[]string{`{"add":[1]}`}, 1, "add", "not an object"},
		"unknown action":                      {[]string{good, `{"transactionGroup":{}}`}, 2, "transactionGroup", "not an action"},
		"checkpoint action":                   {[]string{`{"checkpointMetadata":{"version":1}}`}, 1, "checkpointMetadata", "not an action"},
		"sidecar":                             {[]string{`{"sidecar":{"path":"x"}}`}, 1, "sidecar", "not an action"},
		"no path":                             {[]string{`{"add":{"partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}`}, 1, "add.path", "is missing"},
		"null path":                           {[]string{`{"remove":{"path":null,"dataChange":true}}`}, 1, "remove.path", "is missing"},
		"empty path":                          {[]string{addLine("")}, 1, "add.path", "is empty"},
		"no partition values":                 {[]string{`{"add":{"path":"a","size":1,"modificationTime":1,"dataChange":true}}`}, 1, "add.partitionValues", "is missing"},
		"no size":                             {[]string{`{"add":{"path":"a","partitionValues":{},"modificationTime":1,"dataChange":true}}`}, 1, "add.size", "is missing"},
		"no modification time":                {[]string{`{"add":{"path":"a","partitionValues":{},"size":1,"dataChange":true}}`}, 1, "add.modificationTime", "is missing"},
		"no dataChange":                       {[]string{`{"remove":{"path":"a"}}`}, 1, "remove.dataChange", "is missing"},
		"size is a string":                    {[]string{`{"add":{"path":"a","size":"1"}}`}, 1, "add.size", "wrong type"},
		"size is a fraction":                  {[]string{`{"add":{"path":"a","size":1.0}}`}, 1, "add.size", "wrong type"},
		"size past 64 bits":                   {[]string{`{"add":{"path":"a","size":9223372036854775808}}`}, 1, "add.size", "wrong type"},
		"size is negative":                    {[]string{strings.Replace(good, `"size":100`, `"size":-1`, 1)}, 1, "add.size", "negative"},
		"field twice, escaped":                {[]string{`{"add":{"path":"a","p\u0061th":"b"}}`}, 1, "add.path", "twice"},
		"field twice, second null":            {[]string{strings.Replace(good, `{"add":{`, `{"add":{"size":null,`, 1)}, 1, "add.size", "twice"},
		"field twice, that we do not read":    {[]string{strings.Replace(good, `{"add":{`, `{"add":{"newer":1,"newer":1,`, 1)}, 1, "add.newer", "twice"},
		"field twice, deep":                   {[]string{strings.Replace(good, `{"add":{`, `{"add":{"tags":{"a":[{"b":"1","b":"1"}]},`, 1)}, 1, "add.tags.a.b", "twice"},
		"statistic twice":                     {[]string{strings.Replace(good, `{"add":{`, `{"add":{"stats":"{\"numRecords\":1,\"numRecords\":2}",`, 1)}, 1, "add.stats", "numRecords is there twice"},
		"vector's field twice":                {[]string{`{"add":{"path":"a","deletionVector":{"storageType":"u","offset":1,"pathOrInlineDv":"x","offset":1}}}`}, 1, "add.deletionVector.offset", "twice"},
		"property twice":                      {[]string{strings.Replace(metaOf(schemaJSON, nil, ""), `"configuration":{`, `"configuration":{"a":"1","a":"2"},"x":{`, 1)}, 1, "metaData.configuration.a", "twice"},
		"action twice":                        {[]string{`{"txn":{"appId":"a","version":1},"txn":{"appId":"a","version":2}}`}, 1, "txn", "twice"},
		"tag twice":                           {[]string{`{"commitInfo":{"tags":{"a":"1","a":"2"}}}`}, 1, "commitInfo.tags.a", "twice"},
		"field twice":                         {[]string{`{"add":{"path":"a","path":"b"}}`}, 1, "add.path", "twice"},
		"partition value no text":             {[]string{strings.Replace(good, `"partitionValues":{}`, `"partitionValues":{"p":1}`, 1)}, 1, "add.partitionValues.p", "string or null"},
		"partition key twice":                 {[]string{strings.Replace(good, `"partitionValues":{}`, `"partitionValues":{"p":"1","p":"2"}`, 1)}, 1, "add.partitionValues.p", "twice"},
		"stats is an object":                  {[]string{addLine("a", `"stats":{}`)}, 1, "add.stats", "wrong type"},
		"stats is no JSON":                    {[]string{addLine("a", `"stats":"{numRecords}"`)}, 1, "add.stats", "JSON object"},
		"vector without stats":                {[]string{addLine("a", vector("x"))}, 1, "add.stats", "numRecords"},
		"vector without path":                 {[]string{addLine("a", `"stats":"{\"numRecords\":1}","deletionVector":{"storageType":"u"}`)}, 1, "add.deletionVector", "pathOrInlineDv"},
		"extended without size":               {[]string{`{"remove":{"path":"a","dataChange":true,"extendedFileMetadata":true,"partitionValues":{}}}`}, 1, "remove.size", "is missing"},
		"path added twice":                    {[]string{good, addLine("x"), good}, 3, "add.path", "twice"},
		"path added twice, spelled otherwise": {[]string{addLine("a%20b"), addLine("s3://lake/orders/a%20b")}, 2, "add.path", "twice"},
		"path added twice with vectors":       {[]string{addDV("a", "x"), addDV("a", "y")}, 2, "add.path", "twice"},
		"path removed twice":                  {[]string{removeLine("a"), removeDV("a", "x")}, 2, "remove.path", "twice"},
		"added and removed":                   {[]string{good, removeLine("good.parquet")}, 2, "remove.path", "added and removed"},
		"removed and added":                   {[]string{removeDV("a", "x"), addDV("a", "x")}, 2, "add.path", "added and removed"},
		"path leaves the root":                {[]string{addLine("../other/a")}, 1, "add.path", "escape"},
		"path leaves, escaped":                {[]string{addLine("%2e%2e/other/a")}, 1, "add.path", "escape"},
		"path leaves and returns":             {[]string{addLine("../orders/a")}, 1, "add.path", "escape"},
		"absolute, elsewhere":                 {[]string{addLine("s3://lake/other/a")}, 1, "add.path", "outside"},
		"absolute, other scheme":              {[]string{addLine("file:///orders/a")}, 1, "add.path", "outside"},
		"sibling with our prefix":             {[]string{addLine("s3://lake/orders2/a")}, 1, "add.path", "outside"},
		"cdc elsewhere":                       {[]string{`{"cdc":{"path":"s3://x/y","partitionValues":{},"size":1,"dataChange":false}}`}, 1, "cdc.path", "outside"},
		"cdc with dataChange":                 {[]string{`{"cdc":{"path":"x","partitionValues":{},"size":1,"dataChange":true}}`}, 1, "cdc.dataChange", "false"},
		"double slash":                        {[]string{addLine("a//b")}, 1, "add.path", "literally"},
		"dot segment":                         {[]string{addLine("./b")}, 1, "add.path", "literally"},
		"bad escape":                          {[]string{addLine("a%zz")}, 1, "add.path", "percent"},
		"control character":                   {[]string{addLine("a%00")}, 1, "add.path", "control"},
		"file in the log":                     {[]string{addLine("_delta_log/x.json")}, 1, "add.path", "log"},
		"our app id":                          {[]string{txnLine("txcoord/x", 1)}, 1, "txn.appId", "coordinator"},
		"app twice":                           {[]string{txnLine("a", 1), txnLine("a", 2)}, 2, "txn.appId", "twice"},
		"app without version":                 {[]string{`{"txn":{"appId":"a"}}`}, 1, "txn.version", "is missing"},
		"two commitInfo":                      {[]string{`{"commitInfo":{}}`, `{"commitInfo":{}}`}, 2, "commitInfo", "twice"},
		"two protocols":                       {[]string{plainProtocol, plainProtocol}, 2, "protocol", "twice"},
		"two metaData":                        {[]string{metaOf(schemaJSON, nil, ""), metaOf(schemaJSON, nil, "")}, 2, "metaData", "twice"},
		"domain twice":                        {[]string{domainLine("a"), domainLine("a")}, 2, "domainMetadata.domain", "twice"},
		"domain incomplete":                   {[]string{`{"domainMetadata":{"domain":"a","configuration":""}}`}, 1, "domainMetadata.removed", "is missing"},
		"metaData without id":                 {[]string{`{"metaData":{"schemaString":""}}`}, 1, "metaData.id", "is missing"},
		"protocol without version":            {[]string{`{"protocol":{"minReaderVersion":1}}`}, 1, "protocol", "needs"},
		"empty":                               {nil, 0, "actions", "no action"},
		"white space":                         {[]string{" ", "\t", "\r"}, 0, "actions", "no action"},
	} {
		t.Run(name, func(t *testing.T) {
			var piece []byte
			if c.lines != nil {
				piece = text(c.lines...)
			}
			a, err := tables.ParseActions(tableURI, tables.Limits{}, piece)
			in, ok := errors.AsType[*tables.InputError](err)
			if !ok {
				t.Fatalf("got %+v, %v, want an InputError", a, err)
			}
			if in.Line != c.line || in.Field != c.field || !strings.Contains(in.Reason, c.reason) {
				t.Errorf("got line %d, field %q, reason %q\nwant %d, %q, %q", in.Line, in.Field, in.Reason, c.line, c.field, c.reason)
			}
		})
	}
}

func TestParseActionsAccepts(t *testing.T) {
	for name, lines := range map[string][]string{
		"txn alone":               {txnLine("job", 3)},
		"vector replaced":         {removeDV("a", "x"), addDV("a", "y")},
		"vector added":            {removeLine("a"), addDV("a", "y")},
		"cdc of a removed path":   {removeLine("a"), `{"cdc":{"path":"a","partitionValues":{},"size":1,"dataChange":false}}`},
		"absolute below the root": {addLine("s3a://lake/orders/x%20y")},
		"a cloned file's vector":  {removeLine("s3://src/t/a"), addDV("s3://src/t/a", "x")},
		"remove outside":          {removeLine("s3://src/t/a")},
		"no line end":             {`{"txn":{"appId":"a","version":1}}`},
		"line end of Windows":     {addLine("a") + "\r", addLine("b") + "\r"},
		"white space in JSON":     {` { "txn" : { "appId" : "a" , "version" : 1 } } `},
		"escaped names":           {`{"tx\u006e":{"app\u0049d":"\ud83d\ude00","version":1}}`},
		"unknown fields":          {addLine("a", `"new":{"deep":[1,2.5e-3,null,true]}`)},
		"explicit nulls":          {addLine("a", `"tags":null,"deletionVector":null,"baseRowId":null,"clusteringProvider":null`)},
		"many files":              manyAdds(100),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := tables.ParseActions(tableURI, tables.Limits{}, []byte(strings.Join(lines, "\n"))); err != nil {
				t.Error(err)
			}
		})
	}
}

func manyAdds(n int) []string {
	var out []string
	for i := range n {
		out = append(out, addLine(fmt.Sprintf("f%d", i)))
	}
	return out
}

func TestParseActionsFindsLateDuplicates(t *testing.T) {
	lines := append(manyAdds(50), removeLine("z"), addLine("f3"))
	_, err := tables.ParseActions(tableURI, tables.Limits{}, text(lines...))
	if in, ok := errors.AsType[*tables.InputError](err); !ok || in.Line != 52 || !strings.Contains(in.Reason, "line 4") {
		t.Errorf("got %v, want line 52 naming line 4", err)
	}
	_, err = tables.ParseActions(tableURI, tables.Limits{}, text(manyAdds(20)...), text(addLine("f7")))
	if in, ok := errors.AsType[*tables.InputError](err); !ok || in.Piece != 1 || in.Line != 1 {
		t.Errorf("got %v, want piece 1, line 1", err)
	}
}

func TestParseActionsLimits(t *testing.T) {
	line := addLine("a.parquet")
	for _, c := range []struct {
		limits tables.Limits
		want   tables.LimitError
	}{
		{tables.Limits{LineBytes: 50}, tables.LimitError{Limit: "line_bytes", Value: int64(len(line)), Max: 50}},
		{tables.Limits{PartBytes: 60}, tables.LimitError{Limit: "part_bytes", Value: int64(len(line) + 1), Max: 60}},
		{tables.Limits{Actions: 1}, tables.LimitError{Limit: "actions", Value: 2, Max: 1}},
	} {
		lines := []string{line}
		if c.limits.Actions > 0 {
			lines = append(lines, addLine("b"))
		}
		_, err := tables.ParseActions(tableURI, c.limits, text(lines...))
		if got, ok := errors.AsType[*tables.LimitError](err); !ok || *got != c.want {
			t.Errorf("got %v, want %+v", err, c.want)
		}
	}
	long := addLine("a", `"tags":{"x":"`+strings.Repeat("y", 1<<20)+`"}`)
	if _, err := tables.ParseActions(tableURI, tables.Limits{}, text(long)); err != nil {
		t.Errorf("a line of 1 MiB: %v", err)
	}
}

func TestShape(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		want  twophase.Shape
	}{
		"adds":            {[]string{addLine("a"), addLine("b"), txnLine("y", 2), txnLine("x", 1)}, twophase.Shape{Appends: true, DataChange: true, Apps: []twophase.AppVersion{{App: "x", Version: 1}, {App: "y", Version: 2}}}},
		"txn alone":       {[]string{txnLine("x", 1)}, twophase.Shape{Appends: true, Apps: []twophase.AppVersion{{App: "x", Version: 1}}}},
		"rearranged":      {[]string{strings.Replace(addLine("a"), `"dataChange":true`, `"dataChange":false`, 1)}, twophase.Shape{Appends: true}},
		"mixed":           {[]string{addLine("a"), strings.Replace(addLine("b"), `"dataChange":true`, `"dataChange":false`, 1)}, twophase.Shape{DataChange: true}},
		"with a remove":   {[]string{addLine("a"), removeLine("b")}, twophase.Shape{DataChange: true}},
		"with cdc":        {[]string{addLine("a"), `{"cdc":{"path":"c","partitionValues":{},"size":1,"dataChange":false}}`}, twophase.Shape{DataChange: true}},
		"with a domain":   {[]string{addLine("a"), domainLine("d")}, twophase.Shape{DataChange: true}},
		"with metaData":   {[]string{addLine("a"), metaOf(schemaJSON, nil, "")}, twophase.Shape{DataChange: true}},
		"with protocol":   {[]string{plainProtocol}, twophase.Shape{}},
		"with commitInfo": {[]string{`{"commitInfo":{}}`, addLine("a")}, twophase.Shape{Appends: true, DataChange: true}},
	} {
		t.Run(name, func(t *testing.T) {
			piece := text(c.lines...)
			a, err := tables.ParseActions(tableURI, tables.Limits{}, piece)
			if err != nil {
				t.Fatal(err)
			}
			c.want.Bytes = uint64(len(piece))
			if diff := cmp.Diff(c.want, a.Shape(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("shape (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseActions(f *testing.F) {
	for _, s := range []string{
		addLine("a"), removeDV("a%20b", "x"), txnLine("a", 1), domainLine("d"), plainProtocol, metaOf(schemaJSON, []string{"day"}, `"a":"b"`),
		`{"commitInfo":{"tags":{"x":"y"}}}`, `{"x":1}`, `{`, `{"add":{"stats":"\u0022"}}`, "{\"\\ud800\":{}}", `{"cdc":{}}`,
	} {
		f.Add([]byte(s))
		f.Add(text(s, s))
	}
	f.Fuzz(func(t *testing.T, piece []byte) {
		var a *tables.Actions
		var err error
		bounded(t, len(piece), func() { a, err = tables.ParseActions(tableURI, tables.Limits{}, piece) })
		if err != nil {
			_, input := errors.AsType[*tables.InputError](err)
			_, limit := errors.AsType[*tables.LimitError](err)
			if !input && !limit {
				t.Fatalf("an error of another type: %v", err)
			}
			return
		}
		// What we take for valid goes into a log, so it must be valid to everybody.
		for line := range strings.SplitSeq(string(piece), "\n") {
			if strings.Trim(line, " \t\r") != "" && !json.Valid([]byte(line)) {
				t.Errorf("taken, and not JSON: %q", line)
			}
		}
		// A log that holds it reads the same.
		c, err := tables.ParseCommit(tableURI, 0, piece)
		if err != nil {
			t.Fatalf("staged, and not readable: %v", err)
		}
		if diff := cmp.Diff(a, c.Actions, cmpopts.IgnoreUnexported(tables.Actions{})); diff != "" {
			t.Errorf("staged and read differ:\n%s", diff)
		}
	})
}

// FuzzScanner compares the scanner with the standard library's.
func FuzzScanner(f *testing.F) {
	for _, s := range []string{`{}`, `[1,-0.5e+3,"\u00e9"]`, `nul`, `-`, `"\x"`, `{"a":}`, `[,]`, `1 2`, `"` + "\x7f" + `"`, `01`, `[1,]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if strings.ContainsAny(value, "\n") || strings.Count(value, "[")+strings.Count(value, "{") > 100 {
			return
		}
		line := `{"other":` + value + `}`
		_, err := tables.ParseCommit(tableURI, 0, []byte(line))
		if valid := json.Valid([]byte(line)); valid != (err == nil) && !strings.Contains(fmt.Sprint(err), "one action") {
			t.Errorf("%q: valid %t, parsed %v", line, valid, err)
		}
	})
}
