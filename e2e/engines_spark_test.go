package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/e2e/engines"
	"github.com/txcoord/txcoord/e2e/readers"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// TestSpark40 and TestSpark41 have a Spark write beside us. One process serves all
// parts of a test, since it takes long to start.
func TestSpark40(t *testing.T) {
	t.Parallel()
	besideSpark(t, engines.RequireSpark(t, engines.Spark40()))
}

func TestSpark41(t *testing.T) {
	if !*full {
		t.Skip("skipped, run it with -full")
	}
	t.Parallel()
	besideSpark(t, engines.RequireSpark(t, engines.Spark41()))
}

func besideSpark(t *testing.T, spark *engines.Spark) {
	s := spark.Start(t)
	t.Run("load", func(t *testing.T) { sparkBesideOurLoad(t, s) })
	t.Run("fence", func(t *testing.T) { sparkAtTheFence(t, s) })
	p := readers.Require(t)
	for name, config := range map[string]map[string]string{
		"classic checkpoints": {"delta.checkpoint.writeStatsAsStruct": "true"},
		"v2 checkpoints":      {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpointPolicy": "v2"},
	} {
		if name == "classic checkpoints" && !*full {
			continue
		}
		t.Run(name, func(t *testing.T) { sparkReadsOurCheckpoints(t, s, newKeptTable(t, p, config)) })
	}
}

// sparkWriter is a Spark that writes to one table.
type sparkWriter struct {
	*foreignBooks
	spark *engines.SparkSession
}

// do carries out a statement about the table T, and again while it loses against
// concurrent commits. Spark lets a DELETE or MERGE lose against any append, so the
// second time clients leave the table alone and go on with the others.
func (f *sparkWriter) do(operation, statement string, then effect) {
	f.t.Helper()
	statement = strings.ReplaceAll(statement, "{T}", engines.SparkTable(f.folder()))
	defer f.leave("")
	once := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), engineLimit)
		defer cancel()
		_, err := f.spark.SQL(ctx, f.mark(operation), statement)
		if err == nil {
			f.done(then)
		} else {
			f.leave(f.table)
		}
		return err
	}
	f.until(operation, once, func(r *engines.Refusal) bool { return strings.Contains(r.Text, "DELTA_CONCURRENT_") })
}

func (f *sparkWriter) append() {
	f.t.Helper()
	first := f.next
	f.next += 5
	f.do("append", fmt.Sprintf("INSERT INTO {T} (id, amount, note) SELECT id, 0, concat('spark ', id) FROM range(%d, %d, 1, 1)", first, f.next), puts(first, 5, 0))
}

// merge changes half of the last append's rows, and puts as many new ones.
func (f *sparkWriter) merge() {
	f.t.Helper()
	first := f.next - 3
	f.next += 3
	f.do("merge", fmt.Sprintf("MERGE INTO {T} t USING (SELECT id, concat('spark ', id) AS note FROM range(%d, %d, 1, 1)) s"+
		" ON t.id = s.id AND t.note = s.note WHEN MATCHED THEN UPDATE SET amount = 7"+
		" WHEN NOT MATCHED THEN INSERT (id, amount, note) VALUES (s.id, 7, s.note)", first, f.next), puts(first, 6, 7))
}

func (f *sparkWriter) delete() {
	f.t.Helper()
	f.do("delete", "DELETE FROM {T} WHERE note LIKE 'spark %' AND id % 3 = 0", takesThirds)
}

// reads is what Spark reads in the newest version.
func (f *sparkWriter) reads(predicate string) totals { return f.readsAt("", predicate) }

// readsAt is what it reads at VERSION AS OF or TIMESTAMP AS OF.
func (f *sparkWriter) readsAt(at, predicate string) totals {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), engineLimit)
	defer cancel()
	rows, err := f.spark.SQL(ctx, "", "SELECT count(*) AS n, coalesce(sum(amount), 0) AS amount FROM "+
		engines.SparkTable(f.folder())+" "+at+" WHERE "+predicate)
	if err != nil {
		f.t.Fatal(err)
	}
	return totals{rows[0].Int("n"), rows[0].Int("amount")}
}

