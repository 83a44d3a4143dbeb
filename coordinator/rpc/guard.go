package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// guard is a catalog as one principal may see and change it. Every method stands
// here: there is no embedded catalog that a new one could slip through. A table is
// looked up first and judged by its name in the catalog, whatever the request called
// it; one that is not there is judged by what it was called, so that a refusal says
// nothing about what exists.
type guard struct {
	*caller
	in     Catalog
	rights *access.Rights
	name   string
}

var _ Catalog = guard{}

// denied is the refusal of everything that is not granted.
func (g guard) denied(a access.Action, what string) error {
	g.note.deny()
	return &coordinator.Error{
		Reason: coordinator.PermissionDenied,
		Message: fmt.Sprintf("%s may not %s %s in catalog %s; a role has to grant the action %q to it",
			whoIs(g.who), verbs[a], what, text(g.name, maxValue), a),
	}
}

// whoIs is a principal in a refusal. Who is told that it is anonymous may have thought that
// it shows who it is.
func whoIs(p access.Principal) string {
	if p.Name() == access.Anonymous {
		return access.Anonymous + ", who showed no token and no certificate,"
	}
	return text(p.Name(), maxValue)
}

var verbs = map[access.Action]string{
	access.Read: "read", access.Write: "write", access.DDL: "create, release or alter", access.Fence: "set the mode of", access.Admin: "administer",
}

// on asks for an action on a table, which the request calls by name, id or URI.
func (g guard) on(ctx context.Context, ref string, a access.Action) error {
	name := g.nameOf(ctx, ref)
	g.note.on(name, a)
	if g.rights.On(name, a) {
		return nil
	}
	return g.denied(a, fmt.Sprintf("table %q", text(tables.WithoutPassword(ref), maxValue)))
}

func (g guard) nameOf(ctx context.Context, ref string) string {
	if name, ok := g.in.NameOf(ctx, ref); ok {
		return name
	}
	return ref
}

// onAny asks for an action on at least one table, for calls that name none.
func (g guard) onAny(a access.Action) error {
	g.note.on("", a)
	if g.rights.OnAny(a) {
		return nil
	}
	return g.denied(a, "any table")
}

// onAll asks for an action on every table, for calls about the catalog as a whole.
func (g guard) onAll(a access.Action) error {
	g.note.on("*", a)
	if g.rights.OnAll(a) {
		return nil
	}
	return g.denied(a, "all tables")
}

// sees reports whether answers may name a table.
func (g guard) sees(name string) bool {
	return g.rights.On(name, access.Read) || g.rights.On(name, access.Write)
}

// AtLeast implements Catalog.
func (g guard) AtLeast(ctx context.Context, v twophase.SnapshotVersion) error {
	return g.in.AtLeast(ctx, v)
}

// Shown implements Catalog.
func (g guard) Shown() twophase.SnapshotVersion { return g.in.Shown() }

// Begin implements Catalog.
func (g guard) Begin(ctx context.Context, q coordinator.BeginRequest) (coordinator.Begun, error) {
	if err := g.onAny(access.Write); err != nil {
		return coordinator.Begun{}, g.refused(ctx, coordinator.OutcomeRef{Token: q.Token, Key: q.Key, Attempt: q.Attempt}, err)
	}
	b, err := g.in.Begin(ctx, q)
	for i := range b.Known {
		b.Known[i] = g.outcome(b.Known[i])
	}
	return b, err
}

// Stage implements Catalog.
func (g guard) Stage(ctx context.Context, q coordinator.StageRequest) (coordinator.Staged, error) {
	if err := g.change(ctx, q.Table, q.Actions, q.Create != nil || q.Alter != nil); err != nil {
		return coordinator.Staged{}, g.refused(ctx, coordinator.OutcomeRef{Token: q.Token}, err)
	}
	st, err := g.in.Stage(ctx, q)
	return st, g.redacted(ctx, err)
}

// change asks for what staged actions do to a table: rows, or what it is.
func (g guard) change(ctx context.Context, table string, actions []byte, defines bool) error {
	if err := g.on(ctx, table, access.Write); err != nil || !defines && !definesTable(actions) {
		return err
	}
	return g.on(ctx, table, access.DDL)
}

// definesTable reports whether action lines change schema, properties or protocol.
// What is not JSON is refused where it is staged.
func definesTable(actions []byte) bool {
	for line := range bytes.Lines(actions) {
		if !bytes.Contains(line, []byte("metaData")) && !bytes.Contains(line, []byte("protocol")) && !bytes.Contains(line, []byte(`\u`)) {
			continue
		}
		var action map[string]json.RawMessage
		if json.Unmarshal(line, &action) != nil {
			continue
		}
		if action["metaData"] != nil || action["protocol"] != nil {
			return true
		}
	}
	return false
}

