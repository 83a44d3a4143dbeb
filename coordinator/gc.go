package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// GarbageKind is a kind of what nothing names any more. The names are stable.
type GarbageKind string

// The kinds, in the order of reports.
const (
	// GarbagePart: a staged part whose transaction is settled or forgotten (R20).
	GarbagePart GarbageKind = "part"
	// GarbageOpen: the advisory record of a transaction that is open no more.
	GarbageOpen GarbageKind = "open_record"
	// GarbageFacts: conflict facts that no record names (R8).
	GarbageFacts GarbageKind = "facts"
	// GarbageCheckpoint: an object that neither the newest checkpoint of the journal
	// needs nor the one before it.
	GarbageCheckpoint GarbageKind = "checkpoint"
	// GarbageDraft: what a process that died left of an object that it was writing.
	GarbageDraft GarbageKind = "draft"
	// GarbageJournal: an entry of a journal that was given up for another one.
	GarbageJournal GarbageKind = "former_journal"
	// GarbageQuarantined: what an earlier call put into quarantine, and has been there long
	// enough.
	GarbageQuarantined GarbageKind = "quarantined"
	// GarbageExtract: an extract of a checkpoint of a table that has left the catalog.
	GarbageExtract GarbageKind = "extract"
)

// GarbageKinds are all there are.
func GarbageKinds() []GarbageKind {
	return []GarbageKind{GarbagePart, GarbageOpen, GarbageFacts, GarbageCheckpoint, GarbageDraft, GarbageJournal, GarbageQuarantined, GarbageExtract}
}

// GarbageRequest asks for what nothing names any more.
type GarbageRequest struct {
	// Remove moves it into quarantine, and removes for good what was there long enough.
	// Without it nothing is written.
	Remove bool
	// FormerJournals takes the journals of former incarnations too. It is the operator's
	// word that no server of theirs runs, or sleeps: one that found its slots empty would
	// append to them (R1).
	FormerJournals bool
	// QuarantineFor is how long something stays in quarantine at least: 7 days if it is
	// nil.
	QuarantineFor *time.Duration
}

// Garbage is one thing that nothing names any more.
type Garbage struct {
	Kind GarbageKind
	// Key in the catalog's store if InStore is set, else that of an object, relative to the
	// catalog's folder; a table's draft relative to its object store.
	Key     string
	InStore bool
	Bytes   int64
	// Age since it was written, or since what named it ended.
	Age time.Duration
	// Why nothing names it, in words.
	Why string
}

// GarbageTotal counts one kind.
type GarbageTotal struct {
	Kind  GarbageKind
	Count int
	Bytes int64
}

// GarbageReport says what was found, and what became of it.
type GarbageReport struct {
	Removed bool
	// Run names the quarantine into which this call has put things; empty if it put none.
	Run string
	// Found are the first garbageListed of them; Totals count all.
	Found  []Garbage
	Totals []GarbageTotal
	// More: there is more than one call takes on; call again.
	More bool
	// Young counts what nothing names and what is too young to go; younger than MinAge
	// nothing goes.
	Young  GarbageTotal
	MinAge time.Duration
	// Unknown counts objects and keys that are of no kind which this build knows. They
	// are never touched. UnknownKeys are the first of them.
	Unknown     GarbageTotal
	UnknownKeys []string
	// Skipped says in words what was left, and why.
	Skipped []string
	// Quarantines are those that there are afterwards.
	Quarantines []Quarantine
}

// Quarantine is what one call has put aside.
type Quarantine struct {
	Run   string
	Count int
	Bytes int64
	// Since is when its newest thing came into it.
	Since time.Time
}

const (
	// garbageGrace is added to the longest life of a transaction: clocks differ, and
	// writes that are under way land late.
	garbageGrace = time.Hour
	// garbageAtOnce bounds what one call takes on, garbageListed what its answer names.
	garbageAtOnce, garbageListed = 10_000, 1_000
	// garbageMoves are under way at once, each with its object in memory.
	garbageMoves = 4
	// defaultQuarantine is how long things stay in quarantine by default.
	defaultQuarantine = 7 * 24 * time.Hour
)

// collector is one call of CollectGarbage. What it finds is judged when it is found, and
// again, by a fold that is read anew, right before it goes.
type collector struct {
	c       *Catalog
	q       GarbageRequest
	keepFor time.Duration
	minAge  time.Duration
	run     string
	report  GarbageReport
	found   []garbage
	unsaid  int // more that was left, behind those that the report says
	named   namedFacts
	needed  map[string]bool // objects of checkpoints; nil if they are not known

	mu         sync.Mutex // between moves: what judging uses, and what is reported
	failed     error      // the first of a move: no other begins
	marked     bool       // the run has its mark
	unanswered bool       // of a removal it is not known what became of it
}

// garbage is something that may go.
type garbage struct {
	Garbage
	// key in the store that it lies in; store is set for drafts alone.
	key      string
	store    objstore.Store
	etag     string
	modified time.Time
	parts    []located // that lie in it: one, or those of a bundle
	txn      twophase.TxnID
	begun    twophase.Position
}

