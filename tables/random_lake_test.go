package tables_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// testTxn is a transaction of the test, on one table.
type testTxn struct {
	read  twophase.Version
	decl  tables.ReadDeclaration
	lines []string
	facts twophase.Facts
	id    twophase.TxnID
	round int
	shape twophase.Shape
}

// pastChange is what the journal would know of a version or a decided change.
type pastChange struct {
	version twophase.Version // NoVersion while undelivered
	txn     *testTxn
	facts   twophase.Facts
}

// lake is a table with transactions and foreign writers.
type lake struct {
	*fixture
	r       *rapid.T
	naive   *naiveTable
	tail    *tables.Tail
	view    *tables.View
	open    []*testTxn
	pending []*testTxn
	past    []*pastChange
	change  twophase.ChangeNumber
	marker  twophase.ChangeNumber
	now     twophase.Time
	names   int
	decided int
	lost    int
	kept    bool // a checkpoint was made
	// renewals of the table's extract.
	renewals int
}

func newLake(t *testing.T, r *rapid.T) *lake {
	w := &lake{fixture: newFixture(t), r: r, naive: newNaiveTable(), now: 1_000_000}
	features := []string{"appendOnly", "invariants", "domainMetadata", "deletionVectors"}
	config := []string{`"delta.enableDeletionVectors":"true"`}
	info := `{"commitInfo":{}}`
	for _, f := range []string{"inCommitTimestamp", "rowTracking", "changeDataFeed", "typeWidening", "vacuumProtocolCheck", "v2Checkpoint"} {
		if rapid.Bool().Draw(r, f) {
			features = append(features, f)
		}
	}
	if slices.Contains(features, "inCommitTimestamp") && rapid.Bool().Draw(r, "timed") {
		config = append(config, timesOn)
		info = `{"commitInfo":{"inCommitTimestamp":1000}}`
	}
	if slices.Contains(features, "v2Checkpoint") && rapid.Bool().Draw(r, "sidecars") {
		config = append(config, `"delta.checkpointPolicy":"v2"`)
	}
	readers := slices.DeleteFunc(slices.Clone(features), func(f string) bool {
		return f != "deletionVectors" && f != "typeWidening" && f != "vacuumProtocolCheck" && f != "v2Checkpoint"
	})
	w.put(text(info, featureProtocol(readers, slices.Clone(features)), metaOf(schemaJSON, nil, strings.Join(config, ","))))
	w.reload()
	return w
}

// put appends a version, which the naive replayer has to agree with.
func (w *lake) put(raw []byte) {
	if err := w.naive.take(int64(w.next), raw); err != nil {
		w.r.Fatalf("version %d: %v\n%s", w.next, err, raw)
	}
	if err := w.log.PutCommit(w.t.Context(), w.next, raw); err != nil {
		w.r.Fatal(err)
	}
	w.next++
}

// reload builds view and tail from the log, with what is pending on top.
func (w *lake) reload() {
	w.view = tables.NewView(w.state())
	for i, p := range w.pending {
		if _, err := w.view.Apply(w.marker+twophase.ChangeNumber(i)+1, p.facts); err != nil {
			w.r.Fatal(err)
		}
	}
}

func (w *lake) name() string {
	w.names++
	return fmt.Sprintf("f%d", w.names)
}

// liveFile draws a live file.
func (w *lake) liveFile() (path string, f naiveFile, ok bool) {
	all := slices.Sorted(maps.Keys(w.naive.files))
	if len(all) == 0 {
		return "", f, false
	}
	path = rapid.SampledFrom(all).Draw(w.r, "file")
	return path, w.naive.files[path], true
}

func rowStats(n int64) string { return fmt.Sprintf(`"stats":"{\"numRecords\":%d}"`, n) }

func removeOf(path string, f naiveFile, more ...string) string {
	if f.dv != "" {
		more = append(more, vector(f.dv))
	}
	return removeLine(path, more...)
}

