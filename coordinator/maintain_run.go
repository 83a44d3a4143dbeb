package coordinator

import (
	"context"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// Start keeps the tables in order in the background until the catalog is closed.
func (m *Maintainer) Start() { m.c.spawn(m.run) }

func (m *Maintainer) run(ctx context.Context) {
	// Replicas that start together should not do everything twice.
	pause(ctx, rand.N(m.cfg.Every))
	for ctx.Err() == nil {
		rows, _ := m.c.Tables(ctx)
		m.forget(ctx, rows)
		for _, row := range rows {
			if ctx.Err() != nil {
				return
			}
			if row.Version == twophase.NoVersion {
				continue // a transaction creates it, and it is in no log yet
			}
			moved, worked := m.tend(ctx, row)
			pause(ctx, m.rest(moved, worked))
		}
		pause(ctx, m.cfg.Every)
	}
}

// rest is how long the background waits after a table that took so many bytes.
func (m *Maintainer) rest(moved int64, worked bool) time.Duration {
	d := time.Duration(float64(moved) / float64(m.cfg.BytesPerSecond) * float64(time.Second))
	if worked {
		d += m.cfg.Pause
	}
	return d
}

// forget drops what is remembered of tables that are not in the catalog any more.
func (m *Maintainer) forget(ctx context.Context, rows []TableInfo) {
	if m.turn.take(ctx) != nil {
		return
	}
	defer m.turn.give()
	known := make(map[twophase.TableID]bool, len(rows))
	for _, row := range rows {
		known[row.ID] = true
	}
	maps.DeleteFunc(m.notes, func(id twophase.TableID, _ *upkeepNote) bool { return !known[id] })
}

// tend looks after one table. It returns the bytes that passed, and whether a
// checkpoint was written or something removed.
func (m *Maintainer) tend(ctx context.Context, row TableInfo) (moved int64, worked bool) {
	if m.turn.take(ctx) != nil {
		return 0, false
	}
	defer m.turn.give()
	note := m.note(row.ID)
	now := m.c.cfg.Boot()
	if !m.c.tableDuty(string(row.ID), row) || row.Frozen.found() || row.Stopped != "" || now < note.retryAt || !m.worth(note, row, now) {
		return 0, false
	}
	job := m.job(row.ID)
	err := job.run(ctx)
	if err != nil && ctx.Err() == nil {
		note.retryAt = now + m.cfg.RetryAfter
		m.c.log.Warn("maintain a table", "table", row.URI, "error", err)
	}
	r := job.report
	if worked = r.Checkpoint.Written || r.CleanUp.Bytes > 0; worked {
		m.c.log.Info("maintained a table", "table", row.URI, "version", r.Version, "checkpoint", r.Checkpoint.Name,
			"files", r.Checkpoint.Adds, "cleaned_below", r.CleanUp.Cut, "took", r.Took)
	}
	return r.BytesRead + r.BytesWritten, worked
}

// worth says, by what is remembered alone, whether a table is worth a look: it was
// not looked at before, or has moved far enough, or its log may have expired.
func (m *Maintainer) worth(note *upkeepNote, row TableInfo, now time.Duration) bool {
	if m.checkpoints(row.Mode) && (!note.seen || row.Version-note.newest >= note.interval) {
		return true
	}
	return m.cleans(row.Mode) && now >= note.cleanAt
}

func (m *Maintainer) note(id twophase.TableID) *upkeepNote {
	n := m.notes[id]
	if n == nil {
		n = &upkeepNote{newest: twophase.NoVersion, interval: 1}
		m.notes[id] = n
	}
	return n
}

// checkpoints says whether we write them for tables of a mode.
func (m *Maintainer) checkpoints(mode twophase.Mode) bool {
	return ownMode(mode) || !m.cfg.SkipOpen
}

// cleans says whether we remove expired log of tables of a mode.
func (m *Maintainer) cleans(mode twophase.Mode) bool {
	return !m.cfg.KeepLogs && (ownMode(mode) || m.cfg.CleanOpen)
}

// ownMode: nobody else writes a table of this mode, so its maintenance is ours.
func ownMode(mode twophase.Mode) bool { return !mode.Shared() }
