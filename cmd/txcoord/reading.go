package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// readFlags say what was read of a table before its change was made.
type readFlags struct {
	Blind         bool     `help:"Nothing of the table was read. The default where there are only adds and txn." group:"read"`
	ReadVersion   *int64   `help:"The table's version that was read." placeholder:"VERSION" group:"read"`
	ReadSnapshot  *uint64  `help:"The snapshot whose version was read." placeholder:"SNAPSHOT" group:"read"`
	ReadTable     bool     `help:"The whole table was read." group:"read"`
	ReadFile      []string `help:"These files were read, as the log names them." placeholder:"PATH" sep:"none" group:"read"`
	ReadPartition []string `help:"These partitions were read: columns with values, parted by commas; a column alone is null." placeholder:"COLUMN=VALUE,…" sep:"none" group:"read"`
	ReadApp       []string `help:"The txn versions of these applications were read." placeholder:"APP" sep:"none" group:"read"`
	Isolation     string   `help:"Isolation, if not the table's: serializable or write-serializable." enum:",serializable,write-serializable" default:"" group:"read"`
}

// declaration is what the flags say.
func (f *readFlags) declaration(actions []byte) (*txcoordv1.ReadDeclaration, error) {
	r := reading{
		Blind: f.Blind, ReadVersion: f.ReadVersion, ReadSnapshot: f.ReadSnapshot, ReadTable: f.ReadTable,
		ReadFiles: f.ReadFile, ReadApps: f.ReadApp, Isolation: f.Isolation,
	}
	for _, p := range f.ReadPartition {
		r.ReadPartitions = append(r.ReadPartitions, partitionOf(p))
	}
	return r.declaration(actions, func(member string) string { return "--" + flagNames[member] })
}

// flagNames are the flags by the names that a commit file has for the same.
var flagNames = map[string]string{
	"blind": "blind", "readVersion": "read-version", "readSnapshot": "read-snapshot", "readTable": "read-table",
	"readFiles": "read-file", "readPartitions": "read-partition", "isolation": "isolation",
}

// reading is what was read of a table, as a commit file has it.
type reading struct {
	Blind          bool               `json:"blind"`
	ReadVersion    *int64             `json:"readVersion"`
	ReadSnapshot   *uint64            `json:"readSnapshot"`
	ReadTable      bool               `json:"readTable"`
	ReadFiles      []string           `json:"readFiles"`
	ReadPartitions []client.Partition `json:"readPartitions"`
	ReadApps       []string           `json:"readApps"`
	Isolation      string             `json:"isolation"`
}

// empty reports whether nothing is said of what was read.
func (r *reading) empty() bool {
	return !r.Blind && r.ReadVersion == nil && r.ReadSnapshot == nil && !r.ReadTable && r.ReadFiles == nil && r.ReadPartitions == nil &&
		len(r.ReadApps) == 0 && r.Isolation == ""
}

// declaration is the same on the wire. It is blind by itself only for actions that
// can be. name says what a member is called where the user wrote it.
func (r *reading) declaration(actions []byte, name func(string) string) (*txcoordv1.ReadDeclaration, error) {
	out := &txcoordv1.ReadDeclaration{Apps: r.ReadApps, Isolation: isolationOf(r.Isolation)}
	if r.Isolation != "" && out.GetIsolation() == 0 {
		return nil, usage(name("isolation"), r.Isolation, "write serializable or write-serializable")
	}
	points, sets := r.point(out), r.set(out)
	switch {
	case points > 1:
		return nil, usage(name("blind"), "", fmt.Sprintf("give one of it, %s and %s", name("readVersion"), name("readSnapshot")))
	case sets > 1:
		return nil, usage(name("readTable"), "", fmt.Sprintf(
			"give one of it, %s and %s; whoever read files and partitions declares the table", name("readFiles"), name("readPartitions")))
	case points == 1:
		return out, nil
	case sets == 0 && len(r.ReadApps) == 0 && len(actions) > 0 && canBeBlind(actions):
		out.Point = &txcoordv1.ReadDeclaration_Blind{Blind: true}
		return out, nil
	}
	if actions != nil && len(bytes.TrimSpace(actions)) == 0 && sets == 0 {
		return nil, errNoAction
	}
	if kind := unknownKind(actions); kind != "" {
		return nil, usage("action", kind, "there is no such action; there are "+strings.Join(actionKinds, ", "))
	}
	return nil, usage(name("readVersion"), "", fmt.Sprintf(
		"say at which version of the table this change was made, or with %s at which snapshot", name("readSnapshot")))
}

var errNoAction = usage("actions", "", "there is no action; a table that was only read is declared as such, not staged")

// point and set say how many of the kinds are given; the last one stands.
func (r *reading) point(out *txcoordv1.ReadDeclaration) (given int) {
	if r.Blind {
		out.Point, given = &txcoordv1.ReadDeclaration_Blind{Blind: true}, given+1
	}
	if r.ReadVersion != nil {
		out.Point, given = &txcoordv1.ReadDeclaration_Version{Version: *r.ReadVersion}, given+1
	}
	if r.ReadSnapshot != nil {
		out.Point, given = &txcoordv1.ReadDeclaration_SnapshotVersion{SnapshotVersion: *r.ReadSnapshot}, given+1
	}
	return given
}

func (r *reading) set(out *txcoordv1.ReadDeclaration) (given int) {
	if r.ReadTable {
		out.ReadSet, given = client.WholeTable(), given+1
	}
	if r.ReadFiles != nil {
		out.ReadSet, given = client.Files(r.ReadFiles...), given+1
	}
	if r.ReadPartitions != nil {
		out.ReadSet, given = client.Partitions(r.ReadPartitions...), given+1
	}
	return given
}

// partitionOf reads "day=2026-11-29,country": a column without "=" is null. A comma
// in a value is written "\,".
func partitionOf(s string) client.Partition {
	p := client.Partition{}
	for _, pair := range kong.SplitEscaped(s, ',') {
		column, value, ok := strings.Cut(pair, "=")
		p[column] = nil
		if ok {
			p[column] = &value
		}
	}
	return p
}

func isolationOf(word string) txcoordv1.Isolation {
	name := strings.ToUpper(strings.ReplaceAll(word, "-", "_"))
	return txcoordv1.Isolation(txcoordv1.Isolation_value["ISOLATION_"+name])
}

// canBeBlind reports whether the actions are only of kinds that a blind change may
// hold. Lines that are no JSON count as such: the server says what is wrong there.
func canBeBlind(actions []byte) bool {
	for line := range bytes.Lines(actions) {
		switch firstKey(line) {
		case "add", "txn", "commitInfo", "":
		default:
			return false
		}
	}
	return true
}

// actionKinds are the actions of a commit.
var actionKinds = []string{"add", "remove", "txn", "metaData", "protocol", "domainMetadata", "cdc", "commitInfo"}

// unknownKind is the first kind that is none.
func unknownKind(actions []byte) string {
	for line := range bytes.Lines(actions) {
		if kind := firstKey(line); kind != "" && !slices.Contains(actionKinds, kind) {
			return kind
		}
	}
	return ""
}

// firstKey is the kind of an action line.
func firstKey(line []byte) string {
	d := json.NewDecoder(bytes.NewReader(line))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return ""
	}
	key, err := d.Token()
	if err != nil {
		return ""
	}
	name, _ := key.(string)
	return name
}
