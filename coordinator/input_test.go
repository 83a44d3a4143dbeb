package coordinator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

const partitioned = `{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"day","type":"string","nullable":true,"metadata":{}}]}`

// inputWorld has a plain table, an append-only one and a partitioned one.
func inputWorld(t *testing.T) *world {
	w := (&world{}).open(t)
	w.create("plain", twophase.ModeOpen)
	w.createWith(coordinator.CreateRequest{Name: "appendonly", Schema: schema, Properties: map[string]string{"delta.appendOnly": "true"}})
	w.createWith(coordinator.CreateRequest{Name: "days", Schema: partitioned, PartitionColumns: []string{"day"}})
	w.commit("seed", blind("plain", "seed.parquet"), blind("appendonly", "seed.parquet"))
	w.settle()
	return w
}

func TestBadActionsAreRefused(t *testing.T) {
	t.Parallel()
	w := inputWorld(t)
	for name, c := range map[string]struct {
		part   coordinator.OnceTable
		reason coordinator.Reason
		field  string
		line   int
		says   string // in the message
		late   bool   // only the commit looks so far
	}{
		"unknown table":            {blind("nowhere", "1"), coordinator.TableNotFound, "table", 0, "nowhere", false},
		"bad JSON":                 {change("plain", blindRead, add("1"), []byte("{\"add\":{\n")), coordinator.InvalidAction, "", 2, "line 2", false},
		"torn last line":           {change("plain", blindRead, add("1"), add("2"), add("3")[:40]), coordinator.InvalidAction, "", 3, "line 3", false},
		"missing required field":   {change("plain", blindRead, []byte(`{"add":{"path":"1","partitionValues":{},"modificationTime":1,"dataChange":true}}`)), coordinator.InvalidAction, "add.size", 1, "size", false},
		"wrong type":               {change("plain", blindRead, []byte(`{"add":{"path":"1","partitionValues":{},"size":"big","modificationTime":1,"dataChange":true}}`)), coordinator.InvalidAction, "add.size", 1, "size", false},
		"duplicate path":           {change("plain", blindRead, add("1"), add("1")), coordinator.InvalidAction, "add.path", 2, "1", false},
		"duplicate path, escaped":  {change("plain", blindRead, add("a b"), add("a%20b")), coordinator.InvalidAction, "add.path", 2, "a b", false},
		"add and remove":           {change("plain", readAt(1), remove("seed.parquet"), add("seed.parquet")), coordinator.InvalidAction, "", 2, "seed.parquet", false},
		"partition keys missing":   {change("days", blindRead, add("1")), coordinator.InvalidAction, "partitionValues", 1, "day", false},
		"partition keys too many":  {change("plain", blindRead, []byte(strings.Replace(string(add("1")), `"partitionValues":{}`, `"partitionValues":{"day":"1"}`, 1))), coordinator.InvalidAction, "partitionValues", 1, "day", false},
		"remove of append-only":    {change("appendonly", readAt(1), remove("seed.parquet")), coordinator.InvalidAction, "", 1, "append", false},
		"path above the table":     {blind("plain", "../other/1.parquet"), coordinator.InvalidAction, "add.path", 1, "../other", false},
		"path of another table":    {blind("plain", w.uri("days/1.parquet")), coordinator.InvalidAction, "add.path", 1, "days/1", false},
		"reserved application":     {change("plain", blindRead, txnAction("txcoord/mine", 7)), coordinator.InvalidAction, "txn.appId", 1, "txcoord/", false},
		"unknown action":           {change("plain", blindRead, []byte(`{"transactionGroup":{"id":"x"}}`)), coordinator.InvalidAction, "", 1, "transactionGroup", false},
		"no action":                {change("plain", blindRead, []byte(" \n\n")), coordinator.InvalidRequest, "actions", 0, "no action", false},
		"blind and a remove":       {change("plain", blindRead, remove("seed.parquet")), coordinator.InvalidRequest, "read.blind", 0, "blind", false},
		"no read point":            {change("plain", tables.ReadDeclaration{}, add("1")), coordinator.InvalidRequest, "read", 0, "exactly one", false},
		"two read points":          {change("plain", tables.ReadDeclaration{Blind: true, Version: new(twophase.Version)}, add("1")), coordinator.InvalidRequest, "read", 0, "exactly one", false},
		"negative read point":      {change("plain", readAt(-1), add("1")), coordinator.InvalidRequest, "read.version", 0, "negative", false},
		"read version not there":   {change("plain", readAt(99), add("1")), coordinator.InvalidRequest, "read.version", 0, "newest is 1", true},
		"read snapshot not there":  {change("plain", readSnapshot(99), add("1")), coordinator.InvalidRequest, "read.snapshot_version", 0, "snapshot", true},
		"snapshot before table":    {change("days", readSnapshot(1), []byte(strings.Replace(string(add("1")), `"partitionValues":{}`, `"partitionValues":{"day":"1"}`, 1))), coordinator.InvalidRequest, "read.snapshot_version", 0, "days", true},
		"predicate on no column":   {change("plain", readPartition(1, "nocolumn", "1"), add("1")), coordinator.InvalidRequest, "", 0, "nocolumn", true},
		"protocol we do not know":  {change("plain", readAt(1), []byte(`{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["quantumRead"],"writerFeatures":["quantumRead"]}}`)), coordinator.FeatureUnsupported, "", 0, "quantumRead", false},
		"broken schema":            {change("plain", readAt(1), metaData(w.info("plain").MetaDataID, `{"type":"struct"`)), coordinator.InvalidRequest, "metaData.schemaString", 0, "schemaString", false},
		"control character in app": {change("plain", blindRead, []byte("{\"txn\":{\"appId\":\"a\xffb\",\"version\":1}}")), coordinator.InvalidAction, "", 1, "UTF-8", false},
	} {
		t.Run(name, func(t *testing.T) {
			w.unchanged("the commit", func() {
				_, err := w.try("bad: "+name, c.part)
				checkRefusal(t, err, c.reason, c.field, c.line, c.says)
			})
			if c.late {
				return
			}
			w.unchanged("staging", func() {
				token := w.begin("").Token
				_, err := w.catalog.Stage(w.ctx(), coordinator.StageRequest{Token: token, Table: c.part.Table, Read: c.part.Read, Actions: c.part.Actions})
				checkRefusal(t, err, c.reason, c.field, c.line, c.says)
			})
		})
	}
}

