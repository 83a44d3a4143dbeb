package tables_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

func TestReadCommit(t *testing.T) {
	f := plain(t)
	raw := text(
		`{"commitInfo":{"timestamp":17,"inCommitTimestamp":18,"operation":"WRITE","engineInfo":"`+strings.Repeat("é", 150)+`","isBlindAppend":true}}`,
		addLine("b.parquet"), txnLine("job", 4), txnLine("txcoord/cat", 9), `{"futureAction":{"x":1}}`)
	if err := f.log.PutCommit(t.Context(), 1, raw); err != nil {
		t.Fatal(err)
	}
	c, err := f.log.ReadCommit(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if c.Version != 1 || c.Identity != twophase.HashOf(raw) || string(c.Raw) != string(raw) || c.Object.ETag == "" {
		t.Errorf("got version %d, identity %s, object %+v", c.Version, c.Identity, c.Object)
	}
	if c.Timestamp != 17 || c.InCommitTimestamp != 18 || c.Operation != "WRITE" || !c.BlindAppend || len(c.Engine) != 200 {
		t.Errorf("commitInfo: %d %d %q %t, engine of %d bytes", c.Timestamp, c.InCommitTimestamp, c.Operation, c.BlindAppend, len(c.Engine))
	}
	if m, ok := c.Marker("cat"); !ok || m != 9 {
		t.Errorf("marker: %d, %t", m, ok)
	}
	if _, ok := c.Marker("other"); ok {
		t.Error("a marker of another catalog")
	}
	if diff := cmp.Diff([]twophase.AppVersion{{App: "job", Version: 4}}, c.Apps()); diff != "" {
		t.Errorf("apps (-want +got):\n%s", diff)
	}
	if tags, err := c.Tags("cat"); tags != nil || err != nil {
		t.Errorf("tags: %v, %v; the version names no catalog", tags, err)
	}
	if _, err := f.log.ReadCommit(t.Context(), 2); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("version 2: %v, want not found", err)
	}
	if err := f.log.PutCommit(t.Context(), 1, raw); !errors.Is(err, objstore.ErrExists) {
		t.Errorf("put version 1 again: %v, want exists", err)
	}
}

func TestDamagedCommits(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		fault   tables.Fault
		line    int
		ailment string
	}{
		"empty":                  {"", tables.Empty, 0, "is empty"},
		"white space":            {" \n\n", tables.Empty, 0, "has no action in its 3 bytes"},
		"torn in the first line": {addLine("x")[:30], tables.Torn, 1, "is cut off at byte 30, in line 1"},
		"torn in a later line":   {addLine("x") + "\n" + addLine("y")[:30], tables.Torn, 2, fmt.Sprintf("is cut off at byte %d, in line 2", len(addLine("x"))+31)},
		"bad line in the middle": {addLine("x") + "\n{oops\n" + addLine("y") + "\n", tables.Malformed, 2, "is not JSON in line 2 ("},
		"bad last line":          {addLine("x") + "\n{oops}\n", tables.Malformed, 2, "is not JSON in line 2 ("},
		"no path":                {`{"add":{"size":1}}`, tables.Malformed, 1, "holds no Delta action in line 1 (add.path: "},
		"bad path":               {addLine("a%zz"), tables.Malformed, 1, "holds no Delta action in line 1 (add.path: "},
		"zero bytes":             {strings.Repeat("\x00", 40), tables.Torn, 1, "is cut off at byte 40, in line 1"},
		"protocol no object":     {`{"protocol":1}`, tables.Malformed, 1, "holds no Delta action in line 1 (protocol: "},
	} {
		t.Run(name, func(t *testing.T) {
			f := plain(t).put("00000000000000000001.json", []byte(c.content))
			check := func(what string, err error) {
				t.Helper()
				e, ok := errors.AsType[*tables.LogError](err)
				if !ok || e.Fault != c.fault || e.Line != c.line || e.Version != 1 || e.Table != tableURI || e.File != "_delta_log/00000000000000000001.json" {
					t.Errorf("%s: got %+v, want %v in line %d", what, err, c.fault, c.line)
				}
			}
			_, err := f.log.ReadCommit(t.Context(), 1)
			check("ReadCommit", err)
			if e, ok := errors.AsType[*tables.LogError](err); !ok || !e.InPart() || !strings.HasPrefix(e.Ailment(), c.ailment) {
				t.Errorf("%+v", err)
			}
			_, err = f.log.State(t.Context(), tables.Latest)
			check("State", err)
			if _, err := f.log.State(t.Context(), 0); err != nil {
				t.Errorf("version 0: %v", err)
			}
		})
	}
}

