package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/txcoord/txcoord/internal/number"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// RebuildOptions say what a rebuild shall do. The zero value plans, and writes nothing.
type RebuildOptions struct {
	// Write carries the plan out.
	Write bool
	// Accept are the losses that are agreed to.
	Accept []RebuildCode
	// Supersede is the incarnation that the store holds and that is given up; empty if
	// the store has to be without a journal.
	Supersede string
	// Catalog is the catalog's id, where neither manifests nor owner objects tell.
	Catalog string
	// Look are places, as URIs, below which owner objects are looked for: tables that no
	// manifest names yet. Tables are such tables themselves.
	Look, Tables []string
	// Names are by table id, Modes by name or id.
	Names map[string]string
	Modes map[string]twophase.Mode
}

// RebuildReport is what a rebuild has found, and what it did or would do.
type RebuildReport struct {
	Catalog string
	// From is the incarnation before, as the newest manifest has it; Incarnation that of
	// the journal that was begun, empty if none was.
	From, Incarnation string
	// Manifest is the newest one; the catalog goes on from Snapshot.
	Manifest, Snapshot twophase.SnapshotVersion
	// Since is the time since which every published transaction is known by its key; zero
	// if all are.
	Since time.Time
	// Known counts the transactions that the logs name.
	Known    int
	Tables   []RebuildTable
	Torn     []TornTxn
	Findings []RebuildFinding
	// Written: the store holds the journal. Already: it did before.
	Written, Already bool
}

// RebuildTable is a table that is taken over.
type RebuildTable struct {
	ID        twophase.TableID
	Name, URI string
	Mode      twophase.Mode
	// Version is the newest in its log; Shown what the newest manifest names, NoVersion if
	// it does not.
	Version, Shown twophase.Version
	// Transactions of ours in the versions that were read.
	Transactions int
}

// TornTxn is a transaction that is in the logs of some of its tables only.
type TornTxn struct {
	Txn twophase.TxnID
	// In are the tables that have it; Missing those that do not. More counts tables that
	// are missing and not known by name.
	In, Missing []TornPart
	More        int
}

// TornPart is one table of it.
type TornPart struct {
	ID   twophase.TableID
	Name string // empty if the table is not known
	// Version that has it; NoVersion where it is missing.
	Version twophase.Version
	// Staged are the pieces of it for this table that are staged still, by digest. Which of
	// them were committed the journal knew alone.
	Staged []string
	// Kept are where a rebuild has put copies of them, below the warehouse: the servers
	// that follow sweep what is staged.
	Kept []string
	// Cleaned: commits are gone from the log, and it may have been in one of them.
	Cleaned bool

	pieces []stagedPiece
}

// RebuildFinding is one thing that a rebuild has found.
type RebuildFinding struct {
	Code     RebuildCode
	Table    string
	TableID  twophase.TableID
	Txn      twophase.TxnID
	What     string
	Accepted bool
}

// Refused counts the losses that nobody accepted.
func (r *RebuildReport) Refused() (n int) {
	for _, f := range r.Findings {
		if f.Code.Loss() && !f.Accepted {
			n++
		}
	}
	return n
}

// rebuilding is one run.
type rebuilding struct {
	cfg  Config
	opts RebuildOptions
	own  *ownObjects
	c    *Catalog // a bare one: no actor runs

	// old is the journal that the store holds, at a revision; nil if there is none.
	old      *lock.Meta
	revision lock.Revision

	before *lastManifests
	tables []*rebuiltTable
	back   []*rebuiltTable // whose logs went back: they are left out
	// gone are tables of the manifests that are not taken over.
	gone  []twophase.Registered
	known []twophase.Known
	// notes are what rebuilds before this one have given up.
	notes map[twophase.TxnID][]lostTxn
	since twophase.Time

	mu     sync.Mutex
	report *RebuildReport
}

