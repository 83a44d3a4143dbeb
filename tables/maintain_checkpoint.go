package tables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// Checkpoint is what was written.
type Checkpoint struct {
	Version twophase.Version
	// V2: with sidecars. Name is the file's in the log's folder.
	V2   bool
	Name string
	// Actions in it, and how many of them are adds and removes.
	Actions, Adds, Removes int64
	// Bytes of all its files. Reused are the sidecars that an older checkpoint
	// has too; the bytes of those are counted.
	Bytes            int64
	Sidecars, Reused int
	// Existed: somebody else had written one of this version meanwhile. It stays,
	// and the rest says nothing about it.
	Existed bool
	// Extracted: its extract was handed to Extracts.
	Extracted bool
}

// Checkpoint writes a checkpoint of the version that was surveyed, and points
// _last_checkpoint to it.
//
// still is asked right before the checkpoint is put and once more after it: whether
// the log is still the one that was surveyed. If it says no after the put, the
// checkpoint is taken back: under a log that was dropped and made anew a checkpoint
// of the old one would hide every version up to its own. nil asks nothing.
//
// The checkpoint is put if absent. Dying before that leaves at most sidecars that
// nothing names, which CleanUp removes; dying after it, before _last_checkpoint is
// put, costs readers a longer listing. Nobody needs both.
//
// *LogError BadCheckpoint: the one that the survey went by is bad, which shows only now. The
// next Survey passes it over.
func (k *Keeper) Checkpoint(ctx context.Context, s *Survey, still func(context.Context) error) (*Checkpoint, error) {
	if err := s.Profile.Protocol.checkWritable(k.log.URI); err != nil {
		return nil, err
	}
	if err := k.tooLarge(s.Bytes); err != nil {
		return nil, err
	}
	if s.Checkpoint == s.At || s.Taken {
		return &Checkpoint{Version: s.At, Existed: true}, nil
	}
	if still == nil {
		still = func(context.Context) error { return nil }
	}
	w := &checkpointWriter{
		k: k, s: s, still: still, out: &Checkpoint{Version: s.At},
		expiry: k.cfg.Now().Add(-s.Profile.DeletedFileRetention()).UnixMilli(),
	}
	var err error
	if s.Profile.v2Checkpoints() {
		err = w.v2(ctx)
	} else {
		err = w.classic(ctx)
	}
	if err := k.judged(s.source.checkpoint, err); err != nil {
		return nil, fmt.Errorf("checkpoint version %d of table %s: %w", s.At, k.log.URI, err)
	}
	return w.out, nil
}

// checkpointWriter writes one checkpoint.
type checkpointWriter struct {
	k     *Keeper
	s     *Survey
	still func(context.Context) error
	out   *Checkpoint
	// expiry: a file removed before it is no tombstone any more. Milliseconds.
	expiry int64
	// live gathers the live files, for an extract and to find those that are there twice.
	live extractor
}

// keeps says whether a file action goes into the checkpoint, and counts it.
func (w *checkpointWriter) keeps(a *fileAction) (bool, error) {
	if a.line.kind == kindAdd {
		w.out.Adds++
		w.out.Actions++
		if w.k.log.Extracts != nil || w.s.source.checkpoint != nil { // what commits name counts once
			w.live.add(a)
		}
		return true, nil
	}
	at, err := deletedAt(a.line.body)
	if err != nil || at <= w.expiry {
		return false, err
	}
	w.out.Removes++
	w.out.Actions++
	return true, nil
}

// deletedAt is a remove's deletionTimestamp; 0 if it has none, and it is expired then.
func deletedAt(body []byte) (at int64, err error) {
	err = members(body, func(name, value []byte) bool {
		ok := true
		if string(name) == "deletionTimestamp" {
			at, ok = intOf(value)
		}
		return ok
	})
	if err != nil {
		return 0, within("remove", err)
	}
	return at, nil
}

// headLines are the actions that are no file actions, in a fixed order.
func (h *head) headLines() [][]byte {
	out := [][]byte{h.lines.protocol, h.lines.meta}
	for _, app := range slices.Sorted(maps.Keys(h.txns)) {
		out = append(out, h.txns[app].line)
	}
	for _, domain := range slices.Sorted(maps.Keys(h.domains)) {
		if line := h.domains[domain]; line != nil {
			out = append(out, line)
		}
	}
	return out
}