func TestTags(t *testing.T) {
	id := strings.Repeat("ab", 16)
	digest := strings.Repeat("cd", 32)
	pair := fmt.Sprintf(`[[\"%s\",\"%s\"]]`, id, digest)
	tag := func(more string) string {
		return `{"commitInfo":{"tags":{"txcoord.catalog":"cat","txcoord.round":"7.0",` + more + `"x":1}}}`
	}
	marker := txnLine("txcoord/cat", 5)
	good := tag(`"txcoord.incarnation":"i1","txcoord.transactions":"` + pair + `",`)
	for name, c := range map[string]struct {
		lines []string
		ours  bool
		bad   string
	}{
		"ours":                   {[]string{good, marker}, true, ""},
		"participants":           {[]string{tag(`"txcoord.incarnation":"i1","txcoord.transactions":"` + pair + `","txcoord.participants":"[[[\"t1\",\"t2\"]],[0]]",`), marker}, true, ""},
		"participants, none":     {[]string{tag(`"txcoord.incarnation":"i1","txcoord.transactions":"` + pair + `","txcoord.participants":"[[],[0]]",`), marker}, false, "no set 0"},
		"participants, of two":   {[]string{tag(`"txcoord.incarnation":"i1","txcoord.transactions":"` + pair + `","txcoord.participants":"[[5],[0,0]]",`), marker}, false, "of 2 transactions"},
		"participants, text":     {[]string{tag(`"txcoord.incarnation":"i1","txcoord.transactions":"` + pair + `","txcoord.participants":"[[\"t1\"],[0]]",`), marker}, false, "neither a number"},
		"participants, no array": {[]string{tag(`"txcoord.incarnation":"i1","txcoord.transactions":"` + pair + `","txcoord.participants":"x",`), marker}, false, "not a JSON array"},
		"barrier":                {[]string{tag(`"txcoord.incarnation":"i1","txcoord.notApplied":"` + pair + `",`), marker}, true, ""},
		"another catalog":        {[]string{strings.Replace(good, `"cat"`, `"dog"`, 1), marker}, false, ""},
		"no tags":                {[]string{`{"commitInfo":{}}`, marker}, false, ""},
		"no commitInfo":          {[]string{marker}, false, ""},
		"tags no object":         {[]string{`{"commitInfo":{"tags":"txcoord.catalog"}}`}, false, ""},
		"no marker":              {[]string{good}, false, "no marker"},
		"another's marker":       {[]string{good, txnLine("txcoord/dog", 5)}, false, "no marker"},
		"no incarnation":         {[]string{tag(`"txcoord.transactions":"` + pair + `",`), marker}, false, "txcoord.incarnation"},
		"no transactions":        {[]string{tag(`"txcoord.incarnation":"i1",`), marker}, false, "0 transactions"},
		"both":                   {[]string{tag(`"txcoord.incarnation":"i1","txcoord.transactions":"` + pair + `","txcoord.notApplied":"` + pair + `",`), marker}, false, "1 not applied"},
		"transactions no array":  {[]string{tag(`"txcoord.incarnation":"i1","txcoord.transactions":"x",`), marker}, false, "txcoord.transactions"},
		"transactions of three":  {[]string{tag(`"txcoord.incarnation":"i1","txcoord.transactions":"[[\"a\",\"b\",\"c\"]]",`), marker}, false, "3 parts"},
		"transactions, bad id":   {[]string{tag(`"txcoord.incarnation":"i1","txcoord.transactions":"[[\"a\",\"` + digest + `\"]]",`), marker}, false, "32 hex"},
		"transactions, bad hash": {[]string{tag(`"txcoord.incarnation":"i1","txcoord.transactions":"[[\"` + id + `\",\"b\"]]",`), marker}, false, "64 hex"},
	} {
		t.Run(name, func(t *testing.T) {
			commit, err := tables.ParseCommit(tableURI, 3, text(c.lines...))
			if err != nil {
				t.Fatal(err)
			}
			tags, err := commit.Tags("cat")
			if c.bad != "" {
				if e, ok := errors.AsType[*tables.LogError](err); !ok || e.Fault != tables.BadTags || e.Version != 3 || !strings.Contains(err.Error(), c.bad) {
					t.Errorf("got %v, %v, want bad tags: %s", tags, err, c.bad)
				}
				return
			}
			if err != nil || (tags != nil) != c.ours {
				t.Errorf("got %v, %v, want ours: %t", tags, err, c.ours)
			}
			if tags != nil && (tags.Incarnation != "i1" || tags.Round != "7.0" || len(tags.Transactions)+len(tags.NotApplied) != 1 || tags.Barrier() != (len(tags.NotApplied) == 1)) {
				t.Errorf("got %+v", tags)
			}
		})
	}
}