// Rebuild makes a journal from what the logs of the tables and the manifests say, for a
// catalog whose own is lost or was put back (R7): a new incarnation, which goes on above
// everything that the one before may have said. Nothing of it may run any more.
//
// Without Write it reads. With it, it may break off anywhere and be run again: until the
// last write, that of the store's meta key, the store holds what it held before.
func Rebuild(ctx context.Context, cfg Config, opts RebuildOptions) (*RebuildReport, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	objects, prefix, err := cfg.Objects.Open(cfg.Warehouse)
	if err != nil {
		return nil, fmt.Errorf("warehouse %s: %w", cfg.Warehouse, err)
	}
	if prefix != "" {
		prefix += "/"
	}
	if !opts.Write {
		objects, cfg.Store = objstore.ReadOnly(objects), lock.ReadOnly(cfg.Store)
	}
	own := &ownObjects{store: objects, prefix: prefix + "_txcoord/" + cfg.Name}
	r := &rebuilding{
		cfg: cfg, opts: opts, own: own, c: &Catalog{cfg: cfg, log: cfg.Log, own: own},
		report: &RebuildReport{},
	}
	if err := r.plan(ctx); err != nil || r.report.Already {
		return r.report, err
	}
	if !opts.Write || r.report.Refused() > 0 {
		return r.report, nil
	}
	return r.report, r.write(ctx)
}

// plan reads everything, and says what would be.
func (r *rebuilding) plan(ctx context.Context) (err error) {
	if r.before, err = r.readManifests(ctx); err != nil {
		return err
	}
	if err := r.present(ctx); err != nil || r.report.Already {
		return err
	}
	found, err := r.find(ctx)
	if err != nil {
		return err
	}
	if err := r.identify(found); err != nil {
		return err
	}
	if err := r.readNotes(ctx); err != nil {
		return err
	}
	if err := r.readTables(ctx, r.candidates(found)); err != nil {
		return err
	}
	staged, err := r.staged(ctx)
	if err != nil {
		return err
	}
	r.transactions(staged)
	r.numbers()
	if err := r.holds(ctx); err != nil {
		return err
	}
	r.finish()
	return nil
}

// present looks at what the store holds.
func (r *rebuilding) present(ctx context.Context) (err error) {
	if r.old, r.revision, err = lock.Present(ctx, r.cfg.Store); err != nil || r.old == nil {
		return err
	}
	id := r.before.catalog
	switch {
	case id != "" && r.old.Catalog != id:
		return lock.Mark(lock.ErrUnfit, fmt.Errorf("the store holds the journal of catalog %s, and the manifests are of %s: give an empty store", r.old.Catalog, id))
	case r.opts.Supersede == r.old.Incarnation:
		return nil
	}
	shown, movedTo, rebuilt, err := r.fold(ctx)
	if err != nil {
		return err
	}
	if rebuilt && shown >= r.before.newest {
		return r.again(ctx) // also where it has taken the place of one that was superseded
	}
	if r.opts.Supersede != "" {
		return lock.Mark(lock.ErrUnfit, fmt.Errorf("the store holds incarnation %s of the catalog, not %s", r.old.Incarnation, r.opts.Supersede))
	}
	if movedTo != "" && !isRebuilt(movedTo) {
		return lock.Mark(lock.ErrUnfit, fmt.Errorf("the store holds incarnation %s of the catalog, which has moved to %s: it goes on there, and nothing of it is lost; "+
			"start a server on that store. If that one is lost, give an empty store, or give this one up (--supersede %s)", r.old.Incarnation, movedTo, r.old.Incarnation))
	}
	if shown >= r.before.newest {
		return lock.Mark(lock.ErrUnfit, fmt.Errorf("the store holds incarnation %s of the catalog, whose journal goes to snapshot %d, and knows all that there are manifests of: "+
			"nothing of that is lost; start a server on it (fsck says whether the rest is whole), or give it up all the same (--supersede %s)", r.old.Incarnation, shown, r.old.Incarnation))
	}
	return lock.Mark(lock.ErrUnfit, fmt.Errorf("the store holds incarnation %s of the catalog, whose journal knows %s, and the newest manifest is %d: "+
		"give an empty store, or say that this one is to be given up (--supersede %s)", r.old.Incarnation, number.Of(shown, "snapshot"), r.before.newest, r.old.Incarnation))
}

