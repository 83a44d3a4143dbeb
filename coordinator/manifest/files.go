package manifest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sort"
	"strings"

	"github.com/txcoord/txcoord/internal/ahead"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// Files are the manifests of one catalog, in a folder of a store.
type Files struct {
	Store objstore.Store
	// Folder is a prefix of keys, and ends with a slash.
	Folder string
}

// Key is where a file lies.
func (f Files) Key(n Name) string { return f.Folder + n.String() }

// Read reads a file; objstore.ErrNotFound if there is none.
func (f Files) Read(ctx context.Context, n Name) (*File, error) {
	b, _, err := f.Store.Get(ctx, f.Key(n), objstore.Range{})
	if err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", n, err)
	}
	return Decode(n, b)
}

// PutFull puts a list of all tables where there is none. Only behind a file that ends
// with its snapshot, and is durable: readers go on from it with the name that follows.
func (f Files) PutFull(ctx context.Context, full *File) error {
	b, err := full.Encode()
	if err != nil {
		return err
	}
	n := Name{Snapshot: full.First(), Full: true}
	if err = f.Store.PutIfAbsent(ctx, f.Key(n), b); errors.Is(err, objstore.ErrExists) {
		return nil
	}
	return err
}

// Append puts the file that follows on what is durable, and returns what stands under its
// name from now on: that, or what another replica, or an earlier try, has put there. The
// caller goes on from where that ends, whoever made it.
//
// After an error nothing is known: the put may have landed, and may land later. It may be
// tried again, with the same snapshots or with more of them behind the first: whichever
// lands first stands.
func (f Files) Append(ctx context.Context, file *File) (*File, error) {
	b, err := file.Encode()
	if err != nil {
		return nil, err
	}
	n := Name{Snapshot: file.First()}
	if err = f.Store.PutIfAbsent(ctx, f.Key(n), b); err == nil {
		return file, nil
	}
	there, readErr := f.Read(ctx, n)
	if readErr == nil {
		return there, nil
	}
	if errors.Is(readErr, objstore.ErrNotFound) {
		return nil, err
	}
	return nil, errors.Join(err, readErr)
}

// List yields the names of the files behind a snapshot, in order: those of whom the first
// snapshot is above it. It may miss files that are put meanwhile, also between others.
func (f Files) List(ctx context.Context, after twophase.SnapshotVersion) iter.Seq2[Name, error] {
	return func(yield func(Name, error) bool) {
		o := objstore.ListOptions{Prefix: f.Folder}
		if after > 0 {
			o.StartAfter = f.Key(Name{Snapshot: after})
		}
		for e, err := range f.Store.List(ctx, o) {
			if err != nil {
				yield(Name{}, fmt.Errorf("list manifests: %w", err))
				return
			}
			if n, ok := ParseName(strings.TrimPrefix(e.Key, f.Folder)); ok && !yield(n, nil) {
				return
			}
		}
	}
}

// filesAhead is how many files are read at once.
const filesAhead = 16

// Follow yields the file of a name, and those that follow it, until one holds a snapshot.
// Each begins where the one before ended; the first that is not there ends it with
// objstore.ErrNotFound. There may be as many as snapshots, so their names are listed, and
// they are read ahead. What a listing misses is found by its name.
func (f Files) Follow(ctx context.Context, first, upTo twophase.SnapshotVersion) iter.Seq2[*File, error] {
	return func(yield func(*File, error) bool) {
		names, err := f.names(ctx, first, upTo)
		if err != nil {
			yield(nil, err)
			return
		}
		reading := ahead.Reader[Name, *File]{AtOnce: filesAhead, Get: f.Read}
		err = reading.Each(ctx, names, func(n Name, file *File) error {
			if n.Snapshot == first {
				first = file.Last() + 1
				return wanted(yield(file, nil))
			}
			return errHole
		})
		for (err == nil || errors.Is(err, errHole)) && first <= upTo {
			file, failed := f.Read(ctx, Name{Snapshot: first})
			if failed != nil {
				yield(nil, failed)
				return
			}
			first = file.Last() + 1
			err = wanted(yield(file, nil))
		}
		if err != nil && !errors.Is(err, errHole) && !errors.Is(err, errEnough) {
			yield(nil, err)
		}
	}
}

