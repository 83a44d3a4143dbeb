package tables

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// sidecarGrace is how long a sidecar that no checkpoint names stays: whoever wrote
// it may be about to put the checkpoint (the protocol's word).
const sidecarGrace = 24 * time.Hour

// CleanUpRules bound what CleanUp may remove.
type CleanUpRules struct {
	// UpTo is the highest version that may become the oldest one that can be read.
	UpTo twophase.Version
	// Retention is used instead of the table's own if it is longer.
	Retention time.Duration
}

// CleanUp is what removing the expired part of a log comes to. It is a list, made
// before anything is removed, and carried out in its order.
type CleanUp struct {
	// Cut is the checkpoint that stays as the oldest; NoVersion if nothing goes.
	Cut twophase.Version
	// Cutoff is the time before which commits are expired.
	Cutoff time.Time
	// Reason says why there is nothing to do; empty otherwise.
	Reason string
	// SidecarsKept says why no sidecar was looked at; empty otherwise.
	SidecarsKept string
	// Delete are the objects that go, in that order. Commits, Checkpoints, Sidecars
	// and Others count them; Bytes is what they take.
	Delete                                 []objstore.Info
	Commits, Checkpoints, Sidecars, Others int
	Bytes                                  int64

	cut keptFiles
}

// keptFiles have to be there for the log to be readable once the rest is gone.
type keptFiles struct{ commit, checkpoint objstore.Info }

// logFile is a file of the log by its name.
type logFile struct {
	objstore.Info
	version twophase.Version
	kind    logFileKind
}

type logFileKind uint8

const (
	otherFile logFileKind = iota
	commitFile
	checkpointFile
	checksumFile
	compactedFile
)

// kindOfFile knows the files that the protocol names; what it does not know stays.
func kindOfFile(name string) (v twophase.Version, kind logFileKind) {
	digits, rest, _ := strings.Cut(name, ".")
	v, ok := parseVersion(digits)
	if !ok {
		return 0, otherFile
	}
	switch {
	case rest == "json":
		return v, commitFile
	case rest == "crc":
		return v, checksumFile
	case strings.HasPrefix(rest, "checkpoint.") && (strings.HasSuffix(rest, ".parquet") || strings.HasSuffix(rest, ".json")):
		return v, checkpointFile
	}
	if end, ok := strings.CutSuffix(rest, ".compacted.json"); ok {
		if _, ok := parseVersion(end); ok {
			return v, compactedFile
		}
	}
	return v, otherFile
}

// PlanCleanUp says what of a table's log has expired: everything below the newest
// complete checkpoint that is not above the rules' bound and whose commit is older
// than the table's retention. That commit and the checkpoint stay. Before the plan
// is given out the checkpoint is read, and where the log below it still allows,
// compared with what it stands for: a checkpoint may have been written by anybody,
// and what is removed here was the only other copy. One that is bad is no cut, and a cut
// that only a bad one below could be compared with is none.
func (k *Keeper) PlanCleanUp(ctx context.Context, s *Survey, rules CleanUpRules) (*CleanUp, error) {
	keep := max(s.Profile.LogRetention(), rules.Retention, minLogRetention)
	out := &CleanUp{Cut: twophase.NoVersion, Cutoff: k.cfg.Now().Add(-keep)}
	if !s.Profile.CleansLog() {
		out.Reason = propLogCleanUp + " is false"
		return out, nil
	}
	listing, files, err := k.listAll(ctx)
	if err != nil {
		return nil, err
	}
	for known := len(k.bad); ; known = len(k.bad) {
		plan := *out
		err := k.planLog(ctx, s, k.sound(listing), files, rules.UpTo, &plan)
		switch {
		case err == nil:
			return &plan, k.planSidecars(ctx, listing, &plan)
		case len(k.bad) == known:
			return nil, err
		}
	}
}