// fold is what the store's journal says of itself; rebuilt only if it is whole.
func (r *rebuilding) fold(ctx context.Context) (shown twophase.SnapshotVersion, movedTo string, rebuilt bool, err error) {
	f, err := newFsck(ctx, r.cfg, "")
	if err != nil {
		return 0, "", false, err
	}
	ok, err := f.fold(ctx)
	if err != nil || f.state == nil {
		return 0, "", false, err
	}
	movedTo = f.state.MovedTo()
	return f.state.Shown(), movedTo, ok && movedTo == "" && f.state.Rebuilt() > 0, nil
}

// holds names the tables that operators have frozen, as far as the journal that is given
// up says so. One that cannot be read, or none, is no hindrance: that it may have known
// some is said all the same (finish).
func (r *rebuilding) holds(ctx context.Context) error {
	if r.old == nil {
		return nil
	}
	f, err := newFsck(ctx, r.cfg, "")
	if err == nil {
		_, err = f.fold(ctx)
	}
	if err != nil || f.state == nil {
		return ctx.Err()
	}
	for _, t := range r.tables {
		if was, ok := f.state.Table(t.row.Table); ok && was.Held != nil {
			r.found(RebuildFinding{
				Code: RebuildHold, Table: t.row.Name, TableID: t.row.Table,
				What: fmt.Sprintf("an operator froze it at %s: %s", was.Held.Since.Std().Format(time.RFC3339), was.Held.Detail),
			})
		}
	}
	return nil
}

// again: an earlier run has begun the journal. Its owner objects are the only thing that
// another run may have changed since.
func (r *rebuilding) again(ctx context.Context) error {
	f, err := newFsck(ctx, r.cfg, "")
	if err == nil {
		_, err = f.fold(ctx)
	}
	if err != nil {
		return err
	}
	r.report.Catalog, r.report.Incarnation, r.report.From = r.old.Catalog, r.old.Incarnation, r.before.incarnation
	r.report.Manifest, r.report.Snapshot = r.before.newest, f.state.Shown()
	r.report.Written, r.report.Already = true, true
	for _, t := range f.state.Tables() {
		row := RebuildTable{ID: t.Table, Name: t.Name, URI: t.URI, Mode: t.Mode, Version: t.Recorded, Shown: t.Shown}
		r.report.Tables = append(r.report.Tables, row)
		if !r.opts.Write {
			continue
		}
		log, err := r.open(t.URI, t.Mode)
		if err != nil {
			return err
		}
		if err := log.Claim(ctx, r.ownerOf(&t.Registered, r.old), false); err != nil {
			return fmt.Errorf("owner object of table %s: %w", t.Name, err)
		}
	}
	return nil
}

// found notes a finding.
func (r *rebuilding) found(f RebuildFinding) {
	f.Accepted = f.Code.Loss() && slices.Contains(r.opts.Accept, f.Code)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Findings = append(r.report.Findings, f)
}

// finish puts the report into an order that does not change from run to run.
func (r *rebuilding) finish() {
	for _, t := range r.tables {
		r.report.Tables = append(r.report.Tables, RebuildTable{
			ID: t.row.Table, Name: t.row.Name, URI: t.row.URI, Mode: t.row.Mode, Version: t.row.Version, Shown: t.shown, Transactions: t.transactions(),
		})
	}
	if r.before.newest > 0 {
		r.found(RebuildFinding{Code: RebuildNames, What: "tags, leases and operators' freezes stood in the journal alone"})
	}
	slices.SortStableFunc(r.report.Findings, func(a, b RebuildFinding) int {
		for _, d := range []int{
			compare(boolRank(a.Code.Loss()), boolRank(b.Code.Loss())), compare(a.Code, b.Code), compare(a.Table, b.Table),
			compare(a.TableID, b.TableID), compare(a.Txn.String(), b.Txn.String()),
		} {
			if d != 0 {
				return d
			}
		}
		return 0
	})
}

func boolRank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// errNothing: neither manifests nor owner objects say that there was a catalog.
var errNothing = errors.New("there is nothing to rebuild from")
