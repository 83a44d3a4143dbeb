package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/txcoord/txcoord/internal/number"
	"github.com/txcoord/txcoord/twophase"
)

// lack is a staged piece of a decided change that cannot be published: it is gone, or not
// what was staged, or no version of its table can be made of it. A place that does not
// answer says none of that.
type lack struct {
	id located
	// bytes of the part's lines, as decided.
	bytes uint64
	// why is errNoPayload, or wraps errDamaged; or *unwritable, of a part that is there.
	why error
}

func (l *lack) Error() string { return fmt.Sprintf("staged part %s: %v", l.id.Digest, l.why) }

func (l *lack) Unwrap() error { return l.why }

// lackOf is what a publication fails for; nil if that is something else.
func lackOf(err error) *lack {
	l, _ := errors.AsType[*lack](err)
	return l
}

func isLost(err error) bool { return errors.Is(err, errNoPayload) || errors.Is(err, errDamaged) }

// stops reports whether tables of a round failed for anything but lost parts.
func stops(failures map[twophase.TableID]error) bool {
	for _, err := range failures {
		if lackOf(err) == nil {
			return true
		}
	}
	return false
}

// lacks is what it means that a piece of a decided change could not be had. A missing one
// makes the publisher fold again first (R20): somebody else may have published the change
// and removed it. If it is needed still, it is lost.
func (c *Catalog) lacks(ctx context.Context, t *handle, id located, why error) error {
	var own *Error
	switch {
	case errors.As(why, &own) || isContext(why):
		return why // the place did not answer
	case !isLost(why):
		return c.tableError(t, PartUnreadable, fmt.Sprintf("the staged part %s of decided transaction %s cannot be read by this build", id.Digest, id.Txn), why)
	}
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	if !c.needsAny(id.Table, map[twophase.TxnID]bool{id.Txn: true}) {
		return errLookAgain
	}
	l := &lack{id: id, bytes: c.partBytes(id.payloadID), why: why}
	return c.tableError(t, PartUnreadable, c.lackText(l), l)
}

// needsAny reports whether the payload of one of the transactions has still to be published
// on a table.
func (c *Catalog) needsAny(id twophase.TableID, txns map[twophase.TxnID]bool) (needs bool) {
	c.ledger.read(func(s *twophase.State) {
		for txn := range txns {
			needs = needs || s.Needs(id, txn)
		}
	})
	return needs
}

func (c *Catalog) partBytes(id payloadID) (n uint64) {
	c.ledger.read(func(s *twophase.State) {
		if o := s.Outcome(id.Txn); o != nil && o.Commit != nil {
			for i := range o.Commit.Parts {
				if o.Commit.Parts[i].Table == id.Table {
					n = o.Commit.Parts[i].Shape.Bytes
				}
			}
		}
	})
	return n
}

// lackText names a lost piece by where it lay: large ones are objects of the catalog's own,
// small ones items in its store, or in bundles there.
func (c *Catalog) lackText(l *lack) string {
	if isUnwritable(l) {
		return unwritableText(l)
	}
	damaged := errors.Is(l.why, errDamaged)
	if !l.id.in.IsZero() {
		what := "the staged part of decided transaction %s is gone: key %s in the store, a bundle of parts, is not there or does not hold it"
		if damaged {
			what = "the staged part of decided transaction %s is damaged: key %s in the store, a bundle of parts, does not hold what was staged"
		}
		return fmt.Sprintf(what, l.id.Txn, l.id.key())
	}
	what := "the staged part of decided transaction %s is gone: neither %s nor %s is there"
	if damaged {
		what = "the staged part of decided transaction %s is damaged: neither %s nor %s holds what was staged"
	}
	first, second := "key "+l.id.key()+" in the store", "object "+c.objectURI(l.id.object())
	if c.inObject(l) {
		first, second = second, first
	}
	return fmt.Sprintf(what, l.id.Txn, first, second)
}

// headBytes is about what a piece's header takes on top of its lines.
const headBytes = 256

// inObject: most likely it was an object.
func (c *Catalog) inObject(l *lack) bool {
	return l.id.in.IsZero() && l.bytes+headBytes > uint64(c.cfg.Limits.InlineBytes)
}

// file is where the piece most likely lay.
func (c *Catalog) file(l *lack) string {
	if isUnwritable(l) {
		return ""
	}
	if c.inObject(l) {
		return c.objectURI(l.id.object())
	}
	return l.id.key()
}

func (c *Catalog) objectURI(name string) string {
	return strings.TrimSuffix(c.cfg.Warehouse, "/") + "/_txcoord/" + c.cfg.Name + "/" + name
}

// lostReads is how many staged parts are read at a time to find what is lost.
const lostReads = 8

