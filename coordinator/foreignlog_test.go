package coordinator_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// A busy foreign writer does not flood the log: one line at once, and what follows
// within the minute is summed up after it.
func TestForeignCommitsAreLoggedSummedUp(t *testing.T) {
	var clock atomic.Int64
	var log bytes.Buffer
	began := time.Now()
	w := (&world{cfg: coordinator.Config{
		Boot: func() time.Duration { return time.Since(began) + time.Duration(clock.Load()) },
		Log:  slog.New(slog.NewTextHandler(&log, nil)),
	}}).open(t)
	w.create("t", twophase.ModeOpen)
	w.foreign("t", 1, add("a"))
	w.foreign("t", 2, add("b"))
	w.foreign("t", 3, add("c"))
	w.commit("1", blind("t", "1"))
	clock.Store(int64(2 * time.Minute))
	w.foreign("t", 5, add("d"))
	w.commit("2", blind("t", "2"))
	w.stop()
	if got := strings.Count(log.String(), "foreign commits"); got != 2 || !strings.Contains(log.String(), "count=3 newest=5") {
		t.Errorf("%d lines:\n%s", got, &log)
	}
}
