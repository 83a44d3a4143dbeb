package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txcoord/txcoord/coordinator/manifest"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// write carries the plan out. The order matters:
//
//  0. What is staged of torn transactions is copied, and noted what is given up with
//     tables that are left out: a later rebuild learns of it nowhere else.
//  1. The older journal in the store gets a record behind which nothing is decided.
//  2. Owner objects name the new incarnation. A server of the old one, wherever its
//     journal is, stops when it sees that (checkOwner).
//  3. Logs and manifests are looked at again. What came of the old incarnation since the
//     plan ends the rebuild: a server of it still runs.
//  4. The manifests of all snapshots are put that the new life begins with. A server of
//     the old incarnation that makes a snapshot finds the first there, and stops (R7). The
//     others stand for snapshots that readers may have seen, and are all that a later
//     rebuild knows of those.
//  5. The ring, and last the meta key.
//
// Until 5 is done, the store holds what it held before; another run begins anew, with
// another incarnation, above the manifests that 4 may have left. A put of the old
// incarnation that lands even later is a contradiction on its table, which freezes it;
// another rebuild takes it in.
func (r *rebuilding) write(ctx context.Context) error {
	meta := lock.NewMeta(r.report.Catalog, r.cfg.Slots)
	j := lock.NewLife(r.cfg.Store, meta)
	entries, state, err := r.entries(&meta)
	if err != nil {
		return err
	}
	r.c.journal, r.c.ledger = j, newLedger(state, nil)
	if err := notePlace(ctx, r.cfg); err != nil {
		return err
	}
	if err := r.keepTorn(ctx); err != nil {
		return err
	}
	if err := r.putNote(ctx, meta.Incarnation); err != nil {
		return err
	}
	if err := r.endOld(ctx, &meta); err != nil {
		return err
	}
	for _, t := range r.tables {
		if err := t.log.Claim(ctx, r.ownerOf(&t.row, &meta), false); err != nil {
			return fmt.Errorf("owner object of table %s: %w", t.row.Name, err)
		}
	}
	if err := r.still(ctx); err != nil {
		return err
	}
	if err := r.putManifests(ctx, state); err != nil {
		return err
	}
	if err := j.Begin(ctx, entries, r.revision); err != nil {
		return err
	}
	r.report.Incarnation, r.report.Written = meta.Incarnation, true
	return nil
}

func (r *rebuilding) ownerOf(t *twophase.Registered, meta *lock.Meta) tables.Owner {
	o := tables.Owner{
		Catalog: meta.Catalog, Incarnation: meta.Incarnation, Table: t.Table,
		Name: t.Name, Mode: t.Mode.String(), OneTxnPerVersion: t.OneTxnPerVersion,
	}
	if t.Mode == twophase.ModeFenced {
		o.Mode = twophase.ModeOpen.String()
	}
	return o
}

// How much one record holds, so that entries fit every store.
const (
	rebuildTables = 200
	rebuildParts  = 1000
)

// records are those that begin the journal.
func (r *rebuilding) records() []twophase.Record {
	first := &twophase.Rebuilt{From: r.report.From, Snapshot: r.report.Manifest, Since: r.since}
	out := []twophase.Record{first}
	for i, t := range r.tables {
		if i%rebuildTables == 0 {
			out = append(out, &twophase.Rebuilt{})
		}
		last := out[len(out)-1].(*twophase.Rebuilt)
		last.Tables = append(last.Tables, t.row)
	}
	parts := rebuildParts
	for _, k := range r.known {
		if len(k.Parts) > 2*rebuildParts {
			k.Parts = k.Parts[:2*rebuildParts] // known by its id, which is what counts
		}
		if parts += len(k.Parts); parts >= rebuildParts {
			out, parts = append(out, &twophase.Rebuilt{}), len(k.Parts)
		}
		last := out[len(out)-1].(*twophase.Rebuilt)
		last.Known = append(last.Known, k)
	}
	for some := range slices.Chunk(r.gone, rebuildTables) {
		out = append(out, &twophase.Rebuilt{Removed: some})
	}
	return append(out, &twophase.Rebuilt{Shown: r.report.Snapshot})
}

