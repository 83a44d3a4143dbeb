//go:build unix

package fileobj

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/tables/objstore"
)

// List walks the folders that can hold keys it is asked for, and no others: with a
// delimiter that is one. An object put or removed during the walk may be in the
// listing or not. Links to folders are followed.
func (s *Store) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		l := lister{ctx: ctx, root: s.root, o: o, yield: yield}
		err := objstore.CheckPrefix(o.Prefix)
		if err == nil {
			err = s.unlinked(o.Prefix)
		}
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
	root  string
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
	nodes, err := l.nodes(folder)
	if err != nil {
		return false, err
	}
	for _, n := range nodes {
		more, err := l.visit(n)
		if !more || err != nil {
			return false, err
		}
	}
	return true, nil
}

// visit yields an object or a prefix, or walks on below it.
func (l *lister) visit(n node) (more bool, err error) {
	if err := l.ctx.Err(); err != nil {
		return false, err
	}
	if n.folder() {
		if l.o.Delimiter {
			return l.yield(objstore.Entry{Prefix: n.key}, nil), nil
		}
		return l.walk(n.key)
	}
	st, err := os.Stat(filepath.Join(l.root, n.key))
	if absent(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return l.yield(objstore.Entry{Info: describe(n.key, st)}, nil), nil
}

// nodes reads one folder: what is wanted of it, in order.
func (l *lister) nodes(folder string) ([]node, error) {
	path := filepath.Join(l.root, folder)
	entries, err := os.ReadDir(path)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var nodes []node
	for _, e := range entries {
		n, ok, err := newNode(path, folder, e)
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

// newNode follows a link, and leaves out drafts and what is neither file nor folder.
func newNode(path, folder string, e fs.DirEntry) (n node, ok bool, err error) {
	mode := e.Type()
	if mode&fs.ModeSymlink != 0 {
		st, err := os.Stat(filepath.Join(path, e.Name()))
		if err != nil {
			if absent(err) {
				err = nil
			}
			return node{}, false, err
		}
		mode = st.Mode()
	}
	n = node{key: folder + e.Name()}
	if mode.IsDir() {
		n.key += "/"
		return n, true, nil
	}
	return n, mode.IsRegular() && !isDraft(e.Name()), nil
}

// wants leaves out what lacks the prefix, and what is, or holds only keys that are,
// not after StartAfter.
func (l *lister) wants(n node) bool {
	if !strings.HasPrefix(n.key, l.o.Prefix) {
		return false
	}
	return n.key > l.o.StartAfter || n.folder() && strings.HasPrefix(l.o.StartAfter, n.key)
}
