package tables

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/txcoord/txcoord/internal/ahead"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// CheckpointReader yields the actions of a Parquet checkpoint, or of a part or
// sidecar of one, as JSON lines: checkpoint.Read. The line may be reused after
// yield returns. A reader may yield more than what it is asked for.
type CheckpointReader func(ctx context.Context, r io.ReaderAt, size int64, what Portion, yield func(line []byte) error) error

// Portion is how much of a checkpoint is read. Nearly all of one are file actions, and
// most of those statistics.
type Portion uint8

const (
	// AllActions are all fields of all actions.
	AllActions Portion = iota
	// HeadActions are those that are neither add nor remove.
	HeadActions
	// FileKeys are add and remove alone, with no more than path and deletionVector.
	FileKeys
	// LiveActions are HeadActions, and add and remove with no more than what State keeps of
	// them: path, deletionVector, size and row ids.
	LiveActions
)

// LogConfig says where a table's log lies.
type LogConfig struct {
	Store objstore.Store
	// Key is the key of the table's root in the store, without a slash at its ends;
	// empty if the store is the table.
	Key string
	// URI is the table's, canonical. Messages and path rules use it.
	URI string
	// ReadCheckpoint reads Parquet. Without it a table with such a checkpoint
	// cannot be replayed.
	ReadCheckpoint CheckpointReader
	// ReadAhead is how many commits are read at once where the log is replayed; 64 if 0. While
	// the disk or the share of a local folder hangs, each takes a thread, and Go ends a
	// process that has ten thousand.
	ReadAhead int
	// Extracts, if set, has the table's newest extract. Load and Tail ask for it where the
	// checkpoint has ExtractFrom bytes or more, 32 KiB if that is 0, or ExtractCommits are
	// behind it, 32 if that is 0: what is less is read as soon.
	Extracts       Extracts
	ExtractFrom    int64
	ExtractCommits int
}

// Log reads and writes one table's log. It holds no state: nothing is cached, and
// every answer is as fresh as the store's. Safe for concurrent use.
type Log struct {
	LogConfig
	prefix string // key of the log's folder, with its slash
	in     *Listing
}

// NewLog opens nothing yet.
func NewLog(c LogConfig) *Log {
	c.ReadAhead = cmp.Or(c.ReadAhead, 64)
	l := &Log{LogConfig: c}
	l.prefix = logFolder
	if c.Key != "" {
		l.prefix = c.Key + "/" + logFolder
	}
	return l
}

// In is the log for who has a listing of it (ListFor): State, Load and Tail read a version
// that is not Latest by that, and list only where it does not have the version, or has what
// is not there any more.
func (l *Log) In(listing *Listing) *Log {
	in := *l
	in.in = listing
	return &in
}

const (
	logFolder     = "_delta_log/"
	sidecarFolder = "_sidecars/"
	pointerName   = "_last_checkpoint"
	versionDigits = 20
)

func versionName(v twophase.Version) string { return fmt.Sprintf("%0*d", versionDigits, v) }

// commitName is the name of a version's file in the log's folder.
func commitName(v twophase.Version) string { return versionName(v) + ".json" }

// CommitKey is the key of a version's file in the store.
func (l *Log) CommitKey(v twophase.Version) string { return l.prefix + commitName(v) }

// FileKey is the key in the store of a data file by its canonical path; false if
// the file lies outside the table's root.
func (l *Log) FileKey(path string) (string, bool) {
	if isOutside(path) {
		return "", false
	}
	if l.Key == "" {
		return path, true
	}
	return l.Key + "/" + path, true
}

func (l *Log) fault(f Fault, name string, err error) *LogError {
	e := &LogError{Fault: f, Table: l.URI, Version: twophase.NoVersion, Err: err}
	if name != "" {
		e.File = logFolder + name
	}
	return e
}

