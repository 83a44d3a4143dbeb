package coordinator

import (
	"fmt"
	"regexp"

	"github.com/txcoord/txcoord/twophase"
)

// twins warns of other tables with the same metaData.id: a copied table.
func (c *Catalog) twins(info TableInfo, shows func(string) bool) []string {
	var out []string
	c.ledger.read(func(s *twophase.State) {
		for _, t := range s.Tables() {
			if t.Table != info.ID && t.MetaDataID == info.MetaDataID {
				name := "another table"
				if shows == nil || shows(t.Name) {
					name = "table " + t.Name
				}
				out = append(out, name+" has the same metaData.id: one is a copy of the other")
			}
		}
	})
	return out
}

// decodedTwice is what an engine that decodes a location's path a second time makes another
// path of: a percent sign and two hex digits in the folder's own name.
var decodedTwice = regexp.MustCompile("%25[0-9A-Fa-f]{2}")

// placeWarnings are about places at which some engines do not find a table.
func placeWarnings(uri string) []string {
	at := decodedTwice.FindString(uri)
	if at == "" {
		return nil
	}
	code := "%" + at[len("%25"):]
	return []string{fmt.Sprintf("its folder's name has %s: delta-rs, and Polars with it, decode that once more, and look for the table at another path; use a name without %% if they are to read it", code)}
}
