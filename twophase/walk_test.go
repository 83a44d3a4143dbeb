package twophase_test

import (
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// A store whose listings go on saying that a version is there, and that it is not, says
// nothing of the table: the walk begins anew once, and then fits nothing. The same reason
// twice is a contradiction, which an operator looks at.
func TestLooksThatContradictEachOther(t *testing.T) {
	reason := ""
	for range 2 {
		w := twophase.NewWalk(twophase.WalkInput{Table: "t", Recorded: 3, LookUp: true, Ended: twophase.NoSight}, time.Hour)
		for range 2 {
			if _, ok := w.Next().(twophase.ListFrom); !ok {
				t.Fatalf("it does not list first: %#v", w.Next())
			}
			w.Feed(twophase.Listing{Owner: true, Commit: twophase.NoVersion, Checkpoint: twophase.NoVersion}, time.Hour)
			if _, ok := w.Next().(twophase.ReadCleaned); !ok {
				t.Fatalf("version 3 was not there: %#v", w.Next())
			}
			w.Feed(twophase.Cleaned{Owner: true, Commits: []twophase.Version{3}, Checkpoint: twophase.NoVersion}, time.Hour)
		}
		end, ok := w.Next().(twophase.WalkUnfit)
		if !ok || !strings.Contains(end.Reason, "version 3") || reason != "" && end.Reason != reason {
			t.Fatalf("it ends with %#v, before that with %q", w.Next(), reason)
		}
		reason = end.Reason
	}
}