func TestList(t *testing.T) {
	f := newFixture(t)
	for v := range 12 {
		f.commit(addLine(fmt.Sprint(v)))
	}
	for _, name := range []string{
		"00000000000000000003.checkpoint.parquet",
		"00000000000000000005.checkpoint.0000000001.0000000002.parquet",
		"00000000000000000005.checkpoint.0000000002.0000000002.parquet",
		"00000000000000000007.checkpoint.0000000001.0000000003.parquet",
		"00000000000000000007.checkpoint.0000000003.0000000003.parquet",
		"00000000000000000008.checkpoint.a1b2-c3.json",
		"00000000000000000008.checkpoint.parquet",
		"00000000000000000009.checkpoint.0000000001.0000000001.x.parquet",
		"00000000000000000009.checkpoint.1.1.parquet",
		"00000000000000000009.1234.json", "00000000000000000009.crc", "00000000000000000010.00000000000000000011.compacted.json",
		".00000000000000000009.json.crc", "0000000000000000009.json", "000000000000000000009.json", "0000000000000000009x.json",
		"_last_checkpoint", "_sidecars/x.parquet", "_staged_commits/00000000000000000012.u.json", "_txcoord/owner.json", "99999999999999999999.json",
	} {
		f.put(name, []byte("x"))
	}
	l, err := f.log.List(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	type found struct {
		V        twophase.Version
		Complete bool
		Files    int
	}
	var commits []twophase.Version
	for _, c := range l.Commits {
		commits = append(commits, c.Version)
		if c.ETag == "" || c.Size == 0 || c.Key != f.log.CommitKey(c.Version) {
			t.Errorf("commit %d: %+v", c.Version, c.Info)
		}
	}
	var checkpoints []found
	for _, c := range l.Checkpoints {
		checkpoints = append(checkpoints, found{c.Version, c.Complete, len(c.Files)})
	}
	if diff := cmp.Diff([]twophase.Version{4, 5, 6, 7, 8, 9, 10, 11}, commits); diff != "" {
		t.Errorf("commits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]found{{5, true, 2}, {7, false, 2}, {8, true, 1}, {8, true, 1}}, checkpoints); diff != "" {
		t.Errorf("checkpoints (-want +got):\n%s", diff)
	}
	if !l.Owner || l.Last() != 11 || l.From != 4 {
		t.Errorf("owner %t, last %d, from %d", l.Owner, l.Last(), l.From)
	}
	if c, ok := l.NewestCheckpoint(7); !ok || c.Version != 5 {
		t.Errorf("newest checkpoint up to 7: %+v, %t", c, ok)
	}
	if _, ok := l.NewestCheckpoint(4); ok {
		t.Error("a checkpoint up to 4")
	}
	if c, ok := l.Commit(6); !ok || c.Version != 6 {
		t.Errorf("commit 6: %+v, %t", c, ok)
	}
	if _, ok := l.Commit(3); ok {
		t.Error("commit 3 is below the listing")
	}
	if !l.Above(11) || l.Above(12) {
		t.Errorf("above 11: %t, above 12: %t", l.Above(11), l.Above(12))
	}
}

func TestListSeesIncompleteCheckpointsAbove(t *testing.T) {
	f := plain(t).put("00000000000000000004.checkpoint.0000000001.0000000002.parquet", nil)
	l, err := f.log.List(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if !l.Above(1) || l.Last() != 0 || l.Owner {
		t.Errorf("above 1: %t, last %d, owner %t; want true, 0, false", l.Above(1), l.Last(), l.Owner)
	}
	empty, err := newFixture(t).log.List(t.Context(), 0)
	if err != nil || empty.Last() != twophase.NoVersion || empty.Above(0) {
		t.Errorf("an empty log: %+v, %v", empty, err)
	}
}

// A table that somebody broke: two vectors of one path are live at once.
// unreachable is a store whose reads of some keys fail.
// A store that cannot be reached is not a damaged table.
func TestLogAtTheStoreRoot(t *testing.T) {
	f := newFixture(t)
	log := tables.NewLog(tables.LogConfig{Store: f.store, URI: "s3://lake"})
	if err := log.PutCommit(t.Context(), 0, text(plainProtocol, metaOf(schemaJSON, nil, ""))); err != nil {
		t.Fatal(err)
	}
	if s, err := log.State(t.Context(), tables.Latest); err != nil || s.Version() != 0 {
		t.Errorf("state: %v, %v", s, err)
	}
	for path, want := range map[string]string{"a/b": "a/b", "s3://other/x": ""} {
		if key, ok := log.FileKey(path); key != want || ok != (want != "") {
			t.Errorf("FileKey(%q) = %q, %t", path, key, ok)
		}
	}
	if key, _ := f.log.FileKey("a"); key != "orders/a" {
		t.Errorf("FileKey = %q", key)
	}
}

// huge is a store that says of its checkpoints that they are larger than they are.
// A large checkpoint is read in ranges.
func TestErrorTexts(t *testing.T) {
	for want, err := range map[string]error{
		"line 3: add.path: is missing (x); mend it": &tables.InputError{Line: 3, Field: "add.path", Reason: "is missing", Value: "x", Remedy: "mend it"},
		"is empty":                        &tables.InputError{Reason: "is empty"},
		"line_bytes is 9, the limit is 3": &tables.LimitError{Limit: "line_bytes", Value: 9, Max: 3},
		"the protocol action is refused, and table t stays as it is: feature f: because":                     &tables.FeatureError{Table: "t", Feature: "f", Write: true, Added: true, Reason: "because"},
		"table t cannot be written: feature f: because":                                                      &tables.FeatureError{Table: "t", Feature: "f", Write: true, Reason: "because"},
		"table t: x.json: line 2: torn commit: why":                                                          &tables.LogError{Fault: tables.Torn, Table: "t", File: "x.json", Line: 2, Reason: "why"},
		"table t: unsupported protocol: feature f: because":                                                  &tables.LogError{Fault: tables.Unsupported, Table: "t", Err: &tables.FeatureError{Table: "t", Feature: "f", Reason: "because"}},
		"table t: bad checkpoint: connection refused":                                                        &tables.LogError{Fault: tables.BadCheckpoint, Table: "t", Err: errDown},
		"table t belongs to catalog c as table x; release it there, or take it over if that catalog is gone": &tables.OwnedError{URI: "t", Owner: tables.Owner{Catalog: "c", Table: "x"}},
	} {
		if err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}

// What is there twice in somebody else's commit is read by no rule of ours: engines differ
// in which one counts. What none of our readers looks at is left to its writer.
func TestMembersTwiceInALog(t *testing.T) {
	meta := metaOf(schemaJSON, nil, "")
	for name, c := range map[string]struct{ line, field string }{
		"path":              {`{"add":{"path":"a","path":"b"}}`, "add.path"},
		"the same path":     {`{"add":{"path":"a","path":"a"}}`, "add.path"},
		"null last":         {`{"add":{"path":"a","size":1,"size":null}}`, "add.size"},
		"null first":        {`{"remove":{"path":"a","deletionVector":null,"deletionVector":{"storageType":"u","pathOrInlineDv":"x"}}}`, "remove.deletionVector"},
		"partition":         {`{"add":{"path":"a","partitionValues":{"p":"1","p":"2"}}}`, "add.partitionValues.p"},
		"vector":            {`{"add":{"path":"a","deletionVector":{"storageType":"u","pathOrInlineDv":"x","pathOrInlineDv":"y"}}}`, "add.deletionVector.pathOrInlineDv"},
		"version of an app": {`{"txn":{"appId":"a","version":1,"version":2}}`, "txn.version"},
		"action":            {`{"add":{"path":"a"},"add":null}`, "add"},
		"action, null":      {`{"add":null,"add":{"path":"a"}}`, "add"},
		"metaData.id":       {strings.Replace(meta, `"metaData":{`, `"metaData":{"id":"x",`, 1), "metaData.id"},
		"property":          {strings.Replace(meta, `"configuration":{`, `"configuration":{"a":"1","a":"2"},"x":{`, 1), "metaData.configuration.a"},
		"protocol":          {`{"protocol":{"minReaderVersion":1,"minWriterVersion":2,"minWriterVersion":7}}`, "protocol.minWriterVersion"},
		"tags":              {`{"commitInfo":{"tags":{},"tags":{"txcoord.catalog":"c"}}}`, "commitInfo.tags"},
		"unread":            {`{"add":{"path":"a","newer":1,"newer":2}}`, ""},
		"unread action":     {`{"newer":{"a":1,"a":2}}`, ""},
		"stats":             {`{"add":{"path":"a","stats":"{\"minValues\":{},\"minValues\":{}}"}}`, ""},
	} {
		_, err := tables.ParseCommit(tableURI, 5, text(txnLine("x", 1), c.line))
		bad, ok := errors.AsType[*tables.LogError](err)
		if c.field == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !ok || bad.Fault != tables.Malformed || bad.Line != 2 || bad.Version != 5 || !strings.Contains(bad.Reason, c.field+": ") || !strings.Contains(bad.Reason, "twice") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
