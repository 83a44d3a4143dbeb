package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// account checks what the storm has left and prints it. A promise that was not kept
// is an error.
func (d *demo) account(ctx context.Context) error {
	if _, err := d.paths.look(ctx); err != nil { // the last windows end here
		return err
	}
	snapshot, err := d.api.Snapshot(ctx)
	if err != nil {
		return err
	}
	if err := d.server.stop(); err != nil {
		return err
	}
	if err := errors.Join(d.checkTransactions(), d.checkSnapshots(ctx)); err != nil {
		return fmt.Errorf("%w\nthe tables are in %s", err, d.warehouse)
	}
	if !d.crash.shown {
		d.say("no kill hit the middle of publishing on this machine in %s (%d tries)", patience, d.crash.kills)
	}
	fmt.Fprintln(d.out)
	g := newGrid(d.out)
	d.sums(ctx, g, snapshot)
	if err := g.flush(); err != nil {
		return err
	}
	return d.farewell(snapshot)
}

// checkTransactions wants each acknowledged transaction once in each of its tables
// and nowhere else.
func (d *demo) checkTransactions() error {
	var counts [3]map[string]int
	for i, l := range d.paths.logs {
		counts[i] = map[string]int{}
		for _, id := range slices.Concat(l.txns...) {
			counts[i][id]++
		}
	}
	for _, r := range d.writers.results {
		for i := range shopTables {
			want := oneIf(slices.Contains(r.tables, i))
			if got := counts[i][r.id]; got != want {
				return fmt.Errorf("transaction %s stands %d times in the log of %s, want %d", r.id, got, shopTables[i].name, want)
			}
		}
	}
	return nil
}

// checkSnapshots reads the tables at the versions of every snapshot there ever was.
func (d *demo) checkSnapshots(ctx context.Context) error {
	versions := [3]int64{-1, -1, -1}
	for _, c := range d.seen {
		for _, t := range c.GetTables() {
			for i := range shopTables {
				if shopTables[i].name == t.GetName() {
					versions[i] = t.GetToVersion()
				}
			}
		}
		all, err := d.paths.figures(ctx, versions)
		if err != nil {
			return err
		}
		if !agree(all) {
			return fmt.Errorf("the tables disagree at snapshot %d: %s", c.GetVersion(), d.told(versions, all))
		}
	}
	return nil
}

func (d *demo) sums(ctx context.Context, g *grid, snapshot *txcoordv1.Snapshot) {
	looks := d.paths.looks
	g.row("transactions", fmt.Sprintf("%d acknowledged, each exactly once in each of its tables; %d attempts aborted by conflicts",
		len(d.writers.results), d.writers.conflicts.Load()))
	g.row("snapshots", fmt.Sprintf("%d; order totals, items and customers agree at every one of them", len(d.seen)))
	g.row("read by path", fmt.Sprintf("%d looks while it ran; in %d of them the tables disagreed, in %d stretches of time", looks.total, looks.torn, len(looks.windows)))
	if long, median := looks.longest(); long > 0 {
		g.row("", fmt.Sprintf("the longest %s%s, the median %s", rounded(long),
			either(d.crash.shown, " (no server for "+rounded(d.crash.down).String()+" of it)", ""), rounded(median)))
	}
	g.gap()
	g.row("snapshot", snapshot.GetVersion())
	g.row("TABLE", "VERSION", "LOCATION")
	for _, t := range snapshot.GetTables() {
		g.row(t.GetName(), t.GetVersion(), t.GetUri())
	}
}

// longest is the longest window, and the median.
func (l pathLooks) longest() (long, median time.Duration) {
	if len(l.windows) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(l.windows))
	return sorted[len(sorted)-1], sorted[len(sorted)/2]
}

func rounded(t time.Duration) time.Duration {
	if t > 10*time.Millisecond {
		return t.Round(time.Millisecond)
	}
	return t.Round(10 * time.Microsecond)
}

// farewell says how to go on with what is left.
func (d *demo) farewell(snapshot *txcoordv1.Snapshot) error {
	fmt.Fprintln(d.out, "\nRead the tables at the versions that belong together, with DuckDB")
	fmt.Fprintln(d.out)
	fmt.Fprint(d.out, readingCode("duckdb", "default", snapshot))
	fmt.Fprintln(d.out, "SELECT (SELECT sum(total_cents) FROM orders) AS orders, (SELECT sum(amount_cents) FROM order_items) AS items;")
	fmt.Fprintln(d.out, "\nor in Python (pip install deltalake)")
	fmt.Fprintln(d.out)
	fmt.Fprint(d.out, readingCode("python", "default", snapshot))
	if d.another {
		fmt.Fprintf(d.out, "\n%s is another demo's, and stays as it was: where a page says %s, this one's folder is %s.\n", demoFolder, demoFolder, filepath.Base(d.warehouse))
	}
	_, err := fmt.Fprintf(d.out, "\nThe tables stay in %s. To serve them again:\n\n  txcoord serve --warehouse %s\n", d.warehouse, shellWord(d.warehouse))
	return err
}