// Names in a log may be any bytes. They come back in messages and in the journal.
func TestNamesThatAreNoTextAreCarried(t *testing.T) {
	t.Parallel()
	w := inputWorld(t)
	w.commit("first", blind("plain", "a%FFb.parquet"))
	_, err := w.try("second", blind("plain", "a%FFb.parquet"))
	own := wantReason(t, "the same path again", err, coordinator.Conflicted)
	if own.Conflict.Rule != twophase.RulePathExists || !strings.Contains(own.Conflict.Path, "b.parquet") {
		t.Errorf("%+v", own.Conflict)
	}
	_, err = w.try("long", blind("plain", strings.Repeat("é", 2000)+"1"), blind("days", "x"))
	if err == nil {
		t.Error("a part without partition values was taken")
	}
	info := fmt.Appendf(nil, `{"commitInfo":{"timestamp":1,"operation":"WRITE","engineInfo":"%sé/1"}}`+"\n", strings.Repeat("x", 199))
	if err := w.objects.PutIfAbsent(w.ctx(), commitKey("plain", 3), lines(info, txnAction(strings.Repeat("é", 700), 1), []byte(`{"txn":{"appId":"\ud800","version":3}}`+"\n"), add("b%FF"))); err != nil {
		t.Fatal(err)
	}
	w.commit("third", blind("plain", "c"))
	w.restart()
	_, err = w.try("fourth", change("plain", readAt(0), remove("seed.parquet"), add("b%FF")))
	wantReason(t, "a path that somebody else added", err, coordinator.Conflicted)
}

func checkRefusal(t *testing.T, err error, reason coordinator.Reason, field string, line int, says string) {
	t.Helper()
	own := wantReason(t, "", err, reason)
	if !strings.Contains(own.Error(), says) {
		t.Errorf("the message does not say %q: %v", says, own)
	}
	switch {
	case field == "" && line == 0:
	case own.Field == nil:
		t.Errorf("no field is named: %v", own)
	case field != "" && own.Field.Field != field || own.Field.Line != line:
		t.Errorf("names field %q, line %d; want %q, line %d: %v", own.Field.Field, own.Field.Line, field, line, own)
	}
}

func readSnapshot(v twophase.SnapshotVersion) tables.ReadDeclaration {
	return tables.ReadDeclaration{Snapshot: &v}
}

