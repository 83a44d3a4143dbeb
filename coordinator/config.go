package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/txcoord/txcoord/coordinator/telemetry"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// Objects finds the object store behind a URI.
type Objects interface {
	// Open returns the store that holds a canonical URI, and its key there, without
	// slashes at its ends. It refuses what lies outside the roots that the operator
	// allowed.
	Open(uri string) (objstore.Store, string, error)
}

// Prober is an Objects that can try a place before the first table is taken there.
type Prober interface {
	// Probe sees that the store behind a URI refuses to overwrite and shows at once what
	// was written, unless it has seen that before. It writes only in places of its own.
	Probe(ctx context.Context, uri string) error
}

// Expecter is an Objects that can be told of a place that has to be there, so that a root
// that is not mounted is not taken for an empty one.
type Expecter interface {
	Expect(uri string)
}

// Config is what a catalog needs. Fields without a comment on their zero value are required.
type Config struct {
	// Name is the catalog's, as clients say it and as it stands in object names.
	Name string
	// Warehouse is the canonical URI under which `_txcoord/<name>/` keeps manifests,
	// checkpoints and large payloads.
	Warehouse string
	Store     lock.Store
	// Journal is the canonical URI of what the store keeps the journal in, if that is where
	// tables could lie; else empty. No table is taken in or around it.
	Journal string
	Objects Objects
	// LogStore is for tables of mode delta-storage; nil if there shall be none.
	LogStore LogStore
	// ReadCheckpoint reads Parquet checkpoints of tables: checkpoint.Read.
	ReadCheckpoint tables.CheckpointReader
	// SharedStore: other processes may serve this catalog at the same time. The store may hold other catalogs' journals too, by mistake or at
	// another prefix. It notes whose this one is, and others are refused.
	SharedStore bool
	// WarehouseMoved replaces the noted place of the warehouse.
	WarehouseMoved bool
	// Address at which other replicas reach this one (R15); may be empty for one alone.
	Address string
	// Version of this build, for engineInfo.
	Version string
	// Maintain says how tables are maintained on request and in the background; nil if
	// they are not.
	Maintain *MaintainConfig
	// Limits; zero fields have the defaults.
	Limits Limits
	// Slots of a new journal's ring; 0 means lock.DefaultSlots.
	Slots int
	// Now is the wall clock; time.Now if nil. It is for display only (R16).
	Now func() time.Time
	// Boot is a clock that goes on while the machine sleeps and never jumps; the
	// monotonic clock if nil.
	Boot func() time.Duration
	// Telemetry notes what is done; nil notes nothing. Store and Objects are wrapped by
	// whoever opens them.
	Telemetry *telemetry.Recorder
	// Log; discards if nil.
	Log *slog.Logger

	// render makes a version: tables.RenderCommit, unless a test lets it fail.
	render func(tables.RenderInput) (tables.Rendered, error)
	// outcomesAtOnce is how many outcomes are looked at for a list before others may go on:
	// 8,192, unless a test has fewer.
	outcomesAtOnce int
}

