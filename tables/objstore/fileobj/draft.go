//go:build unix

package fileobj

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

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
	in   *folder
	name string
}

func newNamedDraft(in *folder) (*draft, error) {
	name := draftPrefix + rand.Text() + draftSuffix
	f, err := in.open(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	return &draft{f: f, in: in, name: name}, nil
}

// write makes the content durable. It stamps the file with a clock of nanoseconds.
func (d *draft) write(data []byte, sync func(*os.File) error) (stat, error) {
	if _, err := d.f.Write(data); err != nil {
		return stat{}, err
	}
	if err := d.stamp(time.Now()); err != nil {
		return stat{}, err
	}
	if err := sync(d.f); err != nil {
		return stat{}, fmt.Errorf("sync: %w", err)
	}
	return fstat(d.f)
}

// link gives the draft its name, if nobody has it. The refusal of a network file
// system may be the echo of our own success: then the name is our file.
func (d *draft) link(name string) error {
	if d.name == "" {
		return linkUnnamed(d.f, d.in, name)
	}
	err := d.in.linkError("link", d.name, name, unix.Linkat(d.in.fd(), d.name, d.in.fd(), name, 0))
	switch {
	case errors.Is(err, fs.ErrExist) && d.is(name):
		return nil
	case errors.Is(err, syscall.EPERM), errors.Is(err, errors.ErrUnsupported):
		return fmt.Errorf("put-if-absent needs a file system with hard links: %w", err)
	}
	return err
}

// is reports whether a name is this draft's.
func (d *draft) is(name string) bool {
	ours, err1 := fstat(d.f)
	there, err2 := d.in.lstat(name)
	return err1 == nil && err2 == nil && ours.id == there.id // of one file system: they are in one folder
}

func (f *folder) linkError(op, from, to string, err error) error {
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: op, Old: from, New: path.Join(f.key, to), Err: err}
}

// rename gives the draft its name, whoever has it.
func (d *draft) rename(name string) error {
	err := d.in.linkError("rename", d.name, name, unix.Renameat(d.in.fd(), d.name, d.in.fd(), name))
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
		_ = d.in.unlink(d.name)
	}
}

// Sweep removes the drafts below a folder, "" for all, that are older than an age,
// and says how many there were. They are left by processes that died where drafts
// need names. One that is still being written loses at most its put, which then
// says that nothing was written; an age of an hour is past any put.
func (s *Store) Sweep(ctx context.Context, folder string, age time.Duration) (removed int, err error) {
	found, err := s.Drafts(ctx, folder, age)
	for _, e := range found {
		ok, failed := s.RemoveDraft(ctx, e.Key, age)
		if failed != nil {
			return removed, failed
		}
		if ok {
			removed++
		}
	}
	return removed, err
}

// Drafts implements objstore.Drafter. After an error they are those that were seen
// before it.
func (s *Store) Drafts(ctx context.Context, folder string, age time.Duration) ([]objstore.Info, error) {
	w := draftWalk{s: s, age: age}
	err := objstore.CheckPrefix(folder)
	if err == nil {
		err = w.walk(ctx, strings.Trim(folder, "/"))
	}
	if err != nil {
		return w.found, fmt.Errorf("look for drafts: %w", err)
	}
	return w.found, nil
}

// draftWalk goes through folders. It lives no longer than the call it serves.
type draftWalk struct {
	s     *Store
	age   time.Duration
	found []objstore.Info
}

func (w *draftWalk) walk(ctx context.Context, dir string) error {
	in, err := w.s.enter(dir)
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.close()
	entries, err := in.self.ReadDir(-1)
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := error(nil)
		switch key := path.Join(dir, e.Name()); {
		case e.IsDir():
			err = w.walk(ctx, key)
		case e.Type().IsRegular() && isDraft(e.Name()):
			err = w.look(in, key)
		}
		if err != nil && !absent(err) {
			return err
		}
	}
	return err
}

func (w *draftWalk) look(in *folder, key string) error {
	st, err := in.lstat(path.Base(key))
	if err == nil && time.Since(st.modified) >= w.age {
		w.found = append(w.found, describe(key, st))
	}
	return err
}

// RemoveDraft implements objstore.Drafter.
func (s *Store) RemoveDraft(_ context.Context, key string, age time.Duration) (removed bool, err error) {
	if err := objstore.CheckKey(key); err != nil {
		return false, fmt.Errorf("remove draft: %w", err)
	}
	if !isDraft(path.Base(key)) {
		return false, fmt.Errorf("remove draft %s: it is none", key)
	}
	in, err := s.enter(path.Dir(key))
	if absent(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("remove draft %s: %w", key, err)
	}
	defer in.close()
	st, err := in.lstat(path.Base(key))
	if err == nil && time.Since(st.modified) >= age {
		err = in.unlink(path.Base(key))
		removed = err == nil
	}
	if err != nil && !absent(err) {
		return false, fmt.Errorf("remove draft %s: %w", key, err)
	}
	return removed, nil
}
