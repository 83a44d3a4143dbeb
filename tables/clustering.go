package tables

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/txcoord/txcoord/twophase"
)

// clusteringDomain names the columns that a table is clustered by.
const clusteringDomain = "delta.clustering"

var clusteringHash = hashTexts("domain", clusteringDomain)

// clusteredBy is the profile with the clustering columns that the domain's
// configuration names; p itself if it has them.
func (p *Profile) clusteredBy(configuration string) *Profile {
	if p.clusteringText == configuration {
		return p
	}
	out := *p
	out.clusteringText, out.clustering = configuration, nil
	columns, err := clusteringColumns(configuration)
	if err == nil {
		out.clustering = columns
	}
	return &out
}

func clusteringColumns(configuration string) ([][]string, error) {
	if configuration == "" {
		return nil, nil
	}
	var parsed struct {
		ClusteringColumns [][]string `json:"clusteringColumns"`
	}
	if err := json.Unmarshal([]byte(configuration), &parsed); err != nil {
		return nil, fmt.Errorf("does not hold clusteringColumns: %w", err)
	}
	return parsed.ClusteringColumns, nil
}

// clusterStats: adds to a clustered table have statistics on the clustering columns.
func (p *Profile) clusterStats(a *Actions) error {
	columns := p.clustering
	for _, d := range a.Domains {
		if d.Name != clusteringDomain {
			continue
		}
		columns = nil
		if !d.Removed {
			var err error
			if columns, err = clusteringColumns(d.Configuration); err != nil {
				return &InputError{Field: "domainMetadata.configuration", Value: cut(d.Configuration), Reason: err.Error(), Rule: twophase.RuleSchema}
			}
		}
	}
	if len(columns) == 0 || !p.inForce.has("clustering") {
		return nil
	}
	for i := range a.Adds {
		if missing := missingStats(a.staged[i].stats, columns); missing != "" {
			return &InputError{
				Line: a.Adds[i].Line, Field: "add.stats", Value: cut(a.Adds[i].Path), Rule: twophase.RuleSchema,
				Reason: "the table is clustered, and there are no statistics on column " + missing,
				Remedy: "write nullCount, minValues and maxValues for the clustering columns",
			}
		}
	}
	return nil
}

// missingStats names a column without statistics: numRecords, nullCount and, unless
// all values are null, a least value. Engines leave a largest value out now and then,
// where a text cannot be cut.
func missingStats(raw []byte, columns [][]string) string {
	text, ok := stringOf(raw)
	parts := map[string][]byte{}
	if ok {
		_ = members(text, func(name, value []byte) bool {
			parts[string(name)] = value
			return true
		})
	}
	for _, column := range columns {
		nulls, ok := intOf(valueAt(parts["nullCount"], column))
		all, counted := intOf(parts["numRecords"])
		if !ok || !counted || nulls < all && valueAt(parts["minValues"], column) == nil {
			return strings.Join(column, ".")
		}
	}
	return ""
}

// valueAt is the value at a path of names; nil if there is none.
func valueAt(raw []byte, path []string) []byte {
	for _, name := range path {
		var inner []byte
		if len(raw) == 0 || raw[0] != '{' {
			return nil
		}
		_ = members(raw, func(key, value []byte) bool {
			if string(key) == name {
				inner = value
			}
			return true
		})
		raw = inner
	}
	return raw
}