func (w *checkpointWriter) create(kind CheckpointKind, to *spool) (CheckpointFile, error) {
	return w.k.cfg.Format.Create(to, CheckpointColumns{Kind: kind, Protocol: w.s.head.protocol, MetaData: w.s.head.meta})
}

// row writes an action. One that does not fit a checkpoint's columns is the table's
// fault and stays one: *LogError.
func (w *checkpointWriter) row(file CheckpointFile, text []byte) error {
	err := file.Write(text)
	if err == nil || errors.Is(err, ErrNoRoom) {
		return err
	}
	e := w.k.log.fault(Malformed, "", err)
	e.Version, e.Reason = w.s.At, "an action does not fit a checkpoint"
	return e
}

// classic writes everything into one file, N.checkpoint.parquet.
func (w *checkpointWriter) classic(ctx context.Context) (err error) {
	to := &spool{dir: w.k.cfg.TempDir}
	defer func() { err = errors.Join(err, to.close()) }()
	if err := w.classicRows(ctx, to); err != nil {
		return err
	}
	data, err := to.bytes()
	if err != nil {
		return err
	}
	return w.publish(ctx, classicName(w.s.At), data, nil)
}

func (w *checkpointWriter) classicRows(ctx context.Context, to *spool) error {
	file, err := w.create(ClassicFile, to)
	if err != nil {
		return err
	}
	for _, line := range w.s.head.headLines() {
		w.out.Actions++
		if err := w.row(file, line); err != nil {
			return err
		}
	}
	err = w.k.filesOf(&w.s.source).all(ctx, w.s.head, func(a *fileAction) error {
		keep, err := w.keeps(a)
		if err != nil || !keep {
			return err
		}
		return w.row(file, a.text)
	})
	if err != nil {
		return err
	}
	return errors.Join(w.live.once(w.k.log, &w.s.source), file.Close())
}

func classicName(v twophase.Version) string { return versionName(v) + ".checkpoint.parquet" }

// publish puts the checkpoint and the pointer to it. v2 is what the pointer says of
// a V2 checkpoint; nil for another one.
func (w *checkpointWriter) publish(ctx context.Context, name string, data []byte, v2 *pointerV2) error {
	if err := w.still(ctx); err != nil {
		return err
	}
	info, err := w.put(ctx, name, data)
	if err != nil || w.out.Existed {
		return err
	}
	if err := w.still(ctx); err != nil {
		return errors.Join(err, w.k.log.Store.Delete(ctx, w.k.log.prefix+name))
	}
	w.out.Name = name
	w.out.Bytes += int64(len(data))
	p := pointer{Version: int64(w.s.At), Size: w.out.Actions, SizeInBytes: w.out.Bytes, Adds: w.out.Adds}
	if v2 != nil {
		v2.Path, v2.Size, v2.Modified = name, int64(len(data)), info.Modified.UnixMilli()
		p.V2 = v2
	}
	if err := w.k.putPointer(ctx, p); err != nil {
		return err
	}
	if w.k.log.extracts(w.out.Bytes, 0) {
		if b := w.live.finish(w.k.log, w.s, info); b != nil {
			w.k.log.Extracts.Keep(ctx, b)
			w.out.Extracted = true
		}
	}
	return nil
}

// put puts the checkpoint's own file and says what became of it. Of an unknown
// outcome only finding the file is an answer; without it the next try will tell.
func (w *checkpointWriter) put(ctx context.Context, name string, data []byte) (objstore.Info, error) {
	store, key := w.k.log.Store, w.k.log.prefix+name
	err := store.PutIfAbsent(ctx, key, data)
	if errors.Is(err, objstore.ErrExists) {
		w.out.Existed = true
		return objstore.Info{}, nil
	}
	if err != nil && !errors.Is(err, objstore.ErrUnknown) {
		return objstore.Info{}, err
	}
	info, statErr := store.Stat(ctx, key)
	if statErr != nil {
		return info, errors.Join(err, statErr)
	}
	w.out.Existed = info.Size != int64(len(data))
	return info, nil
}

// age is how long ago an object was written.
func (k *Keeper) age(o objstore.Info) time.Duration { return k.cfg.Now().Sub(o.Modified) }
