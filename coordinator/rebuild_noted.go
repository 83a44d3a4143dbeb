package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/coordinator/manifest"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// lostFolder is what rebuilds have kept, below the catalog's folder: pieces of torn
// transactions, and a note of each rebuild that had to give parts up with tables that it left
// out. Nothing removes any of it.
const lostFolder = "lost/"

// lostNote is what a rebuild has given up on tables that it left out. From then on no manifest
// names such a table, and its log is not looked at any more: the journal alone would know, and
// that may be lost as well. It is durable before anything of its life is there.
type lostNote struct {
	Incarnation string `json:"incarnation"`
	// Snapshot is the first of that life.
	Snapshot     twophase.SnapshotVersion `json:"snapshot"`
	Transactions []lostTxn                `json:"transactions"`
}

// lostTxn is a transaction that stays published in some versions, and lost parts.
type lostTxn struct {
	Txn  string      `json:"txn"`
	In   []lostPlace `json:"in"`
	Lost []lostTable `json:"lost"`
}

type lostPlace struct {
	Table   twophase.TableID `json:"table"`
	Version twophase.Version `json:"version"`
}

type lostTable struct {
	Table twophase.TableID `json:"table"`
	Name  string           `json:"name"`
	URI   string           `json:"uri"`
}

// putNote makes the note of this rebuild durable, if there is anything to say.
func (r *rebuilding) putNote(ctx context.Context, incarnation string) error {
	kept, named := map[twophase.TableID]bool{}, map[twophase.TableID]lostTable{}
	for _, t := range r.tables {
		kept[t.row.Table] = true
	}
	for i := range r.gone {
		named[r.gone[i].Table] = lostTable{r.gone[i].Table, r.gone[i].Name, r.gone[i].URI}
	}
	note := lostNote{Incarnation: incarnation, Snapshot: r.report.Manifest + 1}
	for _, k := range r.known {
		txn := lostTxn{Txn: k.Txn.String()}
		for _, p := range k.Parts {
			switch {
			case p.Version != twophase.NoVersion:
				txn.In = append(txn.In, lostPlace{p.Table, p.Version})
			case !kept[p.Table]:
				lost := named[p.Table]
				lost.Table = p.Table
				txn.Lost = append(txn.Lost, lost)
			}
		}
		if len(txn.Lost) > 0 {
			note.Transactions = append(note.Transactions, txn)
		}
	}
	if len(note.Transactions) == 0 {
		return nil
	}
	b, err := json.Marshal(note)
	if err == nil {
		err = r.own.putOnce(ctx, lostFolder+incarnation+".json", b)
	}
	if err != nil {
		return fmt.Errorf("note what is given up: %w", err)
	}
	return nil
}

// readNotes reads what rebuilds before this one have given up. One counts if the manifests of
// its life were begun: a rebuild that broke off before that may have been followed by what it
// had given up, and after that nothing of the life before it goes on (R7).
func (r *rebuilding) readNotes(ctx context.Context) error {
	files := newManifests(r.c).files
	prefix := r.own.key(lostFolder)
	for e, err := range r.own.store.List(ctx, objstore.ListOptions{Prefix: prefix, Delimiter: true}) {
		if err != nil {
			return fmt.Errorf("list what rebuilds have given up: %w", err)
		}
		name := strings.TrimPrefix(e.Key, prefix)
		if e.Prefix != "" || !strings.HasSuffix(name, ".json") {
			continue
		}
		b, err := r.own.get(ctx, lostFolder+name)
		if err != nil {
			return fmt.Errorf("read what a rebuild has given up: %w", err)
		}
		var note lostNote
		if err := json.Unmarshal(b, &note); err != nil || note.Incarnation+".json" != name {
			r.broken("%s, which says what a rebuild has given up, cannot be read", r.own.key(lostFolder+name))
			continue
		}
		first, err := files.Read(ctx, manifest.Name{Snapshot: note.Snapshot})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, objstore.ErrNotFound):
		case err != nil:
			r.broken("manifest %d, with which incarnation %s began: %v", note.Snapshot, note.Incarnation, err)
		case first.Incarnation == note.Incarnation:
			r.takeNote(&note)
		}
	}
	return nil
}

func (r *rebuilding) takeNote(note *lostNote) {
	if r.notes == nil {
		r.notes = map[twophase.TxnID][]lostTxn{}
	}
	for _, txn := range note.Transactions {
		id, err := twophase.ParseTxnID(txn.Txn)
		if err != nil {
			continue
		}
		r.notes[id] = append(r.notes[id], txn)
		for _, t := range txn.Lost {
			if _, seen := r.before.seen[t.Table]; !seen && t.Name != "" {
				r.before.seen[t.Table] = manifest.Table{ID: t.Table, Name: t.Name, URI: t.URI, Version: twophase.NoVersion}
			}
		}
	}
}

// noted adds to a transaction what rebuilds have given up of it: of the one that is in those
// versions, since its id may have been used again (R6). What a log that is read has counts.
func (r *rebuilding) noted(id twophase.TxnID, l *loggedTxn, byID map[twophase.TableID]*rebuiltTable) {
	for _, n := range r.notes[id] {
		same := slices.ContainsFunc(n.In, func(at lostPlace) bool {
			p := l.part(at.Table)
			return p != nil && p.Version == at.Version
		})
		if !same {
			continue
		}
		for _, t := range n.Lost {
			if byID[t.Table] == nil && l.part(t.Table) == nil {
				l.parts = append(l.parts, twophase.KnownPart{Table: t.Table, Version: twophase.NoVersion})
			}
		}
	}
}
