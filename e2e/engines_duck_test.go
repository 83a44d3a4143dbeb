package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/e2e/engines"
)

// duckWriter is a DuckDB that inserts into one table.
type duckWriter struct {
	*foreignBooks
	duck *engines.Duck
}

// insert puts five rows; DuckDB does not try again by itself when somebody else was first.
func (f *duckWriter) insert() {
	f.t.Helper()
	first := f.next
	f.next += 5
	statement := fmt.Sprintf("INSERT INTO t SELECT range, 3, 'duck ' || range FROM range(%d, %d)", first, f.next)
	once := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), engineLimit)
		defer cancel()
		_, err := f.duck.SQL(ctx, f.folder(), statement)
		if err == nil {
			puts(first, 5, 3)(f.has)
		}
		return err
	}
	f.until("insert", once, func(r *engines.Refusal) bool { return strings.Contains(strings.ToLower(r.Text), "conflict") })
}

// TestDuckDBInsertsBesideOurLoad has DuckDB insert into two open tables beside our
// load, and while our server is dead. It can do no more: DELETE and UPDATE are not
// offered.
func TestDuckDBInsertsBesideOurLoad(t *testing.T) {
	t.Parallel()
	duck := engines.StartDuck(t)
	l := besideWorld(t, 3, 60*time.Millisecond, nil)
	var writers []*duckWriter
	for _, table := range foreignTables {
		writers = append(writers, &duckWriter{l.foreignBooks(table), duck})
	}
	inserts := func() {
		for range 5 {
			for _, f := range writers {
				f.insert()
			}
		}
	}
	inserts()
	l.storm.world.kill()
	inserts()
	l.start(nil)
	inserts()
	l.commitsMore(5)
	l.rests()
	rs := engines.StartDeltaRS(t)
	for _, f := range writers {
		f.checked(f.duckReads(duck, f.table), (&deltaWriter{f.foreignBooks, rs}).reads)
	}
}
