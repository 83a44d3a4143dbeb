package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

const (
	// lookPause is between two looks by path.
	lookPause = 200 * time.Microsecond
	// downtime is how long the demo leaves the tables alone after the kill.
	downtime = 300 * time.Millisecond
	// patience is how long the demo goes on when no kill hits the middle of publishing.
	patience = time.Minute
)

// storm has the writers work, a reader by path look on, and kills the server.
func (d *demo) storm(ctx context.Context, c *demoCommand, customers []int64) error {
	d.say("%d writers commit transactions over two or three tables, %d at least", c.Writers, c.Transactions)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var shown atomic.Bool
	begun := time.Now()
	d.writers.count, d.writers.each = c.Writers, (c.Transactions+c.Writers-1)/c.Writers
	d.writers.more = func() bool { return !shown.Load() && time.Since(begun) < patience }

	var background sync.WaitGroup
	watching, looking := make(chan error, 1), make(chan error, 1)
	watch, endWatch := context.WithCancel(ctx)
	defer endWatch()
	background.Go(func() {
		err := d.watch(watch)
		if err != nil {
			cancel() // nobody waits for a watch that has ended
		}
		watching <- err
	})
	look, endLook := context.WithCancel(ctx)
	defer endLook()
	background.Go(func() {
		err := d.look(look, int64(c.Transactions)/3, &shown)
		if err != nil {
			cancel() // the server may be gone for good
		}
		looking <- err
	})
	err := d.writers.run(ctx, customers)
	endLook()
	err = errors.Join(err, <-looking)
	if err == nil {
		err = d.catchUp(ctx)
	}
	endWatch()
	background.Wait()
	if err = errors.Join(err, <-watching); err != nil {
		return err
	}
	d.say("%d transactions are committed; %d attempts lost a conflict and were made again by their writers",
		d.writers.committed.Load(), d.writers.conflicts.Load())
	return nil
}

// look reads by path until the context ends. Once enough is committed it shows the
// crash, at the first moment at which it finds the tables torn.
func (d *demo) look(ctx context.Context, after int64, shown *atomic.Bool) error {
	for ctx.Err() == nil {
		ok, err := d.paths.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if !ok && !shown.Load() && d.writers.committed.Load() >= after {
			if err := d.killInTheMiddle(ctx); err != nil {
				return err
			}
			shown.Store(d.crash.shown)
		}
		time.Sleep(lookPause)
	}
	return nil
}

// killInTheMiddle holds the server still. If the tables are still torn then, it
// is in the middle of publishing: some versions of a round are in their logs, the
// others are not. Then it is killed, and never wakes up.
func (d *demo) killInTheMiddle(ctx context.Context) error {
	if err := d.server.pause(); err != nil {
		return err
	}
	if ok, err := d.paths.look(ctx); ok || err != nil {
		return errors.Join(err, d.server.resume())
	}
	pid := d.server.pid()
	if err := d.server.kill(); err != nil {
		return err
	}
	gone := time.Now()
	d.crash.kills++
	d.say("SIGKILL for server %d, in the middle of publishing", pid)
	if err := d.tellTorn(ctx); err != nil {
		return err
	}
	if err := d.wait(ctx, downtime); err != nil {
		return err
	}
	again := time.Now()
	if err := d.server.start(); err != nil {
		return err
	}
	d.crash.back, d.crash.down = time.Since(again), time.Since(gone)
	d.say("server %d serves again, %d ms after its start, and goes on publishing where the other one died", d.server.pid(),
		d.crash.back.Milliseconds())
	return nil
}

// wait goes on looking by path.
func (d *demo) wait(ctx context.Context, long time.Duration) error {
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(lookPause) {
		if _, err := d.paths.look(ctx); err != nil {
			return err
		}
	}
	return nil
}

