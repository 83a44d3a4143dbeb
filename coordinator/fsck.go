package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// FsckReport is what Fsck has found.
type FsckReport struct {
	Catalog     string
	Incarnation string
	// Position: the entries below it were folded. From is the oldest one that was still
	// in the ring, and read.
	Position, From twophase.Position
	Snapshot       twophase.SnapshotVersion
	// Counts of what was looked at: tables, versions that are in their logs, remembered
	// committed transactions, manifests.
	Tables, Versions, Transactions, Manifests int
	// Forgotten counts versions of ours whose transactions the journal does not remember
	// any more (R6): they make sense, and more is not provable.
	Forgotten int
	Findings  []FsckFinding
}

// Proven reports whether nothing is wrong.
func (r *FsckReport) Proven() bool { return r.Wrong() == 0 }

// Wrong counts the findings that say that something is wrong.
func (r *FsckReport) Wrong() int {
	n := 0
	for _, f := range r.Findings {
		if f.Code.Wrong() {
			n++
		}
	}
	return n
}

// FsckFinding is one thing that Fsck has found. Fields that do not apply are empty.
type FsckFinding struct {
	Code FsckCode
	// Table by its name, and by its id.
	Table   string
	TableID twophase.TableID
	// Version of the table; NoVersion if there is none. Snapshot is 0 likewise.
	Version  twophase.Version
	Snapshot twophase.SnapshotVersion
	Txn      twophase.TxnID
	What     string
}

// fsck is one run. What the fold says is held against what the logs show, never the
// other way round.
//
// The journal may go on all the while. So the fold is read twice: everything that it
// says at first has to be in logs that are read later; everything that the logs hold has
// to be known to a fold that is read after them (a decision is in the journal before it is
// in any log).
type fsck struct {
	c     *Catalog // a bare one: no actor runs
	state *twophase.State
	only  string
	// seen is what entries in the ring say of versions; from is the oldest of them.
	seen   map[twophase.TableID]map[twophase.Version][]sighting
	ranges map[twophase.TableID][]versionSpan
	// logged are the transactions that were found in each table's log.
	logged map[twophase.TableID]map[occurrence]twophase.Version

	mu     sync.Mutex
	report *FsckReport
}

// versionSpan are versions that a range record took over unseen.
type versionSpan struct{ from, to twophase.Version }

// Fsck proves from the logs of the tables and the manifests that every committed
// transaction which the journal remembers is whole, and names what is not. It writes
// nothing, and works beside servers. With a table's name it looks at that one alone, and
// at no manifest. cfg is a server's.
func Fsck(ctx context.Context, cfg Config, table string) (*FsckReport, error) {
	cfg.Store = lock.ReadOnly(cfg.Store)
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	for range openTries {
		var r *FsckReport
		if r, err = fsckOnce(ctx, cfg, table); !errors.Is(err, lock.ErrBehind) {
			return r, err
		}
	}
	return nil, fmt.Errorf("the journal goes on faster than it can be read: %w", err)
}

func fsckOnce(ctx context.Context, cfg Config, table string) (*FsckReport, error) {
	f, err := newFsck(ctx, cfg, table)
	if err != nil {
		return nil, err
	}
	if ok, err := f.fold(ctx); !ok || err != nil {
		return f.done(), err
	}
	if to := f.state.MovedTo(); to != "" {
		return nil, lock.Mark(lock.ErrUnfit, fmt.Errorf("catalog %s has moved to %s: name that store, since what happened there is not known here", cfg.Name, to))
	}
	wanted, err := f.wanted()
	if err != nil {
		return nil, err
	}
	logs := make([]*scannedLog, len(wanted))
	err = parallelIndex(len(wanted), fsckTables, func(i int) (err error) {
		logs[i], err = f.look(ctx, wanted[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	var manifests *scannedManifests
	if table == "" {
		if manifests, err = f.scanManifests(ctx); err != nil {
			return nil, err
		}
	}
	if ok, err := f.foldOn(ctx); !ok || err != nil {
		return f.done(), err
	}
	f.rememberedNow(wanted)
	for i := range wanted {
		f.judge(wanted[i], logs[i])
	}
	if err := f.judgeManifests(ctx, manifests); err != nil {
		return nil, err
	}
	if err := f.pending(ctx); err != nil {
		return nil, err
	}
	return f.done(), nil
}

// fsckTables is how many logs are read at once, and fsckReads how many entries and staged
// parts. Of the versions of each log, and of the manifests, it is Limits.ReadAhead.
const (
	fsckTables = 4
	fsckReads  = 16
)

// newFsck makes a catalog that only reads. Whose journal it is is not noted.
func newFsck(ctx context.Context, cfg Config, table string) (*fsck, error) {
	objects, prefix, err := cfg.Objects.Open(cfg.Warehouse)
	if err != nil {
		return nil, fmt.Errorf("warehouse %s: %w", cfg.Warehouse, err)
	}
	if prefix != "" {
		prefix += "/"
	}
	journal, err := lock.ExistingJournal(ctx, cfg.Store)
	if errors.Is(err, lock.ErrNotFound) {
		return nil, lock.Mark(lock.ErrUnfit, errors.New("the store holds no journal: name the store that the catalog is in"))
	}
	if err != nil {
		return nil, err
	}
	own := &ownObjects{store: objstore.ReadOnly(objects), prefix: prefix + "_txcoord/" + cfg.Name}
	c := &Catalog{cfg: cfg, log: cfg.Log, journal: journal, own: own, payloads: newPayloads(cfg.Store, own, cfg.Limits)}
	meta := journal.Meta()
	return &fsck{
		c: c, only: table, seen: map[twophase.TableID]map[twophase.Version][]sighting{}, ranges: map[twophase.TableID][]versionSpan{},
		logged: map[twophase.TableID]map[occurrence]twophase.Version{},
		report: &FsckReport{Catalog: meta.Catalog, Incarnation: meta.Incarnation},
	}, nil
}

// found notes a finding.
func (f *fsck) found(x FsckFinding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.report.Findings = append(f.report.Findings, x)
}

// done is the report, in an order that does not change from run to run.
func (f *fsck) done() *FsckReport {
	r := f.report
	if f.state != nil {
		r.Position, r.Snapshot = f.state.Next(), f.state.Shown()
	}
	slices.SortStableFunc(r.Findings, func(a, b FsckFinding) int {
		for _, d := range []int{
			compare(severity(a.Code), severity(b.Code)), compare(a.Table, b.Table), compare(a.Version, b.Version),
			compare(a.Snapshot, b.Snapshot), compare(a.Code, b.Code), compare(a.Txn.String(), b.Txn.String()),
		} {
			if d != 0 {
				return d
			}
		}
		return 0
	})
	return r
}

func severity(c FsckCode) int {
	if c.Wrong() {
		return 0
	}
	return 1
}
