package coordinator

import (
	"context"
	"errors"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// Start keeps the tables in order in the background until the catalog is closed.
func (m *Maintainer) Start() { m.c.spawn(m.run) }

func (m *Maintainer) run(ctx context.Context) {
	for ctx.Err() == nil {
		rows, _ := m.c.Tables(ctx)
		for _, row := range rows {
			if ctx.Err() != nil {
				return
			}
			moved := m.tend(ctx, row)
			pause(ctx, m.rest(moved))
		}
		pause(ctx, m.cfg.Every)
	}
}

// rest is how long the background waits after a table that took so many bytes.
func (m *Maintainer) rest(moved int64) time.Duration {
	if moved == 0 {
		return 0
	}
	return m.cfg.Pause + time.Duration(float64(moved)/float64(m.cfg.BytesPerSecond)*float64(time.Second))
}

// tend looks after one table and returns the bytes that it took.
func (m *Maintainer) tend(ctx context.Context, row TableInfo) (moved int64) {
	if m.take(ctx) != nil {
		return 0
	}
	defer m.give()
	note := m.note(row.ID)
	now := m.c.cfg.Boot()
	if row.Frozen != nil || row.Stopped != "" || now < note.retryAt || !m.worth(note, row, now) {
		return 0
	}
	job := m.job(row.ID)
	err := job.run(ctx)
	if err != nil && ctx.Err() == nil {
		note.retryAt = now + m.cfg.RetryAfter
		m.c.log.Warn("maintain a table", "table", row.URI, "error", err)
	}
	if r := job.report; r.Checkpoint.Written || r.CleanUp.Bytes > 0 {
		m.c.log.Info("maintained a table", "table", row.URI, "version", r.Version, "checkpoint", r.Checkpoint.Name,
			"files", r.Checkpoint.Adds, "cleaned_below", r.CleanUp.Cut, "took", r.Took)
	}
	return job.report.BytesRead + job.report.BytesWritten
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
func ownMode(mode twophase.Mode) bool { return mode != twophase.ModeOpen }

// isGone tells a table that was released meanwhile.
func isGone(err error) bool { return errors.Is(err, &Error{Reason: TableNotFound}) }
