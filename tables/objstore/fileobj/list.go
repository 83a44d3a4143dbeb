//go:build unix

package fileobj

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/tables/objstore"
)

// List walks the folders that can hold keys it is asked for, and no others: with a
// delimiter that is one. An object put or removed during the walk may be in the
// listing or not. Links are followed as Config.NoLinks says.
func (s *Store) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		l := lister{ctx: ctx, s: s, o: o, yield: yield}
		err := objstore.CheckPrefix(o.Prefix)
		if err == nil {
			_, err = l.walk(o.Prefix[:strings.LastIndexByte(o.Prefix, '/')+1])
		}
		if err != nil {
			yield(objstore.Entry{}, fmt.Errorf("list %s: %w", o.Prefix, err))
		}
	}
}

// lister is one listing under way. It lives no longer than the call it serves.
type lister struct {
	ctx   context.Context
	s     *Store
	o     objstore.ListOptions
	yield func(objstore.Entry, error) bool
}

// node is a name in a folder by its key; that of a folder ends with a slash, which
// also puts it where its objects belong in the order of all keys.
type node struct {
	key string
}

func (n node) folder() bool { return strings.HasSuffix(n.key, "/") }

// walk yields what a folder holds. more is false once the caller has had enough.
func (l *lister) walk(folder string) (more bool, err error) {
	if err := l.ctx.Err(); err != nil {
		return false, err
	}
	in, err := l.s.look(folder)
	if absent(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer in.close()
	nodes, err := l.nodes(in, folder)
	if err != nil {
		return false, err
	}
	for _, n := range nodes {
		more, err := l.visit(in, n)
		if !more || err != nil {
			return false, err
		}
	}
	return true, nil
}

// visit yields an object or a prefix, or walks on below it.
func (l *lister) visit(in *folder, n node) (more bool, err error) {
	if err := l.ctx.Err(); err != nil {
		return false, err
	}
	if n.folder() {
		if l.o.Delimiter {
			return l.yield(objstore.Entry{Prefix: n.key}, nil), nil
		}
		return l.walk(n.key)
	}
	st, err := l.s.stat(in, path.Base(n.key))
	if absent(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return l.yield(objstore.Entry{Info: describe(n.key, st)}, nil), nil
}

// nodes reads one folder: what is wanted of it, in order.
func (l *lister) nodes(in *folder, folder string) ([]node, error) {
	entries, err := in.self.ReadDir(-1)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var nodes []node
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 && l.o.Linked != nil {
			if n := (node{key: folder + e.Name()}); l.wants(n) {
				l.o.Linked(n.key)
			}
			continue
		}
		n, ok, err := l.s.newNode(in, folder, e)
		if err != nil {
			return nil, err
		}
		if ok && l.wants(n) {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b node) int { return cmp.Compare(a.key, b.key) })
	return nodes, nil
}

// newNode looks behind a link, and leaves out drafts and what is neither file nor
// folder. A link that leads out of the store is an error: what lies behind it is
// neither there nor absent.
func (s *Store) newNode(in *folder, folder string, e fs.DirEntry) (n node, ok bool, err error) {
	mode := e.Type()
	if mode&fs.ModeSymlink != 0 {
		st, err := s.stat(in, e.Name())
		if err != nil {
			if absent(err) {
				err = nil
			}
			return node{}, false, err
		}
		mode = 0
		switch {
		case st.folder():
			mode = fs.ModeDir
		case !st.file():
			mode = fs.ModeIrregular
		}
	}
	n = node{key: folder + e.Name()}
	if mode.IsDir() {
		n.key += "/"
		return n, true, nil
	}
	return n, mode.IsRegular() && !isDraft(e.Name()), nil
}

// stat says what a name leads to: through a link as well, if that stays inside the
// store's own folder.
func (s *Store) stat(in *folder, name string) (stat, error) {
	st, err := in.lstat(name)
	if err != nil || !st.link() {
		return st, err
	}
	root, err := s.jail()
	if err != nil {
		return stat{}, err
	}
	defer func() { _ = root.Close() }()
	info, err := root.Stat(path.Join(in.key, name))
	if err != nil {
		return stat{}, unescaped(path.Join(in.key, name), err)
	}
	return statOfInfo(info), nil
}

// wants leaves out what lacks the prefix, and what is, or holds only keys that are,
// not after StartAfter.
func (l *lister) wants(n node) bool {
	if !strings.HasPrefix(n.key, l.o.Prefix) {
		return false
	}
	return n.key > l.o.StartAfter || n.folder() && strings.HasPrefix(l.o.StartAfter, n.key)
}
