package logstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
)

// tries is how often a write whose outcome is unknown is repeated before the caller
// is told that it is.
const tries = 3

// sight is how long what was seen of the version below stands (R9).
const sight = 10 * time.Second

// commit puts a version: nil, objstore.ErrExists or objstore.ErrUnknown, or it was
// certainly not put, and will not be.
//
// Crash windows: before the claim, a temporary file is left that nobody names. After
// it, the version is taken, and the next reader or writer finishes it.
func (t *table) commit(ctx context.Context, v int64, data []byte) error {
	e := Entry{TablePath: t.path, FileName: fileName(v), TempPath: tempPath(v, data)}
	if t.l.weak.has(weakUnclaimed) {
		return t.Store.PutIfAbsent(ctx, t.commitKey(v), data)
	}
	looked := time.Now()
	if err := t.prepare(ctx, v, e, data); err != nil {
		return err
	}
	held, err := t.claim(ctx, e)
	if err != nil && t.l.weak.has(weakTidy) {
		_ = t.Store.Delete(ctx, t.prefix+e.TempPath)
	}
	switch {
	case errors.Is(err, ErrClaimed) && held.Complete:
		return t.taken(ctx, v)
	case errors.Is(err, ErrClaimed) && held.TempPath != e.TempPath:
		return fmt.Errorf("%s is claimed: %w", t.commitKey(v), objstore.ErrExists)
	case errors.Is(err, ErrClaimed): // by this content: an earlier try, or another replica
	case err != nil:
		return err
	}
	if t.l.weak.has(weakTempLast) {
		if err := t.Store.Put(ctx, t.prefix+e.TempPath, data); err != nil {
			return err
		}
	}
	if time.Since(looked) > sight {
		err := t.hasBelow(ctx, v, e.FileName)
		var gone *EntryError
		switch {
		case errors.As(err, &gone):
			return t.void(ctx, e, err)
		case err != nil:
			return t.open(v, err)
		}
	}
	return t.publish(ctx, v, e, data)
}

// open is the outcome of a commit that is claimed and was not put, for all we know.
func (t *table) open(v int64, err error) error {
	return fmt.Errorf("%s is claimed, and not put: %w: %w", t.commitKey(v), objstore.ErrUnknown, err)
}