// names are those of the files that begin from one snapshot up to another.
func (f Files) names(ctx context.Context, first, upTo twophase.SnapshotVersion) (names []Name, err error) {
	if upTo < first+filesAhead {
		return nil, nil // a listing takes as long as reading some
	}
	for n, err := range f.List(ctx, first-1) {
		if err != nil {
			return nil, err
		}
		if n.Snapshot > upTo {
			break
		}
		if !n.Full && n.Snapshot >= first {
			names = append(names, n)
		}
	}
	return names, nil
}

// What ends reading ahead: a file that does not follow on the one before, and a caller that
// has enough.
var errHole, errEnough = errors.New("a file does not follow"), errors.New("enough")

func wanted(more bool) error {
	if more {
		return nil
	}
	return errEnough
}

// near is how far behind a snapshot the file is looked for at first that holds it: a
// listing of so many names is one request.
const near = 512

// Newest is the name of the newest file that begins at or below a snapshot, 0 if there is
// none; and above that of one that begins above it. What is missing is a tail.
func (f Files) Newest(ctx context.Context, upTo twophase.SnapshotVersion) (newest, above twophase.SnapshotVersion, err error) {
	for back := twophase.SnapshotVersion(near); ; back *= 8 {
		after := upTo - min(back, upTo)
		for n, err := range f.List(ctx, after) {
			if err != nil {
				return 0, 0, err
			}
			if n.Full {
				continue
			}
			if n.Snapshot > upTo {
				above = n.Snapshot
				break
			}
			newest = n.Snapshot
		}
		if newest > 0 || after == 0 {
			return newest, above, nil
		}
	}
}

// NewestMap is the newest snapshot up to one, and above another, of which there is a list
// of all tables; 0 if there is none. Names are listed once, from the newest on, so that
// what it costs is how far away the list is.
func (f Files) NewestMap(ctx context.Context, above, upTo twophase.SnapshotVersion) (newest twophase.SnapshotVersion, err error) {
	end := upTo
	for back := twophase.SnapshotVersion(near); end > above; back *= 8 {
		after := max(above, upTo-min(back, upTo))
		for n, err := range f.List(ctx, after) {
			if err != nil {
				return 0, err
			}
			if n.Snapshot > end {
				break
			}
			if n.Full {
				newest = n.Snapshot
			}
		}
		if newest > 0 {
			return newest, nil
		}
		end = after
	}
	return 0, nil
}

// AsOf is the newest snapshot up to one that is not younger than a time, 0 if there is
// none. Old files may have been taken away.
func (f Files) AsOf(ctx context.Context, at twophase.Time, upTo twophase.SnapshotVersion) (twophase.SnapshotVersion, error) {
	var failed error
	// The file that is looked for is the last whose first snapshot is old enough.
	first := sort.Search(int(upTo), func(i int) bool {
		file, err := f.from(ctx, twophase.SnapshotVersion(i+1))
		if err != nil {
			failed = errors.Join(failed, err)
		}
		return err != nil || file == nil || file.First() > upTo || file.Deltas[0].Timestamp > at
	})
	if failed != nil || first == 0 {
		return 0, failed
	}
	file, err := f.Read(ctx, Name{Snapshot: twophase.SnapshotVersion(first)})
	if err != nil {
		return 0, err
	}
	n := sort.Search(len(file.Deltas), func(i int) bool { return file.Deltas[i].Timestamp > at || file.Deltas[i].Snapshot > upTo })
	return file.Deltas[n-1].Snapshot, nil
}

// from is the first file that begins with a snapshot or behind it; nil if there is none.
func (f Files) from(ctx context.Context, v twophase.SnapshotVersion) (*File, error) {
	for n, err := range f.List(ctx, v-1) {
		if err != nil {
			return nil, err
		}
		if !n.Full {
			return f.Read(ctx, n)
		}
	}
	return nil, nil
}
