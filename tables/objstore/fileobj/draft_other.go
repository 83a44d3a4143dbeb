//go:build unix && !linux

package fileobj

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func newDraft(in *folder) (*draft, error) { return newNamedDraft(in) }

func linkUnnamed(*os.File, *folder, string) error { return errors.ErrUnsupported }

func (d *draft) stamp(now time.Time) error {
	ts := unix.NsecToTimespec(now.UnixNano())
	return d.in.linkError("stamp", d.name, d.name, unix.UtimesNanoAt(d.in.fd(), d.name, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW))
}

func (s stat) changed() time.Time { return s.modified }
