// Package sparktest is a model of a Spark driver with S3DynamoDBLogStore: how it
// lists a table's log, writes commits, and repairs what others left. It is written
// from the description of that log store (delta-storage 4.4), and shares no code with
// the product that it is run against.
package sparktest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
)

// Entry is ExternalCommitEntry.
type Entry struct {
	TablePath, FileName, TempPath string
	Complete                      bool
	ExpireTime                    int64
}

// Entries are the requests that it sends to its table of entries.
type Entries interface {
	// Get is a consistent GetItem; ErrNoEntry.
	Get(ctx context.Context, tablePath, fileName string) (Entry, error)
	// Newest is a consistent Query, descending, of one item; ErrNoEntry.
	Newest(ctx context.Context, tablePath string) (Entry, error)
	// PutNew is a PutItem that expects that fileName does not exist; ErrFailed.
	PutNew(ctx context.Context, e Entry) error
	// Put is a PutItem without a condition.
	Put(ctx context.Context, e Entry) error
}

// What the requests answer, and what a driver does.
var (
	ErrNoEntry = errors.New("no item")
	ErrFailed  = errors.New("ConditionalCheckFailedException")
	// ErrExists is the conflict that Spark's commit loop handles: list, look for
	// conflicts, write one version higher. All other errors fail the commit.
	ErrExists = errors.New("FileAlreadyExistsException")
	// ErrSystem: the log store says that the log is not as it should be.
	ErrSystem = errors.New("FileSystemException")
)

// Driver is one driver on one table.
type Driver struct {
	Objects objstore.Store
	Entries Entries
	// Root is the key of the table in Objects, TablePath that of its entries.
	Root, TablePath string
	// Conditional: its file system creates files under a condition. Those before
	// Hadoop 3.4.2 look, and then put.
	Conditional bool
	// Asking is told when a write begins to look (1), and when it has its claim or gave
	// up (-1); may be nil.
	Asking func(int)
}

func (d *Driver) log() string { return d.Root + "/_delta_log/" }

func name(v int64) string { return fmt.Sprintf("%020d.json", v) }

// exists is FileSystem.exists.
func (d *Driver) exists(ctx context.Context, key string) (bool, error) {
	_, err := d.Objects.Stat(ctx, key)
	if errors.Is(err, objstore.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// create is FileSystem.create with overwrite=false, and the copy of a file into it.
func (d *Driver) create(ctx context.Context, from, to string) error {
	data, _, err := d.Objects.Get(ctx, from, objstore.Range{})
	if err != nil {
		return err
	}
	if d.Conditional {
		if err := d.Objects.PutIfAbsent(ctx, to, data); !errors.Is(err, objstore.ErrExists) {
			return err
		}
		return ErrExists
	}
	there, err := d.exists(ctx, to)
	if err != nil {
		return err
	}
	if there {
		return ErrExists
	}
	return d.Objects.Put(ctx, to, data)
}

func (d *Driver) acknowledge(ctx context.Context, e Entry) error {
	e.Complete, e.ExpireTime = true, time.Now().Add(24*time.Hour).Unix()
	return d.Entries.Put(ctx, e)
}

// fix is fixDeltaLog: three more tries, without a pause.
func (d *Driver) fix(ctx context.Context, e Entry) error {
	copied := false
	for retry := 0; ; retry++ {
		err := d.fixOnce(ctx, e, &copied)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrExists):
			copied = true
		case retry >= 3:
			return err
		}
	}
}

func (d *Driver) fixOnce(ctx context.Context, e Entry, copied *bool) error {
	if !*copied {
		there, err := d.exists(ctx, d.log()+e.FileName)
		if err != nil {
			return err
		}
		if !there {
			if err := d.create(ctx, d.log()+e.TempPath, d.log()+e.FileName); err != nil {
				return err
			}
		}
		*copied = true
	}
	return d.acknowledge(ctx, e)
}

// List is listFrom: the newest entry is repaired, then the files are listed. It
// answers the versions of commits.
func (d *Driver) List(ctx context.Context) ([]int64, error) {
	e, err := d.Entries.Newest(ctx, d.TablePath)
	if err != nil && !errors.Is(err, ErrNoEntry) {
		return nil, err
	}
	if err == nil && !e.Complete {
		if err := d.fix(ctx, e); err != nil {
			return nil, err
		}
	}
	var versions []int64
	for o, err := range d.Objects.List(ctx, objstore.ListOptions{Prefix: d.log(), Delimiter: true}) {
		if err != nil {
			return nil, err
		}
		digits, ok := strings.CutSuffix(strings.TrimPrefix(o.Key, d.log()), ".json")
		if v, err := strconv.ParseInt(digits, 10, 64); ok && err == nil && len(digits) == 20 {
			versions = append(versions, v)
		}
	}
	return versions, nil
}

// Write is write with overwrite=false. unique is in the name of the temporary file,
// where Spark has a random UUID. ErrExists is a conflict; nil means that the commit
// counts.
func (d *Driver) Write(ctx context.Context, v int64, unique string, data []byte) error {
	e := Entry{TablePath: d.TablePath, FileName: name(v), TempPath: ".tmp/" + name(v) + "." + unique}
	if err := d.claim(ctx, v, e, data); err != nil {
		return err
	}
	// What fails from here on is logged, and passed over.
	if err := d.create(ctx, d.log()+e.TempPath, d.log()+e.FileName); err == nil {
		_ = d.acknowledge(ctx, e)
	}
	return nil
}

func (d *Driver) claim(ctx context.Context, v int64, e Entry, data []byte) error {
	d.asking(1)
	defer d.asking(-1)
	there, err := d.exists(ctx, d.log()+e.FileName)
	if err != nil {
		return err
	}
	if there {
		return ErrExists
	}
	if err := d.before(ctx, v); err != nil {
		return err
	}
	if err := d.Objects.Put(ctx, d.log()+e.TempPath, data); err != nil {
		return err
	}
	if err := d.Entries.PutNew(ctx, e); !errors.Is(err, ErrFailed) {
		return err
	}
	return ErrExists
}

func (d *Driver) asking(n int) {
	if d.Asking != nil {
		d.Asking(n)
	}
}

// before is what it wants of the version below.
func (d *Driver) before(ctx context.Context, v int64) error {
	if v == 0 {
		return d.beforeFirst(ctx)
	}
	e, err := d.Entries.Get(ctx, d.TablePath, name(v-1))
	if err == nil && !e.Complete {
		return d.fix(ctx, e)
	}
	if err != nil && !errors.Is(err, ErrNoEntry) {
		return err
	}
	there, err := d.exists(ctx, d.log()+name(v-1))
	if err == nil && !there {
		return fmt.Errorf("%w: version %d is not there", ErrSystem, v-1)
	}
	return err
}

func (d *Driver) beforeFirst(ctx context.Context) error {
	e, err := d.Entries.Get(ctx, d.TablePath, name(0))
	if errors.Is(err, ErrNoEntry) {
		return nil
	}
	if err == nil && e.Complete {
		return fmt.Errorf("%w: old entries for the table still exist", ErrSystem)
	}
	return err
}
