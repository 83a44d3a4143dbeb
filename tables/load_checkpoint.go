package tables

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// readCheckpoint replays a checkpoint and its sidecars. A checkpoint that lacks
// protocol or metaData is an error although older commits may have them: it would
// be a guess that nothing else is missing.
func (l *Log) readCheckpoint(ctx context.Context, r *replay, c ListedCheckpoint) error {
	r.contents = &contents{}
	defer func() { r.contents = nil }()
	for _, f := range c.Files {
		if err := l.readCheckpointFile(ctx, r, c.Version, f); err != nil {
			return err
		}
	}
	if err := r.contents.check(l, c); err != nil {
		return err
	}
	if r.what != HeadActions { // sidecars hold files alone
		r.contents.inSidecar = true
		for _, s := range r.contents.sidecars {
			info, err := l.statSidecar(ctx, c, s)
			if err == nil {
				err = l.readCheckpointFile(ctx, r, c.Version, info)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := l.sound(r); err != nil {
		return err
	}
	r.settle(c.Version)
	return nil
}

func (l *Log) readCheckpointFile(ctx context.Context, r *replay, v twophase.Version, f objstore.Info) error {
	source := &object{ctx: ctx, store: l.Store, key: f.Key}
	r.begin(logFolder + strings.TrimPrefix(f.Key, l.prefix))
	var err error
	switch {
	case strings.HasSuffix(f.Key, ".json"):
		err = jsonLines(source, f.Size, r.apply)
	case l.ReadCheckpoint == nil:
		return fmt.Errorf("table %s: checkpoint %s: no reader for Parquet is configured", l.URI, strings.TrimPrefix(f.Key, l.prefix))
	default:
		err = l.ReadCheckpoint(ctx, source, f.Size, r.what, r.apply)
	}
	switch {
	case err == nil:
		r.others = r.others || !source.only(f.ETag)
		return nil
	case source.failed != nil && !errors.Is(source.failed, objstore.ErrNotFound):
		return fmt.Errorf("read checkpoint %s of table %s: %w", strings.TrimPrefix(f.Key, l.prefix), l.URI, source.failed)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return l.badCheckpoint(v, f.Key, err)
}

func (l *Log) badCheckpoint(v twophase.Version, key string, err error) error {
	e := l.fault(BadCheckpoint, strings.TrimPrefix(key, l.prefix), err)
	e.Version = v
	return e
}