// entries are the journal's first, an entry for each record, and the fold of them.
func (r *rebuilding) entries(meta *lock.Meta) (raw [][]byte, state *twophase.State, err error) {
	state = twophase.NewState(meta.Catalog, meta.Incarnation)
	clock := max(twophase.TimeOf(r.cfg.Now()), r.before.time)
	for _, rec := range r.records() {
		e, err := state.Entry(twophase.Decision{At: state.Next(), Records: []twophase.Record{rec}}, clock, "")
		if err != nil {
			return nil, nil, err
		}
		b := e.Encode()
		if err := state.Apply(e, twophase.HashOf(b)); err != nil {
			return nil, nil, err
		}
		raw = append(raw, b)
	}
	if state.Rebuilding() || state.Shown() != r.report.Snapshot || len(state.Tables()) != len(r.tables) {
		return nil, nil, fmt.Errorf("the journal that was made has %d tables and snapshot %d, planned were %d and %d", len(state.Tables()), state.Shown(), len(r.tables), r.report.Snapshot)
	}
	return raw, state, nil
}

// keepTorn copies what is staged of torn transactions for the tables that miss them:
// these are settled from here on, and the servers that follow sweep what was staged.
func (r *rebuilding) keepTorn(ctx context.Context) error {
	for i := range r.report.Torn {
		for j := range r.report.Torn[i].Missing {
			part := &r.report.Torn[i].Missing[j]
			for _, piece := range part.pieces {
				name := fmt.Sprintf(lostFolder+"%s/%s/%s", piece.Txn, piece.Table, piece.Digest)
				if err := r.keepPiece(ctx, piece, name); err != nil {
					return fmt.Errorf("keep a staged part of transaction %s: %w", piece.Txn, err)
				}
				part.Kept = append(part.Kept, "_txcoord/"+r.cfg.Name+"/"+name)
			}
		}
	}
	return nil
}

func (r *rebuilding) keepPiece(ctx context.Context, piece stagedPiece, name string) error {
	if piece.object {
		b, err := r.own.get(ctx, piece.payloadID.object())
		if err != nil {
			return err
		}
		return r.own.putOnce(ctx, name, b)
	}
	item, err := r.cfg.Store.Get(ctx, piece.key())
	if err != nil {
		return err
	}
	if !piece.in.IsZero() {
		if item.Value, err = oneOf(item.Value, piece.payloadID); err != nil {
			return err
		}
	}
	return r.own.putOnce(ctx, name, item.Value)
}

// oneOf is a piece out of a bundle, as it would lie by itself.
func oneOf(bundle []byte, id payloadID) ([]byte, error) {
	pieces, err := unpack(bundle)
	if err != nil {
		return nil, err
	}
	for _, u := range pieces {
		if u.id == id {
			return u.raw, nil
		}
	}
	return nil, errNoPayload
}

// endOld ends the journal that the store holds: who appends there has read the record.
// One that cannot be read any more is left as it is; owner objects and the manifest stop
// its servers.
func (r *rebuilding) endOld(ctx context.Context, meta *lock.Meta) error {
	if r.old == nil {
		return nil
	}
	old, err := lock.ExistingJournal(ctx, r.cfg.Store)
	if errors.Is(err, lock.ErrOtherCodec) {
		r.found(RebuildFinding{Code: RebuildJournal, What: err.Error()})
		return r.forgetOpen(ctx)
	}
	if err != nil {
		return err
	}
	for {
		done, err := endJournal(ctx, old, rebuiltAs(meta.Incarnation))
		switch {
		case done:
			return r.forgetOpen(ctx)
		case errors.Is(err, lock.ErrUnknown), ctx.Err() != nil:
			return fmt.Errorf("end the older journal: %w", err)
		case err != nil:
			r.found(RebuildFinding{Code: RebuildJournal, What: err.Error()})
			return r.forgetOpen(ctx)
		}
	}
}

// rebuiltAs is what the last record of a journal that was given up says of the one in its
// place. It stands in journals: isRebuilt has to know what was ever written.
func rebuiltAs(incarnation string) string {
	return "incarnation " + incarnation + " of the catalog, which was rebuilt"
}

// isRebuilt tells a journal that was given up from one that was moved to another store,
// with all that is decided.
func isRebuilt(movedTo string) bool {
	rest, ok := strings.CutPrefix(movedTo, "incarnation ")
	incarnation, _, _ := strings.Cut(rest, " ")
	return ok && movedTo == rebuiltAs(incarnation)
}