// CollectGarbage finds what nothing names any more, in the catalog's store and in its
// folder, and puts it into quarantine if it is asked to. It needs no quiet: whatever is
// named by anything that the journal says, or may be named by a transaction that is
// open or begins meanwhile, stays. It may break off anywhere and be called again.
func (c *Catalog) CollectGarbage(ctx context.Context, q GarbageRequest) (GarbageReport, error) {
	g := &collector{c: c, q: q, keepFor: defaultQuarantine, minAge: c.cfg.Limits.MaxTTL + garbageGrace}
	if q.QuarantineFor != nil {
		g.keepFor = *q.QuarantineFor
	}
	if g.keepFor < 0 {
		return GarbageReport{}, fieldError("quarantine_for", g.keepFor.String(), "is below 0", "say how long things stay in quarantine")
	}
	if err := c.collecting.take(ctx); err != nil {
		return GarbageReport{}, err
	}
	defer c.collecting.give()
	g.run = newRun(c.cfg.Now())
	g.report.Removed, g.report.MinAge = q.Remove, g.minAge
	err := g.collect(ctx)
	g.total()
	return g.report, err
}

// newRun names a quarantine by its time, for people, and by chance.
func newRun(at time.Time) string {
	var nonce [4]byte
	_, _ = rand.Read(nonce[:]) // never fails (crypto/rand)
	return at.UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(nonce[:])
}

func (g *collector) collect(ctx context.Context) error {
	if err := g.c.mayCollect(ctx); err != nil {
		return err
	}
	if err := g.checkpoints(ctx); err != nil {
		return err
	}
	for _, find := range []func(context.Context) error{g.findInStore, g.findObjects, g.findDrafts} {
		if err := find(ctx); err != nil {
			return err
		}
	}
	if g.q.Remove {
		if err := g.removeAll(ctx); err != nil {
			return err
		}
	}
	var err error
	g.report.Quarantines, err = g.c.quarantines(ctx)
	return err
}

// mayCollect reads the head, and refuses where this fold is not the last word on what is
// named: the journal is over, or contradicts what was seen.
func (c *Catalog) mayCollect(ctx context.Context) error {
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	if err := c.ledger.stopped(); err != nil {
		return c.ledgerError(err)
	}
	moved := ""
	c.ledger.read(func(s *twophase.State) { moved = s.MovedTo() })
	if moved != "" {
		return &Error{Reason: WrongMode, Message: fmt.Sprintf("this journal is over, the catalog goes on in %s; call a server there", moved)}
	}
	return nil
}

// note takes something up that may go, as far as this call takes on more.
func (g *collector) note(it garbage) {
	if len(g.found) >= garbageAtOnce {
		g.report.More = true
		return
	}
	g.found = append(g.found, it)
}

// young counts what stays for its age alone.
func (g *collector) young(bytes int64) { g.report.Young.Count++; g.report.Young.Bytes += bytes }

// unknown counts what txcoord does not make, and names the first of it.
func (g *collector) unknown(key string, bytes int64) {
	u := &g.report.Unknown
	u.Count++
	u.Bytes += bytes
	if u.Count <= garbageUnknown {
		g.report.UnknownKeys = append(g.report.UnknownKeys, key)
	}
}

// garbageUnknown bounds how many of those are named.
const garbageUnknown = 5

func (g *collector) skip(what string, args ...any) {
	if len(g.report.Skipped) == garbageSkipped {
		g.unsaid++
		return
	}
	g.report.Skipped = append(g.report.Skipped, fmt.Sprintf(what, args...))
}

// garbageSkipped bounds the lines about what was left.
const garbageSkipped = 20

// total counts what was found, or what has gone.
func (g *collector) total() {
	by := map[GarbageKind]*GarbageTotal{}
	for i := range g.found {
		it := &g.found[i]
		t := by[it.Kind]
		if t == nil {
			t = &GarbageTotal{Kind: it.Kind}
			by[it.Kind] = t
		}
		t.Count, t.Bytes = t.Count+1, t.Bytes+it.Bytes
		if len(g.report.Found) < garbageListed {
			g.report.Found = append(g.report.Found, it.Garbage)
		}
	}
	for _, kind := range GarbageKinds() {
		if t := by[kind]; t != nil {
			g.report.Totals = append(g.report.Totals, *t)
		}
	}
	if g.unsaid > 0 {
		g.report.Skipped = append(g.report.Skipped, fmt.Sprintf("and %d more", g.unsaid))
	}
}

// removeAll moves what was found, and keeps in found what has gone: also when it breaks
// off.
func (g *collector) removeAll(ctx context.Context) error {
	if err := g.mark(ctx); err != nil {
		return err
	}
	gone := make([]bool, len(g.found))
	err := parallelIndex(len(g.found), garbageMoves, func(i int) error {
		if err := g.broken(ctx, nil); err != nil {
			return err
		}
		var err error
		gone[i], err = g.remove(ctx, &g.found[i])
		return g.broken(ctx, err)
	})
	g.unmark(ctx)
	kept := g.found[:0]
	for i := range g.found {
		it := g.found[i]
		if !gone[i] {
			continue
		}
		kept = append(kept, it)
		g.c.cfg.Telemetry.Collected(string(it.Kind), it.Bytes)
		if it.Kind != GarbageQuarantined && it.Kind != GarbageDraft {
			g.report.Run = g.run
		}
	}
	g.found = kept
	if len(kept) > 0 {
		attrs := []any{"things", len(kept), "quarantine", g.report.Run}
		if err != nil {
			attrs = append(attrs, "error", err)
		}
		g.c.log.Info("removed what nothing names any more", attrs...)
	}
	return err
}

// broken notes a move's error, and is the first one.
func (g *collector) broken(ctx context.Context, err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		err = ctx.Err()
	}
	if g.failed == nil {
		g.failed = err
	}
	return g.failed
}
