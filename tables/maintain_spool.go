package tables

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// spoolBytes is how much of a file is kept in memory before it goes to disk.
const spoolBytes = 8 << 20

// ErrNoRoom: the temporary folder takes no more.
var ErrNoRoom = errors.New("no room for a temporary file")

// spool takes a file that has to be put whole: in memory at first, in a temporary
// file when it grows. While it is written it does not weigh on the memory that the
// rows take.
type spool struct {
	dir  string
	mem  bytes.Buffer
	file *os.File
	n    int64
}

// Write implements io.Writer.
func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && s.mem.Len()+len(p) > spoolBytes {
		if err := s.spill(); err != nil {
			return 0, err
		}
	}
	s.n += int64(len(p))
	if s.file == nil {
		return s.mem.Write(p)
	}
	n, err := s.file.Write(p)
	return n, noRoom(err)
}

func noRoom(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNoRoom, err)
}

func (s *spool) spill() error {
	f, err := os.CreateTemp(s.dir, "txcoord-checkpoint-*")
	if err != nil {
		return noRoom(err)
	}
	s.file = f
	if _, err := f.Write(s.mem.Bytes()); err != nil {
		return noRoom(err)
	}
	s.mem = bytes.Buffer{}
	return nil
}

// bytes is the whole content.
func (s *spool) bytes() ([]byte, error) {
	if s.file == nil {
		return s.mem.Bytes(), nil
	}
	out := make([]byte, s.n)
	if _, err := io.ReadFull(io.NewSectionReader(s.file, 0, s.n), out); err != nil {
		return nil, noRoom(err)
	}
	return out, nil
}

// close removes the temporary file.
func (s *spool) close() error {
	s.mem = bytes.Buffer{}
	if s.file == nil {
		return nil
	}
	err := errors.Join(s.file.Close(), os.Remove(s.file.Name()))
	s.file = nil
	return err
}
