package tables_test

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

var rewrite = flag.Bool("rewrite", false, "write the files in testdata anew; review the difference")

// vector is a test vector of the digest, for clients that compute it themselves.
// Names are those of the wire contract.
type digestVector struct {
	Name       string            `json:"name"`
	TableID    string            `json:"table_id"`
	MetaDataID string            `json:"metadata_id"`
	Read       vectorRead        `json:"read"`
	Options    map[string]string `json:"options"`
	Actions    string            `json:"actions"`
	Digest     string            `json:"digest"`
}

type vectorRead struct {
	Blind           bool             `json:"blind,omitempty"`
	Version         *int64           `json:"version,omitempty"`
	SnapshotVersion *uint64          `json:"snapshot_version,omitempty"`
	WholeTable      bool             `json:"whole_table,omitempty"`
	Files           []string         `json:"files,omitempty"`
	Partitions      [][]vectorColumn `json:"partitions,omitempty"`
	Isolation       string           `json:"isolation,omitempty"`
}

type vectorColumn struct {
	Column string   `json:"column"`
	Values []string `json:"values"`
	OrNull bool     `json:"or_null"`
}

func (v digestVector) input() tables.DigestInput {
	r := tables.ReadDeclaration{Blind: v.Read.Blind, Files: v.Read.Files}
	if v.Read.Version != nil {
		r.Version = version(twophase.Version(*v.Read.Version))
	}
	if v.Read.SnapshotVersion != nil {
		s := twophase.SnapshotVersion(*v.Read.SnapshotVersion)
		r.Snapshot = &s
	}
	switch {
	case v.Read.WholeTable:
		r.Kind = tables.ReadWholeTable
	case v.Read.Files != nil:
		r.Kind = tables.ReadFiles
	case v.Read.Partitions != nil:
		r.Kind = tables.ReadPartitions
	}
	for _, m := range v.Read.Partitions {
		var match tables.PartitionMatch
		for _, c := range m {
			match = append(match, tables.PartitionCondition{Column: c.Column, Values: c.Values, OrNull: c.OrNull})
		}
		r.Partitions = append(r.Partitions, match)
	}
	switch v.Read.Isolation {
	case "serializable":
		r.Isolation = tables.Serializable
	case "write-serializable":
		r.Isolation = tables.WriteSerializable
	}
	return tables.DigestInput{
		Table: twophase.TableID(v.TableID), MetaDataID: v.MetaDataID, Read: r, Options: v.Options, Actions: []byte(v.Actions),
	}
}

func TestDigestVectors(t *testing.T) {
	const file = "testdata/digest.json"
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var vectors []digestVector
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for i := range vectors {
		v := &vectors[i]
		in := v.input()
		if err := in.Read.Check(); err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
		got := tables.Digest(in).String()
		if !*rewrite && got != v.Digest {
			t.Errorf("%s: got %s, want %s", v.Name, got, v.Digest)
		}
		v.Digest = got
		if other := seen[got]; other != "" {
			t.Errorf("%s and %s have one digest", v.Name, other)
		}
		seen[got] = v.Name
	}
	if *rewrite {
		out, err := json.MarshalIndent(vectors, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(out, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// What means the same has one digest; Equal agrees.
func TestDigestIgnoresOrder(t *testing.T) {
	one, other := readFiles("a", "b"), readFiles("b", "a", "b")
	day := tables.PartitionCondition{Column: "day", Values: []string{"1", "2"}}
	yad := tables.PartitionCondition{Column: "day", Values: []string{"2", "1"}}
	region := tables.PartitionCondition{Column: "region", OrNull: true}
	match := func(ms ...tables.PartitionMatch) tables.ReadDeclaration {
		r := at(0, tables.ReadPartitions)
		r.Partitions = ms
		return r
	}
	for _, c := range []struct {
		a, b tables.ReadDeclaration
		same bool
	}{
		{one, other, true},
		{one, readFiles("a"), false},
		{match(tables.PartitionMatch{day, region}), match(tables.PartitionMatch{region, yad}), true},
		{match(tables.PartitionMatch{day}, tables.PartitionMatch{region}), match(tables.PartitionMatch{region}, tables.PartitionMatch{day}), true},
		{match(tables.PartitionMatch{day}, tables.PartitionMatch{region}), match(tables.PartitionMatch{day, region}), false},
		{at(1, tables.ReadNothing), at(2, tables.ReadNothing), false},
		{at(1, tables.ReadNothing), with(tables.Serializable, at(1, tables.ReadNothing)), false},
	} {
		digest := func(r tables.ReadDeclaration) twophase.Digest {
			return tables.Digest(tables.DigestInput{Table: "t", Read: r})
		}
		if got := digest(c.a) == digest(c.b); got != c.same || c.a.Equal(&c.b) != c.same {
			t.Errorf("%+v and %+v: one digest: %t, equal: %t, want %t", c.a, c.b, got, c.a.Equal(&c.b), c.same)
		}
	}
}
