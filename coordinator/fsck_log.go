package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// wantedTable is what the fold says of a table, copied: the fold goes on.
type wantedTable struct {
	id        twophase.TableID
	name, uri string
	// start is the first version of the table's life in this catalog. What lies below it
	// was there before.
	start, recorded twophase.Version
	identity        twophase.Hash
	marker          twophase.ChangeNumber
	// stopped: the log at its place is known not to be its own.
	stopped bool
	// at are the delivered transactions of each version, in their order there; by are all
	// that are remembered and write the table.
	at map[twophase.Version][]wantedTxn
	by map[twophase.TxnID]wantedTxn
	// remembered is the first version from which on every transaction is remembered, as
	// the fold is when the logs were read.
	remembered twophase.Version
}

type wantedTxn struct {
	twophase.PartOutcome
	txn     twophase.TxnID
	digest  twophase.Digest
	decided twophase.Position
}

// delivered reports whether the transaction is in a recorded version.
func (w *wantedTxn) delivered() bool {
	return w.Status == twophase.StatusDelivered || w.Status == twophase.StatusPublished
}

// scannedLog is what a table's log shows.
type scannedLog struct {
	versions map[twophase.Version]*loggedVersion
	// last is the newest commit or complete checkpoint; covered the newest complete checkpoint.
	last, covered twophase.Version
	owner         *tables.Owner
	ownerError    error
}

// loggedVersion is one version of a log.
type loggedVersion struct {
	identity twophase.Hash
	tags     *tables.Tags // nil if it is not ours
	marker   twophase.ChangeNumber
	err      error // *tables.LogError
}

// wanted is what the fold says now of the tables that are looked at.
func (f *fsck) wanted() ([]*wantedTable, error) {
	var out []*wantedTable
	byID := map[twophase.TableID]*wantedTable{}
	for _, t := range f.state.Tables() {
		if f.only != "" && f.only != t.Name && f.only != string(t.Table) {
			continue
		}
		w := wantedOf(t)
		out, byID[t.Table] = append(out, w), w
		f.report.Tables++
	}
	if f.only != "" && len(out) == 0 {
		return nil, &Error{Reason: TableNotFound, Message: "table " + f.only + " is not in the catalog"}
	}
	for id, o := range f.state.Outcomes {
		if o.Commit == nil {
			continue
		}
		counted := false
		for i := range o.Commit.Parts {
			p := &o.Commit.Parts[i]
			w := byID[p.Table]
			if w == nil {
				continue
			}
			if !counted {
				f.report.Transactions++
				counted = true
			}
			w.add(wantedTxn{o.Parts[i], id, p.Digest(), o.Position})
		}
	}
	for _, w := range out {
		w.sort()
	}
	return out, nil
}

func wantedOf(t *twophase.Table) *wantedTable {
	return &wantedTable{
		id: t.Table, name: t.Name, uri: t.URI, start: t.Registered.Version + 1, recorded: t.Recorded, identity: t.Identity, marker: t.Marker,
		stopped: t.Frozen != nil && t.Frozen.Origin == t.Table && t.Frozen.Cause == twophase.CauseReplaced,
		at:      map[twophase.Version][]wantedTxn{}, by: map[twophase.TxnID]wantedTxn{},
	}
}

func (w *wantedTable) add(x wantedTxn) {
	w.by[x.txn] = x
	if x.delivered() {
		w.at[x.Version] = append(w.at[x.Version], x)
	}
}

// sort puts the transactions of each version into their order there.
func (w *wantedTable) sort() {
	for _, txns := range w.at {
		slices.SortFunc(txns, func(a, b wantedTxn) int {
			if a.Place != b.Place {
				return compare(a.Place, b.Place)
			}
			return compare(a.Change, b.Change)
		})
	}
}

// look scans a table's log, and its checkpoints. Where a link stands in the way, which
// nothing follows and no waiting takes away, that is a finding about the table, and the
// others are looked at all the same; nil where nothing could be read of the log.
func (f *fsck) look(ctx context.Context, w *wantedTable) (*scannedLog, error) {
	log, err := f.scan(ctx, w)
	if err == nil {
		err = f.checkpoints(ctx, w, log)
	}
	if errors.Is(err, objstore.ErrLinked) {
		f.found(FsckFinding{Code: FsckLinked, Table: w.name, TableID: w.id, Version: twophase.NoVersion, What: err.Error()})
		err = nil
	}
	return log, err
}

