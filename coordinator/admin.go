package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// table finds a table by name, id or URI.
func (c *Catalog) table(ref string) (TableInfo, error) {
	if ref == "" {
		return TableInfo{}, fieldError("table", "", "is missing", "name a table by name, id or URI")
	}
	key := ref
	if isURI(ref) {
		if uri, err := canonicalTable(ref); err == nil {
			key = uri
		}
	}
	var info TableInfo
	found := false
	c.ledger.read(func(s *twophase.State) {
		if t, ok := s.TableNamed(key); ok {
			info, found = infoOf(t), true
		}
	})
	if !found {
		return TableInfo{}, &Error{Reason: TableNotFound, Message: fmt.Sprintf("table %q is not in catalog %s", clip(ref, 256), c.cfg.Name),
			Field: &FieldDetail{Field: "table", Value: clip(ref, 256), Remedy: "register the table first, or check its name"}}
	}
	c.stoppedBy(&info)
	return info, nil
}

func isURI(s string) bool {
	return strings.HasPrefix(s, "/") || strings.Contains(s, "://") || strings.HasPrefix(s, "file:")
}

// row is a table by id; only the id is set for one that is not known.
func (c *Catalog) row(id twophase.TableID) TableInfo {
	info := TableInfo{ID: id, Name: string(id)}
	c.ledger.read(func(s *twophase.State) {
		if t, ok := s.Table(id); ok {
			info = infoOf(t)
		}
	})
	return info
}

func infoOf(t *twophase.Table) TableInfo {
	return TableInfo{ID: t.Table, Name: t.Name, URI: t.URI, MetaDataID: t.MetaDataID, Mode: t.Mode, Version: t.Recorded, Marker: t.Marker,
		OneTxnPerVersion: t.OneTxnPerVersion, Frozen: frozenDetail(t), Pending: len(t.Pending)}
}

func (c *Catalog) stoppedBy(info *TableInfo) {
	if t := c.tables.peek(info.ID); t != nil {
		if err := t.stoppedBy(); err != nil {
			info.Stopped = err.Error()
		}
	}
}

// Tables lists the catalog's tables by name.
func (c *Catalog) Tables(context.Context) ([]TableInfo, error) {
	var out []TableInfo
	c.ledger.read(func(s *twophase.State) {
		for _, t := range s.Tables() {
			out = append(out, infoOf(t))
		}
	})
	for i := range out {
		c.stoppedBy(&out[i])
	}
	slices.SortFunc(out, func(a, b TableInfo) int { return compare(a.Name, b.Name) })
	return out, nil
}

var tableIDShape = regexp.MustCompile(`^t-[0-9a-f]{16}$`)

func newTableID() twophase.TableID {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return twophase.TableID("t-" + hex.EncodeToString(b[:]))
}

func checkName(name string) error {
	bad := func(why string) error {
		return fieldError("name", name, why, "use 1 to 255 bytes without control characters, not shaped like a URI or a table id")
	}
	switch {
	case name == "":
		return bad("is missing")
	case len(name) > 255:
		return bad("is longer than 255 bytes")
	case isURI(name):
		return bad("looks like a URI")
	case tableIDShape.MatchString(name):
		return bad("looks like a table id")
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }):
		return bad("has a control character")
	}
	return nil
}

// canonicalTable is the one URI of a table's place (R21); symbolic links of a local
// path are resolved.
func canonicalTable(raw string) (string, error) {
	uri, err := tables.CanonicalURI(raw)
	if err != nil {
		return "", err
	}
	path, isFile := strings.CutPrefix(uri, "file://")
	if !isFile {
		return uri, nil
	}
	if path, err = url.PathUnescape(path); err != nil {
		return uri, nil
	}
	for parent, rest := path, ""; ; {
		if real, err := filepath.EvalSymlinks(parent); err == nil {
			return tables.CanonicalURI(filepath.Join(real, rest))
		}
		if parent == "/" || parent == "." {
			return uri, nil
		}
		parent, rest = filepath.Dir(parent), filepath.Join(filepath.Base(parent), rest)
	}
}

