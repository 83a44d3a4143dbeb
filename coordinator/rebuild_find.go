package coordinator

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// foundOwner is a table's place with its owner object.
type foundOwner struct {
	uri   string
	owner tables.Owner
}

// find looks for owner objects: those of the places that were named, and those below
// the folders that are to be searched.
func (r *rebuilding) find(ctx context.Context) ([]foundOwner, error) {
	var places []string
	for _, raw := range r.opts.Tables {
		uri, err := canonicalTable(raw)
		if err != nil {
			return nil, inputError("", err)
		}
		places = append(places, uri)
	}
	for _, raw := range r.opts.Look {
		below, err := r.logsBelow(ctx, raw)
		if err != nil {
			return nil, err
		}
		places = append(places, below...)
	}
	slices.Sort(places)
	var out []foundOwner
	for _, uri := range slices.Compact(places) {
		log, err := r.open(uri, twophase.ModeOpen)
		if err != nil {
			return nil, err
		}
		owner, err := log.Owner(ctx)
		bad, isBad := errors.AsType[*tables.LogError](err)
		switch {
		case errors.Is(err, objstore.ErrNotFound):
		case isBad:
			r.found(RebuildFinding{Code: RebuildUnreadable, Table: uri, What: bad.Error()})
		case err != nil:
			return nil, err
		default:
			out = append(out, foundOwner{uri, *owner})
		}
	}
	return out, nil
}

// logsBelow are the folders below a place that hold a log with an owner object, or the
// owner object alone. A table's folder is not searched further.
func (r *rebuilding) logsBelow(ctx context.Context, root string) ([]string, error) {
	root, err := canonicalTable(root)
	if err != nil {
		return nil, inputError("", err)
	}
	store, key, err := r.cfg.Objects.Open(root)
	if err != nil {
		return nil, fmt.Errorf("look for tables below %s: %w", root, err)
	}
	var out []string
	waiting := []string{""}
	for len(waiting) > 0 {
		folder := waiting[0]
		waiting = waiting[1:]
		prefix := strings.TrimPrefix(key+"/"+folder, "/")
		var below []string
		isTable := false
		for e, err := range store.List(ctx, objstore.ListOptions{Prefix: prefix, Delimiter: true}) {
			if err != nil {
				return nil, fmt.Errorf("look for tables below %s: %w", root, err)
			}
			name := strings.TrimPrefix(e.Prefix, prefix)
			switch {
			case e.Prefix == "":
			case name == "_delta_log/":
				isTable = true
			case strings.HasPrefix(name, "_"), strings.HasPrefix(name, "."):
			default:
				below = append(below, folder+name)
			}
		}
		if !isTable {
			waiting = append(waiting, below...)
			continue
		}
		uri, err := canonicalTable(strings.TrimSuffix(root, "/") + "/" + escapeURI.Replace(strings.TrimSuffix(folder, "/")))
		if err != nil {
			return nil, fmt.Errorf("look for tables below %s: %w", root, err)
		}
		out = append(out, uri)
	}
	return out, nil
}

// escapeURI writes a key as the rest of a URI.
var escapeURI = strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23")

// identify says which catalog all this is of.
func (r *rebuilding) identify(found []foundOwner) error {
	id := r.before.catalog
	if id == "" {
		id = r.opts.Catalog
	}
	if id == "" {
		ids := map[string]bool{}
		for _, f := range found {
			ids[f.owner.Catalog] = true
		}
		names := sortedNames(ids)
		switch len(names) {
		case 0:
			return lock.Mark(lock.ErrUnfit, fmt.Errorf("%w: no manifest, and no owner object of a table; name the warehouse of the catalog, and the places of its tables", errNothing))
		case 1:
			id = names[0]
		default:
			return lock.Mark(lock.ErrUnfit, fmt.Errorf("there is no manifest, and the tables that were found belong to the catalogs %s: say which one (--catalog-id)", strings.Join(names, ", ")))
		}
	}
	if r.opts.Catalog != "" && r.opts.Catalog != id {
		return lock.Mark(lock.ErrUnfit, fmt.Errorf("the manifests are of catalog %s, not of %s", id, r.opts.Catalog))
	}
	if r.old != nil && r.old.Catalog != id {
		return lock.Mark(lock.ErrUnfit, fmt.Errorf("the store holds the journal of catalog %s, and this is %s: give an empty store", r.old.Catalog, id))
	}
	r.report.Catalog, r.report.From, r.report.Manifest = id, r.before.incarnation, r.before.newest
	return nil
}

func sortedNames(m map[string]bool) (out []string) {
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// candidates are the tables of the newest manifest, and those that were found beside
// them, by id.
func (r *rebuilding) candidates(found []foundOwner) []*rebuiltTable {
	var out []*rebuiltTable
	for id, t := range r.before.tables {
		out = append(out, &rebuiltTable{row: twophase.Registered{Table: id, Name: t.Name, URI: t.URI}, shown: t.Version})
	}
	for _, f := range found {
		if _, named := r.before.tables[f.owner.Table]; named || f.owner.Catalog != r.report.Catalog {
			continue
		}
		t := &rebuiltTable{row: twophase.Registered{Table: f.owner.Table, Name: f.owner.Name, URI: f.uri}, shown: twophase.NoVersion}
		if given := r.opts.Names[string(f.owner.Table)]; given != "" {
			t.row.Name = given
		}
		if t.row.Name == "" {
			t.row.Name = path.Base(f.uri)
			r.found(RebuildFinding{Code: RebuildNamed, Table: t.row.Name, TableID: t.row.Table, What: "nothing tells the name of the table at " + f.uri})
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *rebuiltTable) int {
		// Those that a manifest names come first, and keep their names.
		if d := compare(boolRank(a.shown != twophase.NoVersion), boolRank(b.shown != twophase.NoVersion)); d != 0 {
			return d
		}
		return compare(a.row.Table, b.row.Table)
	})
	return out
}
