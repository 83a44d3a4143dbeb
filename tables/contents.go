package tables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// contents is what a checkpoint says of itself, beside the actions that it stands for. A
// checkpoint in which that is missing or contradicts itself is as bad as one that cannot be
// read: what else is missing nobody knows.
type contents struct {
	// metadata are the versions of its checkpointMetadata, of which a V2 checkpoint has one.
	metadata []twophase.Version
	sidecars []sidecarRef
	// inSidecar: what comes is from one of them.
	inSidecar bool
}

// note takes a line that was parsed. One whose action is null is not there to be passed
// over: something was written in its place.
func (c *contents) note(l *line) error {
	switch {
	case l.name == nil:
		return &fieldError{reason: "a line holds no action"}
	case c.inSidecar && l.kind != kindAdd && l.kind != kindRemove && l.kind != kindUnknown:
		return &fieldError{field: string(l.name), reason: "a sidecar holds add and remove alone"}
	case l.kind == kindSidecar:
		s, err := parseSidecar(l.body)
		if err != nil {
			return err
		}
		s.body = slices.Clone(l.body)
		s.line = fmt.Appendf(nil, `{"sidecar":%s}`, s.body)
		c.sidecars = append(c.sidecars, s)
	case l.kind == kindCheckpoint:
		v, err := parseCheckpointMetadata(l.body)
		if err != nil {
			return err
		}
		c.metadata = append(c.metadata, v)
	}
	return nil
}

// check says what is wrong with a checkpoint whose own files were read. Under a unique name
// it is of V2, under the classic one it may be. *LogError.
func (c *contents) check(l *Log, of ListedCheckpoint) error {
	names := make([]string, len(c.sidecars))
	for i, s := range c.sidecars {
		names[i] = s.Path[strings.LastIndexByte(s.Path, '/')+1:]
	}
	slices.Sort(names)
	var err error
	switch n := len(c.metadata); {
	case n > 1:
		err = fmt.Errorf("it has %d checkpointMetadata actions, and one is what it may have", n)
	case n == 1 && c.metadata[0] != of.Version:
		err = fmt.Errorf("its checkpointMetadata.version is %d, and its name says %d", c.metadata[0], of.Version)
	case n == 0 && (of.unique() || len(names) > 0):
		err = errors.New("it has no checkpointMetadata, and is a V2 checkpoint")
	case len(slices.Compact(slices.Clone(names))) < len(names):
		err = errors.New("it names a sidecar twice")
	}
	if err != nil {
		return l.badCheckpoint(of.Version, of.Files[0].Key, err)
	}
	return nil
}

// unique: the checkpoint has a unique name, V.checkpoint.UUID.json or .parquet.
func (c *ListedCheckpoint) unique() bool {
	key := c.Files[0].Key
	return strings.Count(key[strings.LastIndexByte(key, '/')+1:], ".") == 3
}

// statSidecar finds a sidecar, of the size that its checkpoint says. *LogError if it is
// missing, or another.
func (l *Log) statSidecar(ctx context.Context, of ListedCheckpoint, s sidecarRef) (objstore.Info, error) {
	key, err := l.sidecarKey(s.Path)
	if err != nil {
		return objstore.Info{}, l.badCheckpoint(of.Version, of.Files[0].Key, err)
	}
	info, err := l.Store.Stat(ctx, key)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return info, l.badCheckpoint(of.Version, key, errors.New("the sidecar is missing"))
	case err != nil:
		return info, fmt.Errorf("read sidecar %s of table %s: %w", s.Path, l.URI, err)
	case info.Size != s.Size:
		return info, l.badCheckpoint(of.Version, key, fmt.Errorf("the sidecar has %d bytes, and its checkpoint says %d", info.Size, s.Size))
	}
	return info, nil
}

// sidecarKey: a sidecar's path is its name, or ends in it.
func (l *Log) sidecarKey(path string) (string, error) {
	name, err := unescape(path[strings.LastIndexByte(path, '/')+1:])
	key := l.prefix + sidecarFolder + name
	if err == nil {
		err = objstore.CheckKey(key)
	}
	if err != nil {
		return "", fmt.Errorf("sidecar %q: %w", path, err)
	}
	return key, nil
}

// sidecarRef is a sidecar action.
type sidecarRef struct {
	Path string
	Size int64
	Tags map[string]string
	// body is the action's object, line all of it.
	body, line []byte
}

func parseSidecar(body []byte) (sidecarRef, error) {
	s := sidecarRef{Size: -1, Tags: map[string]string{}}
	err := members(body, func(name, value []byte) bool {
		ok := true
		switch string(name) {
		case "path":
			s.Path, ok = textOf(value)
		case "sizeInBytes":
			s.Size, ok = intOf(value)
		case "tags":
			s.Tags = readTags(value)
		}
		return ok
	})
	switch {
	case err != nil:
	case s.Path == "":
		err = &fieldError{field: "path", reason: "is missing"}
	case s.Size < 0:
		err = &fieldError{field: "sizeInBytes", reason: "is missing, or below 0"}
	}
	if err != nil {
		return s, within("sidecar", err)
	}
	return s, nil
}

func parseCheckpointMetadata(body []byte) (twophase.Version, error) {
	v := int64(-1)
	err := members(body, func(name, value []byte) bool {
		ok := true
		if string(name) == "version" {
			v, ok = intOf(value)
		}
		return ok
	})
	if err == nil && v < 0 {
		err = &fieldError{field: "version", reason: "is missing, or below 0"}
	}
	if err != nil {
		return 0, within("checkpointMetadata", err)
	}
	return twophase.Version(v), nil
}

// liveTwice is an add that a checkpoint has twice, deletion vector and all. Replayed as it
// stands, one of the two would be taken for another file by whoever does not compare them.
func liveTwice(path string) error {
	return &fieldError{field: "add.path", reason: fmt.Sprintf("the file %s is in the checkpoint twice", cut(path))}
}
