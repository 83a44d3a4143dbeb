package tables_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/twophase"
)

// kept is a table in memory with a keeper.
type kept struct {
	*fixture
	cfg tables.KeeperConfig
	// ages say how long ago versions were written, by the beginning of their files'
	// names; what is not in it was written just now.
	ages map[string]time.Duration
}

// now is the keeper's clock.
var now = time.UnixMilli(1_800_000_000_000)

func newKept(t testing.TB) *kept {
	k := &kept{ages: map[string]time.Duration{}}
	f := newFixture(t)
	store := aged{f.store, k}
	f.log = tables.NewLog(tables.LogConfig{Store: store, Key: tableKey, URI: tableURI, ReadCheckpoint: checkpoint.Read})
	k.fixture = f
	k.cfg = tables.KeeperConfig{
		Log: tables.LogConfig{Store: store, Key: tableKey, URI: tableURI}, Format: checkpoint.Format(),
		Now: func() time.Time { return now }, TempDir: t.TempDir(),
	}
	k.shelved(&shelf{})
	return k
}

// aged gives objects the times that the test wants.
type aged struct {
	*memobj.Store
	k *kept
}

func (a aged) at(i objstore.Info) objstore.Info {
	name := strings.TrimPrefix(i.Key, tableKey+"/_delta_log/")
	i.Modified = now
	for begin, age := range a.k.ages {
		if strings.HasPrefix(name, begin) {
			i.Modified = now.Add(-age)
		}
	}
	return i
}

func (a aged) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	b, i, err := a.Store.Get(ctx, key, r)
	return b, a.at(i), err
}

func (a aged) Stat(ctx context.Context, key string) (objstore.Info, error) {
	i, err := a.Store.Stat(ctx, key)
	return a.at(i), err
}