func vectorOf(path, dv string, f naiveFile, more ...string) string {
	return addLine(path, append([]string{rowStats(f.rows), vectorOver(dv, min(f.rows, 1))}, more...)...)
}

// begin stages a transaction that has read the table as it is.
func (w *lake) begin() {
	v := w.next - 1
	x := &testTxn{read: v, decl: at(v, tables.ReadNothing)}
	rows := int64(rapid.IntRange(0, 20).Draw(w.r, "rows"))
	path, f, ok := w.liveFile()
	switch kind := rapid.SampledFrom([]string{"blind", "append", "delete", "vector", "compact", "app", "domain", "column", "property", "times"}).Draw(w.r, "kind"); {
	case kind == "blind":
		x.decl = blind
		x.lines = []string{addRows(w.name(), int(rows))}
		if w.naive.has("rowTracking") { // a blind writer's own ids mean nothing
			x.lines = append(x.lines, addRows(w.name(), 3, `"baseRowId":1,"defaultRowCommitVersion":1`))
		}
	case kind == "append":
		x.decl.Kind = rapid.SampledFrom([]tables.ReadKind{tables.ReadNothing, tables.ReadWholeTable}).Draw(w.r, "read")
		x.lines = []string{addRows(w.name(), int(rows))}
		if w.naive.has("rowTracking") && rows > 0 && rapid.Bool().Draw(w.r, "own ids") {
			mark := w.naive.mark
			x.lines = []string{
				addRows(w.name(), int(rows), fmt.Sprintf(`"baseRowId":%d,"defaultRowCommitVersion":%d`, mark+1, v+1)),
				domainOf("delta.rowTracking", fmt.Sprintf(`{"rowIdHighWaterMark":%d}`, mark+rows)),
			}
		}
	case kind == "delete" && ok:
		x.decl = tables.ReadDeclaration{Version: &v, Kind: tables.ReadFiles, Files: []string{path}}
		x.lines = []string{removeOf(path, f), addRows(w.name(), int(rows))}
	case kind == "vector" && ok:
		x.lines = []string{removeOf(path, f), vectorOf(path, w.name(), f)}
	case kind == "compact" && ok:
		x.lines = []string{rearrange(removeOf(path, f)), rearrange(addRows(w.name(), int(f.rows)))}
	case kind == "domain":
		line := domainLine(rapid.SampledFrom([]string{"d", "e"}).Draw(w.r, "domain"))
		if rapid.Bool().Draw(w.r, "removed") {
			line = strings.Replace(line, `"removed":false`, `"removed":true`, 1)
		}
		x.lines = []string{line, addRows(w.name(), int(rows))}
	case kind == "column":
		x.lines = []string{w.metaData(func(m *metaJSON) { m.addColumn(w.name()) })}
	case kind == "property":
		x.lines = []string{w.metaData(func(m *metaJSON) { m.Configuration["k"] = w.name() })}
	case kind == "times" && w.naive.has("inCommitTimestamp") && w.naive.config["delta.enableInCommitTimestamps"] == "":
		x.lines = []string{w.metaData(func(m *metaJSON) { m.Configuration["delta.enableInCommitTimestamps"] = "true" })}
	default:
		x.lines = []string{txnLine("app", w.naive.txns["app"]+1)}
	}
	w.names++
	x.id = twophase.TxnID{byte(w.names), byte(w.names >> 8), 1}
	w.open = append(w.open, x)
}

// metaJSON is a metaData action that the test changes.
type metaJSON struct {
	ID               string            `json:"id"`
	Format           any               `json:"format"`
	SchemaString     string            `json:"schemaString"`
	PartitionColumns []string          `json:"partitionColumns"`
	Configuration    map[string]string `json:"configuration"`
}

func (m *metaJSON) addColumn(name string) {
	m.SchemaString = strings.TrimSuffix(m.SchemaString, "]}") + fmt.Sprintf(`,{"name":%q,"type":"long","nullable":true,"metadata":{}}]}`, name)
}

