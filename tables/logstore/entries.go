package logstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/txcoord/txcoord/tables/objstore"
)

// Entry is one commit in the table of entries.
type Entry struct {
	// TablePath and FileName are its key: see TablePath, and `%020d.json`.
	TablePath, FileName string
	// TempPath of the temporary file, relative to the table's _delta_log. Empty in
	// completed entries of some writers.
	TempPath string
	// Complete: the file is in its place in the log.
	Complete bool
	// Expires, in seconds since the epoch, is from when a completed entry may be
	// removed; 0 if it has no such time.
	Expires int64
}

// The answers of Entries that callers branch on. Everything else means that the
// operation was certainly not carried out.
var (
	// ErrNoEntry: there is no entry of that key.
	ErrNoEntry = errors.New("no such entry")
	// ErrClaimed: the claim was refused, because there is an entry of its key.
	ErrClaimed = errors.New("version is claimed")
	// ErrUnknown: the write may have been carried out, or may be later.
	ErrUnknown = errors.New("outcome unknown")
)

// Entries is the table of entries. Reads see every write that was acknowledged.
// Writes are sent once: nothing repeats them beneath the caller.
type Entries interface {
	// Get reads an entry; ErrNoEntry.
	Get(ctx context.Context, tablePath, fileName string) (Entry, error)
	// Newest reads the entry of a table's highest version; ErrNoEntry.
	Newest(ctx context.Context, tablePath string) (Entry, error)
	// Claim writes an incomplete entry unless there is one of its key: nil, ErrClaimed
	// with the entry that stands there (zero if the store does not say), or ErrUnknown.
	Claim(ctx context.Context, e Entry) (Entry, error)
	// Complete marks the entry as complete and lets it expire, if there is one of its
	// key that is incomplete and has its TempPath; otherwise nothing is changed, which
	// is no error. ErrUnknown.
	Complete(ctx context.Context, e Entry, expires int64) error
}

// Refusal is an error of the entries' store, which will not do what it is asked until
// somebody does something about it.
type Refusal = objstore.Refusal

// EntryError says that entries and log do not fit each other, which nobody mends
// but an operator.
type EntryError struct {
	// TablePath and FileName are the entry's.
	TablePath, FileName string
	Reason, Remedy      string
}

func (e *EntryError) Error() string {
	return fmt.Sprintf("log store entry (%s, %s): %s; %s", e.TablePath, e.FileName, e.Reason, e.Remedy)
}