// Commit implements Catalog. What the listed parts hold was asked for when they were
// staged; the token and the digests prove that they were.
func (g guard) Commit(ctx context.Context, q coordinator.CommitRequest) (coordinator.Outcome, error) {
	if err := g.commits(ctx, &q); err != nil {
		return coordinator.Outcome{}, g.refused(ctx, coordinator.OutcomeRef{Token: q.Token}, err)
	}
	o, err := g.in.Commit(ctx, q)
	return g.outcome(o), g.redacted(ctx, err)
}

func (g guard) commits(ctx context.Context, q *coordinator.CommitRequest) (err error) {
	for _, t := range q.Tables {
		if err := g.on(ctx, t.Table, access.Write); err != nil {
			return err
		}
	}
	if q.Reads, err = g.reads(ctx, q.Reads); err != nil {
		return err
	}
	return g.releases(ctx, q.Releases)
}

// reads asks for the right to read tables, and notes which of them the caller may not
// write: those it cannot hold up, by losing there on purpose.
func (g guard) reads(ctx context.Context, reads []coordinator.ReadOnly) ([]coordinator.ReadOnly, error) {
	out := slices.Clone(reads)
	for i, r := range reads {
		if err := g.on(ctx, r.Table, access.Read); err != nil {
			return nil, err
		}
		out[i].Bystander = !g.rights.On(g.nameOf(ctx, r.Table), access.Write)
	}
	return out, nil
}

func (g guard) releases(ctx context.Context, tables []string) error {
	for _, t := range tables {
		if err := g.on(ctx, t, access.DDL); err != nil {
			return err
		}
	}
	return nil
}

// CommitOnce implements Catalog.
func (g guard) CommitOnce(ctx context.Context, q coordinator.OnceRequest) (coordinator.Outcome, string, error) {
	if err := g.commitsOnce(ctx, &q); err != nil {
		return coordinator.Outcome{}, "", g.refused(ctx, coordinator.OutcomeRef{Key: q.Key, Attempt: q.Attempt}, err)
	}
	o, token, err := g.in.CommitOnce(ctx, q)
	return g.outcome(o), token, g.redacted(ctx, err)
}

func (g guard) commitsOnce(ctx context.Context, q *coordinator.OnceRequest) (err error) {
	for _, t := range q.Tables {
		if err := g.change(ctx, t.Table, t.Actions, t.Create != nil || t.Alter != nil); err != nil {
			return err
		}
	}
	if q.Reads, err = g.reads(ctx, q.Reads); err != nil {
		return err
	}
	return g.releases(ctx, q.Releases)
}

// Abort implements Catalog. Who has the token began the transaction; keys and ids
// can be guessed, and stand in lists.
func (g guard) Abort(ctx context.Context, ref coordinator.OutcomeRef, reason string) (coordinator.Outcome, error) {
	err := g.onAny(access.Write)
	if ref.Token == "" {
		g.note.tell(abortAbout(ref, reason))
		err = g.onAll(access.Admin)
	}
	if err != nil {
		return coordinator.Outcome{}, g.refused(ctx, ref, err)
	}
	o, err := g.in.Abort(ctx, ref, reason)
	return g.outcome(o), g.redacted(ctx, err)
}

// abortAbout is what the audit log says of an abort by somebody else than the holder of
// the token.
func abortAbout(ref coordinator.OutcomeRef, reason string) string {
	about := "transaction " + ref.Txn.String()
	if ref.Key != "" {
		about = fmt.Sprintf("attempt %d of key %s", ref.Attempt, ref.Key)
	}
	if reason != "" {
		about += ": " + reason
	}
	return about
}

// refused has the audit log name the transaction of a call that is refused before the
// catalog has looked at its token.
func (g guard) refused(ctx context.Context, ref coordinator.OutcomeRef, err error) error {
	g.in.About(ctx, ref)
	return err
}

// Register implements Catalog. A name that is taken has to be granted like a new one.
func (g guard) Register(ctx context.Context, q coordinator.RegisterRequest) (coordinator.TableInfo, []string, error) {
	g.note.tell(registerAbout(q))
	if err := g.on(ctx, q.Name, access.DDL); err != nil {
		return coordinator.TableInfo{}, nil, err
	}
	q.Shows = g.sees
	t, warnings, err := g.in.Register(ctx, q)
	t, err = g.info(ctx, t, err)
	return t, warnings, err
}

// registerAbout is what the audit log says of a table that comes in, besides its name.
func registerAbout(q coordinator.RegisterRequest) string {
	about := modeAbout(q.Mode)
	if q.TakeOver {
		about += ", taken over"
	}
	return about
}

func modeAbout(m twophase.Mode) string { return "mode " + m.String() }