func readPartition(v twophase.Version, column, value string) tables.ReadDeclaration {
	return tables.ReadDeclaration{
		Version: &v, Kind: tables.ReadPartitions,
		Partitions: []tables.PartitionMatch{{{Column: column, Values: []string{value}}}},
	}
}

func metaData(id, schema string) []byte {
	return fmt.Appendf(nil, `{"metaData":{"id":%q,"format":{"provider":"parquet","options":{}},"schemaString":%q,"partitionColumns":[],"configuration":{},"createdTime":1}}`+"\n", id, schema)
}

func TestCommitsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	w := inputWorld(t)
	b := w.begin("job")
	staged := w.stage(b.Token, blind("plain", "1"))
	other := w.stage(w.begin("other").Token, blind("plain", "2"))
	for name, c := range map[string]struct {
		req    coordinator.CommitRequest
		reason coordinator.Reason
		says   string
	}{
		"no table":             {coordinator.CommitRequest{}, coordinator.InvalidRequest, "tables"},
		"table twice":          {coordinator.CommitRequest{Tables: []coordinator.TableParts{parts("plain", staged.Digest), parts(w.uri("plain"), staged.Digest)}}, coordinator.InvalidRequest, "twice"},
		"no part":              {coordinator.CommitRequest{Tables: []coordinator.TableParts{parts("plain")}}, coordinator.InvalidRequest, "part"},
		"part twice":           {coordinator.CommitRequest{Tables: []coordinator.TableParts{parts("plain", staged.Digest, staged.Digest)}}, coordinator.InvalidRequest, "twice"},
		"unknown table":        {coordinator.CommitRequest{Tables: []coordinator.TableParts{parts("nowhere", staged.Digest)}}, coordinator.TableNotFound, "nowhere"},
		"never staged":         {coordinator.CommitRequest{Tables: []coordinator.TableParts{parts("plain", twophase.HashOf([]byte("x")))}}, coordinator.PartNotStaged, "never staged"},
		"of another token":     {coordinator.CommitRequest{Tables: []coordinator.TableParts{parts("plain", other.Digest)}}, coordinator.PartNotStaged, "never staged"},
		"for another table":    {coordinator.CommitRequest{Tables: []coordinator.TableParts{parts("days", staged.Digest)}}, coordinator.PartNotStaged, "never staged"},
		"DECIDED not offered":  {coordinator.CommitRequest{Tables: []coordinator.TableParts{parts("plain", staged.Digest)}, Wait: coordinator.WaitDecided}, coordinator.DecidedNotOffered, "fenced"},
		"read and written":     {coordinator.CommitRequest{Tables: []coordinator.TableParts{parts("plain", staged.Digest)}, Reads: []coordinator.ReadOnly{{Table: "plain", Read: readWhole(1)}}}, coordinator.InvalidRequest, "written as well"},
		"reads nothing":        {coordinator.CommitRequest{Tables: []coordinator.TableParts{parts("plain", staged.Digest)}, Reads: []coordinator.ReadOnly{{Table: "days", Read: readAt(0)}}}, coordinator.InvalidRequest, "nothing that was read"},
		"unknown table read":   {coordinator.CommitRequest{Tables: []coordinator.TableParts{parts("plain", staged.Digest)}, Reads: []coordinator.ReadOnly{{Table: "gone", Read: readWhole(0)}}}, coordinator.TableNotFound, "gone"},
		"verified file absent": {coordinator.CommitRequest{Tables: []coordinator.TableParts{parts("plain", staged.Digest)}, VerifyFiles: true}, coordinator.PartUnreadable, "does not exist"},
	} {
		before := w.keys()
		c.req.Token = b.Token
		_, err := w.catalog.Commit(w.ctx(), c.req)
		if own := wantReason(t, name, err, c.reason); !strings.Contains(own.Message, c.says) {
			t.Errorf("%s: the message does not say %q: %v", name, c.says, own)
		}
		if after := w.keys(); len(after) != len(before) {
			t.Errorf("%s: %d keys became %d", name, len(before), len(after))
		}
	}
}

