package tables

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// ListedCommit is a commit in a listing.
type ListedCommit struct {
	Version twophase.Version
	objstore.Info
}

// ListedCheckpoint is a checkpoint in a listing, with those of its files that are
// in the log's folder.
type ListedCheckpoint struct {
	Version twophase.Version
	// Complete is false while parts of a multi-part checkpoint are missing. Whether
	// the sidecars of a V2 checkpoint are there shows when it is read.
	Complete bool
	Files    []objstore.Info

	parts int // of a multi-part checkpoint, else 0
}

// Listing is one listing of a log, from a version on.
type Listing struct {
	From twophase.Version
	// Commits ascend. Checkpoints ascend too; several of one version stand in the
	// order of their names.
	Commits     []ListedCommit
	Checkpoints []ListedCheckpoint
	// Owner: the folder of the owner object is there (R9, R21).
	Owner bool

	hint hint // that the listing began at; of a version and size 0 if it did not
}

// ownerFolder is the only thing of ours below a log besides versions (R21).
const ownerFolder = "_txcoord/"

// List lists the log from a version on. Sub-folders are one line each, so the
// cost does not grow with what lies in them (R9). A log that is not there is an
// empty listing.
func (l *Log) List(ctx context.Context, from twophase.Version) (*Listing, error) {
	from = max(from, 0)
	out := &Listing{From: from}
	// All names of a version begin with its digits, so the bare digits sort before
	// them; folders and the pointer begin with "_", which sorts behind digits.
	options := objstore.ListOptions{Prefix: l.prefix, StartAfter: l.prefix + versionName(from), Delimiter: true}
	for entry, err := range l.Store.List(ctx, options) {
		if err != nil {
			return nil, fmt.Errorf("list the log of table %s from version %d: %w", l.URI, from, err)
		}
		if entry.Prefix != "" {
			out.Owner = out.Owner || entry.Prefix == l.prefix+ownerFolder
			continue
		}
		out.note(strings.TrimPrefix(entry.Key, l.prefix), entry.Info)
	}
	return out, nil
}

// note sorts a file in. What is neither commit nor checkpoint is passed over.
func (l *Listing) note(name string, info objstore.Info) {
	digits, rest, _ := strings.Cut(name, ".")
	v, ok := parseVersion(digits)
	if !ok {
		return
	}
	if rest == "json" {
		l.Commits = append(l.Commits, ListedCommit{v, info})
		return
	}
	tail, ok := strings.CutPrefix(rest, "checkpoint.")
	if !ok {
		return
	}
	switch fields := strings.Split(tail, "."); {
	case len(fields) == 1 && fields[0] == "parquet",
		len(fields) == 2 && fields[0] != "" && (fields[1] == "parquet" || fields[1] == "json"):
		l.Checkpoints = append(l.Checkpoints, ListedCheckpoint{Version: v, Complete: true, Files: []objstore.Info{info}})
	case len(fields) == 3 && fields[2] == "parquet":
		l.part(v, fields[0], fields[1], info)
	}
}

// part adds a part to its checkpoint. Parts come in the order of their numbers, but
// those of two checkpoints with different part counts are mixed.
func (l *Listing) part(v twophase.Version, number, count string, info objstore.Info) {
	n, err1 := strconv.Atoi(number)
	of, err2 := strconv.Atoi(count)
	if err1 != nil || err2 != nil || len(number) != 10 || len(count) != 10 || n < 1 || n > of {
		return
	}
	i := slices.IndexFunc(l.Checkpoints, func(c ListedCheckpoint) bool { return c.Version == v && c.parts == of })
	if i < 0 {
		i = len(l.Checkpoints)
		l.Checkpoints = append(l.Checkpoints, ListedCheckpoint{Version: v, parts: of})
	}
	c := &l.Checkpoints[i]
	c.Files = append(c.Files, info)
	c.Complete = len(c.Files) == of
}

// Commit returns a listed commit.
func (l *Listing) Commit(v twophase.Version) (ListedCommit, bool) {
	i, ok := slices.BinarySearchFunc(l.Commits, v, func(c ListedCommit, v twophase.Version) int { return int(c.Version - v) })
	if !ok {
		return ListedCommit{}, false
	}
	return l.Commits[i], true
}

// Last is the newest version of a commit or a complete checkpoint; NoVersion if
// there is none.
func (l *Listing) Last() twophase.Version {
	last := twophase.NoVersion
	if n := len(l.Commits); n > 0 {
		last = l.Commits[n-1].Version
	}
	if c, ok := l.NewestCheckpoint(Latest); ok {
		last = max(last, c.Version)
	}
	return last
}

// NewestCheckpoint is the newest complete checkpoint that is not above a version;
// Latest asks for the newest of all.
func (l *Listing) NewestCheckpoint(upTo twophase.Version) (ListedCheckpoint, bool) {
	for _, c := range slices.Backward(l.Checkpoints) {
		if c.Complete && (upTo == Latest || c.Version <= upTo) {
			return c, true
		}
	}
	return ListedCheckpoint{}, false
}

// Reads says whether a version can be read from what is listed: every commit from the
// newest complete checkpoint at or below it on is there. Of a listing that is not whole, no
// says nothing.
func (l *Listing) Reads(v twophase.Version) bool {
	next := twophase.Version(0)
	if cp, ok := l.NewestCheckpoint(v); ok {
		next = cp.Version + 1
	}
	for ; next <= v; next++ {
		if _, ok := l.Commit(next); !ok {
			return false
		}
	}
	return true
}

// holds reports whether all commits from one version to another are listed.
func (l *Listing) holds(from, to twophase.Version) bool {
	for v := from; v <= to; v++ {
		if _, ok := l.Commit(v); !ok {
			return false
		}
	}
	return true
}

// Above reports whether there is a commit or a checkpoint, complete or not, at or
// above a version (R9).
func (l *Listing) Above(v twophase.Version) bool {
	commit := len(l.Commits) > 0 && l.Commits[len(l.Commits)-1].Version >= v
	return commit || slices.ContainsFunc(l.Checkpoints, func(c ListedCheckpoint) bool { return c.Version >= v })
}
