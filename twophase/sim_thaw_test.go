package twophase

import (
	"slices"

	"github.com/google/go-cmp/cmp"
)

// foretell asks what a thaw would do before it is folded, and returns a check that it
// did exactly that.
func (c *checker) foretell(e *Entry) (check func()) {
	if len(e.Records) != 1 {
		return func() {} // other records of the entry freeze and thaw as well
	}
	r, ok := e.Records[0].(*Thawed)
	if !ok {
		return func() {}
	}
	said, ok := c.ref.Thawing(r.Table)
	if r.Mended {
		said, ok = c.ref.Mending(r.Table)
	}
	if !ok || said.Origin.Table != r.Table {
		return func() {}
	}
	frozen := map[TableID]bool{}
	for _, t := range c.ref.Tables() {
		if t.Frozen != nil && !slices.Contains(said.Freed, t.Table) {
			frozen[t.Table] = true
		}
	}
	return func() {
		c.counts["thaws foretold"]++
		now := map[TableID]bool{}
		for _, t := range c.ref.Tables() {
			if t.Frozen != nil {
				now[t.Table] = true
			}
		}
		if diff := cmp.Diff(frozen, now); diff != "" {
			c.w.fail(thawsAsSaid, "thaw of %s: frozen tables (-said +are):\n%s", r.Table, diff)
		}
		for _, ch := range said.GivenUp {
			if o := c.ref.Outcome(ch.Txn); o != nil && o.Parts[ch.place].Status != StatusNotApplied {
				c.w.fail(thawsAsSaid, "change %d of %s is %d", ch.Number, r.Table, o.Parts[ch.place].Status)
			}
		}
	}
}
