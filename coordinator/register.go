package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/google/uuid"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// placed is a table's place that a request names.
type placed struct {
	uri string
	log *tables.Log
	// mode that it has, or is to have.
	mode twophase.Mode
}

func (c *Catalog) place(ctx context.Context, name, uri string, mode *twophase.Mode) (placed, error) {
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
	if err := c.checkMode(ctx, canonical, *mode); err != nil {
		return placed{}, err
	}
	if err := c.apart(canonical); err != nil {
		return placed{}, err
	}
	if err := c.probe(ctx, canonical); err != nil {
		return placed{}, err
	}
	log, err := c.tables.open(canonical, func() twophase.Mode { return *mode })
	return placed{canonical, log, *mode}, err
}

// probe tries a place whose store has not been tried.
func (c *Catalog) probe(ctx context.Context, uri string) error {
	p, ok := c.cfg.Objects.(Prober)
	if !ok {
		return nil
	}
	err := p.Probe(ctx, uri)
	if err == nil || isContext(err) {
		return err
	}
	c.log.Error("the place of a table failed its probe", "table", uri, "error", err)
	why := "it cannot be tried; the server's log has the reason"
	if errors.Is(err, objstore.ErrUnconditional) || errors.Is(err, objstore.ErrInconsistent) {
		why = "it lets two writers win, or shows late what was written"
	}
	return &Error{
		Reason: ObjectsUnsuitable, Message: fmt.Sprintf("the object store of %s cannot hold tables: %s", uri, why), Cause: err,
		Table: &TableDetail{URI: uri, Version: twophase.NoVersion, Detail: why},
	}
}

// apart refuses a place that is not a table's own: in or around another table or the
// journal, in a log, or in the catalog's own folder. Clean-up of one would eat the other
// (VACUUM removes all that its table does not name), and the engines list whole folders. Also refused is a log that a symbolic link leads
// elsewhere.
func (c *Catalog) apart(uri string) error {
	bad := func(why string) *Error {
		return fieldError("uri", uri, why, "give each table a folder of its own")
	}
	for _, segment := range strings.Split(uri, "/") {
		if segment == "_delta_log" || segment == "_txcoord" {
			return bad("lies in a folder named " + segment)
		}
	}
	if within(c.cfg.Warehouse, uri) {
		return bad("is or contains the catalog's warehouse")
	}
	if j := c.cfg.Journal; j != "" && (within(j, uri) || within(uri, j)) {
		return bad("lies in, or contains, the place of the catalog's journal")
	}
	if other, ok := c.neighbour(uri); ok {
		err := bad("lies in, or contains, the table " + other.Name)
		err.Table = placeOf(other)
		return err
	}
	if path, isFile := strings.CutPrefix(uri, "file://"); isFile {
		if path, err := url.PathUnescape(path); err == nil && isLink(filepath.Join(path, "_delta_log")) {
			return bad("has a _delta_log that is a symbolic link")
		}
	}
	return nil
}

// neighbour is a table that lies in or around a place.
func (c *Catalog) neighbour(uri string) (row TableInfo, ok bool) {
	c.ledger.read(func(s *twophase.State) {
		for _, t := range s.Tables() {
			if t.URI != uri && (within(t.URI, uri) || within(uri, t.URI)) {
				row, ok = infoOf(t), true
			}
		}
	})
	return row, ok
}

// placeOf is a table that a place is taken by: who may not see it is not told.
func placeOf(row TableInfo) *TableDetail {
	return &TableDetail{Table: row.Name, TableID: row.ID, URI: row.URI, Version: twophase.NoVersion}
}

