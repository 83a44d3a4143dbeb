package coordinator

import (
	"context"
	"errors"
	"sync"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// tail keeps a table's tail (tables.Tail) near the end of its log, so that a version
// can be rendered without reading the table: it follows what this process reads and
// puts. It says nothing about the journal, and needs no lock but its own.
type tail struct {
	mu  sync.Mutex
	now *tables.Tail
}

// tailReach is how many versions a tail is brought forward one by one; further away,
// the table is read from its newest checkpoint.
const tailReach = 64

// on brings the tail to a version and runs f on it. Nobody else moves it meanwhile.
func (t *tail) on(ctx context.Context, log *listedLog, at twophase.Version, f func(*tables.Tail) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.bring(ctx, log, at); err != nil {
		return err
	}
	if f == nil {
		return nil
	}
	return f(t.now)
}

func (t *tail) bring(ctx context.Context, log *listedLog, at twophase.Version) error {
	if t.now != nil && t.now.Version() < at && at-t.now.Version() <= tailReach {
		err := eachCommit(ctx, log.log, t.now.Version(), at, func(c *tables.Commit) error {
			if t.now != nil {
				t.advance(c.Version, c.Raw)
			}
			return nil
		})
		if err != nil && !errors.Is(err, objstore.ErrNotFound) { // cleaned: a checkpoint has it
			return err
		}
	}
	if t.now != nil && t.now.Version() == at {
		return nil
	}
	if at == twophase.NoVersion {
		t.now = log.log.EmptyTail()
		return nil
	}
	in, err := log.reading(ctx, at)
	if err == nil {
		t.now, err = in.Tail(ctx, at)
	}
	return err
}

// unlisted is how many commits are read at once that no listing says the size of.
const unlisted = 16

// eachCommit reads the commits after one version and up to another, several at once, and
// hands them out in their order. More than a few are listed first: what is read at once is
// bounded by what it takes in memory.
func eachCommit(ctx context.Context, log *tables.Log, after, upTo twophase.Version, use func(*tables.Commit) error) error {
	var wanted []tables.ListedCommit
	for v := after + 1; v <= upTo; v++ {
		wanted = append(wanted, tables.ListedCommit{Version: v})
	}
	if len(wanted) > unlisted {
		listing, err := log.List(ctx, after+1)
		if err != nil {
			return err
		}
		for _, c := range listing.Commits {
			if c.Version <= upTo {
				wanted[c.Version-after-1] = c
			}
		}
	}
	return log.EachCommit(ctx, wanted, func(_ tables.ListedCommit, c *tables.Commit, err error) error {
		if err != nil {
			return err
		}
		return use(c)
	})
}

func (t *tail) advance(v twophase.Version, raw []byte) {
	if t.now.Advance(v, raw) != nil {
		t.now = nil
	}
}

// saw takes in a version that stands in the log, if it is the next one and nobody is
// using the tail just now.
func (t *tail) saw(v twophase.Version, raw []byte) {
	if !t.mu.TryLock() {
		return
	}
	defer t.mu.Unlock()
	if t.now != nil && t.now.Version() == v-1 {
		t.advance(v, raw)
	}
}

// there reports whether it was read.
func (t *tail) there() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now != nil
}

// offer takes a tail that was made beside a view, if it is ahead.
func (t *tail) offer(made *tables.Tail) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now == nil || t.now.Version() < made.Version() {
		t.now = made
	}
}

// laterVersions counts the versions into which the changes of a round that follow go:
// all publishers of the round cut them alike.
func laterVersions(in *twophase.WalkInput, rest []*twophase.Change) (n int) {
	for ; len(rest) > 0; n++ {
		rest = rest[twophase.Share(rest, in.Caps, in.OneTxnPerVersion):]
	}
	return n
}

// changesAfter are those of the walk's round above a change number, without some.
func changesAfter(in *twophase.WalkInput, number twophase.ChangeNumber, without []*twophase.Change) []*twophase.Change {
	gone := map[*twophase.Change]bool{}
	for _, ch := range without {
		gone[ch] = true
	}
	var out []*twophase.Change
	for _, ch := range in.Changes {
		if ch.Number > number && !gone[ch] {
			out = append(out, ch)
		}
	}
	return out
}
