package manifest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/txcoord/txcoord/twophase"
)

// Name is a file's: the first snapshot in it.
type Name struct {
	Snapshot twophase.SnapshotVersion
	// Full: it lists all tables as of that snapshot.
	Full bool
}

func (n Name) String() string {
	if n.Full {
		return fmt.Sprintf("%020d.checkpoint.json", n.Snapshot)
	}
	return fmt.Sprintf("%020d.json", n.Snapshot)
}

// ParseName reads what String makes; ok is false for anything else.
func ParseName(s string) (n Name, ok bool) {
	digits, rest, _ := strings.Cut(s, ".")
	k, err := strconv.ParseUint(digits, 10, 64)
	n = Name{Snapshot: twophase.SnapshotVersion(k), Full: rest == "checkpoint.json"}
	return n, err == nil && k > 0 && s == n.String()
}

// fits errs if a file is not what its name says, or has a hole.
func (n Name) fits(f *File) error {
	switch {
	case len(f.Deltas) == 0:
		return fmt.Errorf("manifest %s holds no snapshot", n)
	case f.First() != n.Snapshot:
		return fmt.Errorf("manifest %s begins with snapshot %d", n, f.First())
	case f.Full != n.Full:
		return fmt.Errorf("manifest %s has full %t", n, f.Full)
	case n.Full && len(f.Deltas) != 1:
		return fmt.Errorf("manifest %s holds %d snapshots, and may hold one", n, len(f.Deltas))
	}
	for i := range f.Deltas {
		if d := &f.Deltas[i]; d.Snapshot != n.Snapshot+twophase.SnapshotVersion(i) {
			return fmt.Errorf("manifest %s holds snapshot %d in the place of %d", n, d.Snapshot, n.Snapshot+twophase.SnapshotVersion(i))
		}
	}
	return nil
}