// within reports whether inner is outer or lies below it.
func within(inner, outer string) bool {
	return inner == outer || strings.HasPrefix(inner, outer+"/")
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// Register brings an existing Delta table into the catalog (R21). Repeating it
// answers the table as it is. A table that is to be fenced is registered as open, and
// then fenced; a call that died between the two is finished by the same call.
func (c *Catalog) Register(ctx context.Context, r RegisterRequest) (TableInfo, []string, error) {
	if r.Mode != twophase.ModeFenced {
		return c.register(ctx, r, false)
	}
	r.Mode = twophase.ModeOpen
	if row, err := c.table(r.URI); err == nil && row.Mode == twophase.ModeFenced {
		r.Mode = row.Mode
	}
	info, warnings, err := c.register(ctx, r, true)
	if err == nil {
		info, err = c.Fence(ctx, FenceRequest{Table: string(info.ID)})
	}
	return info, warnings, err
}

// register brings a table in. fence: the caller fences it next.
func (c *Catalog) register(ctx context.Context, r RegisterRequest, fence bool) (TableInfo, []string, error) {
	p, err := c.place(ctx, r.Name, r.URI, &r.Mode)
	if err != nil {
		return TableInfo{}, nil, err
	}
	if row, err := c.table(p.uri); err == nil && row.Name == r.Name {
		return c.registered(ctx, p, row, r)
	}
	if err := c.notTaken(r.Name, p.uri); err != nil {
		return TableInfo{}, nil, err
	}
	row := TableInfo{Name: r.Name, URI: p.uri}
	state, err := p.log.State(ctx, tables.Latest)
	if err != nil {
		return TableInfo{}, nil, c.logErrorAt(row, noTable(ctx, p, err))
	}
	warnings, err := tables.CheckRegister(state, c.cfg.Limits.MaxTTL, fence)
	if err != nil {
		return TableInfo{}, nil, inputError(r.Name, err)
	}
	rec := &twophase.Registered{
		Name: r.Name, URI: p.uri, Mode: r.Mode, OneTxnPerVersion: r.OneTxnPerVersion,
		MetaDataID: state.Profile().MetaData.ID, Version: state.Version(), Marker: state.Marker(c.journal.Meta().Catalog),
	}
	commit, err := p.log.ReadCommit(ctx, rec.Version)
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		return TableInfo{}, nil, c.logErrorAt(row, err)
	}
	if err == nil {
		rec.Identity = commit.Identity
	}
	if rec.Table, err = c.claim(ctx, p, TableInfo{Name: r.Name, Mode: r.Mode, OneTxnPerVersion: r.OneTxnPerVersion}, r.TakeOver); err != nil {
		return TableInfo{}, nil, err
	}
	info, err := c.registerRecord(ctx, p, rec, rec)
	return info, append(append(warnings, c.twins(info, r.Shows)...), placeWarnings(p.uri)...), err
}

// registered answers a repeated Register. The table has to be as the call wants it,
// and its owner object has to be there and ours still.
func (c *Catalog) registered(ctx context.Context, p placed, row TableInfo, r RegisterRequest) (TableInfo, []string, error) {
	if row.Mode != r.Mode || row.OneTxnPerVersion != r.OneTxnPerVersion {
		return TableInfo{}, nil, &Error{
			Reason:  TableExists,
			Message: fmt.Sprintf("table %s is registered already, as %s and one_txn_per_version=%t; change its mode with SetTableMode", row.Name, row.Mode, row.OneTxnPerVersion),
			Table:   &TableDetail{Table: row.Name, TableID: row.ID, URI: row.URI, Version: twophase.NoVersion},
		}
	}
	there, err := p.log.List(ctx, 0)
	if err == nil && there.Last() == twophase.NoVersion && row.Version != twophase.NoVersion {
		return TableInfo{}, nil, c.logErrorAt(row, &tables.LogError{Fault: tables.NotATable, Table: row.URI, Version: twophase.NoVersion})
	}
	if err == nil && r.TakeOver {
		if err := c.notSwapped(ctx, p, row); err != nil {
			return TableInfo{}, nil, err
		}
	}
	if err == nil {
		err = p.log.Claim(ctx, c.ownerOf(row), r.TakeOver)
	}
	var owned *tables.OwnedError
	switch {
	case errors.As(err, &owned):
		return TableInfo{}, nil, c.ownedError(p.uri, &owned.Owner)
	case err != nil:
		return TableInfo{}, nil, c.logErrorAt(row, err)
	}
	if t := c.tables.peek(row.ID); t != nil {
		t.disown(nil)
	}
	return c.full(row.ID), nil, nil
}