// placed is a table's place that a request names.
type placed struct {
	uri string
	log *tables.Log
}

func (c *Catalog) place(name, uri string, mode *twophase.Mode) (placed, error) {
	if err := checkName(name); err != nil {
		return placed{}, err
	}
	if uri == "" {
		return placed{}, fieldError("uri", "", "is missing", "give the table's location")
	}
	canonical, err := canonicalTable(uri)
	if err != nil {
		return placed{}, inputError(name, err)
	}
	def(mode, twophase.ModeOpen)
	if *mode != twophase.ModeOpen && *mode != twophase.ModeExclusive {
		return placed{}, fieldError("mode", mode.String(), "is not known", "use open or exclusive")
	}
	log, err := c.tables.open(canonical)
	return placed{canonical, log}, err
}

// Register brings an existing Delta table into the catalog (R21). Repeating it
// answers the table as it is.
func (c *Catalog) Register(ctx context.Context, r RegisterRequest) (TableInfo, []string, error) {
	p, err := c.place(r.Name, r.URI, &r.Mode)
	if err != nil {
		return TableInfo{}, nil, err
	}
	if row, err := c.table(p.uri); err == nil && row.Name == r.Name {
		return row, nil, nil
	}
	if err := c.notTaken(r.Name, p.uri); err != nil {
		return TableInfo{}, nil, err
	}
	row := TableInfo{Name: r.Name, URI: p.uri}
	state, err := p.log.State(ctx, tables.Latest)
	if err != nil {
		return TableInfo{}, nil, c.logErrorAt(row, err)
	}
	warnings, err := tables.CheckRegister(state, c.cfg.Limits.MaxTTL)
	if err != nil {
		return TableInfo{}, nil, inputError(r.Name, err)
	}
	rec := &twophase.Registered{Name: r.Name, URI: p.uri, Mode: r.Mode, OneTxnPerVersion: r.OneTxnPerVersion,
		MetaDataID: state.Profile().MetaData.ID, Version: state.Version(), Marker: state.Marker(c.journal.Meta().Catalog)}
	commit, err := p.log.ReadCommit(ctx, rec.Version)
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		return TableInfo{}, nil, c.logErrorAt(row, err)
	}
	if err == nil {
		rec.Identity = commit.Identity
	}
	if rec.Table, err = c.claim(ctx, p, r.TakeOver); err != nil {
		return TableInfo{}, nil, err
	}
	info, err := c.registerRecord(ctx, rec, rec)
	return info, append(warnings, c.twins(info)...), err
}

// notTaken says early, before anything is written, that a name or a place is
// another table's.
func (c *Catalog) notTaken(name, uri string) error {
	for _, ref := range []string{name, uri} {
		if row, err := c.table(ref); err == nil {
			return &Error{Reason: TableExists, Message: fmt.Sprintf("table %s at %s is registered already", row.Name, row.URI),
				Table: &TableDetail{Table: row.Name, TableID: row.ID, URI: row.URI, Version: twophase.NoVersion}}
		}
	}
	return nil
}

// claim writes the owner object, or finds our own from an earlier try (R21). It
// returns the table id that stands in it: an id is used for one table only.
func (c *Catalog) claim(ctx context.Context, p placed, takeOver bool) (twophase.TableID, error) {
	mine := c.owner(newTableID())
	if other, err := p.log.Owner(ctx); err == nil && other.Catalog == mine.Catalog && other.Incarnation == mine.Incarnation {
		if c.row(other.Table).URI == "" {
			return other.Table, nil // an earlier try of this call
		}
		takeOver = true // of a table that this catalog released
	}
	err := p.log.Claim(ctx, mine, takeOver)
	var owned *tables.OwnedError
	switch {
	case err == nil:
		return mine.Table, nil
	case errors.As(err, &owned):
		return "", &Error{Reason: TableOwned,
			Message: fmt.Sprintf("table %s belongs to catalog %s; release it there, or take it over if that catalog is gone", p.uri, owned.Owner.Catalog),
			Owner:   &OwnerDetail{URI: p.uri, Catalog: owned.Owner.Catalog, Incarnation: owned.Owner.Incarnation}}
	}
	return "", c.logErrorAt(TableInfo{Name: p.uri, URI: p.uri}, err)
}

