package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// upkeepJob is the maintenance of one table, once. What it goes by is the fold's row
// as it was when the job began.
type upkeepJob struct {
	m      *Maintainer
	id     twophase.TableID
	note   *upkeepNote
	dry    bool
	asked  bool // by somebody, not by the clock
	report MaintainReport

	began  time.Duration
	at     fixedRow
	handle *handle
	keeper *tables.Keeper
	survey *tables.Survey
	// recorded is what is known of the table's versions; nil until the survey fits.
	recorded func(twophase.Version) (twophase.Hash, bool)
}

// fixedRow is what the journal says of a table at one time.
type fixedRow struct {
	info     TableInfo
	identity twophase.Hash
	shown    twophase.Version
	released bool
}

func (m *Maintainer) job(id twophase.TableID) *upkeepJob {
	return &upkeepJob{m: m, id: id, note: m.note(id), began: m.c.cfg.Boot()}
}

func (j *upkeepJob) run(ctx context.Context) error {
	defer func() { j.report.Took = j.m.c.cfg.Boot() - j.began }()
	if err := j.begin(); err != nil {
		return err
	}
	defer j.tellKeeper()
	if !j.asked && !j.far(ctx) {
		return nil
	}
	if err := j.lookAndCheckpoint(ctx); err != nil {
		return j.wrong(ctx, err)
	}
	return j.wrong(ctx, j.cleanUp(ctx))
}

// lookAndCheckpoint begins again where the checkpoint that it went by turns out to be bad:
// the keeper knows that then, and goes by an older one. It ends where the keeper learns nothing.
func (j *upkeepJob) lookAndCheckpoint(ctx context.Context) error {
	for {
		known := len(j.keeper.PassedOver())
		if err := j.look(ctx); err != nil {
			return err
		}
		err := j.checkpoint(ctx)
		if bad, ok := errors.AsType[*tables.LogError](err); !ok || bad.Fault != tables.BadCheckpoint || len(j.keeper.PassedOver()) == known {
			return err
		}
	}
}

// tellKeeper says what the keeper has seen.
func (j *upkeepJob) tellKeeper() {
	j.report.BytesRead, j.report.BytesWritten = j.keeper.Traffic()
	for _, bad := range j.keeper.PassedOver() {
		j.m.c.log.Warn("a checkpoint of the table is bad, and was not used", "table", j.at.info.URI, "error", bad)
		j.report.Checkpoint.PassedOver = append(j.report.Checkpoint.PassedOver, badText(bad))
	}
}

// badText names a bad checkpoint's file, and what is wrong with it.
func badText(bad *tables.LogError) string {
	named := *bad
	named.Table = ""
	return strings.TrimPrefix(named.Error(), "table : ")
}

// begin takes the table's row and opens its log.
func (j *upkeepJob) begin() error {
	c := j.m.c
	found := false
	c.ledger.read(func(s *twophase.State) {
		var t *twophase.Table
		if t, found = s.Table(j.id); found {
			j.at = fixedRow{info: infoOf(t), identity: t.Identity, shown: t.Shown, released: t.Released}
		}
	})
	if !found || j.at.released {
		return &Error{Reason: TableNotFound, Message: fmt.Sprintf("table %s is not in the catalog any more", j.id)}
	}
	row := j.at.info
	if row.Frozen.found() {
		return frozenError(row)
	}
	var err error
	if j.handle, err = c.tables.of(j.id); err != nil {
		return err
	}
	if err := errors.Join(j.handle.stoppedBy(), c.ours(j.id)); err != nil {
		return err // a table that may be somebody else's is cleaned by nobody here
	}
	store, key, err := c.cfg.Objects.Open(row.URI)
	if err != nil {
		return c.objectsError(row.URI, err)
	}
	j.report.Table, j.report.DryRun, j.report.Version = row, j.dry, row.Version
	j.report.CleanUp.Cut, j.report.Checkpoint.Before = twophase.NoVersion, twophase.NoVersion
	j.keeper = tables.NewKeeper(tables.KeeperConfig{
		Log: tables.LogConfig{Store: store, Key: key, URI: row.URI, ReadAhead: c.cfg.Limits.readAhead(row.URI), Extracts: extracts{c, j.id}}, Format: j.m.cfg.Format, Now: c.cfg.Now,
		TempDir: j.m.cfg.TempDir, SidecarRows: j.m.cfg.SidecarRows, MaxBytes: j.m.cfg.MaxTableBytes,
		Recorded: func(v twophase.Version) (twophase.Hash, bool) {
			if j.recorded == nil {
				return twophase.Hash{}, false
			}
			return j.recorded(v)
		},
	})
	return nil
}