func (w *lake) metaData(change func(*metaJSON)) string {
	var m metaJSON
	if err := json.Unmarshal(w.profile().MetaData.Raw, &m); err != nil {
		w.r.Fatal(err)
	}
	change(&m)
	raw, err := json.Marshal(map[string]any{"metaData": m})
	if err != nil {
		w.r.Fatal(err)
	}
	return string(raw)
}

// decide commits an open transaction, or refuses it.
func (w *lake) decide() {
	if len(w.open) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.open)-1).Draw(w.r, "which")
	x := w.open[i]
	w.open = slices.Delete(w.open, i, i+1)
	a, err := tables.ParseActions(tableURI, tables.Limits{}, text(x.lines...))
	if err != nil {
		w.r.Fatal(err)
	}
	profile := w.profile()
	if tables.Validate(a, profile) != nil {
		return // the table has moved
	}
	staged, err := w.log.State(w.t.Context(), x.read)
	if err != nil {
		w.r.Fatal(err)
	}
	if x.facts, err = tables.PartFactsSince(a, profile, staged.Profile().Fingerprint(), x.decl); err != nil {
		w.r.Fatal(err)
	}
	x.shape = a.Shape()
	if !x.decl.Blind {
		for _, p := range w.past {
			if (p.version == twophase.NoVersion || p.version > x.read) && (tables.Rules{}).Checker().Conflict(x.facts, p.facts) != nil {
				return
			}
		}
	}
	if w.view.Try().Fits(x.facts) != nil {
		return
	}
	w.change++
	w.decided++
	if _, err := w.view.Apply(w.change, x.facts); err != nil {
		w.r.Fatal(err)
	}
	w.pending = append(w.pending, x)
	w.past = append(w.past, &pastChange{twophase.NoVersion, x, x.facts})
}

// versions cuts what is pending into versions (R19).
func (w *lake) versions() (out [][]*testTxn) {
	rest := make([]*twophase.Change, len(w.pending))
	for i, p := range w.pending {
		rest[i] = &twophase.Change{Part: &twophase.Part{Shape: p.shape}}
	}
	for at := 0; at < len(rest); {
		n := twophase.Share(rest[at:], twophase.DefaultCaps, false)
		out = append(out, w.pending[at:at+n])
		at += n
	}
	return out
}

// publish puts the next version of what is pending, and all of them with whole.
func (w *lake) publish(whole bool) {
	w.now += twophase.Time(rapid.IntRange(0, 3).Draw(w.r, "passes"))
	for cut := w.versions(); len(cut) > 0; cut = w.versions() {
		in := tables.RenderInput{Catalog: "cat", Incarnation: "inc", Round: "1.0", EngineVersion: "1", Time: w.now, Later: len(cut) - 1}
		w.marker += twophase.ChangeNumber(len(cut[0]))
		in.Marker = w.marker
		for _, x := range cut[0] {
			in.Txns = append(in.Txns, tables.RenderTxn{
				ID: x.id, Digests: []twophase.Digest{digestOf(1)},
				Pieces: [][]byte{text(x.lines...)}, Blind: x.decl.Blind, Read: x.read,
			})
		}
		raw := w.render(in)
		for _, x := range cut[0] {
			for _, p := range w.past {
				if p.txn == x {
					p.version = w.next
				}
			}
		}
		w.put(raw)
		w.pending = w.pending[len(cut[0]):]
		w.view.Delivered(w.marker)
		if err := w.tail.Advance(w.next-1, raw); err != nil {
			w.tail = nil
		}
		if !whole {
			break
		}
	}
	w.reload()
}

// render makes a version twice, on the tail that follows the log and on one that is
// read from it: every publisher writes the same bytes.
func (w *lake) render(in tables.RenderInput) []byte {
	if w.tail == nil || w.tail.Version() != w.next-1 {
		w.tail = w.fixture.tail()
	}
	first := w.renderOn(w.tail, in)
	if second := w.renderOn(w.fixture.tail(), in); !bytes.Equal(first, second) {
		w.r.Fatalf("two publishers:\n%s\n%s", first, second)
	}
	return first
}