// ownedError: the owner object at a place names somebody else. If that is another table of
// this very catalog, folders were mixed up, and a take-over would make it worse.
func (c *Catalog) ownedError(uri string, o *tables.Owner) error {
	err := &Error{
		Reason:  TableOwned,
		Message: fmt.Sprintf("table %s belongs to catalog %s; release it there, also where it is not listed any more (that release broke off), or take it over if that catalog is gone", uri, o.Catalog),
		Owner:   &OwnerDetail{URI: uri, Catalog: o.Catalog, Incarnation: o.Incarnation, Since: o.Since},
	}
	if other, ok := c.sibling(uri, o); ok {
		err.Message = fmt.Sprintf("the folder at %s is that of table %s of this catalog, whose place is %s: put the folders back where they belong", uri, other.Name, other.URI)
		err.Table = placeOf(other)
	}
	return err
}

// sibling is the live table of this catalog that an owner object at another place names.
func (c *Catalog) sibling(uri string, o *tables.Owner) (row TableInfo, ok bool) {
	if o.Catalog != c.journal.Meta().Catalog {
		return row, false
	}
	c.ledger.read(func(s *twophase.State) {
		var t *twophase.Table
		if t, ok = s.Table(o.Table); ok {
			row, ok = infoOf(t), !t.Released && t.URI != uri
		}
	})
	return row, ok
}

// notSwapped refuses to write a table's owner object into the log of another table of this
// catalog. Where the log is the table's own, and the object alone is not, it may be written.
func (c *Catalog) notSwapped(ctx context.Context, p placed, row TableInfo) error {
	owner, err := p.log.Owner(ctx)
	if err != nil {
		return nil // Claim says what that means
	}
	if _, ok := c.sibling(p.uri, owner); !ok {
		return nil
	}
	state, err := p.log.State(ctx, tables.Latest)
	if err != nil {
		return c.logErrorAt(row, err)
	}
	if state.Profile().MetaData.ID != row.MetaDataID {
		return c.ownedError(p.uri, owner)
	}
	return nil
}

// notTaken says early, before anything is written, that a name or a place is
// another table's.
func (c *Catalog) notTaken(name, uri string) error {
	for _, ref := range []string{name, uri} {
		if row, err := c.table(ref); err == nil {
			return &Error{
				Reason: TableExists, Message: fmt.Sprintf("table %s at %s is registered already", row.Name, row.URI),
				Table: placeOf(row),
			}
		}
	}
	return nil
}

// claim writes the owner object, or finds our own from an earlier try (R21). It
// returns the table id that stands in it: an id is used for one table only. row is the
// table as it is to be.
func (c *Catalog) claim(ctx context.Context, p placed, row TableInfo, takeOver bool) (twophase.TableID, error) {
	row.ID = newTableID()
	mine := c.ownerOf(row)
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
		return "", c.ownedError(p.uri, &owned.Owner)
	}
	return "", c.logErrorAt(TableInfo{Name: p.uri, URI: p.uri}, err)
}

func (c *Catalog) owner(id twophase.TableID) tables.Owner {
	meta := c.journal.Meta()
	return tables.Owner{Catalog: meta.Catalog, Incarnation: meta.Incarnation, Table: id}
}

// ownerOf is the owner object of a table, with all that a rebuild wants to know of it.
func (c *Catalog) ownerOf(row TableInfo) tables.Owner {
	o := c.owner(row.ID)
	o.Name, o.Mode, o.OneTxnPerVersion = row.Name, row.Mode.String(), row.OneTxnPerVersion
	if row.Mode == twophase.ModeFenced {
		o.Mode = twophase.ModeOpen.String()
	}
	return o
}

func (c *Catalog) registerRecord(ctx context.Context, p placed, rec twophase.Record, r *twophase.Registered) (TableInfo, error) {
	err := c.seq.submit(ctx, twophase.Request{Record: rec})
	var refused *twophase.Refused
	if errors.As(err, &refused) {
		return TableInfo{}, c.refusal(txnRef{}, refused)
	}
	if err != nil {
		return TableInfo{}, c.storeError(err)
	}
	info := c.full(r.Table)
	if info.URI != r.URI {
		return TableInfo{}, c.notTaken(r.Name, r.URI)
	}
	c.troubles.look(r.URI) // its log was read, or begun, for this
	info = c.full(r.Table)
	if err := p.log.Claim(ctx, c.ownerOf(info), false); err != nil { // see disclaim
		return info, c.logErrorAt(info, err)
	}
	return info, nil
}