// tempPath names the temporary file by its content, so that all publishers of one
// version claim it with the same entry, and any of them may finish it.
func tempPath(v int64, data []byte) string {
	h := sha256.Sum256(data)
	return fmt.Sprintf("%s%s.%x-%x-%x-%x-%x", tempFolder, fileName(v), h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// tempKey resolves an entry's temporary file.
func (t *table) tempKey(e Entry) (string, error) {
	p := e.TempPath
	if p == "" || strings.HasPrefix(p, "/") || strings.Contains(p, ":") || strings.Contains("/"+p+"/", "/../") {
		return "", t.wrong(e.FileName, fmt.Sprintf("it is incomplete, and its tempPath %q is not relative to the log", p),
			"remove the entry, after a look at what wrote it")
	}
	return t.prefix + p, nil
}

// prepare writes the temporary file, and looks at what the claim rests on: the
// version is free, the one below is there and complete.
func (t *table) prepare(ctx context.Context, v int64, e Entry, data []byte) error {
	if t.l.weak.has(weakTempLast) {
		return t.look(ctx, v)
	}
	// The file may be there from an earlier try. It is written all the same: its age
	// decides when a rule of the bucket removes it.
	wrote := make(chan error, 1)
	go func() { wrote <- t.Store.Put(ctx, t.prefix+e.TempPath, data) }()
	looked := t.look(ctx, v)
	if err := <-wrote; err != nil {
		// Nothing is claimed, so nothing is unknown.
		return fmt.Errorf("write %s: %s", t.prefix+e.TempPath, err.Error())
	}
	return looked
}

func (t *table) look(ctx context.Context, v int64) error {
	there, err := t.has(ctx, v)
	if err != nil {
		return err
	}
	if there {
		return fmt.Errorf("%s: %w", t.commitKey(v), objstore.ErrExists)
	}
	if v == 0 {
		return t.notOld(ctx)
	}
	below, err := t.entry(ctx, v-1)
	if err != nil {
		return err
	}
	if below != nil && !below.Complete && !t.l.weak.has(weakGap) {
		if err := t.repair(ctx, v-1, *below); err != nil {
			return err
		}
	}
	return t.hasBelow(ctx, v, fileName(v))
}

// notOld refuses to create a table at a place where entries of a dropped one are left.
func (t *table) notOld(ctx context.Context) error {
	e, err := t.entry(ctx, 0)
	if err != nil || e == nil || !e.Complete {
		return err
	}
	return t.taken(ctx, 0)
}

// taken: the version's entry is complete, so its commit is there.
func (t *table) taken(ctx context.Context, v int64) error {
	there, err := t.has(ctx, v)
	switch {
	case err != nil:
		return err
	case !there:
		return t.wrong(fileName(v), "it is complete, and there is no such commit", dropped)
	}
	return fmt.Errorf("%s: %w", t.commitKey(v), objstore.ErrExists)
}

// claim takes the version. A claim whose outcome is unknown is repeated as it is: if
// it was carried out, the next answer shows it.
func (t *table) claim(ctx context.Context, e Entry) (held Entry, err error) {
	unknown := false
	for range tries {
		held, err = t.l.cfg.Entries.Claim(ctx, e)
		if errors.Is(err, ErrClaimed) && held == (Entry{}) {
			held, err = t.holder(ctx, e, err)
		}
		if !errors.Is(err, ErrUnknown) {
			break
		}
		if unknown = true; t.l.weak.has(weakUnknownIsDone) {
			return held, nil
		}
	}
	switch {
	case err == nil, errors.Is(err, ErrClaimed):
		return held, err
	case unknown:
		return held, fmt.Errorf("claim %s%s: %w: %w", t.prefix, e.FileName, objstore.ErrUnknown, err)
	}
	return held, fmt.Errorf("claim %s%s: %w", t.prefix, e.FileName, err)
}

// holder reads the entry that a claim met. Should it be gone, nothing is known.
func (t *table) holder(ctx context.Context, e Entry, claimed error) (Entry, error) {
	held, err := t.l.cfg.Entries.Get(ctx, e.TablePath, e.FileName)
	if err != nil {
		return held, fmt.Errorf("%w: read who has it: %w", ErrUnknown, err)
	}
	return held, claimed
}

// publish copies what is claimed. From here on the commit counts, whatever fails.
func (t *table) publish(ctx context.Context, v int64, e Entry, data []byte) error {
	if t.l.weak.has(weakCompleteFirst) {
		if err := t.complete(ctx, e); err != nil {
			return t.open(v, err)
		}
	}
	err := t.put(ctx, v, data)
	for n := 1; err != nil && !errors.Is(err, objstore.ErrExists) && n < tries; n++ {
		err = t.put(ctx, v, data)
	}
	switch {
	case errors.Is(err, objstore.ErrExists):
		return t.void(ctx, e, err)
	case err != nil:
		return t.open(v, err)
	}
	if err := t.complete(ctx, e); err != nil {
		t.l.cfg.Log.Warn("a commit's log store entry stays incomplete until somebody looks at it", "commit", t.commitKey(v), "error", err)
	}
	return nil
}

// put puts the commit itself. Somebody else may have done so, with the same bytes:
// ErrExists means that others are there.
func (t *table) put(ctx context.Context, v int64, data []byte) error {
	if t.l.weak.has(weakOverwrites) {
		return t.Store.Put(ctx, t.commitKey(v), data)
	}
	err := t.Store.PutIfAbsent(ctx, t.commitKey(v), data)
	if !errors.Is(err, objstore.ErrExists) {
		return err
	}
	there, _, reading := t.Store.Get(ctx, t.commitKey(v), objstore.Range{})
	switch {
	case reading != nil:
		return fmt.Errorf("read %s: %w", t.commitKey(v), reading)
	case !bytes.Equal(there, data):
		return fmt.Errorf("%s: %w", t.commitKey(v), objstore.ErrExists)
	}
	return nil
}

// void completes an entry whose claim came too late, so that nobody copies its file.
func (t *table) void(ctx context.Context, e Entry, why error) error {
	t.l.cfg.Log.Warn("a claim came too late and is void", "commit", t.prefix+e.FileName, "reason", why)
	if err := t.complete(ctx, e); err != nil {
		t.l.cfg.Log.Warn("complete a void entry", "commit", t.prefix+e.FileName, "error", err)
	}
	return why
}