// far is the cheap look of the background: one listing tells whether somebody wrote
// a checkpoint meanwhile. It is true if there may be something to do.
func (j *upkeepJob) far(ctx context.Context) bool {
	clean := j.m.cleans(j.at.info.Mode) && j.m.c.cfg.Boot() >= j.note.cleanAt
	newest, err := j.keeper.Newest(ctx, j.at.info.Version)
	if err != nil {
		return true // the survey will say what is wrong
	}
	j.saw(newest, j.note.interval)
	return clean || j.m.checkpoints(j.at.info.Mode) && j.at.info.Version-newest >= j.note.interval
}

func (j *upkeepJob) saw(newest, interval twophase.Version) {
	j.note.seen, j.note.newest, j.note.interval = true, newest, interval
}

// look surveys the log at the recorded version and holds it against the journal: a
// log that does not fit is somebody else's, or damaged, and is left alone.
func (j *upkeepJob) look(ctx context.Context) error {
	s, err := j.keeper.Survey(ctx, j.at.info.Version)
	if err != nil {
		return err
	}
	j.survey = s
	j.report.Checkpoint.Before, j.report.Checkpoint.Interval = s.Checkpoint, s.Profile.CheckpointInterval()
	j.saw(s.Checkpoint, s.Profile.CheckpointInterval())
	row := j.at.info
	switch marker := s.Marker(j.m.c.journal.Meta().Catalog); {
	case !s.Owner:
		return j.contradiction("the owner object is gone")
	case s.Profile.MetaData.ID != row.MetaDataID:
		return j.contradiction(fmt.Sprintf("metaData.id is %s, recorded is %s", s.Profile.MetaData.ID, row.MetaDataID))
	case marker != row.Marker:
		return j.contradiction(fmt.Sprintf("the marker is at %d, recorded is %d", marker, row.Marker))
	}
	j.recorded, err = j.m.c.identitiesOf(ctx, j.id)
	return err
}

func (j *upkeepJob) contradiction(why string) error {
	return j.m.c.tableError(j.handle, LogContradiction, "the log is not what the journal says: "+why, nil)
}

// still says whether the log holds the recorded version yet, with the content that
// was recorded (R9), below the owner object.
func (j *upkeepJob) still(ctx context.Context) error {
	identity, err := j.identity(ctx)
	if errors.Is(err, objstore.ErrNotFound) {
		return j.contradiction(fmt.Sprintf("version %d is gone", j.at.info.Version))
	}
	if err != nil {
		return err
	}
	if identity != j.at.identity {
		return j.contradiction(fmt.Sprintf("version %d has another content", j.at.info.Version))
	}
	owner, err := j.handle.log.Owner(ctx)
	if errors.Is(err, objstore.ErrNotFound) {
		return j.contradiction("the owner object is gone")
	}
	if err == nil && (owner.Catalog != j.m.c.journal.Meta().Catalog || owner.Table != j.id) {
		return j.contradiction("it belongs to catalog " + owner.Catalog + " now")
	}
	return err
}