// Create writes version 0 of a new table and registers it. A try that died between
// the two is finished by the same call, and repeating it answers the table as it is.
func (c *Catalog) Create(ctx context.Context, r CreateRequest) (TableInfo, []string, error) {
	p, err := c.place(ctx, r.Name, r.URI, &r.Mode)
	if err != nil {
		return TableInfo{}, nil, err
	}
	data, err := tables.RenderCreate(tables.CreateInput{
		ID: uuid.NewString(), Name: r.Name, Description: r.Description, Schema: r.Schema,
		PartitionColumns: r.PartitionColumns, Properties: r.Properties, Time: twophase.TimeOf(c.cfg.Now()), EngineVersion: c.cfg.Version,
		Fence: r.Mode == twophase.ModeFenced,
	})
	if err != nil {
		return TableInfo{}, nil, inputError(r.Name, err)
	}
	if row, err := c.table(p.uri); err == nil && row.Name == r.Name && c.createdBefore(ctx, p, data) {
		return row, nil, nil
	}
	if err := c.notTaken(r.Name, p.uri); err != nil {
		return TableInfo{}, nil, err
	}
	if err := c.vacant(ctx, p, r.Name, data); err != nil {
		return TableInfo{}, nil, err
	}
	id, err := c.claim(ctx, p, TableInfo{Name: r.Name, Mode: r.Mode, OneTxnPerVersion: r.OneTxnPerVersion}, false)
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
	warnings, err := tables.CheckRegister(state, c.cfg.Limits.MaxTTL, r.Mode == twophase.ModeFenced)
	if err != nil {
		return TableInfo{}, nil, inputError(r.Name, err)
	}
	rec := &twophase.Created{Registered: twophase.Registered{
		Table: id, Name: r.Name, URI: p.uri, Mode: r.Mode, OneTxnPerVersion: r.OneTxnPerVersion,
		MetaDataID: state.Profile().MetaData.ID, Version: 0, Identity: commit.Identity,
	}}
	info, err := c.registerRecord(ctx, p, rec, &rec.Registered)
	return info, append(warnings, placeWarnings(p.uri)...), err
}

// createdBefore reports whether an earlier try of the same call wrote version 0: it
// says what this one would write, but for id and times.
func (c *Catalog) createdBefore(ctx context.Context, p placed, data []byte) bool {
	there, err := p.log.ReadCommit(ctx, 0)
	if err != nil || there.Actions.MetaData == nil || there.Actions.Protocol == nil {
		return false
	}
	mine, err := tables.ParseCommit(p.uri, 0, data)
	if err != nil {
		return false
	}
	said := func(commit *tables.Commit) (tables.MetaData, tables.Protocol) {
		m, q := *commit.Actions.MetaData, *commit.Actions.Protocol
		m.ID, m.Raw, q.Raw = "", nil, nil
		return m, q
	}
	m1, q1 := said(there)
	m2, q2 := said(mine)
	return reflect.DeepEqual(m1, m2) && reflect.DeepEqual(q1, q2)
}

// vacant: there is nothing at the place, or version 0 of an earlier try of this call.
func (c *Catalog) vacant(ctx context.Context, p placed, name string, data []byte) error {
	if err := c.putsLanded(ctx, p, name); err != nil {
		return err
	}
	l, err := p.log.List(ctx, 0) // behind that: what was to land is there now
	if err != nil {
		return c.objectsError(p.uri, err)
	}
	owner, err := p.log.Owner(ctx)
	ours := err == nil && owner.Catalog == c.journal.Meta().Catalog && c.row(owner.Table).URI == ""
	if l.Last() == twophase.NoVersion {
		return c.noOldEntries(ctx, p)
	}
	if ours && l.Last() == 0 && c.createdBefore(ctx, p, data) {
		return nil
	}
	return c.logThere(p.uri, name, l.Last())
}

func (c *Catalog) adminRecord(ctx context.Context, r twophase.Record) error {
	err := c.submitFetching(ctx, twophase.Request{Record: r})
	var refused *twophase.Refused
	if errors.As(err, &refused) {
		return c.refusal(txnRef{}, refused)
	}
	return c.storeError(err)
}