// lostParts reads what a table still has to publish in its open round, and answers what of
// it is surely lost; where nothing is, and something stood in the way of its publication,
// what cannot be written. The fold is at a head that was read after that.
func (c *Catalog) lostParts(ctx context.Context, id twophase.TableID) ([]*lack, error) {
	var all []*lack
	c.ledger.read(func(s *twophase.State) {
		t, ok := s.Table(id)
		if !ok {
			return
		}
		for _, ch := range t.Pending {
			if o := s.Outcome(ch.Txn); s.Needs(id, ch.Txn) && o != nil && o.Commit != nil {
				for _, piece := range piecesOfPart(ch.Txn, o.Commit, ch.Part) {
					all = append(all, &lack{id: piece, bytes: ch.Part.Shape.Bytes})
				}
			}
		}
	})
	var mu sync.Mutex
	var lost []*lack
	err := parallel(all, lostReads, func(l *lack) error {
		_, err := c.payloads.get(ctx, l.id)
		if err != nil && !isLost(err) {
			return err
		}
		if l.why = err; err != nil {
			mu.Lock()
			defer mu.Unlock()
			lost = append(lost, l)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(lost) == 0 && len(all) > 0 && c.lacksSomething(id):
		l, err := c.unwritten(ctx, id)
		if l == nil {
			return nil, err
		}
		return []*lack{l}, nil
	case len(lost) == 0:
		return nil, nil
	}
	if err := c.catchUp(ctx); err != nil {
		return nil, err
	}
	lost = slices.DeleteFunc(lost, func(l *lack) bool { return !c.needsAny(id, map[twophase.TxnID]bool{l.id.Txn: true}) })
	if lost, err = c.notInLog(ctx, id, lost); err != nil {
		return nil, err
	}
	slices.SortFunc(lost, func(a, b *lack) int { return compare(a.id.payloadID.key(), b.id.payloadID.key()) })
	return lost, nil
}

// lacksSomething: the table's last walk here met a lack, or another replica has said so.
func (c *Catalog) lacksSomething(id twophase.TableID) (lacks bool) {
	c.ledger.read(func(s *twophase.State) {
		t, ok := s.Table(id)
		lacks = ok && t.Frozen != nil && t.Frozen.Cause == twophase.CauseLost && t.Frozen.Origin == id
	})
	t := c.tables.peek(id)
	return lacks || t != nil && t.lacksPart.Load()
}

// notInLog leaves out what stands in the table's log already, and waits for its record only:
// a version that is there needs no payload (R3). Nothing is recorded.
func (c *Catalog) notInLog(ctx context.Context, id twophase.TableID, lost []*lack) ([]*lack, error) {
	if len(lost) == 0 {
		return nil, nil
	}
	var in twophase.WalkInput
	c.ledger.read(func(s *twophase.State) { in = s.WalkInput(id, twophase.NoSight) })
	if in.Recorded == twophase.NoVersion {
		return lost, nil // version 0 is one put; nothing is below it that could be walked
	}
	in.LookUp = true
	t, err := c.tables.of(id)
	if err != nil {
		return nil, err
	}
	_, glance := t.lastSight()
	end, err := c.walkOnce(ctx, t, in, glance)
	if err != nil {
		return nil, err
	}
	there := map[twophase.TxnID]bool{}
	for _, v := range foundBy(end) {
		for _, txn := range v.Txns {
			there[txn] = true
		}
	}
	return slices.DeleteFunc(lost, func(l *lack) bool { return there[l.id.Txn] }), nil
}

// foundBy are the versions of ours that a walk has passed.
func foundBy(end twophase.WalkEffect) []twophase.FoundVersion {
	switch end := end.(type) {
	case twophase.WalkDone:
		return end.Found
	case twophase.AppendRecord:
		switch r := end.Record.(type) {
		case *twophase.Foreign:
			return r.Found
		case *twophase.Barrier:
			return r.Found
		}
	}
	return nil
}

// lostOf is what is lost on a table that may wait for that: on itself, or else on the table
// at which its freeze began.
func (c *Catalog) lostOf(ctx context.Context, id twophase.TableID) ([]*lack, error) {
	asked, origin := false, twophase.TableID("")
	c.ledger.read(func(s *twophase.State) {
		if t, ok := s.Table(id); ok && !closed(t) {
			_, asked = s.RoundOn(id)
			if t.Frozen != nil && t.Frozen.Cause == twophase.CauseLost {
				origin = t.Frozen.Origin
			}
		}
	})
	if !asked {
		return nil, nil
	}
	lost, err := c.lostParts(ctx, id)
	if err == nil && len(lost) == 0 && origin != "" && origin != id {
		return c.lostParts(ctx, origin)
	}
	return lost, err
}

// lost: decided changes whose staged parts are gone. Nothing is read for a table on which
// nobody has met one.
func (e *explainer) lost(ctx context.Context) {
	look, over := false, false
	e.c.ledger.read(func(s *twophase.State) {
		t, ok := s.Table(e.id)
		look, over = ok && t.Frozen != nil, ok && closed(t)
	})
	if over { // a part that comes back is of no use any more
		return
	}
	if t := e.c.tables.peek(e.id); !look && (t == nil || !t.lacksPart.Load()) {
		return
	}
	lost, err := e.c.lostParts(ctx, e.id)
	if err != nil { // a place does not answer: its trouble is said elsewhere
		return
	}
	for _, l := range lost[:min(len(lost), namedAtMost)] {
		e.add(e.lostFinding(l))
	}
}

func (e *explainer) lostFinding(l *lack) Finding {
	f := Finding{Code: FoundPartLost, Blocks: true, Txn: l.id.Txn, File: e.c.file(l)}
	e.c.ledger.read(func(s *twophase.State) {
		f.Key = keyOf(s, l.id.Txn)
		name := nameOf(s, l.id.Table)
		o := s.Outcome(l.id.Txn)
		if o == nil || o.Commit == nil {
			return
		}
		f.Since = o.Time.Std()
		others := 0
		for i := range o.Commit.Parts {
			if o.Commit.Parts[i].Table != l.id.Table {
				others++
			}
		}
		f.Text = fmt.Sprintf("%s (%s of actions). The transaction is decided; what it has on other tables (%d) is published all the same, and this table takes no commits meanwhile",
			e.c.lackText(l), number.Of(l.bytes, "byte"), others)
		if isUnwritable(l) {
			f.Remedy = unwritableRemedy(name)
			return
		}
		f.Remedy = fmt.Sprintf("put the part back byte for byte, and the table goes on by itself; if nobody has it: txcoord tables resolve %s --give-up records that the change is not applied here",
			name)
	})
	return f
}
