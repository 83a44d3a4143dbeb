//go:build linux || darwin

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// single has a terminal hand over each key as it is pressed, and not show it. Signals stay.
// restore puts it back; ok is false if the file is no terminal.
func single(f *os.File) (restore func(), ok bool) {
	fd := int(f.Fd())
	was, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, false
	}
	now := *was
	now.Lflag &^= unix.ICANON | unix.ECHO
	now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 1, 0
	if unix.IoctlSetTermios(fd, setTermios, &now) != nil {
		return nil, false
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, was) }, true // it worked a moment ago
}

// sizeOf is a terminal's, in columns and lines; ok is false if the file is none.
func sizeOf(f *os.File) (columns, lines int, ok bool) {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || w.Col == 0 || w.Row == 0 {
		return 0, 0, false
	}
	return int(w.Col), int(w.Row), true
}