// Limits are the bounds that requests and resources meet. Each is named in the
// error of a request that is past it.
type Limits struct {
	KeyBytes          int           // of a client's key; 512
	KeyAttempts       int           // the highest attempt of a key; 10,000
	TTL               time.Duration // of a transaction if it does not say; 1 h, or MaxTTL if that is less
	MaxTTL            time.Duration // 24 h
	TablesPerTxn      int           // 10,000
	PartsPerTable     int           // 1,000
	ReadFiles         int           // files in a read set; 100,000
	Actions           tables.Limits // of one part
	InlineBytes       int           // payloads up to this size lie in the store; 16 KiB
	BundleBytes       int           // small parts of one-call commits that share an item of the store; 256 KiB
	FactsBytes        int           // facts up to this size stand in the entry; 32 KiB
	OlderVersions     int           // of a table since a read point that the fold has forgotten, and that are read from the log to check it; 10,000
	OlderBytes        int64         // of facts that are read, from a log or from objects, to check what one commit has read; 64 MiB
	EntryBytes        int           // a group's size; 256 KiB
	MaxEntryBytes     int           // what one record may be at all; 7 MiB, and no more than the store takes
	QueueBytes        int64         // payload bytes that wait to be decided or published; 1 GiB
	PutDeadline       time.Duration // of one commit file's put (R10); 30 s
	StoreGrace        time.Duration // in which an object store may still apply a put that it accepted (R10); 10 min
	FreezeAfter       time.Duration // F of R12; 30 s
	PollInterval      time.Duration // of open tables; 5 s
	FenceGrace        time.Duration // from a fence's publication to when it counts (R11); 1 h
	OwnerInterval     time.Duration // between looks at a table's owner object; 10 s
	OutcomeRetention  time.Duration // R of R6; 7 days
	OutcomeCount      int           // outcomes and snapshots kept; open transactions may double it; 200,000
	CheckpointEvery   int           // entries between checkpoints; 1,024
	CheckpointRecords int           // records between checkpoints, should that come first; 8,192
	ExtractEvery      int           // versions of a table in a bucket between the extracts that a start reads of it; 256
	FileExtractEvery  int           // the same of tables in local folders; 64
	ReadAhead         int           // commits of a table in a bucket that are read at once; 64
	FileReadAhead     int           // the same of tables in local folders; 16
	PutParallel       int           // puts in flight over all rounds, of tables in buckets; 256
	FilePutParallel   int           // the same of tables in local folders; 32
	FilePutUnhurried  int           // of those, puts that no caller waits for; 8
	GatherAtMost      time.Duration // before an entry, for those whom the one before has answered; 20 ms; 1 ns for never
	MapEvery          int           // snapshots between full manifest maps; 1,000
	ManifestSnapshots int           // snapshots of one manifest file at most; 1,000
	ManifestBytes     int           // of their deltas in one file, unless one has more; 1 MiB
	FollowInterval    time.Duration // between looks for what other replicas append, at most; 1 s, five times that where the store tells
	TakeOverAfter     time.Duration // after which a replica does what follows from another's entry; 500 ms
	Heartbeat         time.Duration // between announcements of a replica; 5 s
	MaxCodec          int           // newest encoding of the journal to switch on (R17); the newest that this build knows
	LeaseTTL          time.Duration // of a lease if it does not say; 24 h
	MaxLeaseTTL       time.Duration // 30 days
	LeaseCount        int           // leases of the catalog; 1,000
	LeaseInterval     time.Duration // between looks for leases that have ended; 10 s

	GarbageObjectBytes int64         // of what CollectGarbage moves, which takes it into memory; 256 MiB
	ReserveAfter       int           // attempts of a key that lost before it goes first on its tables; 5
	ReservePositions   int           // of the journal for which it does; 4,096
	ReserveTime        time.Duration // after which it goes first no longer, where others wait; 30 s
	ReserveWait        time.Duration // of one call behind a key that goes first; 10 s
}

// readAhead is how many commits of a table at a place are read at once.
func (l *Limits) readAhead(uri string) int {
	if inFolder(uri) {
		return l.FileReadAhead
	}
	return l.ReadAhead
}

// inFolder says of a table's canonical URI that it lies in a local folder, and in no bucket.
func inFolder(uri string) bool { return strings.HasPrefix(uri, "file://") }

