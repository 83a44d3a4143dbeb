package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/twophase"
)

// A listing is kept for as long as a sight stands, and not past the time at which the sight of
// its log was forgotten, even if it was being made by then.
func TestListingsAreKeptForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		log := tables.NewLog(tables.LogConfig{Store: memobj.New(), Key: "t", URI: "file:///t"})
		l := newListedLog(log, func() time.Duration { return time.Since(began) })
		kept := func() bool { made, _ := l.newest(); return made.Listing != nil }
		read := func() {
			t.Helper()
			if _, err := l.reading(t.Context(), 0); err != nil || !kept() {
				t.Fatalf("kept: %t, %v", kept(), err)
			}
		}
		read()
		l.drop()
		if kept() {
			t.Error("kept although it was dropped")
		}
		_, dropped := l.newest()
		l.drop()
		l.keep(madeListing{&tables.Listing{}, l.boot()}, dropped)
		if kept() {
			t.Error("kept although it was dropped while it was made")
		}
		read()
		time.Sleep(twophase.SightLimit)
		synctest.Wait()
		if l.mu.Lock(); l.now.Listing != nil {
			t.Error("kept for longer than it may serve")
		}
		l.mu.Unlock()
	})
}
