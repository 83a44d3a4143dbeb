package tables

import (
	"iter"
	"maps"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// State is a table at one version: its profile, applications, domains and live
// files. Files are kept as hashes, some 40 bytes each, so that a table of millions
// fits. Not safe for concurrent use while it changes; Log.State hands it out whole.
type State struct {
	version twophase.Version
	profile *Profile
	files   liveSet
	txns    map[string]int64
	domains map[string]string
	ict     twophase.Time
	size    int64
	// rows are the row ids of live files that have some.
	rows map[PathHash]liveRows
	// skipped is what is wrong with a checkpoint that was passed over.
	skipped *LogError
}

// liveRows are the row ids of a live file.
type liveRows struct {
	rowIDs
	dv DVHash
}

// Version is the version that the state is at.
func (s *State) Version() twophase.Version { return s.version }

// Profile is the table's protocol and metadata.
func (s *State) Profile() *Profile { return s.profile }

// Txn returns the version that an application has reached.
func (s *State) Txn(app string) (int64, bool) {
	v, ok := s.txns[app]
	return v, ok
}

// Txns are all applications with their versions.
func (s *State) Txns() map[string]int64 { return maps.Clone(s.txns) }

// Domains are the metadata domains that were not removed, with their configuration.
func (s *State) Domains() map[string]string { return maps.Clone(s.domains) }

// NumFiles counts the live files.
func (s *State) NumFiles() int { return s.files.len() }

// TotalSize is the sum of their sizes in bytes.
func (s *State) TotalSize() int64 { return s.size }

// Live yields the live files, in no order.
func (s *State) Live() iter.Seq2[PathHash, DVHash] { return s.files.all }

// InCommitTimestamp is that of the last commit that was replayed; false if it had
// none or if the version comes from a checkpoint alone.
func (s *State) InCommitTimestamp() (twophase.Time, bool) { return s.ict, s.ict != 0 }

// Marker is the change number up to which the catalog has served the table (R3);
// 0 if the table never saw it.
func (s *State) Marker(catalog string) twophase.ChangeNumber {
	return twophase.ChangeNumber(s.txns[markerApp(catalog)])
}

// State is a baseline: ImpossibleAt judges on top of it.
var _ baseline = (*State)(nil)

func (s *State) lookup(path PathHash, want DVHash) (dv DVHash, alive, fresh bool) {
	dv, alive = s.files.prefer(path, want)
	return dv, alive, false
}

func (s *State) count() int { return s.files.len() }

func (s *State) reached(app []byte) (int64, bool) { return s.Txn(string(app)) }

// markerApp is the app id of a catalog's markers.
func markerApp(catalog string) string { return reservedApp + catalog }

// live is what is kept of a live file.
type live struct {
	dv   DVHash
	size int64
}

// liveSet holds the live (path, deletion vector) pairs. A path has one vector in
// every table that keeps the protocol's rules; the rest goes into more.
type liveSet struct {
	one  map[PathHash]live
	more map[pair]live
}

type pair struct {
	path PathHash
	dv   DVHash
}

func newLiveSet() liveSet { return liveSet{one: map[PathHash]live{}} }

func (s *liveSet) len() int { return len(s.one) + len(s.more) }

func (s *liveSet) all(yield func(PathHash, DVHash) bool) {
	for p, f := range s.one {
		if !yield(p, f.dv) {
			return
		}
	}
	for p := range s.more {
		if !yield(p.path, p.dv) {
			return
		}
	}
}

// get returns a vector under which a path is live.
func (s *liveSet) get(p PathHash) (DVHash, bool) {
	f, ok := s.one[p]
	return f.dv, ok
}

// prefer is get, with the wanted vector if the path is live under it too.
func (s *liveSet) prefer(p PathHash, want DVHash) (DVHash, bool) {
	if s.has(p, want) {
		return want, true
	}
	return s.get(p)
}

func (s *liveSet) has(p PathHash, dv DVHash) bool {
	if f, ok := s.one[p]; ok && f.dv == dv {
		return true
	}
	_, ok := s.more[pair{p, dv}]
	return ok
}

// add makes a pair live and returns the size that it had before, 0 if it was not live.
func (s *liveSet) add(p PathHash, f live) (before int64) {
	old, ok := s.one[p]
	if !ok || old.dv == f.dv {
		s.one[p] = f
		return old.size
	}
	if s.more == nil {
		s.more = map[pair]live{}
	}
	before = s.more[pair{p, f.dv}].size
	s.more[pair{p, f.dv}] = f
	return before
}

// remove takes a pair out and returns its size, 0 if it was not live.
func (s *liveSet) remove(p PathHash, dv DVHash) (size int64) {
	if f, ok := s.one[p]; ok && f.dv == dv {
		delete(s.one, p)
		for other, g := range s.more {
			if other.path == p {
				s.one[p] = g
				delete(s.more, other)
				break
			}
		}
		return f.size
	}
	f := s.more[pair{p, dv}]
	delete(s.more, pair{p, dv})
	return f.size
}

// replay builds a State from lines.
type replay struct {
	state *State
	uri   string
	// what is read of a checkpoint. With HeadActions the state has no files.
	what Portion
	// brief: the log may be replayed from an extract. Then live has the files, and the state
	// has none.
	brief bool
	// read, if set, is shown each commit before its lines count.
	read func(v twophase.Version, raw []byte, object objstore.Info) error
	// definitions are those that were settled.
	definitions []definedAt
	// others: a file of the checkpoint was not the listed object any more when it was read.
	others bool
	// recorded: the commits are durable, since a journal says what they hold.
	recorded bool
	live     *viewFiles
	place    place
	protocol *Protocol
	meta     *MetaData
	// defined: one of the two is new.
	defined bool
	// contents, while a checkpoint is read, is what it says of itself.
	contents *contents
	line     line
	// seen, if set, is shown every live-set change with its full path.
	seen func(l *line, path string)
	// restarted, if set, is told that all that was seen does not count.
	restarted func()
	// reading is the file that is being read, first the first one, and protocolFile the
	// one with the newest protocol.
	reading, first, protocolFile string
}

// begin notes which file the lines that come are from.
func (r *replay) begin(file string) {
	r.reading = file
	if r.first == "" {
		r.first = file
	}
}

// restart forgets what was read.
func (r *replay) restart() {
	again := newReplay(r.uri)
	again.what, again.brief, again.recorded, again.seen, again.restarted = r.what, r.brief, r.recorded, r.seen, r.restarted
	*r = *again
	if r.restarted != nil {
		r.restarted()
	}
}

func newReplay(uri string) *replay {
	return &replay{
		uri: uri, place: placeOf(uri),
		state: &State{version: twophase.NoVersion, files: newLiveSet(), txns: map[string]int64{}, domains: map[string]string{}},
	}
}

// commit takes all lines of a version.
func (r *replay) commit(v twophase.Version, raw []byte) error {
	r.state.ict = 0
	r.begin(logFolder + commitName(v))
	lines, number := 0, 0
	for rest := raw; len(rest) > 0; {
		var text []byte
		text, rest = cutLine(rest)
		number++
		if blank(text) {
			continue
		}
		lines++
		if err := r.apply(text); err != nil {
			p := parser{number: number}
			c := Commit{Version: v, table: r.uri}
			return c.wrong(p.at(err), raw)
		}
	}
	if lines == 0 {
		return &LogError{Fault: Empty, Table: r.uri, File: logFolder + commitName(v), Version: v}
	}
	r.settle(v)
	return nil
}

// apply takes one line. In a commit the actions have no order, save that a remove
// and an add of one path with different vectors name different files.
func (r *replay) apply(text []byte) error {
	l := &r.line
	if !l.plain(text) {
		if err := l.parse(text, false); err != nil {
			return err
		}
	}
	if err := l.complete(false); err != nil {
		return err
	}
	if r.contents != nil {
		if err := r.contents.note(l); err != nil {
			return err
		}
	}
	s := r.state
	switch l.kind {
	case kindAdd, kindRemove:
		return r.file()
	case kindTxn:
		s.txns[string(l.app)] = l.version
	case kindDomain:
		if l.removed {
			delete(s.domains, string(l.domain))
		} else {
			s.domains[string(l.domain)] = string(l.configuration)
		}
	case kindProtocol:
		p, err := parseProtocol(l.body)
		if err != nil {
			return err
		}
		r.protocol, r.defined, r.protocolFile = p, true, r.reading
	case kindMetaData:
		m, err := parseMetaData(l.body)
		if err != nil {
			return err
		}
		r.meta, r.defined = m, true
	case kindCommitInfo:
		s.ict = readTimestamp(l.body)
	default: // cdc, what a checkpoint says of itself, and what we do not know
	}
	return nil
}

func (r *replay) file() error {
	l := &r.line
	path, err := r.place.canonical(string(l.path))
	if err != nil {
		return l.wrong("path", l.path, err.Error())
	}
	if r.what == HeadActions && r.live == nil {
		return nil // read all the same: a commit that is damaged is damaged for everybody
	}
	if r.seen != nil {
		r.seen(l, path)
	}
	h, dv := HashPath(path), hashDV(l.dv)
	r.state.rows = noteRows(r.state.rows, l, h, dv)
	before := r.count()
	switch {
	case r.live != nil:
		r.live.note(l.kind, h, dv)
	case l.kind == kindRemove:
		r.state.size -= r.state.files.remove(h, dv)
	default:
		r.state.size += l.size - r.state.files.add(h, live{dv, l.size})
	}
	if r.contents != nil && l.kind == kindAdd && r.count() == before {
		return liveTwice(path)
	}
	return nil
}

// count is how many files are live.
func (r *replay) count() int {
	if r.live != nil {
		return r.live.len()
	}
	return r.state.files.len()
}

// noteRows keeps row ids in step with an add or remove. A commit has no order: the
// removal of a file's pair may stand behind the add of the next one.
func noteRows(rows map[PathHash]liveRows, l *line, h PathHash, dv DVHash) map[PathHash]liveRows {
	switch {
	case l.kind == kindAdd && l.has&hasRowID != 0:
		if rows == nil {
			rows = map[PathHash]liveRows{}
		}
		rows[h] = liveRows{l.rows, dv}
	case l.kind == kindAdd || rows[h].dv == dv:
		delete(rows, h)
	}
	return rows
}

// settle takes over protocol and metadata after a version's lines.
func (r *replay) settle(v twophase.Version) {
	s := r.state
	s.version = v
	if r.protocol == nil || r.meta == nil {
		return
	}
	if r.defined {
		r.defined = false
		s.profile = newProfile(r.uri, v, r.protocol, r.meta, s.profile)
		r.definitions = append(r.definitions, definedAt{v, r.protocol.Raw, r.meta.Raw})
	}
	s.profile = s.profile.clusteredBy(s.domains[clusteringDomain])
}