func (l Limits) withDefaults() Limits {
	def(&l.KeyBytes, 512)
	def(&l.KeyAttempts, 10_000)
	def(&l.MaxTTL, 24*time.Hour)
	def(&l.TTL, min(time.Hour, l.MaxTTL))
	def(&l.TablesPerTxn, 10_000)
	def(&l.PartsPerTable, 1_000)
	def(&l.ReadFiles, 100_000)
	def(&l.InlineBytes, 16<<10)
	def(&l.BundleBytes, 256<<10)
	def(&l.FactsBytes, 32<<10)
	def(&l.OlderVersions, 10_000)
	def(&l.OlderBytes, 64<<20)
	def(&l.EntryBytes, 256<<10)
	def(&l.MaxEntryBytes, 7<<20)
	def(&l.QueueBytes, 1<<30)
	def(&l.PutDeadline, 30*time.Second)
	def(&l.StoreGrace, 10*time.Minute)
	def(&l.FreezeAfter, 30*time.Second)
	def(&l.PollInterval, 5*time.Second)
	def(&l.FenceGrace, time.Hour)
	def(&l.OwnerInterval, 10*time.Second)
	def(&l.OutcomeRetention, 7*24*time.Hour)
	def(&l.OutcomeCount, 200_000)
	def(&l.CheckpointEvery, 1024)
	def(&l.CheckpointRecords, 8_192)
	def(&l.ExtractEvery, 256)
	def(&l.FileExtractEvery, 64)
	def(&l.ReadAhead, 64)
	def(&l.FileReadAhead, 16)
	def(&l.PutParallel, 256)
	def(&l.FilePutParallel, 32)
	def(&l.FilePutUnhurried, 8)
	def(&l.GatherAtMost, 20*time.Millisecond)
	def(&l.MapEvery, 1000)
	def(&l.ManifestSnapshots, 1000)
	def(&l.ManifestBytes, 1<<20)
	def(&l.FollowInterval, time.Second)
	def(&l.TakeOverAfter, 500*time.Millisecond)
	def(&l.Heartbeat, 5*time.Second)
	def(&l.MaxCodec, twophase.CodecVersion)
	def(&l.MaxLeaseTTL, 30*24*time.Hour)
	def(&l.LeaseTTL, min(24*time.Hour, l.MaxLeaseTTL))
	def(&l.LeaseCount, 1000)
	def(&l.LeaseInterval, 10*time.Second)
	def(&l.GarbageObjectBytes, 256<<20)
	def(&l.ReserveAfter, 5)
	def(&l.ReservePositions, 4096)
	def(&l.ReserveTime, 30*time.Second)
	def(&l.ReserveWait, 10*time.Second)
	return l
}

func def[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// NameForm is what a catalog may be called, in words.
const NameForm = "1 to 64 letters, digits, '-', '_' and '.', beginning with a letter or digit"

// ValidName reports whether a catalog may be called so.
func ValidName(name string) bool { return catalogName.MatchString(name) }

var catalogName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

func (c Config) withDefaults() (Config, error) {
	def(&c.Name, "default")
	if !ValidName(c.Name) {
		return c, fmt.Errorf("catalog name %q: use %s", c.Name, NameForm)
	}
	if c.Store == nil || c.Objects == nil || c.ReadCheckpoint == nil {
		return c, errors.New("coordinator: Store, Objects and ReadCheckpoint are required")
	}
	w, err := tables.CanonicalURI(c.Warehouse)
	if err != nil {
		return c, fmt.Errorf("warehouse %q: %w", c.Warehouse, err)
	}
	c.Warehouse = w
	if c.Journal != "" {
		if c.Journal, err = tables.CanonicalURI(c.Journal); err != nil {
			return c, fmt.Errorf("journal %q: %w", c.Journal, err)
		}
	}
	c.Limits = c.Limits.withDefaults()
	if sized, ok := c.Store.(lock.Sized); ok {
		c.Limits.MaxEntryBytes = min(c.Limits.MaxEntryBytes, sized.MaxValue())
		c.Limits.EntryBytes = min(c.Limits.EntryBytes, c.Limits.MaxEntryBytes)
		c.Limits.BundleBytes = min(c.Limits.BundleBytes, sized.MaxValue()-zipOverhead)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.render == nil {
		c.render = tables.RenderCommit
	}
	def(&c.outcomesAtOnce, 8192)
	if c.Boot == nil {
		start := time.Now()
		c.Boot = func() time.Duration { return time.Since(start) }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	def(&c.Version, "dev")
	return c, nil
}
