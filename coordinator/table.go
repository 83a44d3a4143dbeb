package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// table finds a table by name, id or URI. That there is none is said only after the
// journal's head was read: another replica may just have brought it in (R5).
func (c *Catalog) table(ref string) (TableInfo, error) {
	info, err := c.foldedTable(ref)
	if !c.cfg.SharedStore || !errors.Is(err, &Error{Reason: TableNotFound}) {
		return info, err
	}
	ctx, cancel := context.WithTimeout(c.life, atLeastWait)
	defer cancel()
	if failed := c.catchUp(ctx); isContext(failed) {
		return info, &Error{Reason: StoreUnavailable, Message: "the catalog's store does not answer; repeat the call", Cause: failed}
	} else if failed != nil {
		return info, failed
	}
	return c.foldedTable(ref)
}

// foldedTable finds a table in the fold as it is.
func (c *Catalog) foldedTable(ref string) (TableInfo, error) {
	if ref == "" {
		return TableInfo{}, fieldError("table", "", "is missing", "name a table by name, id or URI")
	}
	var info TableInfo
	if !c.inFold(ref, func(t *twophase.Table) { info = infoOf(t) }) {
		return TableInfo{}, &Error{
			Reason: TableNotFound, Message: fmt.Sprintf("table %q is not in catalog %s", clip(tables.WithoutPassword(ref), 256), c.cfg.Name),
			Field: &FieldDetail{Field: "table", Value: clip(tables.WithoutPassword(ref), 256), Remedy: "register the table first, or check its name"},
		}
	}
	c.fill(&info)
	return info, nil
}

// inFold finds a table in the fold, which is not to be kept.
func (c *Catalog) inFold(ref string, f func(*twophase.Table)) bool {
	if isURI(ref) {
		if uri, err := canonicalTable(ref); err == nil {
			ref = uri
		}
	}
	found := false
	c.ledger.read(func(s *twophase.State) {
		t, ok := s.TableNamed(ref)
		if found = ok; ok {
			f(t)
		}
	})
	return found
}

// Table finds a table by name, id or URI. It reads no log.
func (c *Catalog) Table(_ context.Context, ref string) (TableInfo, error) { return c.table(ref) }

// NameOf is the name of a table that is called by name, id or URI; false where Table finds
// none.
func (c *Catalog) NameOf(_ context.Context, ref string) (name string, ok bool) {
	if c.inFold(ref, func(t *twophase.Table) { name = t.Name }) {
		return name, true
	}
	info, err := c.table(ref) // another replica may just have brought it in
	return info.Name, err == nil
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
	info := TableInfo{
		ID: t.Table, Name: t.Name, URI: t.URI, MetaDataID: t.MetaDataID, Mode: t.Mode, Version: t.Recorded, Marker: t.Marker,
		OneTxnPerVersion: t.OneTxnPerVersion, Frozen: frozenDetail(t), Pending: len(t.Pending),
		Watched: t.Watched(), OffersDecided: t.OffersDecided(), ModeReason: modeReason(t),
	}
	if t.Fence != nil {
		info.Fence = &FenceInfo{Fence: *t.Fence}
	}
	return info
}

// fill adds what this process knows of a table besides the fold.
func (c *Catalog) fill(info *TableInfo) {
	c.stoppedBy(info)
	looked, trouble := c.troubles.at(info.URI)
	if t := c.tables.peek(info.ID); t != nil && trouble == "" {
		if a, u := t.alteredBy(), t.unloaded.Load(); a != nil {
			trouble = a.text
		} else if u != nil {
			trouble = u.err.Message
		}
	}
	info.Trouble, info.Unseen = trouble, !looked && info.Stopped == "" && info.Version != twophase.NoVersion
	if info.Fence != nil {
		info.Fence = c.fenceInfo(&info.Fence.Fence, info.ID)
	}
}

// mayUse says why this server may not use a table's place; nil if it may. It reads nothing.
func (c *Catalog) mayUse(row TableInfo) error {
	_, _, err := c.cfg.Objects.Open(row.URI)
	return err
}

func (c *Catalog) reaches(row TableInfo) bool {
	return c.tables.peek(row.ID) != nil || c.mayUse(row) == nil
}

func (c *Catalog) stoppedBy(info *TableInfo) {
	t := c.tables.peek(info.ID)
	if t == nil {
		if err := c.mayUse(*info); err != nil {
			info.Stopped = outOfReach(*info, err).Message
		}
		return
	}
	if err := t.stoppedBy(); err != nil {
		info.Stopped, info.Torn = err.Error(), t.tornBy() != nil
	} else if err := c.ours(info.ID); err != nil {
		info.Stopped = err.Error()
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
		c.fill(&out[i])
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
		if isLink(parent) && !exists(parent) {
			return "", &tables.InputError{
				Field: "uri", Value: clip(raw, 256), Reason: parent + " is a symbolic link to something that is not there",
				Remedy: "mend the link, or give the location itself",
			}
		}
		if real, err := filepath.EvalSymlinks(parent); err == nil {
			return tables.CanonicalURI(filepath.Join(real, rest))
		}
		if parent == "/" || parent == "." {
			return uri, nil
		}
		parent, rest = filepath.Dir(parent), filepath.Join(filepath.Base(parent), rest)
	}
}

// exists follows links.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ELOOP)
}

// Describe says what catalog and log know of a table.
func (c *Catalog) Describe(ctx context.Context, ref string) (TableDescription, error) {
	row, err := c.table(ref)
	if err != nil {
		return TableDescription{}, err
	}
	out, fencedHere := TableDescription{TableInfo: row}, false
	c.ledger.read(func(s *twophase.State) {
		t, ok := s.Table(row.ID)
		if !ok {
			return
		}
		changing, _ := t.Fencing()
		fencedHere = t.Mode == twophase.ModeFenced || changing != twophase.FenceKept
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
	if row.Version == twophase.NoVersion {
		out.Warnings = append(out.Warnings, "a transaction creates the table; it is in no log yet")
		return out, nil
	}
	t, err := c.tables.of(row.ID)
	if err != nil {
		return out, err
	}
	state, err := t.log.State(ctx, row.Version)
	if err != nil {
		out.Warnings = append(out.Warnings, "the log cannot be read: "+c.logFailed(ctx, t, err).Error())
		out.TableInfo = c.full(row.ID) // a gap freezes it
		return out, nil
	}
	out.State = stateOf(state)
	out.Warnings = append(out.Warnings, c.logStoreWarning(ctx, row)...)
	warnings, err := tables.CheckRegister(state, c.cfg.Limits.MaxTTL, fencedHere)
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
	return &TableState{
		Version: s.Version(), Profile: p, Files: int64(s.NumFiles()), Bytes: s.TotalSize(),
		LogRetention: p.LogRetention(), DeletedFileRetention: p.DeletedFileRetention(),
	}
}