// planLog plans what goes of the log itself.
func (k *Keeper) planLog(ctx context.Context, s *Survey, listing *Listing, files []logFile, upTo twophase.Version, out *CleanUp) error {
	cut, reason := k.chooseCut(listing, min(upTo, s.At), out.Cutoff)
	if until := s.Profile.ProtectedBefore(); reason == "" && cut.Version < until {
		// Feature checkpointProtection: what lies below goes at once, or not at all.
		reason = fmt.Sprintf("the history is protected up to version %d (%s)", until, propProtected)
	}
	if out.Reason = reason; reason != "" {
		return nil
	}
	for _, f := range files {
		if f.goes(cut.Version) {
			out.doom(f)
		}
	}
	if len(out.Delete) == 0 {
		out.Reason = fmt.Sprintf("nothing is left below the checkpoint at %d", cut.Version)
		return nil
	}
	if err := k.tooLarge(s.Bytes); err != nil {
		return err
	}
	from, err := k.verify(ctx, listing, cut)
	if err != nil {
		return err
	}
	if from == cut.Version && k.badBelow(cut.Version) {
		*out = CleanUp{Cut: out.Cut, Cutoff: out.Cutoff}
		out.Reason = fmt.Sprintf("what the checkpoint at %d holds could be compared with a bad checkpoint alone", cut.Version)
		return nil
	}
	if err := k.recordedUpTo(ctx, listing, from); err != nil {
		return err
	}
	commit, _ := listing.Commit(cut.Version)
	out.Cut, out.cut = cut.Version, keptFiles{commit.Info, cut.Files[0]}
	return nil
}

// recordedUpTo compares the commits up to a version with what was recorded of them: one that
// was altered is not removed, since it says so.
func (k *Keeper) recordedUpTo(ctx context.Context, listing *Listing, last twophase.Version) error {
	if k.cfg.Recorded == nil {
		return nil
	}
	var at []ListedCommit
	for _, c := range listing.Commits {
		if _, known := k.cfg.Recorded(c.Version); known && c.Version <= last {
			at = append(at, c)
		}
	}
	return k.each(ctx, &source{kept: map[twophase.Version][]byte{}}, at, noUse)
}

// listAll lists the whole log once, as versions and as files.
func (k *Keeper) listAll(ctx context.Context) (*Listing, []logFile, error) {
	listing, files := &Listing{}, []logFile(nil)
	for e, err := range k.log.Store.List(ctx, objstore.ListOptions{Prefix: k.log.prefix, Delimiter: true}) {
		if err != nil {
			return nil, nil, fmt.Errorf("list the log of table %s: %w", k.log.URI, err)
		}
		if e.Prefix != "" {
			continue
		}
		name := k.log.nameOf(e.Key)
		listing.note(name, e.Info)
		if v, kind := kindOfFile(name); kind != otherFile {
			files = append(files, logFile{e.Info, v, kind})
		}
	}
	return listing, files, nil
}

// chooseCut is the checkpoint that stays as the oldest. A commit counts as expired
// when it and all below it are older than the cut-off: clocks of writers differ.
func (k *Keeper) chooseCut(listing *Listing, upTo twophase.Version, cutoff time.Time) (ListedCheckpoint, string) {
	expired := twophase.NoVersion
	for _, c := range listing.Commits {
		if !c.Modified.Before(cutoff) {
			break
		}
		expired = c.Version
	}
	if expired == twophase.NoVersion {
		return ListedCheckpoint{}, "no commit is older than the retention"
	}
	for at := min(expired, upTo); at >= 0; at-- {
		c, ok := listing.NewestCheckpoint(at)
		if !ok {
			break
		}
		if _, there := listing.Commit(c.Version); there {
			return c, ""
		}
		at = c.Version
	}
	return ListedCheckpoint{}, fmt.Sprintf("there is no checkpoint up to version %d, which is the newest that may be the oldest kept", min(expired, upTo))
}

