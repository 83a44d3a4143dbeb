package tables

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// The tags on sidecars of ours. Only a sidecar that holds nothing but adds, under
// the columns that a new one would have, is used again: one with tombstones has to
// be written anew, so that they expire.
const (
	tagSidecarColumns = tagPrefix + "columns"
	tagSidecarAdds    = tagPrefix + "adds"
)

const (
	// smallSidecar is the size below which sidecars are gathered into larger ones
	// when there are more than mostSmall of them. Otherwise they would pile up: every
	// checkpoint adds one.
	smallSidecar = 1 << 20
	mostSmall    = 16
	// classicEvery: of so many checkpoints at least one has the classic name, so that
	// clients that do not look for other names fail, and do not read an old state.
	classicEvery = 10
)

// v2 writes a checkpoint with sidecars. Sidecars of the checkpoint before are used
// again if no commit since names a file in them. To know that, their paths are
// read: what is written grows with the change, what is read with the table, though
// by a small part of it.
func (w *checkpointWriter) v2(ctx context.Context) error {
	w.out.V2 = true
	adds, removes := w.sidecars(true), w.sidecars(false)
	defer adds.abandon()
	defer removes.abandon()
	to := func(a *fileAction) error {
		keep, err := w.keeps(a)
		if err != nil || !keep {
			return err
		}
		if a.line.kind == kindAdd {
			return adds.write(ctx, a.text)
		}
		return removes.write(ctx, a.text)
	}
	f := w.k.filesOf(&w.s.source)
	if err := f.tail(ctx, to); err != nil {
		return err
	}
	if err := f.main(ctx, to); err != nil {
		return err
	}
	reused, err := w.oldSidecars(ctx, f, to)
	if err != nil {
		return err
	}
	if err := errors.Join(adds.finish(ctx), removes.finish(ctx)); err != nil {
		return err
	}
	if err := w.live.once(w.k.log, &w.s.source); err != nil {
		return errors.Join(err, adds.takeBack(ctx), removes.takeBack(ctx))
	}
	return w.v2Main(ctx, f, slices.Concat(reused, adds.done, removes.done), reused)
}

// oldSidecars goes through the sidecars of the checkpoint before. What is not used
// again goes to the new ones.
func (w *checkpointWriter) oldSidecars(ctx context.Context, f *files, to func(*fileAction) error) ([]sidecarRef, error) {
	var reused []sidecarRef
	merge := w.small() > mostSmall
	for _, s := range w.s.head.sidecars {
		clean := false
		var err error
		if w.reusable(s) && (!merge || s.Size >= smallSidecar) {
			if clean, err = w.clean(ctx, f, s); err != nil {
				return nil, err
			}
		}
		if !clean {
			if err := f.sidecar(ctx, s, to); err != nil {
				return nil, err
			}
			continue
		}
		n, _ := strconv.ParseInt(s.Tags[tagSidecarAdds], 10, 64)
		w.out.Adds += n
		w.out.Actions += n
		w.out.Bytes += s.Size
		w.out.Reused++
		reused = append(reused, s)
	}
	return reused, nil
}

func (w *checkpointWriter) small() (n int) {
	for _, s := range w.s.head.sidecars {
		if s.Size < smallSidecar {
			n++
		}
	}
	return n
}

func (w *checkpointWriter) reusable(s sidecarRef) bool {
	n, err := strconv.ParseInt(s.Tags[tagSidecarAdds], 10, 64)
	return err == nil && n > 0 && s.Tags[tagSidecarColumns] == w.columnsTag()
}

