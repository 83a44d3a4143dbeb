package fileobj

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// newDraft opens a file without a name where the file system can: two changes of
// the folder fewer, which is a third of a put, and nothing to sweep.
func newDraft(in *folder) (*draft, error) {
	if !canLinkUnnamed() {
		return newNamedDraft(in)
	}
	f, err := in.open(".", unix.O_TMPFILE|unix.O_WRONLY, 0o666)
	switch {
	case err == nil:
		return &draft{f: f, in: in}, nil
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EINVAL):
		return newNamedDraft(in)
	default:
		return nil, err
	}
}

// canLinkUnnamed: the way to a file without a name leads through /proc.
var canLinkUnnamed = sync.OnceValue(func() bool {
	_, err := os.Stat("/proc/self/fd")
	return err == nil
})

func linkUnnamed(f *os.File, in *folder, name string) error {
	old := "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
	return in.linkError("link", "draft", name, unix.Linkat(unix.AT_FDCWD, old, in.fd(), name, unix.AT_SYMLINK_FOLLOW))
}

func (d *draft) stamp(now time.Time) error {
	ts := unix.NsecToTimespec(now.UnixNano())
	tv := []unix.Timespec{ts, ts}
	return unix.UtimesNanoAt(int(d.f.Fd()), "", tv, unix.AT_EMPTY_PATH)
}

// changed is when the file last changed in any way, its names included. Unlike the
// time of modification no copying tool sets it back.
func (s stat) changed() time.Time { return s.change }