// sparkBesideOurLoad: Spark appends, deletes, merges, with deletion vectors and
// without, compacts and alters two open tables beside our load. Nothing is lost, and
// it reads our snapshots, by version and by time.
func sparkBesideOurLoad(t *testing.T, spark *engines.SparkSession) {
	duck := engines.StartDuck(t)
	l := besideWorld(t, 2, 400*time.Millisecond, map[string]string{"delta.enableInCommitTimestamps": "true"})
	var writers []*sparkWriter
	for _, table := range foreignTables {
		writers = append(writers, &sparkWriter{l.foreignBooks(table), spark})
	}
	plain, vectors := writers[0], writers[1]
	vectors.do("alter", "ALTER TABLE {T} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')", leaves)
	for _, f := range writers {
		f.append()
		f.merge()
		f.delete()
	}
	plain.do("alter", "ALTER TABLE {T} ADD COLUMNS (extra STRING)", leaves)
	for _, f := range writers {
		f.do("optimize", "OPTIMIZE {T}", leaves)
	}
	vectors.append()
	l.commitsMore(5)
	vectors.delete()
	l.rests()
	for _, f := range writers {
		f.inLog(func(info map[string]any) string { m, _ := info["userMetadata"].(string); return m }, "optimize")
		f.checked(f.reads, f.duckReads(duck, f.table))
	}
	l.readBySpark(writers)
}

// readBySpark reads snapshots from the middle and the end of the load.
func (l *load) readBySpark(writers []*sparkWriter) {
	l.t.Helper()
	last := l.commitOnce("at rest", l.rows(foreignTables...)).Snapshot()
	l.commitOnce("and another one", l.rows(foreignTables...))
	for _, number := range []uint64{last / 3, 2 * last / 3, last} {
		s, err := l.storm.world.client.SnapshotAt(l.ctx(), number)
		if err != nil {
			l.t.Fatal(err)
		}
		want := l.totalsAt(number)
		for _, f := range writers {
			at := fmt.Sprintf("VERSION AS OF %d", versionIn(s, f.table))
			if got := f.readsAt(at, "note LIKE 'row %'"); got != want[f.table] {
				l.t.Errorf("snapshot %d: Spark reads %v in %s, clients put %v there", number, got, f.table, want[f.table])
			}
		}
		if number == last {
			l.readByTime(writers, s)
		}
	}
}

// readByTime: the time of a snapshot names its versions of all tables that have
// in-commit timestamps.
func (l *load) readByTime(writers []*sparkWriter, s *txcoordv1.Snapshot) {
	l.t.Helper()
	at := "TIMESTAMP AS OF '" + s.GetTimestamp().AsTime().Format("2006-01-02 15:04:05.000") + "'"
	want := l.totalsAt(s.GetVersion())
	for _, f := range writers {
		if got := f.readsAt(at, "note LIKE 'row %'"); got != want[f.table] {
			l.t.Errorf("%s: Spark reads %v in %s, clients put %v there", at, got, f.table, want[f.table])
		}
	}
}

// sparkQuestions are the questions in Spark's words; every other one, if time is short.
func sparkQuestions() (all []string) {
	for i, q := range questions {
		if i%2 == 1 && !*full {
			continue
		}
		q = strings.ReplaceAll(q, "TIMESTAMPTZ '", "TIMESTAMP '")
		all = append(all, strings.ReplaceAll(q, "+00'", "Z'"))
	}
	return all
}