// goes: commits, checkpoints and checksums below the cut, and compacted commits that
// begin at or below it.
func (f logFile) goes(cut twophase.Version) bool {
	if f.kind == compactedFile {
		return f.version <= cut
	}
	return f.version < cut
}

func (c *CleanUp) doom(f logFile) {
	c.Delete = append(c.Delete, f.Info)
	c.Bytes += f.Size
	switch f.kind {
	case commitFile:
		c.Commits++
	case checkpointFile:
		c.Checkpoints++
	default:
		c.Others++
	}
}

// planSidecars adds the sidecars that no checkpoint names that stays. If one of
// these cannot be read, no sidecar goes.
func (k *Keeper) planSidecars(ctx context.Context, listing *Listing, out *CleanUp) error {
	var old []objstore.Info
	folder := k.log.prefix + sidecarFolder
	for e, err := range k.log.Store.List(ctx, objstore.ListOptions{Prefix: folder}) {
		if err != nil {
			return fmt.Errorf("list the sidecars of table %s: %w", k.log.URI, err)
		}
		if strings.HasSuffix(e.Key, ".parquet") && k.age(e.Info) > sidecarGrace {
			old = append(old, e.Info)
		}
	}
	if len(old) == 0 {
		return nil
	}
	named := map[string]bool{}
	for _, c := range listing.Checkpoints {
		if c.Version < out.Cut {
			continue
		}
		var bad *LogError
		if err := k.namedSidecars(ctx, c, named); errors.As(err, &bad) {
			out.SidecarsKept = bad.Error()
			return nil
		} else if err != nil {
			return err
		}
	}
	for _, o := range old {
		if !named[o.Key] {
			out.Delete = append(out.Delete, o)
			out.Sidecars++
			out.Bytes += o.Size
		}
	}
	return nil
}

func (k *Keeper) namedSidecars(ctx context.Context, c ListedCheckpoint, named map[string]bool) error {
	h := &head{txns: map[string]headTxn{}, domains: map[string][]byte{}}
	if err := k.readHeadOf(ctx, h, c); err != nil {
		return err
	}
	for _, s := range h.sidecars {
		key, err := k.log.sidecarKey(s.Path)
		if err != nil {
			return k.log.badCheckpoint(c.Version, c.Files[0].Key, err)
		}
		named[key] = true
	}
	return nil
}

// stillFor is how long the answer counts that a log is the one that was surveyed.
const stillFor = time.Second

// CleanUp carries a plan out, one object after the other in ascending order of
// versions: wherever it stops, the versions that are left are contiguous. It
// returns how many objects went and their bytes, after an error too.
//
// still is asked as Checkpoint asks it: before the first one, and again where the answer
// is more than a second old. It takes minutes, and a process that was halted meanwhile may
// find another table's log at the place. nil asks nothing.
func (k *Keeper) CleanUp(ctx context.Context, plan *CleanUp, still func(context.Context) error) (objects int, bytes int64, err error) {
	if plan.Cut != twophase.NoVersion {
		for _, kept := range []objstore.Info{plan.cut.commit, plan.cut.checkpoint} {
			if now, err := k.log.Store.Stat(ctx, kept.Key); err != nil || now.Size != kept.Size || !sameETag(now, kept) {
				return 0, 0, errors.Join(fmt.Errorf("clean the log of table %s: %s is not what it was", k.log.URI, k.log.nameOf(kept.Key)), err)
			}
		}
	}
	var asked time.Time
	for _, o := range plan.Delete {
		if now := k.cfg.Now(); still != nil && now.Sub(asked).Abs() > stillFor {
			if err := still(ctx); err != nil {
				return objects, bytes, err
			}
			asked = now
		}
		if err := k.log.Store.Delete(ctx, o.Key); err != nil {
			return objects, bytes, fmt.Errorf("clean the log of table %s: delete %s: %w", k.log.URI, k.log.nameOf(o.Key), err)
		}
		objects, bytes = objects+1, bytes+o.Size
	}
	return objects, bytes, nil
}
