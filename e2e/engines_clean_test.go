package e2e_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/e2e/engines"
)

// aDay is the retention of tables that are cleaned: the shortest that is taken.
func aDay() map[string]string {
	return map[string]string{"delta.logRetentionDuration": "interval 1 day", "delta.deletedFileRetentionDuration": "interval 1 day"}
}

// age moves the times of a table's commits and checkpoints up to a version, and of
// data files that are in the table or were, three days back. Files of transactions
// that are not published keep theirs: they cannot be older than their transaction.
func (l *load) age(table string, upTo int64) {
	l.t.Helper()
	var there []string
	do := func(err error) {
		if err != nil && !os.IsNotExist(err) { // one that has gone meanwhile is old enough
			l.t.Fatal(err)
		}
	}
	do(filepath.WalkDir(l.storm.world.table(table), func(name string, d os.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err):
		case err != nil:
			return err
		case d.IsDir(), filepath.Base(filepath.Dir(name)) == "_delta_log" && versionOf(d.Name()) > upTo:
		default:
			there = append(there, name)
		}
		return nil
	}))
	old, open := time.Now().Add(-72*time.Hour), l.openFiles(table) // a file that comes from here on is not there
	for _, name := range there {
		if !open[filepath.Base(name)] {
			do(os.Chtimes(name, old, old))
		}
	}
}

// versionOf is the version in the name of a file in a log; -1 if there is none.
func versionOf(name string) (v int64) {
	for i, c := range []byte(name) {
		if i == 20 {
			return v
		}
		if c < '0' || c > '9' {
			return -1
		}
		v = v*10 + int64(c-'0')
	}
	return -1
}

// openFiles are the files of attempts that were not told that they are committed and
// published: no version of the table names them yet. A client writes its files before it
// books them, so young files count as such, too.
func (l *load) openFiles(table string) map[string]bool {
	young := time.Now().Add(-time.Minute)
	all := map[string]bool{}
	entries, _ := os.ReadDir(l.storm.world.table(table))
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().After(young) {
			all[e.Name()] = true
		}
	}
	l.books.mu.Lock()
	defer l.books.mu.Unlock()
	for _, a := range l.attempts {
		for _, c := range a.changes {
			for _, f := range c.adds {
				if c.table != table {
					continue
				}
				if all[f.path] = true; a.outcome.GetCommitted().GetSnapshotVersion() != 0 {
					delete(all, f.path)
				}
			}
		}
	}
	return all
}

// cleans has delta-rs do what no fence stops it from: a checkpoint, and the removal
// of all expired commits and files, those that no version names included.
func (f *deltaWriter) cleans() {
	f.t.Helper()
	f.do("create_checkpoint", nil, leaves)
	f.do("cleanup_metadata", nil, leaves)
	f.do("vacuum", engines.Arguments{"full": true}, leaves)
}

// cleansInNoOrder leaves a log as a clean-up does that was killed: some of what is
// below the newest checkpoint is gone, in no order.
func (f *deltaWriter) cleansInNoOrder(rng *rand.Rand) {
	f.t.Helper()
	f.do("create_checkpoint", nil, leaves)
	log := filepath.Join(f.folder(), "_delta_log")
	entries, err := os.ReadDir(log)
	if err != nil {
		f.t.Fatal(err)
	}
	newest := newestCheckpoint(f.t, f.folder())
	for _, i := range rng.Perm(len(entries)) {
		name := entries[i].Name()
		if v := versionOf(name); v >= 0 && v < newest && rng.IntN(2) == 0 && filepath.Ext(name) == ".json" {
			if err := os.Remove(filepath.Join(log, name)); err != nil {
				f.t.Error(err)
			}
		}
	}
}

// hold stages a transaction now, and commits it when release is called.
func (l *load) hold(tables ...string) (release func()) {
	staged, commit, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	changes := l.rows(tables...)
	go func() {
		defer close(done)
		r, err := l.storm.world.client.Transact(l.deadline, "held", func(tx *client.Tx) error {
			l.begins(tx.ID(), changes)
			for _, c := range changes {
				if _, err := tx.Stage(l.deadline, c.table, client.Blind(), c.lines()); err != nil {
					return err
				}
			}
			close(staged)
			<-commit
			return nil
		})
		if err != nil {
			l.t.Errorf("the transaction that was held: %v\n%s", err, l.log())
			return
		}
		l.commits(r.Outcome)
	}()
	<-staged
	return func() {
		close(commit)
		<-done
	}
}

// TestDeltaRSCleansBesideUs has delta-rs make checkpoints, clean logs and vacuum open
// tables whose retention is a day, where time has been moved on: beside our load,
// killed in the middle, in no order, and while our server is dead. No transaction is
// lost or doubled, no table frozen, and no file of an open transaction gone.
func TestDeltaRSCleansBesideUs(t *testing.T) {
	t.Parallel()
	duck := engines.StartDuck(t)
	l := besideWorld(t, 3, 60*time.Millisecond, aDay())
	release := l.hold(foreignTables...)
	var writers []*deltaWriter
	for _, table := range foreignTables {
		writers = append(writers, l.deltaWriter(table))
	}
	expire := func(f *deltaWriter) {
		f.append()
		f.commitsMore(3)
		f.age(f.table, versionIn(f.snapshot(), f.table))
	}
	for range cleanings() {
		inEach(writers, func(f *deltaWriter) {
			rng := rand.New(rand.NewPCG(f.seed, uint64(len(f.table))))
			expire(f)
			f.cleans()
			expire(f)
			f.cleansInNoOrder(rng)
			f.commitsMore(3)
			expire(f)
			f.killedIn(rng, f.cleans)
		})
		l.storm.world.kill()
		inEach(writers, func(f *deltaWriter) {
			f.append()
			f.age(f.table, 1<<62)
			f.cleans()
			f.append()
		})
		l.start(nil)
		l.commitsMore(5)
	}
	release()
	l.rests()
	for _, f := range writers {
		if first := l.oldestCommit(f.table); first == 0 {
			t.Errorf("nothing was cleaned in %s", f.table)
		}
		f.checked(f.reads, f.duckReads(duck, f.table))
	}
}

// cleanings is how often all of it is done.
func cleanings() int {
	if *full {
		return 20
	}
	return 2
}

// oldestCommit is the lowest version in a log.
func (w *world) oldestCommit(table string) int64 {
	oldest := int64(-1)
	for v := range w.commitsOf(table) {
		if oldest < 0 || v < oldest {
			oldest = v
		}
	}
	return oldest
}
