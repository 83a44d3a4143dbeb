package tables

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// CheckpointKind is a form of checkpoint file.
type CheckpointKind uint8

// The forms.
const (
	// ClassicFile holds everything.
	ClassicFile CheckpointKind = iota
	// MainFile is the top level of a V2 checkpoint: everything but file actions,
	// and the names of the sidecars.
	MainFile
	// SidecarFile holds file actions.
	SidecarFile
)

// CheckpointColumns say what columns a checkpoint file has.
type CheckpointColumns struct {
	Kind     CheckpointKind
	Protocol *Protocol
	MetaData *MetaData
}

// CheckpointFile takes a checkpoint's rows, each as the JSON line of an action. The
// file is whole when Close has returned nil.
type CheckpointFile interface {
	Write(line []byte) error
	Close() error
}

// CheckpointFormat is how checkpoints are read and written: checkpoint.Format.
type CheckpointFormat struct {
	Read CheckpointReader
	// Create starts a file. It does not close w.
	Create func(w io.Writer, c CheckpointColumns) (CheckpointFile, error)
}

// KeeperConfig is what a Keeper needs. Fields without a comment on their zero value
// are required.
type KeeperConfig struct {
	Log    LogConfig
	Format CheckpointFormat
	// Now is time.Now if nil. It says which tombstones and commits have expired.
	Now func() time.Time
	// TempDir takes a classic checkpoint while it grows, from 8 MiB on; os.TempDir
	// if empty.
	TempDir string
	// SidecarRows is the number of rows of a V2 checkpoint's sidecar; 100,000 if 0.
	SidecarRows int
	// MaxBytes, if set, bounds what has to be read for one checkpoint. A table past
	// it is left alone with an error.
	MaxBytes int64
	// Recorded, if set, is the identity that was recorded of a version (R9), as far as it
	// is still known. Nothing is written or removed on the strength of a commit file that
	// is another one: *LogError Altered.
	Recorded func(twophase.Version) (twophase.Hash, bool)
}

// Keeper keeps one table's log in order: it writes checkpoints and removes what has
// expired. Nothing that it does changes any version; at any point where it dies the
// log is as good as before, apart from objects that nothing names. Not safe for
// concurrent use. Several keepers, and other engines, may work on one table at once.
type Keeper struct {
	cfg   KeeperConfig
	log   *Log
	store *meter
	bad   []badCheckpoint
}

// NewKeeper opens nothing yet.
func NewKeeper(c KeeperConfig) *Keeper {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.SidecarRows <= 0 {
		c.SidecarRows = 100_000
	}
	store := &meter{Store: c.Log.Store}
	c.Log.Store, c.Log.ReadCheckpoint = store, c.Format.Read
	return &Keeper{cfg: c, log: NewLog(c.Log), store: store}
}

// Traffic is how many bytes were read and written so far.
func (k *Keeper) Traffic() (read, written int64) {
	return k.store.read.Load(), k.store.written.Load()
}

// meter counts the bytes that pass.
type meter struct {
	objstore.Store
	read, written atomic.Int64
}

func (m *meter) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	b, info, err := m.Store.Get(ctx, key, r)
	m.read.Add(int64(len(b)))
	return b, info, err
}

func (m *meter) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	m.written.Add(int64(len(data)))
	return m.Store.PutIfAbsent(ctx, key, data)
}

func (m *meter) Put(ctx context.Context, key string, data []byte) error {
	m.written.Add(int64(len(data)))
	return m.Store.Put(ctx, key, data)
}

const (
	propCheckpointInterval = "delta.checkpointInterval"
	propCheckpointPolicy   = "delta.checkpointPolicy"
	propLogCleanUp         = "delta.enableExpiredLogCleanup"
	v2Feature              = "v2Checkpoint"
	// DefaultCheckpointInterval is Delta's.
	DefaultCheckpointInterval = 10
)

// CheckpointInterval is how many versions apart checkpoints are wanted.
func (p *Profile) CheckpointInterval() twophase.Version {
	n, err := strconv.ParseInt(p.Property(propCheckpointInterval), 10, 64)
	if err != nil || n < 1 {
		return DefaultCheckpointInterval
	}
	return twophase.Version(n)
}

// CleansLog: the table wants its expired log removed.
func (p *Profile) CleansLog() bool { return !strings.EqualFold(p.Property(propLogCleanUp), "false") }