// endJournal appends the record; false if somebody else appended, or with an error.
func endJournal(ctx context.Context, j *lock.Journal, to string) (bool, error) {
	next, err := j.Next(ctx)
	if err != nil {
		return false, err
	}
	meta := j.Meta()
	e := twophase.Entry{Header: twophase.Header{Catalog: meta.Catalog, Incarnation: meta.Incarnation, Position: next}}
	if next > 0 {
		raw, err := j.Read(ctx, next-1)
		if err != nil {
			return false, err
		}
		last, err := twophase.DecodeEntry(raw)
		if err != nil {
			return false, err
		}
		if n := len(last.Records); n == 1 {
			if _, over := last.Records[0].(*twophase.Moved); over {
				return true, nil
			}
		}
		e.Codec, e.Previous, e.Time, e.Checkpoint = last.Codec, twophase.HashOf(raw), last.Time, last.Checkpoint
	}
	e.Records = []twophase.Record{&twophase.Moved{To: to}}
	mine := e.Encode()
	filled, err := j.Append(ctx, next, mine)
	return bytes.Equal(filled, mine), err
}

// forgetOpen takes away the advisory list of open transactions: their tokens are of the
// life that is over, and their positions mean nothing in the next.
func (r *rebuilding) forgetOpen(ctx context.Context) error {
	var keys []string
	err := scanKeys(ctx, r.cfg.Store, openKeys, func(it lock.Item) { keys = append(keys, it.Key) })
	if err != nil {
		return err
	}
	return parallelIndex(len(keys), fsckReads, func(i int) error { return r.cfg.Store.Delete(ctx, keys[i]) })
}

// still sees that nobody of the old incarnation was at work since the plan was made. What
// other engines wrote is taken in by the first server, as ever.
func (r *rebuilding) still(ctx context.Context) error {
	return parallelIndex(len(r.tables), fsckTables, func(i int) error {
		t := r.tables[i]
		listing, err := t.log.List(ctx, t.row.Version)
		if err != nil {
			return err
		}
		for _, l := range listing.Commits {
			if l.Version <= t.row.Version {
				continue
			}
			c, err := t.log.ReadCommit(ctx, l.Version)
			if err != nil {
				return err
			}
			if tags, err := c.Tags(r.report.Catalog); tags != nil || err != nil {
				return atWork(fmt.Sprintf("version %d of table %s was written", l.Version, t.row.Name), err)
			}
		}
		return nil
	})
}

func atWork(what string, err error) error {
	return lock.Mark(lock.ErrUnfit, errors.Join(fmt.Errorf("%s since the rebuild began: a server of the catalog is still running; stop it, and run the same command again", what), err))
}

// putManifests puts the manifests of the snapshots that the journal begins with, in order.
func (r *rebuilding) putManifests(ctx context.Context, state *twophase.State) error {
	m := newManifests(r.c)
	m.done = state.Snapshots()[0].Version - 1
	for m.done < state.Shown() {
		file, err := m.pack()
		if err != nil {
			return err
		}
		if err := r.putManifest(ctx, m, file); err != nil {
			return err
		}
		m.done = file.Last()
	}
	return nil
}

// putManifest puts one of them, which the first server would make out of the journal as
// well, byte for byte. An unknown put is read.
func (r *rebuilding) putManifest(ctx context.Context, m *manifests, file *manifest.File) error {
	b, err := file.Encode()
	if err != nil {
		return err
	}
	first := file.Deltas[0].Snapshot
	key := m.files.Key(manifest.Name{Snapshot: first})
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := r.own.store.PutIfAbsent(ctx, key, b)
		if err == nil {
			return nil
		}
		if !errors.Is(err, objstore.ErrExists) && !errors.Is(err, objstore.ErrUnknown) {
			return fmt.Errorf("put manifest %d: %w", first, err)
		}
		have, _, readErr := r.own.store.Get(ctx, key, objstore.Range{})
		switch {
		case readErr == nil && bytes.Equal(have, b):
			return nil
		case readErr == nil:
			return atWork(fmt.Sprintf("manifest %d was written", first), nil)
		case !errors.Is(readErr, objstore.ErrNotFound):
			return readErr
		}
		if pause(ctx, wait); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
