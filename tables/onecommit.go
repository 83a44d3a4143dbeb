package tables

import (
	"slices"
	"strconv"
	"strings"

	"github.com/txcoord/txcoord/twophase"
)

// oneCommit keeps what one commit may hold only once (facts/delta-protocol 1.7):
// actions inside a commit have no order, so a second one would be ambiguous.
type oneCommit struct {
	// Few files are compared one by one; the maps come with the first many.
	adds, removes map[PathHash]int
	apps, domains map[string]bool
}

const fewFiles = 8

// file checks the last add or remove against those before it.
func (o *oneCommit) file(a *Actions, k kind) error {
	mine, seen, other, otherSeen := a.Adds, &o.adds, a.Removes, o.removes
	if k == kindRemove {
		mine, seen, other, otherSeen = a.Removes, &o.removes, a.Adds, o.adds
	}
	last := len(mine) - 1
	f := &mine[last]
	name := map[kind]string{kindAdd: "add.path", kindRemove: "remove.path"}[k]
	if i := find(mine[:last], *seen, f.Hash); i >= 0 {
		return &fieldError{
			field: name, value: cut(f.Path),
			reason: "the path is there twice, before in line " + strconv.Itoa(mine[i].Line) + "; one commit may name it once, whatever its deletion vector",
		}
	}
	if i := find(other, otherSeen, f.Hash); i >= 0 && other[i].DV == f.DV {
		return &fieldError{
			field: name, value: cut(f.Path),
			reason: "the same file is added and removed, see line " + strconv.Itoa(other[i].Line),
		}
	}
	if *seen == nil && len(mine) > fewFiles {
		*seen = make(map[PathHash]int, 4*fewFiles)
		for i := range mine {
			(*seen)[mine[i].Hash] = i
		}
	}
	if *seen != nil {
		(*seen)[f.Hash] = last
	}
	return nil
}

func find(files []File, index map[PathHash]int, h PathHash) int {
	if index != nil {
		if i, ok := index[h]; ok {
			return i
		}
		return -1
	}
	return slices.IndexFunc(files, func(f File) bool { return f.Hash == h })
}

func (o *oneCommit) txn(l *line) error {
	if o.apps == nil {
		o.apps = map[string]bool{}
	}
	if o.apps[string(l.app)] {
		return l.wrong("appId", l.app, "the application is there twice")
	}
	o.apps[string(l.app)] = true
	return nil
}

func (o *oneCommit) domain(l *line) error {
	if o.domains == nil {
		o.domains = map[string]bool{}
	}
	if o.domains[string(l.domain)] {
		return l.wrong("domain", l.domain, "the domain is there twice")
	}
	o.domains[string(l.domain)] = true
	return nil
}

// outside refuses adds of files that lie outside the table's root, save those that
// are part of the table already: the part then removes the same path (a deletion
// vector for a file of a shallow clone).
func (a *Actions) outside(o *oneCommit) error {
	for i := range a.Adds {
		f := &a.Adds[i]
		if !isOutside(f.Path) {
			continue
		}
		if find(a.Removes, o.removes, f.Hash) < 0 {
			return &InputError{
				Line: f.Line, Field: "add.path", Value: cut(f.Path),
				Reason: "the file lies outside the table's root", Remedy: "write data files below the table's root",
			}
		}
	}
	return nil
}

// Shape is what coalescing has to know (R19).
func (a *Actions) Shape() twophase.Shape {
	s := twophase.Shape{
		Appends: len(a.Removes) == 0 && a.CDCs == 0 && len(a.Domains) == 0 && a.MetaData == nil && a.Protocol == nil,
		Bytes:   uint64(a.Bytes),
		Apps:    slices.Clone(a.Txns),
	}
	slices.SortFunc(s.Apps, func(x, y twophase.AppVersion) int { return strings.Compare(x.App, y.App) })
	for i := range a.Adds {
		if i == 0 {
			s.DataChange = a.Adds[i].DataChange
		}
		s.Appends = s.Appends && a.Adds[i].DataChange == s.DataChange
	}
	return s
}

// PathOf returns the canonical path of a hash that the part names.
func (a *Actions) PathOf(h PathHash) (string, bool) {
	for _, files := range [][]File{a.Adds, a.Removes} {
		for i := range files {
			if files[i].Hash == h {
				return files[i].Path, true
			}
		}
	}
	return "", false
}

// Explain puts the part's own path into a conflict that Rules or View found: they
// know hashes only and write PathHash.String. It changes and returns c.
func (a *Actions) Explain(c *twophase.Conflict) *twophase.Conflict {
	if c == nil {
		return nil
	}
	if digits, ok := strings.CutPrefix(c.Path, hashPrefix); ok {
		if h, err := strconv.ParseUint(digits, 16, 64); err == nil {
			if path, ok := a.PathOf(PathHash(h)); ok {
				c.Path = path
			}
		}
	}
	return c
}