// v2Checkpoints: the protocol allows them and the table asks for them.
func (p *Profile) v2Checkpoints() bool {
	return p.Protocol.MinReader >= 3 && p.inForce.has(v2Feature) && strings.EqualFold(p.Property(propCheckpointPolicy), "v2")
}

// Newest is the version of the newest complete checkpoint that is not above a
// version; NoVersion if there is none. It costs one listing, from where
// _last_checkpoint points to.
func (k *Keeper) Newest(ctx context.Context, at twophase.Version) (twophase.Version, error) {
	listing, err := k.log.ListFor(ctx, at)
	if err != nil {
		return 0, err
	}
	if c, ok := listing.NewestCheckpoint(at); ok {
		return c.Version, nil
	}
	return twophase.NoVersion, nil
}

// Survey is what a table's log has to say before anything is done to it.
type Survey struct {
	At      twophase.Version
	Profile *Profile
	// Checkpoint is the newest complete one at or below At that is not known to be bad;
	// NoVersion if there is none.
	Checkpoint twophase.Version
	// Taken: a bad checkpoint of At has the only name that a new one could have.
	Taken bool
	// Owner: the owner object's folder is there (R9, R21).
	Owner bool
	// Commits after the checkpoint, and bytes to be read for a new one.
	Commits int
	Bytes   int64

	source source
	head   *head
}

// Due: the checkpoint is as far behind as the table's interval says.
func (s *Survey) Due() bool {
	return s.Checkpoint == twophase.NoVersion && s.At >= s.Profile.CheckpointInterval() ||
		s.Checkpoint != twophase.NoVersion && s.At-s.Checkpoint >= s.Profile.CheckpointInterval()
}

// Marker is that of a catalog, as State's.
func (s *Survey) Marker(catalog string) twophase.ChangeNumber {
	return twophase.ChangeNumber(s.head.txnVersion(markerApp(catalog)))
}

// Survey reads everything but the file actions at a version. A checkpoint that is bad is
// passed over, if older files tell the same; see PassedOver. *LogError as State.
func (k *Keeper) Survey(ctx context.Context, at twophase.Version) (*Survey, error) {
	for known := len(k.bad); ; known = len(k.bad) {
		s, err := k.surveyOnce(ctx, at)
		if err == nil || len(k.bad) == known {
			return s, k.instead(err)
		}
	}
}

func (k *Keeper) surveyOnce(ctx context.Context, at twophase.Version) (*Survey, error) {
	listing, err := k.list(ctx, at)
	if err != nil {
		return nil, err
	}
	at, err = k.log.target(listing, at)
	if err != nil {
		return nil, err
	}
	src, err := k.sourceOf(k.sound(listing), at)
	if err != nil {
		return nil, err
	}
	h, err := k.readHead(ctx, &src)
	if err != nil {
		return nil, k.judged(src.checkpoint, err)
	}
	out := &Survey{
		At: at, Profile: h.profile, Checkpoint: twophase.NoVersion, Owner: listing.Owner,
		Commits: len(src.commits), Bytes: src.bytes(h), source: src, head: h,
	}
	if src.checkpoint != nil {
		out.Checkpoint = src.checkpoint.Version
	}
	out.Taken = !h.profile.v2Checkpoints() && k.badAt(k.log.prefix+classicName(at))
	return out, nil
}

// tooLarge refuses a table that is past KeeperConfig.MaxBytes.
func (k *Keeper) tooLarge(bytes int64) error {
	if k.cfg.MaxBytes > 0 && bytes > k.cfg.MaxBytes {
		return &LimitError{Limit: "maintain_bytes", Value: bytes, Max: k.cfg.MaxBytes}
	}
	return nil
}

// CommitIdentity is the hash of a version's content, read piece by piece (R9).
// objstore.ErrNotFound if there is no such version.
func (k *Keeper) CommitIdentity(ctx context.Context, v twophase.Version) (twophase.Hash, error) {
	info, err := k.log.Store.Stat(ctx, k.log.CommitKey(v))
	if err != nil {
		return twophase.Hash{}, fmt.Errorf("read %s of table %s: %w", commitName(v), k.log.URI, err)
	}
	h, err := hashObject(ctx, k.log.Store, info)
	if err != nil {
		return twophase.Hash{}, fmt.Errorf("read %s of table %s: %w", commitName(v), k.log.URI, err)
	}
	return h, nil
}
