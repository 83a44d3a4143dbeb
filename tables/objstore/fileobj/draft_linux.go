package fileobj

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// newDraft opens a file without a name where the file system can: two changes of
// the folder fewer, which is a third of a put, and nothing to sweep.
func newDraft(dir string) (*draft, error) {
	if !canLinkUnnamed() {
		return newNamedDraft(dir)
	}
	f, err := os.OpenFile(dir, unix.O_TMPFILE|os.O_WRONLY, 0o666)
	switch {
	case err == nil:
		return &draft{f: f}, nil
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EINVAL):
		return newNamedDraft(dir)
	default:
		return nil, err
	}
}

// canLinkUnnamed: the way to a file without a name leads through /proc.
var canLinkUnnamed = sync.OnceValue(func() bool {
	_, err := os.Stat("/proc/self/fd")
	return err == nil
})

func linkUnnamed(f *os.File, path string) error {
	old := "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
	if err := unix.Linkat(unix.AT_FDCWD, old, unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW); err != nil {
		return &os.LinkError{Op: "link", Old: "draft", New: path, Err: err}
	}
	return nil
}

func (d *draft) stamp(now time.Time) error {
	ts := unix.NsecToTimespec(now.UnixNano())
	tv := []unix.Timespec{ts, ts}
	return unix.UtimesNanoAt(int(d.f.Fd()), "", tv, unix.AT_EMPTY_PATH)
}

// changed is when the file last changed in any way, its names included. Unlike the
// time of modification no copying tool sets it back.
func changed(st fs.FileInfo) time.Time {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return time.Unix(sys.Ctim.Unix())
	}
	return st.ModTime()
}