func (c *Catalog) owner(id twophase.TableID) tables.Owner {
	meta := c.journal.Meta()
	return tables.Owner{Catalog: meta.Catalog, Incarnation: meta.Incarnation, Table: id}
}

func (c *Catalog) registerRecord(ctx context.Context, rec twophase.Record, r *twophase.Registered) (TableInfo, error) {
	err := c.seq.submit(ctx, twophase.Request{Record: rec})
	var refused *twophase.Refused
	if errors.As(err, &refused) {
		return TableInfo{}, c.refusal(txnRef{}, refused)
	}
	if err != nil {
		return TableInfo{}, c.storeError(err)
	}
	info := c.row(r.Table)
	if info.URI != r.URI {
		return TableInfo{}, c.notTaken(r.Name, r.URI)
	}
	return info, nil
}

// twins warns of other tables with the same metaData.id: a copied table.
func (c *Catalog) twins(info TableInfo) []string {
	var out []string
	c.ledger.read(func(s *twophase.State) {
		for _, t := range s.Tables() {
			if t.Table != info.ID && t.MetaDataID == info.MetaDataID {
				out = append(out, fmt.Sprintf("table %s has the same metaData.id: one is a copy of the other", t.Name))
			}
		}
	})
	return out
}

// Create writes version 0 of a new table and registers it. A try that died between
// the two is finished by the same call.
func (c *Catalog) Create(ctx context.Context, r CreateRequest) (TableInfo, []string, error) {
	p, err := c.place(r.Name, r.URI, &r.Mode)
	if err != nil {
		return TableInfo{}, nil, err
	}
	if err := c.notTaken(r.Name, p.uri); err != nil {
		return TableInfo{}, nil, err
	}
	data, err := tables.RenderCreate(tables.CreateInput{ID: uuid.NewString(), Name: r.Name, Description: r.Description, Schema: r.Schema,
		PartitionColumns: r.PartitionColumns, Properties: r.Properties, Time: twophase.TimeOf(c.cfg.Now()), EngineVersion: c.cfg.Version})
	if err != nil {
		return TableInfo{}, nil, inputError(r.Name, err)
	}
	if err := c.vacant(ctx, p, r.Name); err != nil {
		return TableInfo{}, nil, err
	}
	id, err := c.claim(ctx, p, false)
	if err != nil {
		return TableInfo{}, nil, err
	}
	err = p.log.PutCommit(ctx, 0, data)
	if err != nil && !errors.Is(err, objstore.ErrExists) && !errors.Is(err, objstore.ErrUnknown) {
		return TableInfo{}, nil, c.objectsError(p.uri, err)
	}
	commit, err := p.log.ReadCommit(ctx, 0)
	if err != nil {
		return TableInfo{}, nil, c.logErrorAt(TableInfo{Name: r.Name, URI: p.uri}, err)
	}
	state, err := p.log.State(ctx, 0)
	if err != nil {
		return TableInfo{}, nil, c.logErrorAt(TableInfo{Name: r.Name, URI: p.uri}, err)
	}
	warnings, err := tables.CheckRegister(state, c.cfg.Limits.MaxTTL)
	if err != nil {
		return TableInfo{}, nil, inputError(r.Name, err)
	}
	rec := &twophase.Created{Registered: twophase.Registered{Table: id, Name: r.Name, URI: p.uri, Mode: r.Mode, OneTxnPerVersion: r.OneTxnPerVersion,
		MetaDataID: state.Profile().MetaData.ID, Version: 0, Identity: commit.Identity}}
	info, err := c.registerRecord(ctx, rec, &rec.Registered)
	return info, warnings, err
}

