// Package contend holds what the benchmarks compare: ways to commit one change
// over several Delta tables. The baselines put commit files themselves; they write
// the same lines as txcoord does, so that the work is equal and one checker judges
// all of them.
package contend

import (
	"context"
	"errors"

	"github.com/txcoord/txcoord/e2e/checker"
)

// ErrAborted: the transaction was refused for good; the writer goes on with the next.
var ErrAborted = errors.New("transaction aborted")

// Contender is a way to commit.
type Contender interface {
	// Name is the contender's name in reports.
	Name() string
	// Open makes the given number of fresh tables in a fresh folder.
	Open(ctx context.Context, dir string, tables int) (Session, error)
}

// Work is one transaction: one added file on each of the tables. Writer and
// Number together are unique in a session.
type Work struct {
	Writer, Number int
	// Tables are indices of the session's tables.
	Tables []int
	// Replaces, if set, is the path of a file that the transaction has read on each
	// of its tables, and removes. Of several that replace one file, one may commit.
	Replaces string
}

// Replacer is a contender whose sessions take work that replaces files.
type Replacer interface {
	Contender
	Replaces()
}

// Session is a contender with its tables. Commit is safe for concurrent use by
// writers of different numbers; one writer has one transaction in flight.
type Session interface {
	// Commit returns when readers can see the transaction. ErrAborted is an
	// outcome; any other error ends the benchmark.
	Commit(ctx context.Context, w Work) error
	// Requests counts what the session asked of its stores so far; nil if it cannot be known.
	Requests() Requests
	// Settle returns when what was answered is at rest. Nothing must be in flight.
	Settle(ctx context.Context) error
	// Books are what clients were told, for the checker. Nothing must be in flight.
	Books() checker.Run
	// Close ends the session; its folder stays.
	Close() error
}

// Draining is a session that answers transactions before they are published, or can.
type Draining interface {
	// Drain returns when all that was answered is published, and every snapshot has its
	// manifest. Nothing must be in flight.
	Drain(ctx context.Context) error
}

// Cut is a session whose tables can be seen as of one moment.
type Cut interface {
	// Snapshot is the version of each table in the newest snapshot.
	Snapshot(ctx context.Context) (map[string]int64, error)
}

// Stallable is a session whose object store can be made to refuse everything.
type Stallable interface {
	Session
	// Out makes every request to the object store fail from now on, or no more.
	Out(ctx context.Context, out bool) error
	// Try is Commit without a second try.
	Try(ctx context.Context, w Work) error
	// Frozen counts the tables that take no commits.
	Frozen(ctx context.Context) (int, error)
	Weighed
}

// Weighed is a session that tells the memory of its server, in bytes.
type Weighed interface{ Memory() (int64, error) }

// Sized is a session that tells the bytes that are live in its journal's store.
type Sized interface {
	StoreBytes(ctx context.Context) (int64, error)
}

// Stalling is a contender that may answer while its object store refuses everything. It
// stands in for itself with one whose sessions are Stallable.
type Stalling interface {
	Contender
	// Stalling reports false of one that publishes before it answers.
	Stalling() (Contender, bool)
}

// Server is a session with a server process behind it that can be killed. Its
// Commit repeats the same call, over restarts of the server, until it has a final
// answer, as a client must.
type Server interface {
	Session
	// Kill ends the process as a crash would and returns when it is gone.
	Kill() error
	// Start starts it again, on the same folder, and returns at once.
	Start() error
	// Serving returns when the server answers a request.
	Serving(ctx context.Context) error
}

// Counted is a contender whose sessions do not tell their requests, and that can
// stand in for itself with one whose sessions do.
type Counted interface {
	Contender
	Counted() Contender
}

// Crashable is a contender that has a server process.
type Crashable interface {
	Contender
	// OpenServer is Open.
	OpenServer(ctx context.Context, dir string, tables int) (Server, error)
}

// Requests counts requests by kind ("put", "get", "append", …).
type Requests map[string]int64

// Minus is what came since.
func (r Requests) Minus(before Requests) Requests {
	if r == nil {
		return nil
	}
	d := Requests{}
	for kind, n := range r {
		if n -= before[kind]; n != 0 {
			d[kind] = n
		}
	}
	return d
}

// Plus adds up.
func (r Requests) Plus(o Requests) Requests {
	if r == nil && o == nil {
		return nil
	}
	sum := Requests{}
	for _, x := range []Requests{r, o} {
		for kind, n := range x {
			sum[kind] += n
		}
	}
	return sum
}