// tellTorn says what the tables' folders and the manifests hold while no server
// runs.
func (d *demo) tellTorn(ctx context.Context) error {
	var newest [3]int64
	for i, l := range d.paths.logs {
		newest[i] = int64(l.newest())
	}
	byPath, err := d.paths.figures(ctx, newest)
	if err != nil {
		return err
	}
	if agree(byPath) {
		d.more("its last write landed after all, and the tables agree; once more")
		return nil
	}
	d.crash.shown = true
	for _, l := range d.torn() {
		d.more("%s", l)
	}
	d.more("read by path, the newest version of each table, as an engine without txcoord does:")
	d.tell(newest, byPath, "they disagree")
	snapshot, versions, err := manifestCut(d.warehouse, "default")
	if err != nil {
		return err
	}
	cut, err := d.paths.figures(ctx, versions)
	if err != nil {
		return err
	}
	if !agree(cut) {
		return fmt.Errorf("the tables disagree at the versions of manifest %d: %s", snapshot, d.told(versions, cut))
	}
	d.more("read by manifests, the versions of snapshot %d, found without any server:", snapshot)
	d.tell(versions, cut, "they agree")
	return nil
}

// torn names a transaction that is in some of its tables only.
func (d *demo) torn() []string {
	on := map[string][3]bool{}
	for i, l := range d.paths.logs {
		for _, ids := range l.txns {
			for _, id := range ids {
				seen := on[id]
				seen[i] = true
				on[id] = seen
			}
		}
	}
	for _, ids := range d.newestTxns() {
		for _, id := range ids {
			if seen := on[id]; seen[ordersTable] != seen[itemsTable] {
				return []string{fmt.Sprintf("transaction %s… is in %s already and not yet in %s", id[:8],
					either(seen[ordersTable], "orders", "order_items"), either(seen[ordersTable], "order_items", "orders"))}
			}
		}
	}
	return nil
}

// newestTxns are those of each table's newest version.
func (d *demo) newestTxns() (out [][]string) {
	for _, l := range d.paths.logs {
		if n := len(l.txns); n > 0 {
			out = append(out, l.txns[n-1])
		}
	}
	return out
}

func either(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// tell prints what three tables hold at three versions, and what that means.
func (d *demo) tell(versions [3]int64, all [3]figures, verdict string) {
	o, i, c := all[ordersTable], all[itemsTable], all[customersTable]
	d.more("  orders at version %d sum up to %s, order_items at version %d to %s;", versions[ordersTable], money(o[0]), versions[itemsTable], money(i[0]))
	d.more("  orders know %d customers, customers at version %d has %d: %s", o[2], versions[customersTable], c[2], verdict)
}

// told is what three tables hold at three versions.
func (d *demo) told(versions [3]int64, all [3]figures) string {
	o, i, c := all[ordersTable], all[itemsTable], all[customersTable]
	return fmt.Sprintf("orders@%d %s, order_items@%d %s, customers %d of %d@%d", versions[ordersTable], money(o[0]),
		versions[itemsTable], money(i[0]), c[2], o[2], versions[customersTable])
}

// money is cents with thousands parted.
func money(cents int64) string {
	digits := fmt.Sprint(cents / 100)
	var parts []string
	for len(digits) > 3 {
		parts = append([]string{digits[len(digits)-3:]}, parts...)
		digits = digits[:len(digits)-3]
	}
	return fmt.Sprintf("%s.%02d", strings.Join(append([]string{digits}, parts...), ","), cents%100)
}

// watch takes down every snapshot, from the first one on, over the crash.
func (d *demo) watch(ctx context.Context) error {
	for change, err := range d.api.Watch(ctx, 0) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		d.seen = append(d.seen, change)
		d.watched.Store(change.GetVersion())
	}
	return nil
}

// catchUp waits until the watch has seen the latest snapshot, and its manifest is
// written: manifests follow a moment later.
func (d *demo) catchUp(ctx context.Context) error {
	for {
		st, err := d.api.Status.GetStatus(ctx, &txcoordv1.GetStatusRequest{})
		if err != nil {
			return err
		}
		if latest := st.GetLatestSnapshot(); d.watched.Load() >= latest && st.GetManifestSnapshot() >= latest {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}