// Commit is one version as it stands in the log.
type Commit struct {
	Version twophase.Version
	// Identity is the hash of Raw (R9).
	Identity twophase.Hash
	Raw      []byte
	// Object is what the store says of the file.
	Object  objstore.Info
	Actions *Actions
	// Timestamp, Operation and Engine are from commitInfo; Engine is cut to 200 bytes.
	Timestamp twophase.Time
	Operation string
	Engine    string
	// InCommitTimestamp is 0 if the commit has none.
	InCommitTimestamp twophase.Time
	// BlindAppend: isBlindAppend is there and true.
	BlindAppend bool

	table string
	info  info
}

// ReadCommit reads a version. objstore.ErrNotFound if there is none; *LogError if
// the file is empty, torn or malformed: it is never returned in part.
func (l *Log) ReadCommit(ctx context.Context, v twophase.Version) (*Commit, error) {
	raw, object, err := l.Store.Get(ctx, l.CommitKey(v), objstore.Range{})
	if err != nil {
		return nil, fmt.Errorf("read %s of table %s: %w", commitName(v), l.URI, err)
	}
	c, err := ParseCommit(l.URI, v, raw)
	if err != nil {
		return nil, err
	}
	c.Object = object
	return c, nil
}

// EachCommit reads commits that were listed, as many at once as LogConfig.ReadAhead within
// 16 MiB, and calls use with each of them in their order, or with why it could not be read,
// as ReadCommit has it. An error of use ends it.
func (l *Log) EachCommit(ctx context.Context, commits []ListedCommit, use func(c ListedCommit, read *Commit, err error) error) error {
	type got struct {
		commit *Commit
		err    error
	}
	reading := ahead.Reader[ListedCommit, got]{
		AtOnce: l.ReadAhead, Bytes: commitBytesAhead, Size: func(c ListedCommit) int64 { return c.Size },
		Get: func(ctx context.Context, c ListedCommit) (g got, _ error) {
			g.commit, g.err = l.ReadCommit(ctx, c.Version)
			return g, nil
		},
	}
	return reading.Each(ctx, commits, func(c ListedCommit, g got) error { return use(c, g.commit, g.err) })
}

const maxEngine = 200

// ParseCommit reads the content of a version that somebody put into a log. What
// others write is taken as other readers take it: unknown actions and fields are
// passed over. *LogError.
func ParseCommit(tableURI string, v twophase.Version, raw []byte) (*Commit, error) {
	c := &Commit{Version: v, Identity: twophase.HashOf(raw), Raw: raw, table: tableURI}
	c.Actions = &Actions{place: placeOf(tableURI), Bytes: len(raw)}
	p := parser{Actions: c.Actions}
	if err := p.piece(raw); err != nil {
		return nil, c.wrong(err, raw)
	}
	c.Actions.lastPart, c.Actions.partIdx = nil, nil
	if c.Actions.Lines == 0 {
		return nil, &LogError{Fault: Empty, Table: tableURI, File: logFolder + commitName(v), Version: v, Bytes: len(raw)}
	}
	c.info = readInfo(c.Actions.Info)
	c.Timestamp, c.InCommitTimestamp = twophase.Time(c.info.timestamp), twophase.Time(c.info.inCommitTimestamp)
	c.Operation, c.Engine, c.BlindAppend = c.info.operation, c.info.engine, c.info.blind
	if len(c.Engine) > maxEngine {
		c.Engine = strings.ToValidUTF8(c.Engine[:maxEngine], "")
	}
	return c, nil
}

// wrong tells a torn file from a malformed one: the last line breaks off, and the
// file with it.
func (c *Commit) wrong(err error, raw []byte) error {
	out := &LogError{Fault: Malformed, Table: c.table, File: logFolder + commitName(c.Version), Version: c.Version, Bytes: len(raw), Err: err}
	if in, ok := errors.AsType[*InputError](err); ok {
		out.Line, out.Err = in.Line, nil
		reason := *in
		reason.Line, reason.Remedy = 0, ""
		out.Reason = reason.Error()
		out.NotJSON = in.syntax
		if in.syntax && tornAt(raw, in.Line) {
			out.Fault = Torn
		}
	}
	return out
}