// scan reads a table's log: every version that is there.
func (f *fsck) scan(ctx context.Context, w *wantedTable) (*scannedLog, error) {
	store, key, err := f.c.cfg.Objects.Open(w.uri)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", w.name, err)
	}
	log := tables.NewLog(tables.LogConfig{Store: objstore.ReadOnly(store), Key: key, URI: w.uri, ReadCheckpoint: f.c.cfg.ReadCheckpoint, ReadAhead: f.c.cfg.Limits.readAhead(w.uri)})
	out := &scannedLog{versions: map[twophase.Version]*loggedVersion{}, covered: twophase.NoVersion}
	if w.stopped {
		return out, nil
	}
	listing, err := log.List(ctx, 0)
	if err != nil {
		return nil, err
	}
	out.last = listing.Last()
	if err := f.read(ctx, log, out, listing.Commits); err != nil {
		return nil, err
	}
	if err := f.readMissing(ctx, log, out); err != nil {
		return nil, err
	}
	out.owner, out.ownerError = log.Owner(ctx)
	if e, bad := errors.AsType[*tables.LogError](out.ownerError); out.ownerError != nil && !bad && !errors.Is(out.ownerError, objstore.ErrNotFound) {
		return nil, out.ownerError
	} else if bad {
		out.ownerError = e
	}
	return out, nil
}

// checkpoints compares the checkpoints of a table's log with its commits, as far as these
// are there. A commit that is not what was recorded is said elsewhere, and proves nothing
// against a checkpoint.
func (f *fsck) checkpoints(ctx context.Context, w *wantedTable, log *scannedLog) error {
	if w.stopped || log.covered == twophase.NoVersion {
		return nil
	}
	store, key, err := f.c.cfg.Objects.Open(w.uri)
	if err != nil {
		return fmt.Errorf("table %s: %w", w.name, err)
	}
	read := f.c.cfg.ReadCheckpoint
	keeper := tables.NewKeeper(tables.KeeperConfig{
		Log:      tables.LogConfig{Store: objstore.ReadOnly(store), Key: key, URI: w.uri},
		Format:   tables.CheckpointFormat{Read: read},
		Recorded: func(v twophase.Version) (twophase.Hash, bool) { return f.agreed(w.id, v) },
	})
	found, err := keeper.DifferingCheckpoints(ctx)
	for _, d := range found {
		f.found(FsckFinding{
			Code: FsckCheckpointDiffers, Table: w.name, TableID: w.id, Version: d.Version,
			What: fmt.Sprintf("%s has %d live files, the commits up to it make %d; or they differ in a file, protocol or metadata", strings.Join(d.Files, ", "), d.Has, d.Want),
		})
	}
	bad, damaged := errors.AsType[*tables.LogError](err)
	switch {
	case damaged && bad.Fault == tables.BadCheckpoint:
		f.found(FsckFinding{Code: FsckCheckpointDiffers, Table: w.name, TableID: w.id, Version: bad.Version, What: bad.Error()})
		return nil
	case damaged, errors.Is(err, objstore.ErrNotFound): // said elsewhere; or cleaned meanwhile
		return nil
	}
	return err
}

// agreed is the one identity that the ring has of a version.
func (f *fsck) agreed(id twophase.TableID, v twophase.Version) (out twophase.Hash, ok bool) {
	for _, s := range f.seen[id][v] {
		if s.identity.IsZero() || ok && s.identity != out {
			return twophase.Hash{}, false
		}
		out, ok = s.identity, true
	}
	return out, ok
}

// readMissing asks once more for what the listing did not show: it may have come while
// that was under way, or been cleaned since.
func (f *fsck) readMissing(ctx context.Context, log *tables.Log, out *scannedLog) error {
	again, err := log.List(ctx, 0)
	if err != nil {
		return err
	}
	if cp, ok := again.NewestCheckpoint(tables.Latest); ok {
		out.covered = cp.Version
	}
	var missing []tables.ListedCommit
	for v := out.covered + 1; v < out.last; v++ {
		if out.versions[v] == nil {
			missing = append(missing, tables.ListedCommit{Version: v})
		}
	}
	return f.read(ctx, log, out, missing)
}

// read reads versions. One that is not there is left out.
func (f *fsck) read(ctx context.Context, log *tables.Log, out *scannedLog, commits []tables.ListedCommit) error {
	return log.EachCommit(ctx, commits, func(c tables.ListedCommit, read *tables.Commit, err error) error {
		damage, damaged := errors.AsType[*tables.LogError](err)
		switch {
		case errors.Is(err, objstore.ErrNotFound):
			return nil
		case damaged:
			out.versions[c.Version] = &loggedVersion{err: damage}
			return nil
		case err != nil:
			return err
		}
		out.versions[c.Version] = f.loggedVersion(read)
		return nil
	})
}

// loggedVersion is what is kept of a version.
func (f *fsck) loggedVersion(commit *tables.Commit) *loggedVersion {
	catalog := f.c.journal.Meta().Catalog
	out := &loggedVersion{identity: commit.Identity}
	out.tags, out.err = commit.Tags(catalog)
	out.marker, _ = commit.Marker(catalog)
	return out
}

// sorted are the versions that are there, in order.
func (l *scannedLog) sorted() []twophase.Version { return slices.Sorted(maps.Keys(l.versions)) }

// cleaned reports whether a version is not in the log, and a checkpoint covers it.
func (l *scannedLog) cleaned(v twophase.Version) bool {
	return l.versions[v] == nil && v <= l.covered
}
