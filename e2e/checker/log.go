package checker

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// tableLog is the log of one table as it lies there.
type tableLog struct {
	versions map[int64]*version
	// checkpoint is the version of the newest complete checkpoint, -1 if there is none.
	checkpoint int64
	// cleaned are versions that are gone, a checkpoint covering them, and that the
	// history remembers.
	cleaned map[int64]bool
}

var (
	commitName     = regexp.MustCompile(`^(\d{20})\.json$`)
	checkpointName = regexp.MustCompile(`^(\d{20})\.checkpoint\.(?:(\d{10})\.(\d{10})\.parquet|parquet|[0-9a-fA-F-]+\.(?:json|parquet))$`)
)

func logDir(table string) string { return filepath.Join(table, "_delta_log") }

// readLog reads every commit of a table. A table without a log has none.
func readLog(table string) (*tableLog, error) {
	l := &tableLog{versions: map[int64]*version{}, checkpoint: -1, cleaned: map[int64]bool{}}
	names, err := os.ReadDir(logDir(table))
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	parts := map[[2]int64]int64{}
	for _, e := range names {
		if m := checkpointName.FindStringSubmatch(e.Name()); m != nil {
			l.sawCheckpoint(m, parts)
		}
		n, ok := numberOf(commitName, e.Name())
		if !ok {
			continue
		}
		if l.versions[n], err = readVersionFile(filepath.Join(logDir(table), e.Name())); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// sawCheckpoint takes note of a checkpoint file. One in parts counts when all of
// its parts are there.
func (l *tableLog) sawCheckpoint(m []string, parts map[[2]int64]int64) {
	n, _ := strconv.ParseInt(m[1], 10, 64)
	if m[2] != "" {
		of, _ := strconv.ParseInt(m[3], 10, 64)
		if parts[[2]int64{n, of}]++; parts[[2]int64{n, of}] < of {
			return
		}
	}
	l.checkpoint = max(l.checkpoint, n)
}

func readVersionFile(name string) (*version, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	v, err := readVersion(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Base(name), err)
	}
	return v, nil
}

func numberOf(re *regexp.Regexp, name string) (int64, bool) {
	m := re.FindStringSubmatch(name)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	return n, err == nil
}

// numbers lists the versions that are there or remembered, in order.
func (l *tableLog) numbers() []int64 { return slices.Sorted(maps.Keys(l.versions)) }

// latest is the newest version that exists; -1 if there is none.
func (l *tableLog) latest() int64 {
	latest := l.checkpoint
	for n := range l.versions {
		latest = max(latest, n)
	}
	return latest
}

// unseen reports whether a version may have been there: it is gone, and a
// checkpoint covers it.
func (l *tableLog) unseen(n int64) bool { return l.versions[n] == nil && n <= l.checkpoint }

// checkLogs checks every log by itself.
func (c *check) checkLogs() {
	c.places = map[string]map[string]place{}
	c.order = map[string][]string{}
	for _, t := range c.run.Tables {
		c.checkContiguous(t)
		c.checkOwn(t)
	}
	c.report.Transactions = len(c.places)
}

// checkContiguous wants every version from 0 on, or from the newest checkpoint on.
func (c *check) checkContiguous(t Table) {
	l := c.logs[t.Name]
	numbers := l.numbers()
	c.report.Versions += len(numbers)
	for n := l.checkpoint + 1; n <= l.latest(); n++ {
		if l.versions[n] == nil {
			c.fail(LogGap, Violation{Table: t.Name, Version: n}, "missing, although version %d is there", l.latest())
		}
	}
	for _, n := range numbers {
		if p := l.versions[n].problem; p != nil {
			c.fail(LogUnreadable, Violation{Table: t.Name, Version: n}, "%v", p)
		}
	}
}
