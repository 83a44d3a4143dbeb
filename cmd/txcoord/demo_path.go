package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// pathReader reads the demo's tables the way an engine does that is given their
// folders: the newest version of each, one table after the other. It knows no more
// of txcoord than any Delta reader, and reads real logs and real Parquet.
type pathReader struct {
	logs [3]*pathLog

	mu    sync.Mutex
	looks pathLooks
	since time.Time // the tables disagree since then; zero if they agree
}

// pathLooks is what the reader has seen.
type pathLooks struct {
	total, torn int
	// windows are how long the tables disagreed each time.
	windows []time.Duration
}

// pathLog is one table, by version.
type pathLog struct {
	table *shopTable
	dir   string
	files map[string]figures // of each data file ever added
	// versions are what the table holds at each version, and the transactions that
	// the version names.
	versions []figures
	txns     [][]string
}

func newPathReader(warehouse string) *pathReader {
	r := &pathReader{}
	for i := range shopTables {
		r.logs[i] = &pathLog{
			table: &shopTables[i], dir: filepath.Join(warehouse, shopTables[i].name), files: map[string]figures{},
		}
	}
	return r
}

// look reads the newest versions, and says whether they agree.
func (r *pathReader) look(ctx context.Context) (bool, error) {
	// Where the tables stand is taken first, so that reading does not take time
	// between them.
	var newest [3]int
	for i, l := range r.logs {
		newest[i] = l.newest()
	}
	var now [3]figures
	for i, l := range r.logs {
		at, err := l.at(ctx, newest[i])
		if err != nil {
			return false, err
		}
		now[i] = at
	}
	ok := agree(now)
	r.note(ok, time.Now())
	return ok, nil
}

func (r *pathReader) note(ok bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looks.total++
	switch {
	case !ok:
		r.looks.torn++
		if r.since.IsZero() {
			r.since = now
		}
	case !r.since.IsZero():
		r.looks.windows = append(r.looks.windows, now.Sub(r.since))
		r.since = time.Time{}
	}
}

// figures are those of the tables at given versions.
func (r *pathReader) figures(ctx context.Context, versions [3]int64) (out [3]figures, err error) {
	for i, l := range r.logs {
		if out[i], err = l.at(ctx, int(versions[i])); err != nil {
			return out, err
		}
	}
	return out, nil
}

// newest is the newest version that is there; -1 if there is none. It begins where
// the last look ended.
func (l *pathLog) newest() int {
	for v := len(l.versions); ; v++ {
		if _, err := os.Stat(l.commit(v)); err != nil {
			return v - 1
		}
	}
}

func (l *pathLog) commit(version int) string {
	return filepath.Join(l.dir, "_delta_log", fmt.Sprintf("%020d.json", version))
}

// at is what the table holds at a version.
func (l *pathLog) at(ctx context.Context, version int) (figures, error) {
	for len(l.versions) <= version {
		if err := l.read(ctx, len(l.versions)); err != nil {
			return figures{}, fmt.Errorf("read %s version %d: %w", l.table.name, len(l.versions), err)
		}
	}
	if version < 0 {
		return figures{}, nil
	}
	return l.versions[version], nil
}

// action is what the reader looks at of an action line.
type action struct {
	Add, Remove *struct{ Path string }
	CommitInfo  *struct{ Tags map[string]string }
}

func (l *pathLog) read(ctx context.Context, version int) error {
	b, err := os.ReadFile(l.commit(version))
	if err != nil {
		return err
	}
	var now figures
	if version > 0 {
		now = l.versions[version-1]
	}
	var txns []string
	for line := range bytes.Lines(b) {
		var a action
		if err := json.Unmarshal(line, &a); err != nil {
			return err
		}
		switch {
		case a.Remove != nil:
			now = now.plus(l.files[a.Remove.Path], -1)
		case a.Add != nil:
			f, err := l.table.figuresOf(ctx, filepath.Join(l.dir, a.Add.Path))
			if err != nil {
				return err
			}
			l.files[a.Add.Path] = f
			now = now.plus(f, 1)
		case a.CommitInfo != nil:
			if txns, err = taggedTxns(a.CommitInfo.Tags); err != nil {
				return err
			}
		}
	}
	l.versions, l.txns = append(l.versions, now), append(l.txns, txns)
	return nil
}

// taggedTxns are the transactions that a version of ours names.
func taggedTxns(tags map[string]string) ([]string, error) {
	text := tags["txcoord.transactions"]
	if text == "" {
		return nil, nil
	}
	var pairs [][2]string
	if err := json.Unmarshal([]byte(text), &pairs); err != nil {
		return nil, fmt.Errorf("tag txcoord.transactions: %w", err)
	}
	var ids []string
	for _, p := range pairs {
		ids = append(ids, p[0])
	}
	return ids, nil
}

// manifestCut reads the newest snapshot from the manifests alone, without any
// server (docs/manifest.md): its number, and the tables' versions.
func manifestCut(warehouse, catalog string) (snapshot uint64, versions [3]int64, err error) {
	versions = [3]int64{-1, -1, -1}
	for {
		name := filepath.Join(warehouse, "_txcoord", catalog, "manifests", fmt.Sprintf("%020d.json", snapshot+1))
		b, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return snapshot, versions, nil
		}
		if err != nil {
			return 0, versions, err
		}
		var m struct {
			Snapshots []struct {
				Snapshot uint64
				Tables   []struct {
					Name    string
					Version int64
				}
			}
		}
		if err := json.Unmarshal(b, &m); err != nil {
			return 0, versions, fmt.Errorf("read manifest %d: %w", snapshot+1, err)
		}
		if len(m.Snapshots) == 0 {
			return 0, versions, fmt.Errorf("manifest %d holds no snapshot", snapshot+1)
		}
		for _, s := range m.Snapshots {
			snapshot = s.Snapshot
			for _, t := range s.Tables {
				for i := range shopTables {
					if shopTables[i].name == t.Name {
						versions[i] = t.Version
					}
				}
			}
		}
	}
}