// Create implements Catalog.
func (g guard) Create(ctx context.Context, q coordinator.CreateRequest) (coordinator.TableInfo, []string, error) {
	g.note.tell(modeAbout(q.Mode))
	if err := g.on(ctx, q.Name, access.DDL); err != nil {
		return coordinator.TableInfo{}, nil, err
	}
	t, warnings, err := g.in.Create(ctx, q)
	t, err = g.info(ctx, t, err)
	return t, warnings, err
}

// Release implements Catalog.
func (g guard) Release(ctx context.Context, table string, keepFence bool) error {
	if err := g.on(ctx, table, access.DDL); err != nil {
		return err
	}
	return g.redacted(ctx, g.in.Release(ctx, table, keepFence))
}

// SetMode implements Catalog.
func (g guard) SetMode(ctx context.Context, table string, m twophase.Mode) (coordinator.TableInfo, error) {
	g.note.tell(modeAbout(m))
	if err := g.on(ctx, table, access.Fence); err != nil {
		return coordinator.TableInfo{}, err
	}
	t, err := g.in.SetMode(ctx, table, m)
	return g.info(ctx, t, err)
}

// Fence implements Catalog.
func (g guard) Fence(ctx context.Context, q coordinator.FenceRequest) (coordinator.TableInfo, error) {
	if q.NoOlderWriters {
		g.note.tell("no older writers, by the caller's word")
	}
	if err := g.on(ctx, q.Table, access.Fence); err != nil {
		return coordinator.TableInfo{}, err
	}
	t, err := g.in.Fence(ctx, q)
	return g.info(ctx, t, err)
}

// Unfence implements Catalog.
func (g guard) Unfence(ctx context.Context, table string) (coordinator.TableInfo, error) {
	if err := g.on(ctx, table, access.Fence); err != nil {
		return coordinator.TableInfo{}, err
	}
	t, err := g.in.Unfence(ctx, table)
	return g.info(ctx, t, err)
}

// Tag implements Catalog. A tag keeps the logs of all tables.
func (g guard) Tag(ctx context.Context, name string, v twophase.SnapshotVersion) ([]string, error) {
	g.note.tell(tagAbout(name, v))
	if err := g.onAll(access.Admin); err != nil {
		return nil, err
	}
	return g.in.Tag(ctx, name, v)
}

// tagAbout is what the audit log says of a tag; without a snapshot it is taken away.
func tagAbout(name string, v twophase.SnapshotVersion) string {
	if v == 0 {
		return fmt.Sprintf("tag %s, taken away", text(name, maxValue))
	}
	return fmt.Sprintf("tag %s of snapshot %d", text(name, maxValue), v)
}

// redacted takes out of an error what it says of tables that the principal may not
// see: a location that is taken, what a transaction of somebody else has lost to whose key was
// guessed, what froze a table from elsewhere.
func (g guard) redacted(ctx context.Context, err error) error {
	var e *coordinator.Error
	if !errors.As(err, &e) {
		return err
	}
	out := *e
	switch {
	case e.Table != nil && e.Table.Table != "" && !g.sees(e.Table.Table):
		out.Table = nil
		out.Message = "something is in the way that you may not see; an operator finds it in the server's log"
	case e.Conflict != nil && e.Conflict.Table != "" && !g.sees(e.Conflict.Table):
		out.Conflict = lostElsewhere(e.Conflict)
		out.Message = fmt.Sprintf("transaction %s is aborted: %s on a table that you may not see", e.Conflict.Txn, e.Conflict.Rule)
	case g.freeze(ctx, e.Frozen) != e.Frozen:
		out.Frozen = g.freeze(ctx, e.Frozen)
		out.Message = out.Frozen.Message()
	default:
		return err
	}
	return &out
}

// lostElsewhere is what is left of a conflict for who may not see its table.
func lostElsewhere(c *coordinator.ConflictDetail) *coordinator.ConflictDetail {
	return &coordinator.ConflictDetail{Txn: c.Txn, Attempt: c.Attempt, Version: twophase.NoVersion, Rule: c.Rule}
}

// freeze is one as the principal may see it: it may rest on what was found at another table.
func (g guard) freeze(ctx context.Context, f *coordinator.FrozenDetail) *coordinator.FrozenDetail {
	if f == nil || f.Origin == f.TableID || g.sees(g.nameOf(ctx, string(f.Origin))) {
		return f
	}
	without := f.Without()
	return &without
}

// info is a table as the principal may see it, and an error.
func (g guard) info(ctx context.Context, t coordinator.TableInfo, err error) (coordinator.TableInfo, error) {
	t.Frozen = g.freeze(ctx, t.Frozen)
	return t, g.redacted(ctx, err)
}