// tornAt reports that the file ends in this line without a line end.
func tornAt(raw []byte, line int) bool {
	return len(raw) > 0 && raw[len(raw)-1] != '\n' && bytes.Count(raw, []byte{'\n'}) == line-1
}

// Tags returns the version's tags if it names the catalog, and nil if it does not:
// then somebody else wrote it. *LogError BadTags if it names the catalog and makes
// no sense, or has no marker of it (R3: stop, never guess).
func (c *Commit) Tags(catalog string) (*Tags, error) {
	if catalog == "" || c.info.tags[tagCatalog] != catalog {
		return nil, nil
	}
	tags, err := c.info.parse()
	if err == nil {
		if _, ok := c.Marker(catalog); ok {
			return tags, nil
		}
		err = errors.New("no marker of the catalog")
	}
	return nil, &LogError{Fault: BadTags, Table: c.table, File: logFolder + commitName(c.Version), Version: c.Version, Err: err}
}

// Marker is the version's marker of the catalog (R3); false if it has none.
func (c *Commit) Marker(catalog string) (twophase.ChangeNumber, bool) {
	app := markerApp(catalog)
	for _, t := range c.Actions.Txns {
		if t.App == app {
			return twophase.ChangeNumber(t.Version), true
		}
	}
	return 0, false
}

// Apps are the version's txn actions, markers of ours left out.
func (c *Commit) Apps() []twophase.AppVersion {
	var out []twophase.AppVersion
	for _, t := range c.Actions.Txns {
		if !strings.HasPrefix(t.App, reservedApp) {
			out = append(out, t)
		}
	}
	return out
}

// PutCommit puts a version: nil, objstore.ErrExists or objstore.ErrUnknown, or it
// was certainly not written.
func (l *Log) PutCommit(ctx context.Context, v twophase.Version, data []byte) error {
	if err := l.Store.PutIfAbsent(ctx, l.CommitKey(v), data); err != nil {
		return fmt.Errorf("put %s of table %s: %w", commitName(v), l.URI, err)
	}
	return nil
}

// PutAfter is PutCommit for a version that others lie below: into no log but the one
// whose newest version has this content. Of one whose commit was cleaned the content is
// zero, and the owner object has to be there. Where the store has folders it sees to that
// at the moment of the put: objstore.ErrNoFolder or ErrMoved, and nothing was written. A
// bucket cannot, and there the caller's last look is all that is known (R9).
func (l *Log) PutAfter(ctx context.Context, v twophase.Version, data []byte, below twophase.Hash) error {
	n := objstore.Neighbour{Name: ownerName}
	if below != (twophase.Hash{}) {
		n = objstore.Neighbour{Name: commitName(v - 1), SHA256: below}
	}
	if err := objstore.PutBeside(ctx, l.Store, l.CommitKey(v), data, n); err != nil {
		return fmt.Errorf("put %s of table %s: %w", commitName(v), l.URI, err)
	}
	return nil
}

// MakesFolder says whether a folder that is missing is made for an object, both given
// with a leading slash, as fileobj.Config.Makes wants it. The folder of a log, and those
// above it, are made by what a table begins with, its first version and its owner object:
// anything else would make one where a table was dropped, or moved away.
func MakesFolder(folder, key string) bool {
	i := strings.Index(key, "/"+logFolder)
	if i < 0 {
		return true
	}
	log, name := key[:i+len(logFolder)], key[i+1+len(logFolder):]
	return name == commitName(0) || name == ownerName || strings.HasPrefix(folder, log+"/")
}

// parseVersion reads 20 digits.
func parseVersion(digits string) (twophase.Version, bool) {
	if len(digits) != versionDigits {
		return 0, false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return twophase.Version(n), err == nil
}
