package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// Tail is what the next version of a table has to know of those below it, so that
// what depends on its place can be written: times, row ids, commit versions. It is a
// pure function of the log up to its version, which every publisher that puts the
// next version has read or put, so all of them write the same (R2). On tables with
// row tracking it holds some 50 bytes for each live file, elsewhere next to nothing.
//
// Advance takes the next version in; a Tail cannot go back. Not safe for concurrent use.
type Tail struct {
	uri     string
	place   place
	version twophase.Version
	profile *Profile
	// time is the version's in-commit timestamp, where the table has them; written is
	// when its file was, where it has none and Log.Prepare asked.
	time, written twophase.Time
	// mark is the highest row id that was given out, rowDomain the text it stands in;
	// marked unless it does not.
	mark      int64
	marked    bool
	rowDomain string
	// rows are the row ids of live files; kept with the feature rowTracking only.
	rows map[PathHash]liveRows
	line line
}

// Version is the version that the tail is at.
func (t *Tail) Version() twophase.Version { return t.version }

// Profile is the table's at that version.
func (t *Tail) Profile() *Profile { return t.profile }

// Tail replays the log up to a version, which is one that Load takes. Errors are those of
// State. Files are read only where the table has row tracking: whoever comes back with much
// to publish is not to wait for live sets.
func (l *Log) Tail(ctx context.Context, at twophase.Version) (*Tail, error) {
	t, _, err := l.TailAndView(ctx, at)
	return t, err
}

// TailAndView is Tail, and the view at that version where it costs nothing more: from the
// extract of a checkpoint. Otherwise there is none.
func (l *Log) TailAndView(ctx context.Context, at twophase.Version) (*Tail, *View, error) {
	r, err := l.brief(ctx, at, HeadActions)
	if err != nil {
		return nil, nil, err
	}
	s := r.state
	var v *View
	if s.profile.inForce.has("rowTracking") {
		if r, err = l.whole(ctx, s.version); err != nil {
			return nil, nil, err
		}
		s = r.state
	} else if r.live != nil {
		v = r.view()
	}
	t, err := l.TailOf(ctx, s)
	return t, v, err
}

