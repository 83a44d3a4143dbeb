package tables

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/txcoord/txcoord/twophase"
)

// NewTable is a table that a transaction creates: its version 0 is rendered like other
// versions of ours (RenderCommit), from the table's definition and the lines that were
// staged with it. What it needs of a table before there is one stands here.

// DefineTable makes the lines that begin a new table: a commitInfo with operation and
// parameters, protocol, metaData. rows says that the same version holds data. Pure: the
// same input gives the same bytes on every replica of a build. *InputError or
// *FeatureError.
func DefineTable(in CreateInput, rows bool) ([]byte, error) {
	protocol, m, err := in.define()
	if err != nil {
		return nil, err
	}
	operation := "CREATE TABLE"
	if rows {
		operation = "CREATE TABLE AS SELECT"
	}
	out := append([]byte(`{"commitInfo":{"operation":"`+operation+`","operationParameters":`), m.appendParameters(nil)...)
	return in.renderDefinition(append(out, "}}\n"...), protocol, m), nil
}

// DefinedState is a new table before its first version: what its definition says, and
// nothing in it.
func DefinedState(uri string, definition []byte) (*State, error) {
	r := newReplay(uri)
	for rest := definition; len(rest) > 0; {
		var text []byte
		if text, rest = cutLine(rest); blank(text) {
			continue
		}
		if err := r.apply(text); err != nil {
			return nil, fmt.Errorf("definition of table %s: %w", uri, err)
		}
	}
	r.settle(twophase.NoVersion)
	if r.state.profile == nil {
		return nil, fmt.Errorf("definition of table %s: protocol or metaData is missing", uri)
	}
	return r.state, nil
}

// EmptyTail is the tail below version 0.
func (l *Log) EmptyTail() *Tail {
	return &Tail{
		uri: l.URI, place: placeOf(l.URI), version: twophase.NoVersion,
		profile: newProfile(l.URI, twophase.NoVersion, &Protocol{}, &MetaData{}, nil),
	}
}

// CreationFacts are the facts of the part that creates a table, definition included,
// with the profile that it defines. Nothing is compared with it before the decision:
// there is no table that it could conflict on.
func CreationFacts(a *Actions, p *Profile) twophase.Facts {
	b := &builder{}
	b.bind(p)
	b.addFiles(a, p)
	b.addDefinitions(a, p)
	if len(a.Adds) > 0 {
		b.keys = p.keysHash
	}
	b.appList = a.Txns
	b.addDomains(a)
	return b.encode()
}

// ValidateCreation checks a part that creates a table against what it defines, and that
// nothing in it speaks of a table that was there.
func ValidateCreation(a *Actions, p *Profile) error {
	if len(a.Removes) > 0 || a.CDCs > 0 {
		line := 0
		if len(a.Removes) > 0 {
			line = a.Removes[0].Line
		}
		return &InputError{
			Line: line, Field: "remove", Rule: twophase.RulePathMissing,
			Reason: "a new table has no file that could be removed", Remedy: "stage add, txn and domainMetadata actions only",
		}
	}
	return Validate(a, p)
}

// CheckNewPart refuses what the client of a new table may not say itself: the definition.
func CheckNewPart(a *Actions) error {
	refuse := func(field string) error {
		return &InputError{
			Field: field, Reason: "is part of the table's definition", Remedy: "describe the table in create, and leave the action out",
		}
	}
	switch {
	case a.MetaData != nil:
		return refuse("metaData")
	case a.Protocol != nil:
		return refuse("protocol")
	}
	return nil
}

// NewTableSpec is the durable form of a new table's description.
type NewTableSpec struct {
	Name             string            `json:"name"`
	URI              string            `json:"uri"`
	MetaDataID       string            `json:"metaDataId"`
	Schema           string            `json:"schema"`
	Description      string            `json:"description,omitempty"`
	PartitionColumns []string          `json:"partitionColumns,omitempty"`
	Properties       map[string]string `json:"properties,omitempty"`
	Mode             uint8             `json:"mode"`
	OneTxnPerVersion bool              `json:"oneTxnPerVersion,omitempty"`
}

// Input is the description that DefineTable takes.
func (s *NewTableSpec) Input(at twophase.Time) CreateInput {
	return CreateInput{
		URI: s.URI, ID: s.MetaDataID, Name: s.Name, Description: s.Description, Schema: s.Schema,
		PartitionColumns: s.PartitionColumns, Properties: s.Properties, Time: at,
	}
}

// Options go into the digest of the parts that create the table (DigestInput.Options):
// all that the client said.
func (s *NewTableSpec) Options() map[string]string {
	columns, _ := json.Marshal(append([]string{}, s.PartitionColumns...))
	out := map[string]string{
		"create.name": s.Name, "create.uri": s.URI, "create.schema": s.Schema, "create.description": s.Description,
		"create.partitionColumns": string(columns), "create.mode": twophase.Mode(s.Mode).String(),
		"create.oneTransactionPerVersion": strconv.FormatBool(s.OneTxnPerVersion),
	}
	for key, value := range s.Properties {
		out["create.properties."+key] = value
	}
	return out
}
