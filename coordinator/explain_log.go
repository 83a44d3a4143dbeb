package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// log: what the table's location and its log say.
func (e *explainer) log(ctx context.Context, row TableInfo) error {
	var stopped error
	if t := e.c.tables.peek(e.id); t != nil {
		stopped = t.stoppedBy()
	}
	if t := e.c.tables.peek(e.id); t != nil {
		if a := e.c.lookAltered(ctx, t); a != nil {
			e.add(Finding{Code: FoundLogAltered, Text: a.text, Remedy: alteredRemedy, Since: a.since, File: a.file, Version: a.version})
		}
	}
	if stopped != nil {
		f := Finding{Code: FoundStopped, Blocks: true, Text: "this replica does not write it: " + stopped.Error(), Remedy: "put the file back as it was; the next look finds out"}
		f.File, f.Version = fileOf(stopped)
		if at := e.c.tables.tornAt(e.id); at != nil {
			f.Text, f.Remedy, f.Since = at.text, at.remedy, at.since
		}
		if !row.Frozen.torn() { // then the freeze has said it
			e.add(f)
		}
	}
	switch err := e.c.ours(e.id); {
	case errors.Is(err, &Error{Reason: LogContradiction}):
		f := Finding{
			Code: FoundStopped, Blocks: true, Text: messageOf(err),
			Remedy: "put the file back as it was, or: " + takeOver(row),
		}
		f.File, f.Version = fileOf(err)
		e.add(f)
	case e.c.ownsItself(err):
		e.add(Finding{Code: FoundOwnedElsewhere, Blocks: true, Text: messageOf(err), Remedy: "put the folders back where they belong; the next look finds out"})
	case err != nil:
		e.add(Finding{
			Code: FoundOwnedElsewhere, Blocks: true, Text: messageOf(err),
			Remedy: fmt.Sprintf("if that catalog lives: txcoord tables release %s here; if it is gone: %s", row.Name, takeOver(row)),
		})
	}
	if _, err := e.c.tables.of(e.id); err != nil {
		e.add(Finding{
			Code: FoundLocationRefused, Blocks: true, Text: messageOf(err),
			Remedy: "start the server with --allow for this location",
		})
		return nil
	}
	if row.Frozen != nil && row.Frozen.Cause == twophase.CauseReplaced {
		return nil // what stands there is not this table's
	}
	profile, err := e.c.profileOf(ctx, row)
	if t := e.c.tables.peek(e.id); t != nil && err == nil {
		if u := e.c.loadAgain(ctx, t); u != nil {
			err = u.err
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		if stopped == nil || messageOf(stopped) != messageOf(err) {
			e.unreadable(err)
		}
	default:
		e.settings(ctx, profile, row)
	}
	return nil
}

// ownsItself reports whether a table is not ours because its place holds another one of ours.
func (c *Catalog) ownsItself(err error) bool {
	own, ok := errors.AsType[*Error](err)
	return ok && own.Owner != nil && own.Owner.Catalog == c.journal.Meta().Catalog
}

func (e *explainer) unreadable(err error) {
	f := Finding{Code: FoundLogUnreadable, Blocks: true, Text: unreadableText(err), Remedy: "make its location reachable, or put back the file that is named"}
	f.File, f.Version = fileOf(err)
	var own *Error
	if errors.As(err, &own) && own.Reason == FeatureUnsupported {
		f.Code, f.Text = FoundFeatureUnsupported, messageOf(err)
		f.Remedy = "drop the feature from the table, or use a newer txcoord; docs/features.md has the list"
	}
	e.add(f)
}

func unreadableText(err error) string { return "its log cannot be read now: " + messageOf(err) }

// messageOf is an error without what may not be told.
func messageOf(err error) string {
	var own *Error
	if errors.As(err, &own) {
		return own.Message
	}
	return "an internal error; the server's log has it"
}

func fileOf(err error) (file string, v twophase.Version) {
	var own *Error
	if errors.As(err, &own) && own.Table != nil {
		return own.Table.File, own.Table.Version
	}
	return "", twophase.NoVersion
}

// settings: the table's properties and features.
func (e *explainer) settings(ctx context.Context, p *tables.Profile, row TableInfo) {
	warnings := tables.Warnings(p, e.c.cfg.Limits.MaxTTL)
	_, err := tables.CheckProfile(p, e.c.cfg.Limits.MaxTTL)
	var in *tables.InputError
	var feature *tables.FeatureError
	switch {
	case errors.As(err, &in):
		e.add(Finding{Code: FoundTableProperty, Blocks: true, Text: "it takes no new commits: " + in.Error(), Remedy: in.Remedy, Property: in.Field})
	case errors.As(err, &feature):
		e.add(Finding{
			Code: FoundFeatureUnsupported, Blocks: true, Text: "it takes no new commits: " + feature.Error(),
			Remedy: "drop the feature from the table, or use a newer txcoord; docs/features.md has the list",
		})
	case err != nil:
		e.add(Finding{Code: FoundTableProperty, Blocks: true, Text: "it takes no new commits: " + messageOf(err)})
	}
	for _, i := range p.Ignored() {
		e.add(Finding{Code: FoundPropertyIgnored, Text: i.String(), Property: i.Property, Remedy: i.Remedy})
		warnings = slices.DeleteFunc(warnings, func(w string) bool { return w == i.String() })
	}
	for _, w := range warnings {
		e.add(Finding{Code: FoundRetention, Text: w})
	}
	for _, h := range e.c.holds(ctx, row.ID) {
		for _, r := range h.risks(row, p) {
			e.add(Finding{Code: FoundRetention, Text: r.text, Remedy: r.remedy, Property: r.property, Version: h.version})
		}
	}
}