// vacant: there is nothing at the place, or version 0 of an earlier try of this call.
func (c *Catalog) vacant(ctx context.Context, p placed, name string) error {
	l, err := p.log.List(ctx, 0)
	if err != nil {
		return c.objectsError(p.uri, err)
	}
	owner, err := p.log.Owner(ctx)
	ours := err == nil && owner.Catalog == c.journal.Meta().Catalog && c.row(owner.Table).URI == ""
	if l.Last() == twophase.NoVersion || ours && l.Last() == 0 {
		return nil
	}
	return &Error{Reason: NotATable, Message: fmt.Sprintf("there is a Delta table at %s already; register it instead", p.uri),
		Table: &TableDetail{Table: name, URI: p.uri, Version: l.Last()}}
}

// Describe says what catalog and log know of a table.
func (c *Catalog) Describe(ctx context.Context, ref string) (TableDescription, error) {
	row, err := c.table(ref)
	if err != nil {
		return TableDescription{}, err
	}
	out := TableDescription{TableInfo: row}
	c.ledger.read(func(s *twophase.State) {
		t, ok := s.Table(row.ID)
		if !ok {
			return
		}
		for _, ch := range t.Pending {
			out.Changes = append(out.Changes, PendingChange{Number: ch.Number, Txn: ch.Txn})
		}
		for _, ch := range t.Diverged {
			out.Changes = append(out.Changes, PendingChange{Number: ch.Number, Txn: ch.Txn, GivenUp: givenUpRule(s, ch, row.ID)})
		}
		if r, ok := s.RoundOn(row.ID); ok {
			info := roundInfo(s, r)
			out.Round = &info
		}
	})
	t, err := c.tables.of(row.ID)
	if err != nil {
		return out, err
	}
	state, err := t.log.State(ctx, row.Version)
	if err != nil {
		out.Warnings = append(out.Warnings, "the log cannot be read: "+c.logError(row.ID, err).Error())
		return out, nil
	}
	out.State = stateOf(state)
	warnings, err := tables.CheckRegister(state, c.cfg.Limits.MaxTTL)
	out.Warnings = append(out.Warnings, warnings...)
	if err != nil {
		out.Warnings = append(out.Warnings, "the table takes no new commits: "+err.Error())
	}
	return out, nil
}

func givenUpRule(s *twophase.State, ch *twophase.Change, id twophase.TableID) twophase.Rule {
	o := s.Outcome(ch.Txn)
	if o == nil || o.Commit == nil {
		return twophase.RuleNone
	}
	for i := range o.Parts {
		if o.Commit.Parts[i].Table == id {
			return o.Parts[i].Conflict.Rule
		}
	}
	return twophase.RuleNone
}

func stateOf(s *tables.State) *TableState {
	p := s.Profile()
	return &TableState{Version: s.Version(), Profile: p, Files: int64(s.NumFiles()), Bytes: s.TotalSize(),
		LogRetention: p.LogRetention(), DeletedFileRetention: p.DeletedFileRetention()}
}

// Release takes a table out of the catalog, and then removes its owner object. A
// crash between the two leaves an owner object of ours without a table, which the
// next Register takes over.
func (c *Catalog) Release(ctx context.Context, ref string) error {
	row, err := c.table(ref)
	if err != nil {
		return err
	}
	t, err := c.tables.of(row.ID)
	if err != nil {
		return err
	}
	if err := c.adminRecord(ctx, &twophase.Released{Table: row.ID}); err != nil {
		return err
	}
	if err := t.log.Disclaim(ctx, c.owner(row.ID)); err != nil {
		c.log.Warn("remove the owner object of a released table", "table", row.URI, "error", err)
	}
	return nil
}

