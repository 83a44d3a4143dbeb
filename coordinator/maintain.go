package coordinator

import (
	"context"
	"errors"
	"time"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// MaintainConfig says how a catalog's tables are kept in order. Zero fields without
// a comment on that have the defaults named.
type MaintainConfig struct {
	// Format reads and writes Parquet checkpoints: checkpoint.Format. Required.
	Format tables.CheckpointFormat
	// SkipOpen leaves open tables without checkpoints of ours: the other engines make
	// them. By default we do, whenever the newest one is as far behind as the table
	// wants.
	SkipOpen bool
	// CleanOpen removes the expired part of the logs of open tables too. By default
	// that is left to the other engines.
	CleanOpen bool
	// KeepLogs removes nothing from any log.
	KeepLogs bool
	// Every is how often all tables are looked at: 10 s. A look costs nothing while a
	// table has not moved.
	Every time.Duration
	// Pause between two tables that took work: 1 s.
	Pause time.Duration
	// BytesPerSecond is the rate that the background keeps to on average, by pausing
	// after a table for as long as its bytes take at that rate: 32 MiB.
	BytesPerSecond int64
	// MaxTableBytes bounds what is read for one checkpoint: 16 GiB. A table past it is
	// left alone, with a warning.
	MaxTableBytes int64
	// CleanEvery is how often one table's log is looked through for what has expired: 24 h.
	CleanEvery time.Duration
	// RetryAfter is how long a table is left alone after it failed: 10 min.
	RetryAfter time.Duration
	// TempDir takes a classic checkpoint while it grows; os.TempDir if empty.
	TempDir string
	// SidecarRows is the number of rows of a V2 checkpoint's sidecar: 100,000.
	SidecarRows int
}

func (c MaintainConfig) withDefaults() (MaintainConfig, error) {
	if c.Format.Read == nil || c.Format.Create == nil {
		return c, errors.New("coordinator: MaintainConfig.Format is required")
	}
	def(&c.Every, 10*time.Second)
	def(&c.Pause, time.Second)
	def(&c.BytesPerSecond, 32<<20)
	def(&c.MaxTableBytes, 16<<30)
	def(&c.CleanEvery, 24*time.Hour)
	def(&c.RetryAfter, 10*time.Minute)
	return c, nil
}

// MaintainRequest asks for one table to be put in order now.
type MaintainRequest struct {
	// Table by name, id or URI.
	Table string
	// DryRun reports what would be done, and does nothing.
	DryRun bool
}

// MaintainReport says what was done, or would be.
type MaintainReport struct {
	Table  TableInfo
	DryRun bool
	// Version is the recorded one that all of this is about.
	Version    twophase.Version
	Checkpoint CheckpointReport
	CleanUp    CleanUpReport
	Payloads   PayloadReport
	// BytesRead and BytesWritten passed between us and the table's store.
	BytesRead, BytesWritten int64
	Took                    time.Duration
}

// CheckpointReport is about the table's newest checkpoint.
type CheckpointReport struct {
	// Before is the version of the newest one before that is not bad; NoVersion if there was
	// none.
	// Interval is how many versions apart the table wants them.
	Before   twophase.Version
	Interval twophase.Version
	// Written is true if one was written, and in a dry run if one would be. Skipped
	// says why not.
	Written bool
	Skipped string
	// V2 and the rest describe it. A dry run knows none of these.
	V2       bool
	Name     string
	Actions  int64
	Adds     int64
	Removes  int64
	Bytes    int64
	Sidecars int
	Reused   int
	// PassedOver names the files of checkpoints that are bad and were not used, and what is
	// wrong with each. They stay.
	PassedOver []string
}

// CleanUpReport is about the expired part of the log.
type CleanUpReport struct {
	// Cut is the checkpoint that stays as the oldest; NoVersion if nothing goes.
	// Commits from before Cutoff are expired.
	Cut    twophase.Version
	Cutoff time.Time
	// Counts of what went, or would go.
	Commits, Checkpoints, Sidecars, Others int
	Bytes                                  int64
	// HeldBy names what keeps versions that have expired: the newest snapshot, or a
	// tag. Empty if nothing does.
	HeldBy string
	// Skipped says why nothing went; empty otherwise.
	Skipped string
	// SidecarsKept says why sidecars were not looked at; empty otherwise.
	SidecarsKept string
}

// PayloadReport counts the staged parts of this table that the fold allows to be
// removed (R20). They are removed by themselves sooner or later; here they go at once.
type PayloadReport struct {
	Parts int
	Bytes int64
}

// Maintainer keeps the logs of a catalog's tables in order: it writes checkpoints,
// and removes what has expired, one table at a time. It changes no version, and
// nothing that it does is in the journal: any number of replicas may do it, at the
// cost of doing it twice. Its methods are safe for concurrent use.
type Maintainer struct {
	c   *Catalog
	cfg MaintainConfig
	// turn is held by whoever works on a table.
	turn turn
	// notes are guarded by turn.
	notes map[twophase.TableID]*upkeepNote
}

// upkeepNote is what is remembered of a table between two looks.
type upkeepNote struct {
	// newest checkpoint and interval as last seen; seen says that there was a look.
	seen     bool
	newest   twophase.Version
	interval twophase.Version
	// cleanAt and retryAt are boot clock times.
	cleanAt, retryAt time.Duration
}

// NewMaintainer starts nothing yet.
func (c *Catalog) NewMaintainer(cfg MaintainConfig) (*Maintainer, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Maintainer{c: c, cfg: cfg, turn: newTurn(), notes: map[twophase.TableID]*upkeepNote{}}, nil
}

// Maintain puts one table in order now, as Config.Maintain says.
func (c *Catalog) Maintain(ctx context.Context, q MaintainRequest) (MaintainReport, error) {
	if c.upkeep == nil {
		return MaintainReport{}, &Error{Reason: MaintenanceOff, Message: "this server does no maintenance; ask one that does"}
	}
	return c.upkeep.Maintain(ctx, q)
}

// StartMaintenance keeps the tables in order in the background until the catalog is
// closed, as Config.Maintain says.
func (c *Catalog) StartMaintenance() error {
	if c.upkeep == nil {
		return errors.New("coordinator: Config.Maintain is not set")
	}
	c.upkeep.Start()
	return nil
}

// Maintain puts one table in order now: it writes a checkpoint of the recorded
// version if that has none, removes what of the log has expired where that is
// allowed (MaintainConfig), and removes staged parts that are of no use any more.
func (m *Maintainer) Maintain(ctx context.Context, r MaintainRequest) (MaintainReport, error) {
	row, err := m.c.table(r.Table)
	if err != nil {
		return MaintainReport{}, err
	}
	if err := m.turn.take(ctx); err != nil {
		return MaintainReport{}, err
	}
	defer m.turn.give()
	job := m.job(row.ID)
	job.dry, job.asked = r.DryRun, true
	if !r.DryRun && row.Mode.Shared() {
		// What others committed is recorded first, so that the checkpoint has it.
		t, err := m.c.tables.of(row.ID)
		if err == nil {
			_, err = m.c.lookUp(ctx, t)
		}
		if err != nil {
			return MaintainReport{}, m.c.logError(row.ID, err)
		}
	}
	if err := job.run(ctx); err != nil {
		return MaintainReport{}, err
	}
	job.report.Payloads, err = m.payloads(ctx, row.ID, r.DryRun)
	return job.report, err
}