func (a aged) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		for e, err := range a.Store.List(ctx, o) {
			if e.Prefix == "" {
				e.Info = a.at(e.Info)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (k *kept) survey(at twophase.Version) (*tables.Keeper, *tables.Survey) {
	k.t.Helper()
	keeper := tables.NewKeeper(k.cfg)
	s, err := keeper.Survey(k.t.Context(), at)
	if err != nil {
		k.t.Fatal(err)
	}
	return keeper, s
}

// checkpoint writes one of the newest version.
func (k *kept) checkpoint() *tables.Checkpoint {
	k.t.Helper()
	keeper, s := k.survey(tables.Latest)
	c, err := keeper.Checkpoint(k.t.Context(), s, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	return c
}

// names are the files of the log, folders with what is in them.
func (k *kept) names() []string {
	k.t.Helper()
	var out []string
	for e, err := range k.store.List(k.t.Context(), objstore.ListOptions{Prefix: tableKey + "/_delta_log/"}) {
		if err != nil {
			k.t.Fatal(err)
		}
		out = append(out, strings.TrimPrefix(e.Key, tableKey+"/_delta_log/"))
	}
	return out
}

func (k *kept) get(name string) []byte {
	k.t.Helper()
	b, _, err := k.store.Get(k.t.Context(), tableKey+"/_delta_log/"+name, objstore.Range{})
	if err != nil {
		k.t.Fatal(err)
	}
	return b
}

// rows are the lines of a Parquet file of the log.
func (k *kept) rows(name string) (out []string) {
	k.t.Helper()
	data := k.get(name)
	err := checkpoint.Read(k.t.Context(), bytes.NewReader(data), int64(len(data)), tables.AllActions, func(line []byte) error {
		out = append(out, string(line))
		return nil
	})
	if err != nil {
		k.t.Fatalf("%s: %v", name, err)
	}
	return out
}

// content is all that a checkpoint says, sidecars followed and left out, as sorted
// JSON.
func (k *kept) content(name string) []string {
	k.t.Helper()
	var out []string
	for _, line := range k.rows(name) {
		var row struct {
			Sidecar *struct{ Path string }
			Meta    *struct{ Version int64 } `json:"checkpointMetadata"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			k.t.Fatal(err)
		}
		switch {
		case row.Sidecar != nil:
			for _, inner := range k.rows("_sidecars/" + row.Sidecar.Path) {
				out = append(out, sorted(k.t, inner))
			}
		case row.Meta == nil:
			out = append(out, sorted(k.t, line))
		}
	}
	slices.Sort(out)
	return out
}

// sorted writes JSON with its members in order and without nulls at the first two levels.
func sorted(t testing.TB, line string) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var v map[string]map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return marshal(t, v)
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

// reconciled is what a checkpoint of a version has to hold, computed the simplest
// way from the JSON commits. It shares no code with the keeper.
func reconciled(t testing.TB, commits [][]byte, expiry int64) []string {
	t.Helper()
	state := map[string]map[string]any{}
	for _, raw := range commits {
		for _, text := range strings.Split(string(raw), "\n") {
			if strings.TrimSpace(text) == "" {
				continue
			}
			d := json.NewDecoder(strings.NewReader(text))
			d.UseNumber()
			var line map[string]map[string]any
			if err := d.Decode(&line); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			for action, body := range line {
				note(state, action, body)
			}
		}
	}
	var out []string
	for key, row := range state {
		if body, ok := row["remove"].(map[string]any); ok {
			if at, _ := body["deletionTimestamp"].(json.Number); at == "" || number(at) <= expiry {
				continue
			}
		}
		if strings.HasPrefix(key, "domain ") && row["domainMetadata"].(map[string]any)["removed"] == true {
			continue
		}
		out = append(out, marshal(t, row))
	}
	slices.Sort(out)
	return out
}

func number(n json.Number) int64 {
	v, err := n.Int64()
	if err != nil {
		panic(err) // no test has such a number
	}
	return v
}

func note(state map[string]map[string]any, action string, body map[string]any) {
	key := action
	for name, v := range body {
		if v == nil {
			delete(body, name)
		}
	}
	switch action {
	case "txn":
		key = "txn " + body["appId"].(string)
	case "domainMetadata":
		key = "domain " + body["domain"].(string)
	case "add", "remove":
		key = "file " + body["path"].(string)
		if dv, ok := body["deletionVector"].(map[string]any); ok {
			key += fmt.Sprint(dv["storageType"], dv["pathOrInlineDv"], dv["offset"])
		}
		body["dataChange"] = false
		if action == "remove" {
			delete(body, "stats")
			delete(body, "tags")
		}
		delete(body, "novel")
	case "protocol", "metaData":
	default:
		return
	}
	state[key] = map[string]any{action: body}
}

// commits are the table's JSON commits up to a version.
func (k *kept) commits(upTo twophase.Version) (out [][]byte) {
	for v := twophase.Version(0); v <= upTo; v++ {
		out = append(out, k.get(fmt.Sprintf("%020d.json", v)))
	}
	return out
}

// without removes files from the log.
func (k *kept) without(match func(name string) bool) *kept {
	k.t.Helper()
	for _, name := range k.names() {
		if match(name) {
			k.drop(name)
		}
	}
	return k
}

func isCommit(name string) bool {
	digits, rest, _ := strings.Cut(name, ".")
	return len(digits) == 20 && rest == "json"
}

// seen is what a replay says of a table.
type seen struct {
	Version  twophase.Version
	Protocol []string
	Meta     []any
	Txns     map[string]int64
	Domains  map[string]string
	Size     int64
	Files    []string
	// Adds are the files' own actions, without dataChange and with nulls left out.
	Adds []string
}

func (k *kept) seen() seen {
	k.t.Helper()
	s, err := k.log.State(k.t.Context(), tables.Latest)
	if err != nil {
		k.t.Fatal(err)
	}
	files, err := k.log.LiveFiles(k.t.Context(), tables.Latest)
	if err != nil {
		k.t.Fatal(err)
	}
	p := s.Profile()
	out := seen{
		Version: s.Version(), Txns: s.Txns(), Domains: s.Domains(), Size: s.TotalSize(),
		Protocol: slices.Concat(p.Protocol.ReaderFeatures, []string{fmt.Sprint(p.Protocol.MinReader, p.Protocol.MinWriter)}, p.Protocol.WriterFeatures),
		Meta:     []any{p.MetaData.ID, p.MetaData.Name, p.MetaData.Description, p.MetaData.Schema, p.MetaData.PartitionColumns, p.MetaData.Configuration},
	}
	for _, f := range files {
		out.Files = append(out.Files, f.Path+" "+f.DV)
		out.Adds = append(out.Adds, reconciled(k.t, [][]byte{[]byte(`{"add":` + string(f.Raw) + `}`)}, 0)...)
	}
	k.loadsAlike(tables.Latest)
	return out
}

// clone is the same table again.
func (k *kept) clone() *kept {
	k.t.Helper()
	out := newKept(k.t)
	maps.Copy(out.ages, k.ages)
	for _, name := range k.names() {
		out.put(name, k.get(name))
	}
	out.next, out.cfg.SidecarRows = k.next, k.cfg.SidecarRows
	return out
}

func (k *kept) wants(want seen) {
	k.t.Helper()
	if diff := cmp.Diff(want, k.seen()); diff != "" {
		k.t.Errorf("replay: %s", diff)
	}
}
