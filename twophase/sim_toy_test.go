package twophase

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// The simulator's Delta: a table is a set of live (path, deletion vector) pairs,
// with app versions, a schema that is a number, and a metaData.id. Facts are the
// number of a change in the world's list, so that the protocol cannot look inside.

type toyPath int32

type toyPair struct {
	path toyPath
	dv   int32 // 0: none
}

// toyChange is what one commit does to one table.
type toyChange struct {
	id            int
	meta          int // the metaData.id it is bound to
	adds, removes []toyPair
	app           int // 0: none
	appVersion    int64
	needsSchema   int // the schema that its files fit; 0: it adds none
	setsSchema    int // 0: it leaves the schema alone
	setsMeta      int // CREATE OR REPLACE TABLE; 0: no
	setsProtocol  int // another engine's; 0: no
	needsProtocol int // of a fence change: the protocol that it puts the fence into
	fence         Fencing
	dataChange    bool
	blind         bool
	readsAll      bool
	reads         []toyPath
}

func (c *toyChange) facts() Facts { return binary.AppendUvarint([]byte{'f'}, uint64(c.id)) }

func (c *toyChange) shape() Shape {
	sh := Shape{Appends: len(c.removes) == 0 && c.setsSchema == 0 && c.fence == FenceKept, DataChange: c.dataChange, Bytes: uint64(10 * (len(c.adds) + len(c.removes) + 1))}
	if c.app > 0 {
		sh.Apps = []AppVersion{{App: fmt.Sprint("app", c.app), Version: c.appVersion}}
	}
	return sh
}

func (c *toyChange) appendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(c.id))
	for _, list := range [][]toyPair{c.adds, c.removes} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, p := range list {
			b = binary.AppendVarint(binary.AppendVarint(b, int64(p.path)), int64(p.dv))
		}
	}
	for _, v := range []int64{int64(c.app), c.appVersion, int64(c.needsSchema), int64(c.setsSchema), int64(c.setsMeta), int64(c.fence)} {
		b = binary.AppendVarint(b, v)
	}
	return b
}

// toyApps is how many apps there are.
const toyApps = 3

// toyState is a table at one version. Immutable.
type toyState struct {
	live   []toyPair // sorted
	apps   [toyApps + 1]int64
	meta   int
	schema int
	// protocol is a number, and the fence.
	protocol int
	fenced   bool
	marker   ChangeNumber
	ict      Time
}

func comparePairs(a, b toyPair) int {
	if a.path != b.path {
		return int(a.path) - int(b.path)
	}
	return int(a.dv) - int(b.dv)
}

func (s *toyState) has(p toyPair) bool {
	_, ok := slices.BinarySearchFunc(s.live, p, comparePairs)
	return ok
}

// dvOf is the pair of a path that is live.
func (s *toyState) liveAt(path toyPath) (toyPair, bool) {
	i, _ := slices.BinarySearchFunc(s.live, toyPair{path, -1}, comparePairs)
	if i < len(s.live) && s.live[i].path == path {
		return s.live[i], true
	}
	return toyPair{}, false
}

func hasPath(pairs []toyPair, path toyPath) bool {
	return slices.ContainsFunc(pairs, func(p toyPair) bool { return p.path == path })
}

// fits says why a change cannot follow the state (R13); nil: it can.
func (s *toyState) fits(c *toyChange) *Conflict {
	if c.meta != s.meta {
		return &Conflict{Rule: RuleTableReplaced}
	}
	for _, p := range c.removes {
		if !s.has(p) {
			return &Conflict{Rule: RulePathMissing, Path: fmt.Sprint(p)}
		}
	}
	for _, p := range c.adds {
		live, ok := s.liveAt(p.path)
		if ok && live != p && !slices.Contains(c.removes, live) {
			return &Conflict{Rule: RulePathExists, Path: fmt.Sprint(p)}
		}
	}
	if c.app > 0 && c.appVersion <= s.apps[c.app] {
		return &Conflict{Rule: RuleAppVersion}
	}
	if c.needsSchema > 0 && c.needsSchema != s.schema {
		return &Conflict{Rule: RuleSchema}
	}
	if c.fence != FenceKept && c.needsProtocol != s.protocol {
		return &Conflict{Rule: RuleProtocol}
	}
	return nil
}

// after is the state once the change is in it.
func (s *toyState) after(c *toyChange) *toyState {
	out := *s
	out.live = make([]toyPair, 0, len(s.live)+len(c.adds))
	for _, p := range s.live {
		if !slices.Contains(c.removes, p) {
			out.live = append(out.live, p)
		}
	}
	for _, p := range c.adds {
		if i, there := slices.BinarySearchFunc(out.live, p, comparePairs); !there {
			out.live = slices.Insert(out.live, i, p)
		}
	}
	if c.app > 0 {
		out.apps[c.app] = c.appVersion
	}
	if c.setsSchema > 0 {
		out.schema = c.setsSchema
	}
	if c.setsMeta > 0 {
		out.meta = c.setsMeta
	}
	if c.setsProtocol > 0 {
		out.protocol = c.setsProtocol
	}
	if c.fence != FenceKept {
		out.fenced = c.fence == FenceRaised
	}
	return &out
}

// toyRules are the Rules of the toy.
type toyRules struct{ changes *[]*toyChange }