func TestPartsThatDoNotGoTogetherAreRefused(t *testing.T) {
	t.Parallel()
	w := inputWorld(t)
	b := w.begin("job")
	one := w.stage(b.Token, change("plain", readAt(1), add("1")))
	same := w.stage(b.Token, change("plain", readAt(1), add("1"), add("2")))
	reads := w.stage(b.Token, change("plain", readWhole(1), add("3")))
	for name, c := range map[string]struct {
		digest twophase.Digest
		says   string
	}{
		"one path in two parts":      {same.Digest, "1"},
		"different read declaration": {reads.Digest, "read declaration"},
	} {
		before := w.keys()
		_, err := w.catalog.Commit(w.ctx(), coordinator.CommitRequest{Token: b.Token, Tables: []coordinator.TableParts{parts("plain", one.Digest, c.digest)}})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if after := w.keys(); len(after) != len(before) {
			t.Errorf("%s: %d keys became %d", name, len(before), len(after))
		}
	}
}

func TestTokensThatAreNotOursAreRefused(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeExclusive)
	b := w.begin("job")
	staged := w.stage(b.Token, blind("t", "1"))
	elsewhere := (&world{}).open(t)
	altered := []byte(b.Token)
	altered[len(altered)/2] ^= 1
	for name, c := range map[string]struct {
		token  string
		reason coordinator.Reason
	}{
		"missing":            {"", coordinator.InvalidToken},
		"no token":           {"hello", coordinator.InvalidToken},
		"altered":            {string(altered), coordinator.InvalidToken},
		"cut":                {b.Token[:len(b.Token)-4], coordinator.InvalidToken},
		"of another catalog": {elsewhere.begin("job").Token, coordinator.InvalidToken},
	} {
		w.checkToken(name, c.token, staged.Digest, c.reason)
	}

	// A rebuilt catalog keeps its id and secret, and has another incarnation.
	w.stop()
	w.store = reincarnated(w)
	w.start()
	w.create("t2", twophase.ModeExclusive)
	w.checkToken("of another incarnation", b.Token, staged.Digest, coordinator.TokenStale)
}

// reincarnated is an empty store with the same catalog and secret in it, and the
// manifests gone: what a rebuild begins with.
func reincarnated(w *world) lock.Store {
	var meta lock.Meta
	w.setMeta(func(m *lock.Meta) { m.Incarnation = strings.Repeat("0", 32); meta = *m })
	next := (&world{}).open(w.t)
	next.setMeta(func(m *lock.Meta) { *m = meta })
	for key := range w.keys() {
		if name, ok := strings.CutPrefix(key, "object: _txcoord/default/manifests/"); ok {
			if err := w.objects.Delete(w.ctx(), "_txcoord/default/manifests/"+name); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	return next.store
}

// checkToken gives a token to everything that takes one.
func (w *world) checkToken(name, token string, digest twophase.Digest, reason coordinator.Reason) {
	w.t.Helper()
	w.unchanged(name, func() {
		w.t.Helper()
		_, err := w.catalog.Stage(w.ctx(), coordinator.StageRequest{Token: token, Table: "t", Read: blindRead, Actions: add("1")})
		wantReason(w.t, name+": stage", err, reason)
		_, err = w.catalog.Commit(w.ctx(), coordinator.CommitRequest{Token: token, Tables: []coordinator.TableParts{parts("t", digest)}})
		wantReason(w.t, name+": commit", err, reason)
		if token == "" {
			return
		}
		_, err = w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Token: token}, "")
		wantReason(w.t, name+": abort", err, reason)
		_, _, err = w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Token: token}, Resolve: true})
		wantReason(w.t, name+": resolve", err, reason)
		_, err = w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Token: token})
		wantReason(w.t, name+": extend", err, reason)
	})
}