// TailOf is the tail at a state. It takes the state's row ids over, and nothing that
// NewView takes: both may be made of one state. A commit is read where a checkpoint
// hides the last version's in-commit timestamp.
func (l *Log) TailOf(ctx context.Context, s *State) (*Tail, error) {
	t := &Tail{uri: l.URI, place: placeOf(l.URI), version: s.version, profile: s.profile, time: s.ict, rows: s.rows}
	s.rows = nil
	if !t.profile.inForce.has("rowTracking") {
		t.rows = nil
	}
	t.takeMark(s.domains[rowTrackingDomain])
	if t.profile.timestamps() && t.time == 0 {
		var err error
		if t.time, err = l.lastTime(ctx, t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *Tail) takeMark(configuration string) {
	t.rowDomain = configuration
	t.mark, t.marked = markOf(configuration)
}

// lastTime finds the in-commit timestamp of a version that was replayed from a
// checkpoint: in its commit, else in its checksum file. If both were cleaned, the
// time at which the table got the feature is all that is left to be above.
func (l *Log) lastTime(ctx context.Context, t *Tail) (twophase.Time, error) {
	c, err := l.ReadCommit(ctx, t.version)
	if err == nil {
		return c.InCommitTimestamp, nil
	}
	if !errors.Is(err, objstore.ErrNotFound) {
		return 0, err
	}
	var sum struct {
		Time twophase.Time `json:"inCommitTimestampOpt"`
	}
	raw, _, err := l.Store.Get(ctx, l.prefix+versionName(t.version)+".crc", objstore.Range{})
	switch {
	case err == nil && json.Unmarshal(raw, &sum) == nil && sum.Time > 0:
		return sum.Time, nil
	case err != nil && !errors.Is(err, objstore.ErrNotFound):
		return 0, fmt.Errorf("read the time of version %d of table %s: %w", t.version, l.URI, err)
	}
	from, _ := intOf([]byte(t.profile.Property(propTimesFrom)))
	return twophase.Time(from), nil
}

// errTailBehind: the tail has to be made anew from the log.
var errTailBehind = errors.New("the tail has to be read from the log again")

// Advance takes the next version in: what was read, or what this process put. After
// an error the tail is of no use, and a new one has to be read from the log: so when
// a commit is not the next one, or switches row tracking on, for then the ids of all
// files count.
func (t *Tail) Advance(v twophase.Version, raw []byte) error {
	if v != t.version+1 || v == 0 {
		return fmt.Errorf("advance the tail of table %s from version %d to %d: %w", t.uri, t.version, v, errTailBehind)
	}
	t.version, t.time, t.written = v, 0, 0
	a := &Actions{}
	domains := map[string]string{}
	for rest := raw; len(rest) > 0; {
		var text []byte
		if text, rest = cutLine(rest); blank(text) {
			continue
		}
		if err := t.take(text, a, domains); err != nil {
			return fmt.Errorf("advance the tail of table %s to version %d: %w", t.uri, v, err)
		}
	}
	if text, ok := domains[clusteringDomain]; ok {
		t.profile = t.profile.clusteredBy(text)
	}
	if text, ok := domains[rowTrackingDomain]; ok {
		t.takeMark(text)
	}
	if a.Protocol == nil && a.MetaData == nil {
		return nil
	}
	before := t.profile.inForce
	next, _ := nextProfile(a, t.profile)
	next.Version = v
	t.profile = next
	if !before.has("rowTracking") && next.inForce.has("rowTracking") {
		return fmt.Errorf("version %d of table %s begins row tracking: %w", v, t.uri, errTailBehind)
	}
	return nil
}

// take notes what a line changes. Files are only looked at for row ids.
func (t *Tail) take(text []byte, a *Actions, domains map[string]string) error {
	k := kindOfLine(text)
	switch k {
	case kindAdd, kindRemove:
		if !t.profile.inForce.has("rowTracking") {
			return nil
		}
	case kindCommitInfo, kindProtocol, kindMetaData, kindDomain:
	default:
		return nil
	}
	l := &t.line
	if err := l.parse(text, false); err != nil {
		return err
	}
	var err error
	switch k {
	case kindCommitInfo:
		t.time = readTimestamp(l.body)
	case kindProtocol:
		a.Protocol, err = parseProtocol(l.body)
	case kindMetaData:
		a.MetaData, err = parseMetaData(l.body)
	case kindDomain:
		domains[string(l.domain)] = string(l.configuration)
		if l.removed {
			domains[string(l.domain)] = ""
		}
	default:
		var path string
		if path, err = t.place.canonical(string(l.path)); err == nil {
			t.rows = noteRows(t.rows, l, HashPath(path), hashDV(l.dv))
		}
	}
	return err
}

// kindOfLine is the kind of the action in a line, by the name of the first member that is
// not null: some writers name all that a line does not hold.
func kindOfLine(text []byte) kind {
	c := cursor{b: text}
	if c.open('{') != nil {
		return kindUnknown
	}
	for n := 0; ; {
		name, more, err := c.key(&n)
		if err != nil || !more {
			return kindUnknown
		}
		if c.peek() != 'n' {
			return kindOf(name)
		}
		if c.word("null") != nil {
			return kindUnknown
		}
	}
}

// Prepare puts the tail into a version that is about to be rendered on top of it. It
// asks the store when the version below was written, if the new one switches
// in-commit timestamps on: the first of them has to be above that.
func (l *Log) Prepare(ctx context.Context, t *Tail, in *RenderInput) error {
	in.Tail = t
	if t.version == twophase.NoVersion || t.profile.timestamps() || t.written != 0 || !in.setsTimestamps() {
		return nil
	}
	info, err := l.Store.Stat(ctx, l.CommitKey(t.version))
	if errors.Is(err, objstore.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at %s of table %s: %w", commitName(t.version), l.URI, err)
	}
	t.written = twophase.TimeOf(info.Modified)
	return nil
}

// setsTimestamps reports that the version may switch in-commit timestamps on: that
// takes metaData, which blind parts do not hold and versions of several parts neither.
func (in *RenderInput) setsTimestamps() bool {
	if len(in.Txns) != 1 || in.Txns[0].Blind {
		return false
	}
	lines, _ := in.stagedLines()
	return slices.ContainsFunc(lines, func(l stagedLine) bool { return l.kind == kindMetaData })
}
