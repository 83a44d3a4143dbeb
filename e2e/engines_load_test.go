package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txcoord/txcoord/e2e/engines"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// engineLimit bounds one statement of a foreign engine, on a busy machine.
const engineLimit = 3 * time.Minute

// foreignTables of stormTables are open and written by others, the rest is ours alone.
var foreignTables = []string{"accounts", "ledger"}

// load is clients of ours that commit beside other engines until it is ended. They
// do nothing that a foreign commit makes impossible after it is decided: that is
// for other tests.
type load struct {
	*storm
	stop    chan struct{}
	running sync.WaitGroup
	cancel  context.CancelFunc
}

// besideWorld is a world of stormTables, whose foreign ones have the properties, and
// on which clients work already, each with such a pause between two transactions.
func besideWorld(t *testing.T, clients int, pause time.Duration, properties map[string]string) *load {
	t.Helper()
	w := newWorld(t, stormConfig())
	w.start(nil)
	for i, name := range stormTables {
		req := &txcoordv1.CreateTableRequest{Name: name, Uri: w.table(name), SchemaJson: schema, Mode: txcoordv1.TableMode_TABLE_MODE_EXCLUSIVE}
		if i%2 == 0 {
			req.Mode, req.Properties = txcoordv1.TableMode_TABLE_MODE_OPEN, properties
		}
		if _, err := w.client.Tables.CreateTable(w.ctx(), req); err != nil {
			t.Fatalf("create %s: %v\n%s", name, err, w.log())
		}
		w.knows(name)
	}
	w.look()
	return w.loaded(clients, pause)
}

// loaded starts clients.
func (w *world) loaded(clients int, pause time.Duration) *load {
	w.t.Helper()
	seed := *stormSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	w.t.Logf("-storm.seed %d", seed)
	l := &load{storm: newStorm(w, seed), stop: make(chan struct{})}
	l.deadline, l.cancel = context.WithTimeout(context.Background(), 30*time.Minute)
	l.altered = true
	for i := range clients {
		l.running.Go(func() { l.work(i, pause) })
	}
	w.t.Cleanup(l.end)
	return l
}

// work makes one transaction after the other, with a pause that leaves foreign
// writers a chance.
func (l *load) work(n int, pause time.Duration) {
	c := &stormClient{storm: l.storm, client: l.dial(), rng: rand.New(rand.NewPCG(l.seed, uint64(n)+1)), name: n}
	kinds := []func(string){c.transfer, c.transfer, c.once, c.once, c.audit, c.quit}
	for i := 0; ; i++ {
		select {
		case <-l.stop:
			return
		case <-time.After(pause/2 + time.Duration(c.rng.Int64N(int64(pause)))):
			kinds[c.rng.IntN(len(kinds))](c.key(i))
		}
	}
}

// end lets the clients finish what they have begun. A second call does nothing.
func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.running.Wait()
	l.cancel()
}

// leave has clients leave a table alone; all but those that are at it already.
func (l *load) leave(table string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.quiet = table
}

// rests ends the load, has everything judged, and wants no table to be frozen.
func (l *load) rests() {
	l.t.Helper()
	l.end()
	l.resolve()
	report := l.rest()
	l.addsUp()
	l.nothingFrozen()
	committed, refused, unresolved := l.numbers()
	l.t.Logf("%d committed, %d refused; %v", committed, refused, report)
	if committed == 0 || unresolved > 0 {
		l.t.Errorf("%d committed, %d unresolved", committed, unresolved)
	}
}

func (w *world) nothingFrozen() {
	w.t.Helper()
	r, err := w.client.Tables.ListTables(w.ctx(), &txcoordv1.ListTablesRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, t := range r.GetTables() {
		if t.GetFreeze() != nil || t.GetStopped() != "" || t.GetPendingChanges() > 0 {
			w.t.Errorf("at the end: %v", t)
		}
	}
}

// commitsMore waits until clients have committed so many transactions more.
func (l *load) commitsMore(n int) {
	l.t.Helper()
	was, _, _ := l.numbers()
	l.waitFor(fmt.Sprintf("%d more transactions", n), func() bool {
		now, _, _ := l.numbers()
		return now >= was+n
	})
}

// duckReads reads the newest version of a table.
func (w *world) duckReads(d *engines.Duck, table string) func(predicate string) totals {
	return func(predicate string) totals {
		w.t.Helper()
		rows, err := d.SQL(w.ctx(), w.table(table), "SELECT count(*) AS n, coalesce(sum(amount), 0)::BIGINT AS amount FROM t WHERE "+predicate)
		if err != nil {
			w.t.Fatal(err)
		}
		return totals{rows[0].Int("n"), rows[0].Int("amount")}
	}
}

// commitsOf lists a table's commits as they lie there, by the first line's commitInfo.
func (w *world) commitsOf(table string) map[int64]map[string]any {
	w.t.Helper()
	names, err := filepath.Glob(filepath.Join(w.table(table), "_delta_log", "*.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[int64]map[string]any{}
	for _, name := range names {
		var version int64
		if n, err := fmt.Sscanf(filepath.Base(name), "%020d.json", &version); n != 1 || err != nil {
			continue
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			continue // cleaned meanwhile
		}
		for line := range strings.Lines(string(raw)) {
			var a struct{ CommitInfo map[string]any }
			if json.Unmarshal([]byte(line), &a) == nil && a.CommitInfo != nil {
				all[version] = a.CommitInfo
			}
		}
	}
	return all
}
