package coordinator

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// The rules know paths by their hashes alone (R8), and so does a verdict on a change that a
// foreign commit made impossible. People want the path: it stands in the change's staged
// part, which is read before the verdict is asked for, so that the record has it. What could
// not be read then is looked for when somebody asks.

// pathNames are the paths of changes that are about to be judged, by what the rules call
// them. What is not there any more is called by its hash.
type pathNames struct {
	mu    sync.Mutex
	m     map[string]string
	order []string
}

const (
	// namesKept bounds the paths that are known at a time, and namedPath their length, since
	// they go into records.
	namesKept = 256
	namedPath = 512
)

func (n *pathNames) keep(hash, path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.m == nil {
		n.m = map[string]string{}
	}
	if _, ok := n.m[hash]; ok {
		return
	}
	n.m[hash] = path
	if n.order = append(n.order, hash); len(n.order) > namesKept {
		delete(n.m, n.order[0])
		n.order = n.order[1:]
	}
}

// name puts paths for hashes into verdicts.
func (n *pathNames) name(all ...*twophase.Conflict) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range all {
		if c == nil {
			continue
		}
		if path, ok := n.m[c.Path]; ok && len(path) <= namedPath {
			c.Path = path
		}
	}
}

// namingRules are Delta's rules, with paths in their verdicts on decided changes.
type namingRules struct {
	tables.Rules
	names *pathNames
}

func (r namingRules) Impossible(decided, foreign twophase.Facts) *twophase.Conflict {
	c := r.Rules.Impossible(decided, foreign)
	r.names.name(c)
	return c
}

func (r namingRules) ImpossibleAt(decided []twophase.Facts, at twophase.Base) []*twophase.Conflict {
	out := r.Rules.ImpossibleAt(decided, at)
	r.names.name(out...)
	return out
}

func (r namingRules) Without(decided []twophase.Facts, lost []bool) []*twophase.Conflict {
	out := r.Rules.Without(decided, lost)
	r.names.name(out...)
	return out
}

// learnPaths reads the staged parts of the changes that a foreign commit makes impossible,
// which are few, and notes the paths that it does so by. What cannot be read stays a hash.
func (c *Catalog) learnPaths(ctx context.Context, t *handle, f *twophase.Foreign) {
	type judged struct {
		txn   twophase.TxnID
		facts twophase.Facts
	}
	var pending []judged
	c.ledger.read(func(s *twophase.State) {
		if row, ok := s.Table(t.id); ok {
			for _, ch := range row.Pending {
				pending = append(pending, judged{ch.Txn, ch.Part.Facts})
			}
		}
	})
	learned := 0
	for _, p := range pending {
		if len(p.facts) == 0 || learned == namesKept {
			continue
		}
		why := tables.Rules{}.Impossible(p.facts, f.Facts)
		if why == nil || !tables.IsPathHash(why.Path) {
			continue
		}
		learned++
		hash := why.Path
		if c.namePath(ctx, t.id, p.txn, why); why.Path != hash {
			c.paths.keep(hash, why.Path)
		}
	}
}

// namePath puts the path into a conflict of a decided change on a table, if its staged
// part is still there.
func (c *Catalog) namePath(ctx context.Context, id twophase.TableID, txn twophase.TxnID, why *twophase.Conflict) {
	if !tables.IsPathHash(why.Path) {
		return
	}
	var pieces []located
	c.ledger.read(func(s *twophase.State) {
		if o := s.Outcome(txn); o != nil && o.Commit != nil {
			pieces = piecesOf(txn, o.Commit)
		}
	})
	pieces = slices.DeleteFunc(pieces, func(p located) bool { return p.Table != id })
	uri := c.row(id).URI
	for _, piece := range pieces {
		p, err := c.payloads.get(ctx, piece)
		if err != nil {
			return
		}
		if path, ok := tables.PathBehind(uri, p.actions, why.Path); ok {
			why.Path = clip(path, maxPath)
			return
		}
	}
}

// maxPath bounds a path that is told.
const maxPath = 1024

// namePaths does that for what was given up on a table.
func (c *Catalog) namePaths(ctx context.Context, id twophase.TableID, all []ResolvedChange) {
	for i := range all[:min(len(all), namedAtMost)] {
		c.namePath(ctx, id, all[i].Txn, &all[i].Conflict)
	}
}

// named does that for findings.
func (e *explainer) named(ctx context.Context) {
	for i := range e.found {
		f := &e.found[i]
		if why := (twophase.Conflict{Path: f.Path}); f.at != "" && tables.IsPathHash(f.Path) {
			e.c.namePath(ctx, f.at, f.Txn, &why)
			f.Text, f.Path = strings.ReplaceAll(f.Text, f.Path, why.Path), why.Path
		}
	}
}

// namedOutcome does that for an outcome.
func (c *Catalog) namedOutcome(ctx context.Context, o Outcome) Outcome {
	if o.Committed == nil {
		return o
	}
	for i := range o.Committed.Tables {
		d := o.Committed.Tables[i].Conflict
		if d == nil || !tables.IsPathHash(d.Path) {
			continue
		}
		why := twophase.Conflict{Path: d.Path}
		c.namePath(ctx, d.TableID, o.Txn, &why)
		d.Path = why.Path
	}
	return o
}