// identity is that of the recorded version now. A known ETag stands for it.
func (j *upkeepJob) identity(ctx context.Context) (twophase.Hash, error) {
	v := j.at.info.Version
	info, err := j.handle.log.Store.Stat(ctx, j.handle.log.CommitKey(v))
	if err != nil {
		return twophase.Hash{}, err
	}
	if known, ok := j.handle.knows(v, info.ETag); ok {
		return known, nil
	}
	identity, err := j.keeper.CommitIdentity(ctx, v)
	if err == nil {
		j.handle.know(v, info.ETag, identity)
	}
	return identity, err
}

func (j *upkeepJob) checkpoint(ctx context.Context) error {
	out := &j.report.Checkpoint
	switch s := j.survey; {
	case !j.m.checkpoints(j.at.info.Mode):
		out.Skipped = "the table is open, and checkpoints of open tables are left to others"
	case s.Checkpoint == s.At:
		out.Skipped = "the version has one"
	case s.Taken:
		out.Skipped = "a bad checkpoint of the version has the name; the next version can have one"
	case j.at.identity == twophase.Hash{}:
		out.Skipped = "the commit of the recorded version is gone"
	case !j.asked && !s.Due():
		out.Skipped = "it is not due"
	}
	if out.Skipped != "" {
		return nil
	}
	if out.Written = j.dry; j.dry {
		return j.keeper.AsRecorded(ctx, j.survey)
	}
	c, err := j.keeper.Checkpoint(ctx, j.survey, j.still)
	if err != nil {
		return err
	}
	j.saw(c.Version, out.Interval)
	if c.Extracted {
		j.m.c.renewals.is(j.id, c.Version, 0)
	}
	if c.Existed {
		out.Skipped = "somebody else wrote it meanwhile"
		return nil
	}
	out.Written, out.V2, out.Name, out.Actions, out.Adds, out.Removes = true, c.V2, c.Name, c.Actions, c.Adds, c.Removes
	out.Bytes, out.Sidecars, out.Reused = c.Bytes, c.Sidecars, c.Reused
	return nil
}

func (j *upkeepJob) cleanUp(ctx context.Context) error {
	out := &j.report.CleanUp
	if !j.m.cleans(j.at.info.Mode) {
		out.Skipped = "logs of tables like this are left to others"
		return nil
	}
	now := j.m.c.cfg.Boot()
	if !j.asked && now < j.note.cleanAt {
		out.Skipped = "it is not due"
		return nil
	}
	for range cleanUpTries {
		err := j.cleanUpHeld(ctx)
		if errors.Is(err, errHeldNow) {
			continue
		}
		if err == nil && !j.dry {
			j.note.cleanAt = now + j.m.cfg.CleanEvery
		}
		return err
	}
	out.Skipped = "older snapshots are being leased or tagged all the time; the next look tries again"
	return nil
}

// cleanUpTries is how often a clean-up is planned while older snapshots are leased or tagged.
const cleanUpTries = 10

// errHeldNow: an older snapshot was leased or tagged since the clean-up was planned.
var errHeldNow = errors.New("a snapshot was leased or tagged meanwhile")

// cleanUpHeld removes what nothing holds. What goes is said in the journal before, and who
// leases or tags a snapshot looks for that behind its own record: this process may be halted
// before each of the deletes, which take minutes.
func (j *upkeepJob) cleanUpHeld(ctx context.Context) error {
	h, err := j.held(ctx)
	if err != nil {
		return err
	}
	plan, err := j.keeper.PlanCleanUp(ctx, j.survey, tables.CleanUpRules{UpTo: h.upTo})
	if err != nil {
		return err
	}
	j.tell(plan, h.by)
	if j.dry || len(plan.Delete) == 0 {
		return nil
	}
	if plan.Cut != twophase.NoVersion {
		h.record.Cut = plan.Cut
		err = j.cutLog(ctx, h.record)
	}
	if err == nil {
		_, _, err = j.keeper.CleanUp(ctx, plan, j.still)
	}
	return err
}