func TestLimitsAreNamed(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits = coordinator.Limits{
		KeyBytes: 10, MaxTTL: time.Hour, TablesPerTxn: 2, PartsPerTable: 2, ReadFiles: 2,
		Actions: tables.Limits{LineBytes: 400, PartBytes: 1000, Actions: 3},
	}
	w.open(t)
	for _, name := range []string{"a", "b", "c"} {
		w.create(name, twophase.ModeExclusive)
	}
	token := w.begin("job").Token
	stage := func(part coordinator.OnceTable) error {
		_, err := w.catalog.Stage(w.ctx(), coordinator.StageRequest{Token: token, Table: part.Table, Read: part.Read, Actions: part.Actions})
		return err
	}
	files := tables.ReadDeclaration{Version: new(twophase.Version), Kind: tables.ReadFiles, Files: []string{"1", "2", "3"}}
	long := strings.Repeat("x", 300)
	for name, c := range map[string]struct {
		limit      string
		value, max int64
		do         func() error
	}{
		"key": {"key_bytes", 11, 10, func() error {
			_, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Key: "12345678901"})
			return err
		}},
		"time to live": {"transaction_ttl", 7_200_000, 3_600_000, func() error {
			_, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{TTL: 2 * time.Hour})
			return err
		}},
		"extended time to live": {"transaction_ttl", 7_200_000, 3_600_000, func() error {
			_, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Token: token, TTL: 2 * time.Hour})
			return err
		}},
		"tables": {"tables_per_transaction", 3, 2, func() error {
			_, err := w.try("k", blind("a", "1"), blind("b", "1"), blind("c", "1"))
			return err
		}},
		"parts": {"parts_per_table", 3, 2, func() error {
			_, err := w.catalog.Commit(w.ctx(), coordinator.CommitRequest{
				Token:  token,
				Tables: []coordinator.TableParts{parts("a", twophase.Digest{1}, twophase.Digest{2}, twophase.Digest{3})},
			})
			return err
		}},
		"read files": {"read_files", 3, 2, func() error { return stage(change("a", files, add("9"))) }},
		"line":       {"line_bytes", 417, 400, func() error { return stage(change("a", blindRead, add("1"), add(long))) }},
		"part": {"part_bytes", 1083, 1000, func() error {
			return stage(change("a", blindRead, add("1"+long[:242]), add("2"+long[:242]), add("3"+long[:242])))
		}},
		"action":        {"actions", 4, 3, func() error { return stage(change("a", blindRead, add("1"), add("2"), add("3"), add("4"))) }},
		"one-call line": {"line_bytes", 417, 400, func() error { _, err := w.try("k", change("a", blindRead, add(long))); return err }},
	} {
		w.unchanged(name, func() {
			own := wantReason(t, name, c.do(), coordinator.LimitExceeded)
			if own.Limit == nil || own.Limit.Name != c.limit || own.Limit.Value != c.value || own.Limit.Limit != c.max {
				t.Errorf("%s: %+v, want %s %d of %d", name, own.Limit, c.limit, c.value, c.max)
			}
		})
	}
}

func TestBrokenLogsAreRefused(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	for name, broken := range map[string]struct {
		do     func(table string)
		reason coordinator.Reason
		says   string
	}{
		"gap":       {func(tb string) { w.foreign(tb, 2, add("x")) }, coordinator.LogContradiction, "gap: version 1 is missing between 0 and 2"},
		"empty":     {func(tb string) { w.rawCommit(tb, 1, "") }, coordinator.LogContradiction, "00000000000000000001.json"},
		"torn":      {func(tb string) { w.rawCommit(tb, 1, string(add("x"))+`{"add":{"path":"y`) }, coordinator.LogContradiction, "00000000000000000001.json"},
		"malformed": {func(tb string) { w.rawCommit(tb, 1, "[1,2,3]\n") }, coordinator.LogContradiction, "00000000000000000001.json"},
		"new protocol": {func(tb string) {
			w.rawCommit(tb, 1, `{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["quantumRead"],"writerFeatures":["quantumRead"]}}`+"\n")
		}, coordinator.FeatureUnsupported, "quantumRead"},
	} {
		t.Run(name, func(t *testing.T) {
			table := strings.ReplaceAll(name, " ", "")
			w.create(table, twophase.ModeOpen)
			w.create("beside-"+table, twophase.ModeOpen)
			w.settle()
			broken.do(table)
			before := w.versions(table)
			_, err := w.try(name, blind(table, "1"), blind("beside-"+table, "1"))
			if own := wantReason(t, name, err, broken.reason); !strings.Contains(own.Error(), broken.says) {
				t.Errorf("the message does not say %q: %v", broken.says, own)
			}
			if n := w.versions("beside-" + table); n != 1 {
				t.Errorf("the other table has %d versions", n)
			}
			if n := w.versions(table); n != before {
				t.Errorf("%d versions became %d", before, n)
			}
			if o, _, err := w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: name}}); err == nil && o.Committed != nil {
				t.Errorf("outcome %+v", o)
			}
			w.commit("others go on "+name, blind("beside-"+table, "1"))
		})
	}
}

func (w *world) rawCommit(table string, v int, content string) {
	w.t.Helper()
	if err := w.objects.PutIfAbsent(w.ctx(), commitKey(table, v), []byte(content)); err != nil {
		w.t.Fatal(err)
	}
}
