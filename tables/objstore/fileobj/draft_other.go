//go:build unix && !linux

package fileobj

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

func newDraft(dir string) (*draft, error) { return newNamedDraft(dir) }

func linkUnnamed(*os.File, string) error { return errors.ErrUnsupported }

func (d *draft) stamp(now time.Time) error { return os.Chtimes(d.name, now, now) }

func changed(st fs.FileInfo) time.Time { return st.ModTime() }
