package coordinator

import (
	"context"
	"fmt"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// alter makes the actions of an alteration, in front of the client's own. From here on
// the part is like any that holds metaData: bound to the version that it was made from,
// and lost if somebody else changes the metadata before it is decided.
func (c *Catalog) alter(ctx context.Context, row TableInfo, t OnceTable) (OnceTable, error) {
	handle, _, err := c.tables.loaded(ctx, row.ID)
	if err != nil {
		return t, err
	}
	profile, at, pending := c.tables.defined(handle)
	if profile == nil || pending {
		return t, &Error{Reason: OutcomeUnknown, Message: fmt.Sprintf("the definition of table %s is changing just now; repeat the call", row.Name)}
	}
	if err := writableBy(profile); err != nil {
		return t, inputError(row.Name, err)
	}
	lines, err := tables.AlterLines(profile, t.Alter)
	if err != nil {
		return t, inputError(row.Name, err)
	}
	own, err := tables.ParseActions(row.URI, c.cfg.Limits.Actions, lines)
	if err != nil {
		return t, inputError(row.Name, err)
	}
	if len(t.Actions) > 0 {
		theirs, err := tables.ParseActions(row.URI, c.cfg.Limits.Actions, t.Actions)
		if err == nil && (theirs.MetaData != nil || theirs.Protocol != nil && own.Protocol != nil) {
			err = &tables.InputError{Field: "metaData", Reason: "stands beside an alteration, which makes the same action", Remedy: "leave one of them out"}
		}
		if err != nil {
			return t, inputError(row.Name, err)
		}
	}
	t.Actions = append(lines, t.Actions...)
	if !t.Read.Blind && t.Read.Version == nil && t.Read.Snapshot == nil {
		t.Read.Version = &at
	}
	return t, nil
}

// defined is a table's profile with the recorded version that it belongs to. pending: a
// change of ours that is not recorded yet touches it, and an alteration made from the one
// below would only lose to it. Nil if the view is not loaded.
func (h *handles) defined(t *handle) (profile *tables.Profile, at twophase.Version, pending bool) {
	h.c.ledger.mu.RLock()
	defer h.c.ledger.mu.RUnlock()
	row, ok := h.c.ledger.state.Table(t.id)
	if !ok || t.view == nil {
		return nil, 0, false
	}
	return t.profile, row.Recorded, t.rebuild
}