func (r toyRules) change(f Facts) *toyChange {
	if len(f) == 0 {
		panic("facts are missing")
	}
	id, _ := binary.Uvarint(f[1:])
	return (*r.changes)[id]
}

func (r toyRules) Checker() Checker { return r }

func (r toyRules) Conflict(candidate, winner Facts) *Conflict {
	return conflictBefore(r.change(candidate), r.change(winner))
}

// conflictBefore compares by bare path, with the read set.
func conflictBefore(c, w *toyChange) *Conflict {
	if c.blind {
		return nil
	}
	if c.fence != FenceKept && (w.fence != FenceKept || w.setsProtocol > 0) {
		return &Conflict{Rule: RuleProtocol}
	}
	if w.setsSchema > 0 || w.setsMeta > 0 {
		return &Conflict{Rule: RuleMetadata}
	}
	for _, p := range w.removes {
		if hasPath(c.removes, p.path) {
			return &Conflict{Rule: RuleDeleteDelete}
		}
		if c.readsAll || slices.Contains(c.reads, p.path) {
			return &Conflict{Rule: RuleDeleteRead}
		}
	}
	if c.readsAll && len(w.adds) > 0 && w.dataChange {
		return &Conflict{Rule: RuleAppendRead}
	}
	return nil
}

func (r toyRules) Impossible(decided, foreign Facts) *Conflict {
	c, f := r.change(decided), r.change(foreign)
	switch {
	case f.setsMeta > 0:
		return &Conflict{Rule: RuleTableReplaced}
	case f.setsProtocol > 0 && c.fence != FenceKept:
		return &Conflict{Rule: RuleProtocol}
	case f.app > 0 && f.app == c.app && f.appVersion >= c.appVersion:
		return &Conflict{Rule: RuleAppVersion}
	case f.setsSchema > 0 && c.needsSchema > 0 && c.needsSchema != f.setsSchema:
		return &Conflict{Rule: RuleSchema}
	}
	for _, p := range f.removes {
		if slices.Contains(c.removes, p) && !slices.Contains(f.adds, p) {
			return &Conflict{Rule: RulePathMissing, Path: fmt.Sprint(p)}
		}
	}
	for _, p := range f.adds {
		if hasPath(c.adds, p.path) && !slices.Contains(c.adds, p) && !slices.Contains(c.removes, p) {
			return &Conflict{Rule: RulePathExists, Path: fmt.Sprint(p)}
		}
	}
	return nil
}

func (r toyRules) ImpossibleAt(decided []Facts, at Base) []*Conflict {
	s := at.(*toyState)
	out := make([]*Conflict, len(decided))
	for i, f := range decided {
		c := r.change(f)
		if out[i] = s.fits(c); out[i] == nil {
			s = s.after(c)
		}
	}
	return out
}

func (r toyRules) Without(decided []Facts, lost []bool) []*Conflict {
	var (
		out     = make([]*Conflict, len(decided))
		missing = map[toyPair]bool{} // would be live
		stays   = map[toyPath]bool{} // would not be
		schemas = map[int]bool{}     // would be the table's
	)
	for i, f := range decided {
		c := r.change(f)
		if !lost[i] {
			out[i] = cannotStand(c, missing, stays, schemas)
		}
		gone := lost[i] || out[i] != nil
		for _, p := range c.removes {
			if gone && !missing[p] {
				stays[p.path] = true
			}
			delete(missing, p)
		}
		for _, p := range c.adds {
			if gone {
				missing[p] = true
			} else {
				delete(missing, p)
			}
		}
		if gone && c.setsSchema > 0 {
			schemas[c.setsSchema] = true
		}
	}
	return out
}

func cannotStand(c *toyChange, missing map[toyPair]bool, stays map[toyPath]bool, schemas map[int]bool) *Conflict {
	for _, p := range c.removes {
		if missing[p] {
			return &Conflict{Rule: RulePathMissing, Path: fmt.Sprint(p)}
		}
	}
	for _, p := range c.adds {
		if stays[p.path] && !hasPath(c.removes, p.path) {
			return &Conflict{Rule: RulePathExists, Path: fmt.Sprint(p)}
		}
	}
	if schemas[c.needsSchema] {
		return &Conflict{Rule: RuleSchema}
	}
	return nil
}

// toyView is a View: the recorded state and what is pending on it.
type toyView struct {
	rules   toyRules
	state   *toyState // after everything decided
	pending []*toyChange
}

type toyTrial struct{ toyView }

func (v *toyView) Try() Trial {
	return &toyTrial{toyView{v.rules, v.state, slices.Clone(v.pending)}}
}

func (t *toyTrial) Fits(candidate Facts) *Conflict {
	c := t.rules.change(candidate)
	if why := t.state.fits(c); why != nil {
		return why
	}
	return duplicates(c, t.pending)
}

func (t *toyTrial) Take(candidate Facts) {
	c := t.rules.change(candidate)
	t.state, t.pending = t.state.after(c), append(t.pending, c)
}

// duplicates: a file that an undelivered change adds may not be added again, not even
// as the same pair (R19).
func duplicates(c *toyChange, pending []*toyChange) *Conflict {
	for _, p := range c.adds {
		for _, o := range pending {
			if slices.Contains(o.adds, p) && !slices.Contains(c.removes, p) {
				return &Conflict{Rule: RulePathExists, Path: fmt.Sprint(p)}
			}
		}
	}
	return nil
}
