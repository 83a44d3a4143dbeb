package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txcoord/txcoord/internal/number"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// hold is a tag or a lease: what keeps the versions of a snapshot readable.
type hold struct {
	what     string // "tag month-end", "lease l-1"
	snapshot twophase.SnapshotVersion
	// until is when a lease ends; zero for a tag.
	until time.Time
	// made is the snapshot's time; version is that of the table asked for.
	made    time.Time
	version twophase.Version
}

// allHolds are the tags and leases that stand.
func (c *Catalog) allHolds() (out []hold) {
	c.ledger.read(func(s *twophase.State) {
		for name, v := range s.Tags() {
			out = append(out, hold{what: "tag " + name, snapshot: v})
		}
		for _, l := range s.Leases() {
			out = append(out, hold{what: "lease " + l.ID, snapshot: l.Snapshot, until: l.Until.Std()})
		}
	})
	return out
}

// holds are those on a table. One whose snapshot cannot be found is left out.
func (c *Catalog) holds(ctx context.Context, id twophase.TableID) (out []hold) {
	for _, h := range c.allHolds() {
		if set, err := c.at(ctx, h.snapshot); err == nil {
			if v, ok := set.tables[id]; ok {
				h.version, h.made = v, set.time.Std()
				out = append(out, h)
			}
		}
	}
	return out
}

// heldVersion is the highest version that may become the oldest one of a table's
// log: nothing goes that the newest snapshot, a tag or a lease names. heldBy says
// which of them it is, if one lies below the recorded version. One whose snapshot
// cannot be found any more is an error: what it needs is not known.
func (c *Catalog) heldVersion(ctx context.Context, id twophase.TableID, at fixedRow) (upTo twophase.Version, heldBy string, err error) {
	upTo = at.info.Version
	lower := func(v twophase.Version, by string) {
		if v < upTo {
			upTo, heldBy = v, by
		}
	}
	lower(at.shown, "the newest snapshot")
	for _, h := range c.allHolds() {
		set, err := c.at(ctx, h.snapshot)
		if err != nil {
			return 0, "", fmt.Errorf("snapshot %d of %s: %w", h.snapshot, h.what, err)
		}
		if version, ok := set.tables[id]; ok {
			lower(version, h.what)
		}
	}
	return upTo, heldBy, nil
}

// risk is a setting of a table's own by which another engine may break a hold.
type risk struct {
	text, remedy, property string

	table     string
	keeps     time.Duration
	breaks    time.Time
	job, eats string
}

// told is one line for each property, however many tables it is about. That of a tag, for
// which there is no value to set, is short: `tables why` says it in full.
func (h hold) told(all []risk) (out []string) {
	for _, property := range []string{tables.PropFileRetention, tables.PropLogRetention} {
		var of []risk
		for _, r := range all {
			if r.property == property {
				of = append(of, r)
			}
		}
		switch len(of) {
		case 0:
		case 1:
			if h.until.IsZero() {
				out = append(out, of[0].brief("table "+of[0].table+" is "+of[0].keeps.String()))
				continue
			}
			out = append(out, of[0].text+"; "+of[0].remedy)
		default:
			out = append(out, h.toldOf(of))
		}
	}
	return out
}

// brief is what may happen, and where to read on.
func (r risk) brief(whose string) string {
	return fmt.Sprintf("%s of %s: another engine's %s may take %s the snapshot from %s on; see docs/operations.md, Tags and leases",
		r.property, whose, r.job, r.eats, r.breaks.UTC().Format(time.RFC3339))
}

// namedInOneLine bounds the tables that a warning about many names.
const namedInOneLine = 5

// toldOf is the line for several tables, by the one whose setting breaks the hold first.
func (h hold) toldOf(of []risk) string {
	first := slices.MinFunc(of, func(a, b risk) int { return compare(a.keeps, b.keeps) })
	var names []string
	for _, r := range of[:min(len(of), namedInOneLine)] {
		names = append(names, r.table)
	}
	if more := len(of) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	whose := fmt.Sprintf("%s (%s) is %s or more", number.Of(len(of), "table"), strings.Join(names, ", "), InUnits(first.keeps))
	if h.until.IsZero() {
		return first.brief(whose)
	}
	return fmt.Sprintf("%s of %s: from %s on another engine's %s may take away %s versions that %s of snapshot %d needs until %s; %s",
		first.property, whose, first.breaks.UTC().Format(time.RFC3339), first.job, first.eats,
		h.what, h.snapshot, h.until.UTC().Format(time.RFC3339), first.remedy)
}

// risks are the settings of a table that let another engine take away what a hold
// needs. Ages count from the snapshot: no file of it was removed before, and its
// version was there then. A table that nobody else touches has none.
func (h hold) risks(row TableInfo, p *tables.Profile) (out []risk) {
	if row.Mode == twophase.ModeExclusive {
		return nil
	}
	check := func(property string, keeps time.Duration, job, eats string) {
		breaks := h.made.Add(keeps)
		if !h.until.IsZero() && !breaks.Before(h.until) {
			return
		}
		r := risk{property: property, table: row.Name, keeps: keeps, breaks: breaks, job: job, eats: eats}
		r.text = fmt.Sprintf("%s of table %s is %s: from %s on another engine's %s may take away %s version %d, which %s of snapshot %d needs",
			property, row.Name, keeps, breaks.UTC().Format(time.RFC3339), job, eats, h.version, h.what, h.snapshot)
		if h.until.IsZero() {
			r.remedy = fmt.Sprintf("set %s as long as the tag has to be readable, or keep other engines' %s away", property, job)
		} else {
			r.text += " until " + h.until.UTC().Format(time.RFC3339)
			r.remedy = fmt.Sprintf("ALTER TABLE … SET TBLPROPERTIES ('%s' = 'interval %d hours')", property, int64(h.until.Sub(h.made)/time.Hour)+1)
		}
		out = append(out, r)
	}
	check(tables.PropFileRetention, p.DeletedFileRetention(), "VACUUM", "files of")
	if p.CleansLog() {
		check(tables.PropLogRetention, p.LogRetention(), "log clean-up", "the log of")
	}
	return out
}

// profileOf is a table's profile at its recorded version: the one that is known
// here, or read without the table's file actions where that can be done.
func (c *Catalog) profileOf(ctx context.Context, row TableInfo) (*tables.Profile, error) {
	t, err := c.tables.of(row.ID)
	if err != nil {
		return nil, err
	}
	if p := c.tables.recordedProfile(t); p != nil {
		return p, nil
	}
	if c.upkeep == nil {
		_, p, err := c.tables.loaded(ctx, row.ID)
		return p, err
	}
	store, key, err := c.cfg.Objects.Open(row.URI)
	if err != nil {
		return nil, c.objectsError(row.URI, err)
	}
	keeper := tables.NewKeeper(tables.KeeperConfig{
		Log: tables.LogConfig{Store: store, Key: key, URI: row.URI}, Format: c.upkeep.cfg.Format, Now: c.cfg.Now,
	})
	survey, err := keeper.Survey(ctx, row.Version)
	if err != nil {
		return nil, c.logFailed(ctx, t, err)
	}
	return survey.Profile, nil
}