// columnsTag stands for all that the columns of a sidecar depend on.
func (w *checkpointWriter) columnsTag() string {
	h := sha256.New()
	m := w.s.head.meta
	fmt.Fprintf(h, "%q %q %q", m.Schema, m.PartitionColumns, w.s.head.protocol.WriterFeatures)
	for _, key := range slices.Sorted(maps.Keys(m.Configuration)) {
		fmt.Fprintf(h, " %q %q", key, m.Configuration[key])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// clean: no commit since names a file of the sidecar. It reads its keys alone, and
// checks that it holds what its tags say.
func (w *checkpointWriter) clean(ctx context.Context, f *files, s sidecarRef) (bool, error) {
	info, err := w.k.log.statSidecar(ctx, *f.src.checkpoint, s)
	if err != nil {
		return false, err
	}
	rows := int64(0)
	var live extractor
	err = w.k.readCheckpointFile(ctx, f.src.checkpoint.Version, info, FileKeys, func(text []byte) error {
		a, err := f.parse(text)
		if err != nil {
			return err
		}
		if _, named := f.seen[a.key]; named || a.line.kind != kindAdd {
			return errDirty
		}
		rows++
		live.add(a)
		return nil
	})
	if errors.Is(err, errDirty) || err == nil && strconv.FormatInt(rows, 10) != s.Tags[tagSidecarAdds] {
		return false, nil
	}
	if err == nil {
		w.live.plain, w.live.vectors = append(w.live.plain, live.plain...), append(w.live.vectors, live.vectors...)
	}
	return err == nil, err
}

// errDirty: a sidecar has to be written anew.
var errDirty = errors.New("a file in the sidecar was changed")

// v2Main writes the top level and publishes the checkpoint.
func (w *checkpointWriter) v2Main(ctx context.Context, f *files, sidecars, reused []sidecarRef) (err error) {
	w.out.Sidecars = len(sidecars)
	head := append(w.s.head.headLines(), w.checkpointMetadata(sidecars))
	w.out.Actions += int64(len(head) + len(sidecars))
	to := &spool{dir: w.k.cfg.TempDir}
	defer func() { err = errors.Join(err, to.close()) }()
	file, err := w.create(MainFile, to)
	if err != nil {
		return err
	}
	v2 := &pointerV2{Actions: head, Sidecars: [][]byte{}}
	for _, s := range sidecars {
		v2.Sidecars = append(v2.Sidecars, s.body)
		head = append(head, s.line)
	}
	for _, line := range head {
		if err := w.row(file, line); err != nil {
			return err
		}
	}
	if err := file.Close(); err != nil {
		return err
	}
	v2.cut()
	data, err := to.bytes()
	if err != nil {
		return err
	}
	// Whoever cleans a log goes by the checkpoints that he finds in it, and the one
	// that named these sidecars may have gone since.
	for _, s := range reused {
		if _, err := w.k.log.statSidecar(ctx, *f.src.checkpoint, s); err != nil {
			return err
		}
	}
	return w.publish(ctx, w.v2Name(), data, v2)
}

func (v *pointerV2) cut() {
	if len(v.Actions) > mostInPointer {
		v.Actions = nil
	}
	if len(v.Sidecars) > mostInPointer {
		v.Sidecars = nil
	}
}

func (w *checkpointWriter) checkpointMetadata(sidecars []sidecarRef) []byte {
	bytes, actions := int64(0), w.out.Adds+w.out.Removes
	for _, s := range sidecars {
		bytes += s.Size
	}
	return fmt.Appendf(nil, `{"checkpointMetadata":{"version":%d,"tags":{"sidecarNumActions":"%d","sidecarSizeInBytes":"%d","numOfAddFiles":"%d"}}}`,
		w.s.At, actions, bytes, w.out.Adds)
}

// v2Name is unique, or now and then the classic name, unless a bad one has that.
func (w *checkpointWriter) v2Name() string {
	span := classicEvery * w.s.Profile.CheckpointInterval()
	due := w.s.Checkpoint == twophase.NoVersion || w.s.At/span > w.s.Checkpoint/span
	if name := classicName(w.s.At); due && !w.k.badAt(w.k.log.prefix+name) {
		return name
	}
	return versionName(w.s.At) + ".checkpoint." + uuid.NewString() + ".parquet"
}

// sidecarWriter writes actions into sidecars of a bounded size, all adds or all
// removes.
type sidecarWriter struct {
	w    *checkpointWriter
	adds bool
	done []sidecarRef

	to   *spool
	file CheckpointFile
	rows int
}

func (w *checkpointWriter) sidecars(adds bool) *sidecarWriter {
	return &sidecarWriter{w: w, adds: adds}
}

func (s *sidecarWriter) write(ctx context.Context, text []byte) error {
	if s.file == nil {
		s.to = &spool{dir: s.w.k.cfg.TempDir}
		file, err := s.w.create(SidecarFile, s.to)
		if err != nil {
			return err
		}
		s.file = file
	}
	if err := s.w.row(s.file, text); err != nil {
		return err
	}
	if s.rows++; s.rows >= s.w.k.cfg.SidecarRows {
		return s.finish(ctx)
	}
	return nil
}

// finish puts the present sidecar, if there is one.
func (s *sidecarWriter) finish(ctx context.Context) error {
	if s.file == nil {
		return nil
	}
	if err := s.file.Close(); err != nil {
		return err
	}
	data, err := s.to.bytes()
	if err != nil {
		return err
	}
	ref, err := s.put(ctx, data)
	if err != nil {
		return fmt.Errorf("put sidecar: %w", err)
	}
	s.done = append(s.done, ref)
	s.w.out.Bytes += ref.Size
	s.file, s.rows = nil, 0
	return s.to.close()
}

// put puts a sidecar under a name that nobody else has, so that an unknown outcome
// is settled by finding it there.
func (s *sidecarWriter) put(ctx context.Context, data []byte) (sidecarRef, error) {
	name := uuid.NewString() + ".parquet"
	log := s.w.k.log
	key := log.prefix + sidecarFolder + name
	if err := log.Store.PutIfAbsent(ctx, key, data); err != nil && !errors.Is(err, objstore.ErrUnknown) {
		return sidecarRef{}, err
	}
	info, err := log.Store.Stat(ctx, key)
	if err != nil {
		return sidecarRef{}, err
	}
	tags := map[string]string{}
	tagText := "{}"
	if s.adds {
		tags[tagSidecarColumns], tags[tagSidecarAdds] = s.w.columnsTag(), strconv.Itoa(s.rows)
		tagText = fmt.Sprintf(`{"%s":"%s","%s":"%d"}`, tagSidecarColumns, s.w.columnsTag(), tagSidecarAdds, s.rows)
	}
	body := fmt.Appendf(nil, `{"path":"%s","sizeInBytes":%d,"modificationTime":%d,"tags":%s}`, name, info.Size, info.Modified.UnixMilli(), tagText)
	return sidecarRef{Path: name, Size: info.Size, Tags: tags, body: body, line: fmt.Appendf(nil, `{"sidecar":%s}`, body)}, nil
}

// takeBack removes the sidecars that were put: nothing names them, and nothing will. Those
// of a checkpoint that is tried again and again would pile up.
func (s *sidecarWriter) takeBack(ctx context.Context) error {
	for _, ref := range s.done {
		if err := s.w.k.log.Store.Delete(ctx, s.w.k.log.prefix+sidecarFolder+ref.Path); err != nil {
			return fmt.Errorf("take sidecar %s back: %w", ref.Path, err)
		}
	}
	return nil
}

// abandon lets go of a sidecar that was not finished.
func (s *sidecarWriter) abandon() {
	if s.to != nil {
		_ = s.to.close() // nothing in it is wanted any more
	}
}