func (w *lake) renderOn(tail *tables.Tail, in tables.RenderInput) []byte {
	if err := w.log.Prepare(w.t.Context(), tail, &in); err != nil {
		w.r.Fatal(err)
	}
	out, err := tables.RenderCommit(in)
	if err != nil {
		w.r.Fatal(err)
	}
	return out.Data
}

// foreign lets somebody else commit, who keeps the table's rules.
func (w *lake) foreign() {
	info := `{"commitInfo":{"operation":"WRITE"}}`
	timed := w.naive.config["delta.enableInCommitTimestamps"] == "true"
	if timed {
		info = fmt.Sprintf(`{"commitInfo":{"inCommitTimestamp":%d}}`, w.naive.time+int64(rapid.IntRange(1, 5).Draw(w.r, "later")))
	}
	ids := func(base, version int64) string {
		if !w.naive.has("rowTracking") {
			return `"x":1`
		}
		return fmt.Sprintf(`"baseRowId":%d,"defaultRowCommitVersion":%d`, base, version)
	}
	lines := []string{info}
	path, f, ok := w.liveFile()
	kept := `"x":1`
	if f.base != nil {
		kept = ids(*f.base, *f.version)
	}
	switch kind := rapid.SampledFrom([]string{"append", "append", "delete", "vector", "again", "column", "property", "app"}).Draw(w.r, "foreign"); {
	case kind == "append":
		lines = append(lines, addRows(w.name(), 5, ids(w.naive.mark+1, int64(w.next))))
		if w.naive.has("rowTracking") {
			lines = append(lines, domainOf("delta.rowTracking", fmt.Sprintf(`{"rowIdHighWaterMark":%d}`, w.naive.mark+5)))
		}
	case kind == "delete" && ok:
		lines = append(lines, removeOf(path, f, kept))
	case kind == "vector" && ok:
		lines = append(lines, vectorOf(path, w.name(), f, kept), removeOf(path, f, kept))
	case kind == "again" && ok && f.dv == "":
		lines = append(lines, rearrange(addRows(path, int(f.rows), kept)))
	case kind == "column":
		lines = append(lines, w.metaData(func(m *metaJSON) { m.addColumn(w.name()) }))
	case kind == "property":
		lines = append(lines, w.metaData(func(m *metaJSON) { m.Configuration["other"] = w.name() }))
	default:
		lines = append(lines, txnLine("app", w.naive.txns["app"]+1))
	}
	raw := text(lines...)
	c, err := tables.ParseCommit(tableURI, w.next, raw)
	if err != nil {
		w.r.Fatal(err)
	}
	facts := tables.CommitFacts(c, w.profile())
	w.put(raw)
	w.past = append(w.past, &pastChange{w.next - 1, nil, facts})
	w.giveUp(facts)
	w.reload()
}

// giveUp drops pending changes that the foreign version made impossible, and those
// that rest on them.
func (w *lake) giveUp(foreign twophase.Facts) {
	decided, lost := make([]twophase.Facts, len(w.pending)), make([]bool, len(w.pending))
	for i, p := range w.pending {
		decided[i] = p.facts
		lost[i] = (tables.Rules{}).Impossible(p.facts, foreign) != nil
	}
	for i, c := range (tables.Rules{}).Without(decided, lost) {
		lost[i] = lost[i] || c != nil
	}
	var kept []*testTxn
	for i, p := range w.pending {
		if !lost[i] {
			kept = append(kept, p)
			continue
		}
		w.lost++
		w.past = slices.DeleteFunc(w.past, func(past *pastChange) bool { return past.txn == p })
	}
	w.pending = kept
	w.change = w.marker + twophase.ChangeNumber(len(kept))
}