// cutLog says up to where the log goes, unless that was said before.
func (j *upkeepJob) cutLog(ctx context.Context, r twophase.LogCut) error {
	if j.m.c.logCut(j.id) >= r.Cut {
		return nil
	}
	err := j.m.c.submitFetching(ctx, twophase.Request{Record: &r})
	refused, _ := errors.AsType[*twophase.Refused](err)
	switch {
	case j.m.c.logCut(j.id) >= r.Cut: // whatever the answer, the fold has it (R5)
		return nil
	case err == nil, refused != nil && refused.Reason == twophase.ReasonStale:
		return errHeldNow
	case refused != nil:
		return j.m.c.refusal(txnRef{}, refused)
	}
	return j.m.c.storeError(err)
}

// logCut is the oldest version of a table's log that is there for certain; 0 of one that
// was released, of which nothing is kept.
func (c *Catalog) logCut(id twophase.TableID) (v twophase.Version) {
	c.ledger.read(func(s *twophase.State) {
		if t, ok := s.Table(id); ok && !t.Released {
			v = t.Cut
		}
	})
	return v
}

// heldLog is what holds a table's log.
type heldLog struct {
	// upTo is the highest version that may become the oldest one; by what, if that is below
	// the recorded one.
	upTo twophase.Version
	by   string
	// record says of a cut when that was looked at.
	record twophase.LogCut
}

// held looks at what holds the log, whichever replica gave that.
func (j *upkeepJob) held(ctx context.Context) (h heldLog, err error) {
	if err := j.m.c.catchUp(ctx); err != nil {
		return h, err
	}
	j.m.c.ledger.read(func(s *twophase.State) {
		h.record = twophase.LogCut{Table: j.id, Seen: s.Next(), Snapshot: s.Shown()}
	})
	h.upTo, h.by, err = j.m.c.heldVersion(ctx, j.id, j.at)
	return h, err
}

func (j *upkeepJob) tell(p *tables.CleanUp, heldBy string) {
	out := &j.report.CleanUp
	out.Cut, out.Cutoff, out.Skipped, out.SidecarsKept, out.HeldBy = p.Cut, p.Cutoff, p.Reason, p.SidecarsKept, heldBy
	out.Commits, out.Checkpoints, out.Sidecars, out.Others, out.Bytes = p.Commits, p.Checkpoints, p.Sidecars, p.Others, p.Bytes
	if len(p.Delete) > 0 {
		out.Skipped = ""
	}
}

// altered: what is written or removed here would make the damage last. The table goes on as
// it is, and the finding stays until the file is back.
func (j *upkeepJob) altered(err error) error {
	j.m.c.noteAltered(j.handle, err)
	bad, _ := errors.AsType[*tables.LogError](err)
	own, _ := errors.AsType[*Error](j.contradiction(fmt.Sprintf(
		"version %d has another content (%s): %s. Nothing was written, and nothing removed. Put the file back as it was, from a copy or a former version of the bucket, and maintain again",
		bad.Version, bad.File, bad.Reason)))
	own.Table.Version, own.Table.File = bad.Version, bad.File
	return own
}

// wrong says in the catalog's own terms what went wrong.
func (j *upkeepJob) wrong(ctx context.Context, err error) error {
	var limit *tables.LimitError
	switch {
	case errors.As(err, &limit):
		return limitError(limit.Limit, limit.Value, limit.Max)
	case errors.Is(err, tables.ErrNoRoom):
		return &Error{Reason: QuotaExceeded, Message: "there is no room for a temporary file", RetryAfter: time.Minute, Cause: err}
	}
	if isAltered(err) {
		return j.altered(err)
	}
	if isDamage(err) || isGone(err) {
		return j.m.c.logFailed(ctx, j.handle, err)
	}
	return j.m.c.logErrorAt(j.at.info, err)
}
