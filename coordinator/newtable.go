package coordinator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// Tables that a transaction creates. Until the decision nothing is written but staged
// parts; name and place are looked at early, for the client's sake, and settled by the
// decision (twophase/ddl.go). Version 0 is then published like any other version.

// NewTable describes a table that a transaction creates.
type NewTable struct {
	URI              string
	Schema           string
	PartitionColumns []string
	Properties       map[string]string
	Description      string
	Mode             twophase.Mode
	OneTxnPerVersion bool
}

// createdID is the id of the table that a transaction creates under a name: the same on
// every replica, and another one for every attempt, so that none is used twice.
func createdID(txn twophase.TxnID, name string) twophase.TableID {
	h := createdHash("table", txn, name)
	return twophase.TableID("t-" + hex.EncodeToString(h[:8]))
}

// createdMetaID is the table's metaData.id, by the same rule.
func createdMetaID(txn twophase.TxnID, name string) string {
	h := createdHash("metaData.id", txn, name)
	id := uuid.UUID(h[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8: made by a rule of our own
	return id.String()
}

func createdHash(what string, txn twophase.TxnID, name string) [32]byte {
	return sha256.Sum256([]byte("txcoord new " + what + "\x00" + txn.String() + "\x00" + name))
}

// newRow stands for a table of an undecided transaction: it has no place yet.
func newRow(id twophase.TableID, name string) TableInfo {
	return TableInfo{ID: id, Name: name, Version: twophase.NoVersion}
}

// describeNew checks a new table's description. Its mode is filled in.
func (c *Catalog) describeNew(ctx context.Context, txn twophase.TxnID, name string, n *NewTable) (*tables.NewTableSpec, placed, error) {
	mode := n.Mode
	p, err := c.place(ctx, name, n.URI, &mode)
	if err != nil {
		return nil, placed{}, err
	}
	if mode == twophase.ModeFenced {
		return nil, placed{}, fieldError("create.mode", mode.String(), "is not offered for a table that a transaction creates",
			"create it as open or exclusive, and when it is committed: tables fence "+name+" (tables create makes fenced tables by themselves)")
	}
	return specOf(txn, name, p.uri, n), p, nil
}

func specOf(txn twophase.TxnID, name, uri string, n *NewTable) *tables.NewTableSpec {
	mode := n.Mode
	def(&mode, twophase.ModeOpen)
	return &tables.NewTableSpec{
		Name: name, URI: uri, MetaDataID: createdMetaID(txn, name), Schema: n.Schema, Description: n.Description,
		PartitionColumns: slices.Clone(n.PartitionColumns), Properties: maps.Clone(n.Properties), Mode: uint8(mode),
		OneTxnPerVersion: n.OneTxnPerVersion,
	}
}

// parseNew checks a piece of a part that creates a table: as far as that needs no other
// piece, and before anything is stored. The place is looked at too.
func (c *Catalog) parseNew(ctx context.Context, txn twophase.TxnID, name string, n *NewTable, read tables.ReadDeclaration, actions []byte) (*payload, TableInfo, error) {
	if read.Version != nil || read.Snapshot != nil || read.Kind != tables.ReadNothing || len(read.Apps) > 0 {
		return nil, TableInfo{}, fieldError("read", name, "declares that a table was read that the transaction creates", "leave it out, or say blind")
	}
	spec, p, err := c.describeNew(ctx, txn, name, n)
	if err != nil {
		return nil, TableInfo{}, err
	}
	row := newRow(createdID(txn, name), name)
	row.URI, row.MetaDataID, row.Mode, row.OneTxnPerVersion = spec.URI, spec.MetaDataID, twophase.Mode(spec.Mode), spec.OneTxnPerVersion
	if !c.decided(txn) {
		if err := c.notTaken(name, p.uri); err != nil {
			return nil, TableInfo{}, err
		}
		if err := c.untouched(ctx, p, name); err != nil {
			return nil, TableInfo{}, err
		}
	}
	piece := &payload{actions: actions, head: payloadHead{
		Format: payloadFormat, Table: row.ID, MetaDataID: spec.MetaDataID, Read: tables.ReadDeclaration{Blind: true}, Create: spec,
	}}
	_, state, err := c.newActions(piece)
	if err != nil {
		return nil, TableInfo{}, err
	}
	piece.head.Staged = state.Profile().Fingerprint()
	return piece, row, nil
}

// newActions reads the pieces of a part that creates a table, its definition in front,
// and the empty table that they are checked against.
func (c *Catalog) newActions(pieces ...*payload) (*tables.Actions, *tables.State, error) {
	spec := pieces[0].head.Create
	var staged [][]byte
	for _, p := range pieces {
		if len(p.actions) > 0 {
			staged = append(staged, p.actions)
		}
	}
	bad := func(err error) (*tables.Actions, *tables.State, error) { return nil, nil, inputError(spec.Name, err) }
	if len(staged) > 0 { // alone, so that errors name the client's lines
		alone, err := tables.ParseActions(spec.URI, c.cfg.Limits.Actions, staged...)
		if err == nil {
			err = tables.CheckNewPart(alone)
		}
		if err != nil {
			return bad(err)
		}
	}
	definition, err := tables.DefineTable(spec.Input(0), len(staged) > 0)
	if err != nil {
		return bad(err)
	}
	state, err := tables.DefinedState(spec.URI, definition)
	if err != nil {
		return bad(err)
	}
	_, definition, _ = bytes.Cut(definition, []byte{'\n'}) // its commitInfo: the client's may stand there
	actions, err := tables.ParseActions(spec.URI, c.cfg.Limits.Actions, append([][]byte{definition}, staged...)...)
	if err == nil {
		err = tables.ValidateCreation(actions, state.Profile())
	}
	if err != nil {
		return bad(err)
	}
	return actions, state, nil
}

// joinNew makes the part that creates a table.
func (c *Catalog) joinNew(row TableInfo, digests []twophase.Digest, pieces []*payload) (*part, error) {
	spec := pieces[0].head.Create
	for _, p := range pieces {
		if p.head.Create == nil || !maps.Equal(p.head.Create.Options(), spec.Options()) {
			return nil, fieldError("tables", row.Name, "its parts describe the new table differently", "stage all parts of a new table with the same description")
		}
	}
	actions, state, err := c.newActions(pieces...)
	if err != nil {
		return nil, err
	}
	row.Name, row.URI, row.MetaDataID, row.Mode = spec.Name, spec.URI, spec.MetaDataID, twophase.Mode(spec.Mode)
	warning := strings.Join(placeWarnings(spec.URI), "; ")
	return &part{row: row, read: pieces[0].head.Read, actions: actions, warning: warning, record: twophase.Part{
		Table: row.ID, MetaDataID: spec.MetaDataID, Digests: digests, Read: twophase.ReadPoint{Blind: true},
		Facts: tables.CreationFacts(actions, state.Profile()), Shape: actions.Shape(),
		Create: &twophase.Creation{Name: spec.Name, URI: spec.URI, Mode: row.Mode, OneTxnPerVersion: spec.OneTxnPerVersion},
	}}, nil
}

// untouched: no log stands at a place where a table is to be created, no other catalog
// owns it, and no put of a table of ours that was there can still land.
func (c *Catalog) untouched(ctx context.Context, p placed, name string) error {
	if err := c.putsLanded(ctx, p, name); err != nil {
		return err
	}
	l, err := p.log.List(ctx, 0) // behind that: what was to land is there now
	if err != nil {
		return c.objectsError(p.uri, err)
	}
	if l.Last() != twophase.NoVersion {
		return c.logThere(p.uri, name, l.Last())
	}
	if err := c.noOldEntries(ctx, p); err != nil {
		return err
	}
	owner, err := p.log.Owner(ctx)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return nil
	case err != nil:
		return c.logErrorAt(TableInfo{Name: name, URI: p.uri}, err)
	case owner.Catalog != c.journal.Meta().Catalog:
		return c.ownedError(p.uri, owner)
	}
	return nil
}

// lookUpNew looks at the places of the tables that a transaction creates: the look-up
// before the decision. What slips in after it is judged by the walk.
func (c *Catalog) lookUpNew(ctx context.Context, d *candidate) error {
	var fresh []*part
	for _, p := range d.parts {
		if p.record.Create != nil {
			fresh = append(fresh, p)
		}
	}
	if len(fresh) == 0 || c.decided(d.ref.id) {
		return nil
	}
	return parallel(fresh, 32, func(p *part) error {
		mode := p.record.Create.Mode
		log, err := c.tables.at(p.row.URI, func() twophase.Mode { return mode })
		if err != nil { // whoever staged it has named a place that the replica there may use
			return outOfReach(p.row, err)
		}
		return c.untouched(ctx, placed{p.row.URI, log, mode}, p.row.Name)
	})
}

// logThere refuses to create a table over a log.
func (c *Catalog) logThere(uri, name string, last twophase.Version) error {
	message := fmt.Sprintf("there is a Delta table at %s already; register it instead", uri)
	if was := c.releasedFrom(uri); was != nil {
		message = fmt.Sprintf("the log of table %s, which was released, is still at %s; register it, or delete the folder to begin anew", was.Name, uri)
	}
	return &Error{Reason: NotATable, Message: message, Table: &TableDetail{Table: name, URI: uri, Version: last}}
}

// releasedFrom is the table that was released last from a place; nil if none is known.
func (c *Catalog) releasedFrom(uri string) (was *twophase.Table) {
	c.ledger.read(func(s *twophase.State) {
		if t := s.ReleasedFrom(uri); t != nil {
			row := *t
			was = &row
		}
	})
	return was
}

// putsLanded refuses a place from which a table of this catalog was released just now: a
// version of it that some process sent may still land (R10), and would stand in the new
// table's log, where no reader could pass it. If the old log is still there, waiting
// would not help, and that is what is said.
func (c *Catalog) putsLanded(ctx context.Context, p placed, name string) error {
	was := c.releasedFrom(p.uri)
	if was == nil {
		return nil
	}
	l := c.cfg.Limits
	from := was.ReleasedAt.Std().Add(twophase.FoldLimit + l.PutDeadline + l.StoreGrace)
	if !c.cfg.Now().Before(from) {
		return nil
	}
	switch there, err := p.log.List(ctx, 0); {
	case err != nil:
		return c.objectsError(p.uri, err)
	case there.Last() != twophase.NoVersion:
		return c.logThere(p.uri, name, there.Last())
	}
	return &Error{
		Reason: ChangesPending,
		Message: fmt.Sprintf("table %s was released from %s a moment ago, and a write of it may still land there; create the new table after %s, or in another folder",
			was.Name, p.uri, from.UTC().Format(time.RFC3339)),
		Table: &TableDetail{Table: name, TableID: was.Table, URI: p.uri, Version: twophase.NoVersion},
	}
}

// claimPlace puts the owner object of a table that is about to begin (R21). One of this
// catalog whose table is not here any more is taken over: its owner was released, or
// what it was put for never came to be.
func (c *Catalog) claimPlace(ctx context.Context, t *handle) (twophase.WalkResult, error) {
	mine := c.ownerOf(c.row(t.id))
	there, err := t.log.Owner(ctx)
	takeOver := err == nil && there.Catalog == mine.Catalog && !c.isLive(there.Table)
	err = t.log.Claim(ctx, mine, takeOver)
	var owned *tables.OwnedError
	switch {
	case errors.As(err, &owned):
		return twophase.PlaceClaimed{Other: owned.Owner.Catalog}, nil
	case err != nil:
		return nil, c.logError(t.id, err)
	}
	return twophase.PlaceClaimed{}, nil
}

func (c *Catalog) isLive(id twophase.TableID) (live bool) {
	c.ledger.read(func(s *twophase.State) {
		t, ok := s.Table(id)
		live = ok && !t.Released
	})
	return live
}

// loadUnborn makes the view of a table that is decided and in no log yet: empty as it is
// defined, with everything that is pending, its creation first, on top. missing facts
// are fetched as for other tables.
func (h *handles) loadUnborn(ctx context.Context, t *handle) error {
	pieces, err := h.creationOf(ctx, t.id)
	if err != nil || pieces == nil {
		return err // it was published meanwhile: the caller looks again
	}
	_, state, err := h.c.newActions(pieces...)
	if err != nil {
		return err
	}
	profile, view := state.Profile(), tables.NewView(state)
	var fetched submission
	for {
		missing, done, err := h.install(t, twophase.NoVersion, view, profile, fetched.facts)
		if done || err != nil || len(missing) == 0 {
			return err
		}
		if err := h.c.fetch(ctx, &fetched, missing); err != nil {
			return err
		}
	}
}

// creationOf reads the pieces that create a table; nil if it is in its log by now. One
// whose creation was given up never gets a log.
func (h *handles) creationOf(ctx context.Context, id twophase.TableID) ([]*payload, error) {
	var ids []located
	var never error
	h.c.ledger.read(func(s *twophase.State) {
		t, ok := s.Table(id)
		if !ok || t.Recorded != twophase.NoVersion {
			return
		}
		if len(t.Pending) == 0 {
			never = frozenError(infoOf(t))
			return
		}
		first := t.Pending[0]
		ids = piecesOfPart(first.Txn, s.Outcome(first.Txn).Commit, first.Part)
	})
	if never != nil {
		return nil, never
	}
	pieces := make([]*payload, len(ids))
	for i, id := range ids {
		var err error
		if pieces[i], err = h.c.payloads.get(ctx, id); err != nil {
			if at, _ := h.recorded(id.Table); errors.Is(err, errNoPayload) && at != twophase.NoVersion {
				return nil, nil
			}
			return nil, h.c.pieceError(h.c.row(id.Table), id.Digest, err)
		}
	}
	if len(pieces) == 0 {
		return nil, nil
	}
	return pieces, nil
}

// defineLines stand in front of the first piece of a creation when it is published: a
// pure function of payload and round. A commitInfo of the client goes before theirs.
func defineLines(pieces []*payload, at twophase.Time) ([]byte, error) {
	rows := slices.ContainsFunc(pieces, func(p *payload) bool { return len(p.actions) > 0 })
	return tables.DefineTable(pieces[0].head.Create.Input(at), rows)
}
