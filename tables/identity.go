package tables

import (
	"encoding/json"
	"fmt"

	"github.com/txcoord/txcoord/twophase"
)

// identity is how far an identity column has given its values out: writers go on behind the
// mark, in the direction of the step. One that has not begun has no mark.
type identity struct {
	step, mark int64
	begun      bool
}

// identityOf reads that of a field; false if it is no identity column.
func identityOf(meta map[string]json.RawMessage) (i identity, ok bool) {
	i.step, ok = intOf(meta["delta.identity.step"])
	i.mark, i.begun = intOf(meta["delta.identity.highWaterMark"])
	return i, ok
}

// holds reports whether a later mark is not in front of this one.
func (i identity) holds(next identity) bool {
	if !i.begun || !next.begun {
		return !i.begun
	}
	return next.mark == i.mark || next.mark > i.mark == (i.step > 0)
}

// checkIdentities: a mark that goes back, or is gone, has the next writer give values out that
// rows have. p is the table before it; what it does not have as an identity column any more is
// nobody's business here.
func (p *Profile) checkIdentities(next *Profile) error {
	for path, was := range p.schema.identities {
		if is, still := next.schema.identities[path]; still && !was.holds(is) {
			return &InputError{
				Field: "metaData.schemaString", Value: cut(next.schema.nodes[path].name), Rule: twophase.RuleSchema,
				Reason: fmt.Sprintf("delta.identity.highWaterMark of this column may not go back; it is %d", was.mark),
				Remedy: "begin with the metadata that the table has now, and give values out behind that mark",
			}
		}
	}
	return nil
}