func (c *Catalog) adminRecord(ctx context.Context, r twophase.Record) error {
	err := c.submitFetching(ctx, twophase.Request{Record: r})
	var refused *twophase.Refused
	if errors.As(err, &refused) {
		return c.refusal(txnRef{}, refused)
	}
	return c.storeError(err)
}

// SetMode changes who else may write a table.
func (c *Catalog) SetMode(ctx context.Context, ref string, m twophase.Mode) (TableInfo, error) {
	row, err := c.table(ref)
	if err != nil {
		return TableInfo{}, err
	}
	if m != twophase.ModeOpen && m != twophase.ModeExclusive {
		return TableInfo{}, fieldError("mode", m.String(), "is not known", "use open or exclusive")
	}
	if row.Mode == m {
		return row, nil
	}
	t, err := c.tables.of(row.ID)
	if err != nil {
		return TableInfo{}, err
	}
	if _, err := c.lookUp(ctx, t); err != nil { // what others wrote until now is history first
		return TableInfo{}, err
	}
	if err := c.adminRecord(ctx, &twophase.ModeSet{Table: row.ID, Mode: m}); err != nil {
		return TableInfo{}, err
	}
	return c.row(row.ID), nil
}

// Thaw is the operator's word that what was given up on a frozen table stays so
// (R12). With preview it only says what that is.
func (c *Catalog) Thaw(ctx context.Context, ref string, preview bool, reason string) (Thaw, error) {
	row, err := c.table(ref)
	if err != nil {
		return Thaw{}, err
	}
	out, origin, err := c.thawPreview(row)
	if err != nil || preview {
		return out, err
	}
	if err := c.adminRecord(ctx, &twophase.Thawed{Table: origin, Detail: clip(reason, 1024)}); err != nil {
		return Thaw{}, err
	}
	out.Table = c.row(row.ID)
	return out, nil
}

func (c *Catalog) thawPreview(row TableInfo) (out Thaw, origin twophase.TableID, err error) {
	out.Table = row
	err = &Error{Reason: NothingToThaw, Message: fmt.Sprintf("table %s is not frozen, or thaws by itself", row.Name)}
	c.ledger.read(func(s *twophase.State) {
		t, ok := s.Table(row.ID)
		if !ok || t.Frozen == nil || t.Frozen.Cause == twophase.CauseStalled || t.Frozen.Resolved {
			return
		}
		err, origin = nil, t.Frozen.Origin
		for _, o := range s.Tables() {
			if o.Frozen == nil || o.Frozen.Origin != origin {
				continue
			}
			changes := slices.Clone(o.Diverged)
			if o.Table == origin && o.Frozen.Cause == twophase.CauseReplaced {
				changes = append(changes, o.Pending...)
			}
			for _, ch := range changes {
				out.GivenUp = append(out.GivenUp, givenUp(s, ch, o.Table))
			}
		}
	})
	return out, origin, err
}

func givenUp(s *twophase.State, ch *twophase.Change, id twophase.TableID) GivenUp {
	g := GivenUp{Txn: ch.Txn, Conflict: twophase.Conflict{Rule: twophase.RuleOperator}}
	o := s.Outcome(ch.Txn)
	if o == nil || o.Commit == nil {
		return g
	}
	g.Key = o.Commit.Key
	for i := range o.Parts {
		switch {
		case o.Commit.Parts[i].Table == id:
			if o.Parts[i].Conflict.Rule != twophase.RuleNone {
				g.Conflict = o.Parts[i].Conflict
			}
		case o.Parts[i].Status != twophase.StatusDiverged && o.Parts[i].Status != twophase.StatusNotApplied:
			g.AppliedOn = append(g.AppliedOn, nameOf(s, o.Commit.Parts[i].Table))
		}
	}
	return g
}
