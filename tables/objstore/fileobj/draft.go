//go:build unix

package fileobj

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
)

// The names of drafts. Delta readers skip names with a leading dot, List skips
// these alone, and Sweep removes nothing else.
const (
	draftPrefix = ".txcoord-"
	draftSuffix = ".tmp"
)

func isDraft(name string) bool {
	return strings.HasPrefix(name, draftPrefix) && strings.HasSuffix(name, draftSuffix)
}

// draft is a file on its way to being an object. Without a name it vanishes by
// itself when its process dies.
type draft struct {
	f    *os.File
	name string
}

func newNamedDraft(dir string) (*draft, error) {
	name := filepath.Join(dir, draftPrefix+rand.Text()+draftSuffix)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	return &draft{f: f, name: name}, nil
}

// write makes the content durable. It stamps the file with a clock of nanoseconds.
func (d *draft) write(data []byte, sync func(*os.File) error) (id uint64, err error) {
	if _, err := d.f.Write(data); err != nil {
		return 0, err
	}
	if err := d.stamp(time.Now()); err != nil {
		return 0, err
	}
	if err := sync(d.f); err != nil {
		return 0, fmt.Errorf("sync: %w", err)
	}
	st, err := d.f.Stat()
	if err != nil {
		return 0, err
	}
	return inode(st), nil
}

// link gives the draft its name, if nobody has it. The refusal of a network file
// system may be the echo of our own success: then the name is our file.
func (d *draft) link(path string) error {
	if d.name == "" {
		return linkUnnamed(d.f, path)
	}
	err := os.Link(d.name, path)
	switch {
	case errors.Is(err, fs.ErrExist) && d.is(path):
		return nil
	case errors.Is(err, syscall.EPERM), errors.Is(err, errors.ErrUnsupported):
		return fmt.Errorf("put-if-absent needs a file system with hard links: %w", err)
	}
	return err
}

// is reports whether a path leads to this draft.
func (d *draft) is(path string) bool {
	ours, err1 := d.f.Stat()
	there, err2 := os.Lstat(path)
	return err1 == nil && err2 == nil && os.SameFile(ours, there)
}

// rename gives the draft its name, whoever has it.
func (d *draft) rename(path string) error {
	err := os.Rename(d.name, path)
	if err == nil {
		d.name = ""
	}
	return err
}

// discard drops what is left of the draft. Nobody depends on it: its errors would
// hide the answer of the put, and Sweep finds what stays.
func (d *draft) discard() {
	_ = d.f.Close()
	if d.name != "" {
		_ = os.Remove(d.name)
	}
}

// Sweep removes the drafts below a folder, "" for all, that are older than an age,
// and says how many there were. They are left by processes that died where drafts
// need names. One that is still being written loses at most its put, which then
// says that nothing was written; an age of an hour is past any put.
func (s *Store) Sweep(ctx context.Context, folder string, age time.Duration) (removed int, err error) {
	if err := objstore.CheckPrefix(folder); err != nil {
		return 0, fmt.Errorf("sweep drafts: %w", err)
	}
	err = filepath.WalkDir(filepath.Join(s.root, folder), func(path string, e fs.DirEntry, err error) error {
		if absent(err) {
			return nil
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if !e.Type().IsRegular() || !isDraft(e.Name()) {
			return nil
		}
		gone, err := removeIfOlder(path, e, age)
		if gone {
			removed++
		}
		return err
	})
	if err != nil {
		return removed, fmt.Errorf("sweep drafts: %w", err)
	}
	return removed, nil
}

func removeIfOlder(path string, e fs.DirEntry, age time.Duration) (bool, error) {
	st, err := e.Info()
	if err == nil && time.Since(st.ModTime()) >= age {
		err = os.Remove(path)
	} else if err == nil {
		return false, nil
	}
	if absent(err) {
		return false, nil
	}
	return err == nil, err
}
