package boltstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
)

// ErrDamaged: the file is not what bbolt left there. Nothing was written.
var ErrDamaged = errors.New("the store file is damaged; stop the server and bring back a copy of it")

// checkLength refuses a file that is shorter than it says itself. bbolt maps the file
// into memory, and reading a page behind its end would end the process.
//
// Layout of a meta page (bbolt's db.go): 16 bytes of page header, then magic,
// version, page size and flags of 4 bytes each, root bucket of 16, free list, high
// water mark, transaction id and FNV-1a checksum of 8 each.
func checkLength(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	pages, size := newestMeta(f)
	if pages == 0 {
		return nil // bbolt says itself what is wrong with both meta pages
	}
	if want := pages * size; info.Size() < want {
		return fmt.Errorf("%w: %s has %d bytes of %d", ErrDamaged, path, info.Size(), want)
	}
	return nil
}

// newestMeta is the high water mark and the page size of the newer valid meta page;
// zero if neither is valid.
func newestMeta(f io.ReaderAt) (pages, size int64) {
	newest := uint64(0)
	for _, at := range []int64{0, int64(os.Getpagesize())} {
		page := make([]byte, 80)
		if _, err := f.ReadAt(page, at); err != nil {
			continue
		}
		meta := page[16:]
		sum := fnv.New64a()
		_, _ = sum.Write(meta[:56])
		txid := binary.NativeEndian.Uint64(meta[48:])
		if sum.Sum64() != binary.NativeEndian.Uint64(meta[56:]) || pages != 0 && txid < newest {
			continue
		}
		newest = txid
		pages, size = int64(binary.NativeEndian.Uint64(meta[40:])), int64(binary.NativeEndian.Uint32(meta[8:]))
	}
	return pages, size
}
