// Package checker replays Delta logs and manifests and compares them with what
// clients were told. It is the judge of the process tests and of the benchmarks,
// so it shares no code with the writer: it has its own reading of commits, tags
// and manifests, from the text of CONTRACT.md sections 5 and 6 and docs/manifest.md,
// and imports nothing but the standard library.
//
// It reads a warehouse at rest or while servers run. What was seen during a run
// can be handed in as a History, so that a version that was rewritten or that
// vanished afterwards is noticed.
package checker

import (
	"fmt"
	"path/filepath"
)

// Table names a table of the catalog and the folder that holds it.
type Table struct {
	Name string
	Path string
}

// Part is what a transaction was to do to one table, and what the server said about it.
type Part struct {
	// Table is the name of a Table of the run.
	Table string
	// Adds are the paths of its add actions, as they stand in the action lines.
	Adds []string
	// Digests are the digests that were committed, in order; none means that they
	// are not compared.
	Digests []string
	// Version is the version that the server said holds the part; 0: not told.
	Version int64
	// Place is the place among the version's transactions that the server said, from
	// 0; nil: not told.
	Place *int
	// NotApplied: the server said that this part was given up on its table.
	NotApplied bool
	// Pending: the server said that this part is decided and not published yet. It may
	// be missing until the run is settled.
	Pending bool
}

// Transaction is one attempt, by the client's own books.
type Transaction struct {
	ID    string
	Parts []Part
	// Snapshot is the snapshot that the server said contains it; 0: not told.
	Snapshot uint64
}

// Run is everything that a check needs. Its clients used each key once: whoever uses one
// again after the catalog has forgotten it gets the same id, and an id that a log holds
// twice is what a check is there to find.
type Run struct {
	// Warehouse is the folder that holds `_txcoord`.
	Warehouse string
	// Catalog is the name of the catalog's folder below `_txcoord`.
	Catalog string
	Tables  []Table
	// Committed were acknowledged, Refused were told a final no. Unresolved never
	// got an answer: they may be in all of their tables or in none.
	Committed  []Transaction
	Refused    []Transaction
	Unresolved []Transaction
	// History holds what was seen during the run; nil if nobody looked.
	History *History
	// Schema, if set, is what every manifest must conform to.
	Schema *Schema
	// Closed: the three lists name every transaction there ever was. A transaction
	// or a path of ours that they do not name is then a violation.
	Closed bool
	// Dense: no change was ever given up, so change numbers have no holes.
	Dense bool
	// Settled: nothing is in flight. Every version of ours is then in a snapshot,
	// and every snapshot has its manifest.
	Settled bool
}

// Check replays the run. The error says that the check itself could not be made,
// such as an unreadable folder; what is wrong with the data is in the report.
func Check(r Run) (*Report, error) {
	c := &check{run: r, report: &Report{}, logs: map[string]*tableLog{}}
	if err := c.readManifests(); err != nil {
		return nil, err
	}
	for _, t := range r.Tables {
		if err := c.readTable(t); err != nil {
			return nil, fmt.Errorf("check table %s: %w", t.Name, err)
		}
	}
	c.findCatalogID()
	c.checkLogs()
	c.checkTransactions()
	c.checkPaths()
	c.checkOrder()
	c.checkManifests()
	c.checkSnapshots()
	c.report.finish()
	return c.report, nil
}

// check is the state of one Check.
type check struct {
	run    Run
	report *Report
	logs   map[string]*tableLog
	// places says where each transaction was found: id, table name, place.
	places map[string]map[string]place
	// order lists, per table, the transactions in the order of the log.
	order     map[string][]string
	manifests []*manifest
	fulls     map[uint64]*manifest
	catalogID string
}

// place is where a log holds a transaction.
type place struct {
	version int64
	// index counts the version's transactions from 0.
	index   int
	digests []string
}

func (c *check) fail(k Kind, v Violation, format string, args ...any) {
	v.Kind = k
	v.Detail = fmt.Sprintf(format, args...)
	c.report.Violations = append(c.report.Violations, v)
}

func (c *check) readTable(t Table) error {
	l, err := readLog(t.Path)
	if err != nil {
		return err
	}
	c.logs[t.Name] = l
	c.compareHistory(t, l)
	return nil
}

func (c *check) manifestDir() string { return manifestDir(c.run.Warehouse, c.run.Catalog) }

func manifestDir(warehouse, catalog string) string {
	return filepath.Join(warehouse, "_txcoord", catalog, "manifests")
}

// findCatalogID takes the catalog's id from the manifests, or from the first
// version of ours where there are none.
func (c *check) findCatalogID() {
	for _, m := range c.manifests {
		if m.file.Catalog != "" {
			c.catalogID = m.file.Catalog
			return
		}
	}
	for _, t := range c.run.Tables {
		l := c.logs[t.Name]
		for _, n := range l.numbers() {
			if id := l.versions[n].tag(tagCatalog); id != "" {
				c.catalogID = id
				return
			}
		}
	}
}