// sparkReadsOurCheckpoints: Spark reads a table that only we checkpointed and
// cleaned, skips files by our statistics without losing a row, goes on writing to
// it, makes a checkpoint of its own on top of ours, and we one on top of that.
func sparkReadsOurCheckpoints(t *testing.T, spark *engines.SparkSession, k *keptTable) {
	table := engines.SparkTable(k.dir)
	run := func(statement string) []engines.Row {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), engineLimit)
		defer cancel()
		rows, err := spark.SQL(ctx, "", statement)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	ask := func() (counts []int64) {
		t.Helper()
		var each []string
		for i, q := range sparkQuestions() {
			each = append(each, fmt.Sprintf("SELECT %d AS q, count(*) AS n FROM %s WHERE %s", i, table, q))
		}
		for _, row := range run(strings.Join(each, " UNION ALL ") + " ORDER BY q") {
			counts = append(counts, row.Int("n"))
		}
		return counts
	}
	same := func(when string) {
		t.Helper()
		var want []int64
		for i, n := range k.ask().Duck {
			if i%2 == 0 || *full {
				want = append(want, n)
			}
		}
		if d := cmp.Diff(want, ask()); d != "" {
			t.Errorf("%s: DuckDB and Spark (-DuckDB +Spark): %s", when, d)
		}
	}
	for range 12 {
		k.grow()
	}
	first := k.checkpointed()
	same("our checkpoint")
	run("ALTER TABLE " + table + " SET TBLPROPERTIES ('delta.checkpointInterval' = '3')")
	for i := range 3 {
		run(fmt.Sprintf("INSERT INTO %s (id, note, region, day) VALUES (%d, 'spark', 'EU', DATE '2024-01-02')", table, 9000+i))
	}
	run("DELETE FROM " + table + " WHERE id >= 9000 AND id < 9002")
	k.next += 5
	if own := newestCheckpoint(t, k.dir); own <= int64(first.Version) {
		t.Errorf("Spark has made no checkpoint: the newest is %d, ours is %d", own, first.Version)
	}
	same("Spark's checkpoint on top of ours")
	k.grow()
	k.checkpointed()
	same("ours on top of Spark's")
	if rows := run("SELECT count(*) AS n FROM " + table + " WHERE note = 'spark'"); rows[0].Int("n") != 1 {
		t.Errorf("of Spark's rows %v are left, want 1", rows)
	}
}

// newestCheckpoint is the version of a table's newest checkpoint file; -1 if there is none.
func newestCheckpoint(t testing.TB, folder string) int64 {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "_delta_log", "*.checkpoint*"))
	if err != nil {
		t.Fatal(err)
	}
	newest := int64(-1)
	for _, name := range names {
		if n, err := strconv.ParseInt(filepath.Base(name)[:20], 10, 64); err == nil {
			newest = max(newest, n)
		}
	}
	return newest
}

// sparkAtTheFence: on a fenced table Spark is refused whatever it tries to commit,
// VACUUM included, and goes on reading. A setting that would let the marker be lost
// stops our commits until Spark takes it away.
func sparkAtTheFence(t *testing.T, spark *engines.SparkSession) {
	w := newWorld(t, serverConfig{})
	w.start(nil)
	w.create("t", txcoordv1.TableMode_TABLE_MODE_OPEN)
	w.look()
	f := &sparkWriter{(&load{storm: newStorm(w, 1)}).foreignBooks("t"), spark}
	w.commitOnce("before", w.rows("t"))
	f.append()
	w.fence("t")
	for _, statement := range []string{
		"INSERT INTO {T} (id) VALUES (1)", "DELETE FROM {T} WHERE id = 1", "OPTIMIZE {T}", "VACUUM {T}",
		"ALTER TABLE {T} SET TBLPROPERTIES ('made.by' = 'spark')",
	} {
		_, err := spark.SQL(w.ctx(), "", strings.ReplaceAll(statement, "{T}", engines.SparkTable(f.folder())))
		keptOut(t, statement, err)
	}
	w.commitOnce("fenced", w.rows("t"))
	w.stillFenced("t")
	w.unfence("t")
	f.append()
	f.do("alter", "ALTER TABLE {T} SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 7 days')", leaves)
	w.refusedBy("t", "delta.setTransactionRetentionDuration", "UNSET TBLPROPERTIES")
	f.do("alter", "ALTER TABLE {T} UNSET TBLPROPERTIES ('delta.setTransactionRetentionDuration')", leaves)
	w.commitOnce("after", w.rows("t"))
	w.rest()
	f.checked(f.reads)
}
