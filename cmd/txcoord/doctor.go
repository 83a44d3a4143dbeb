package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/internal/number"
)

// doctorCommand looks for everything that is wrong, or will be: in the configuration, in
// the places that it names, in the server and in the tables. It changes nothing but for
// the objects and the key with which it tries the places, and removes those.
type doctorCommand struct {
	File     string `arg:"" optional:"" help:"The server's configuration file; without it $$TXCOORD_CONFIG and the other variables of serve. Without any of them only the server is asked. The server is the one of --server or $$TXCOORD_SERVER, else the one that listens where this configuration says."`
	NoTables bool   `help:"Ask nothing about single tables: that reads the ends of their logs."`
}

// The severities of findings.
const (
	severityError   = "error"
	severityWarning = "warning"
	severityNote    = "note"
)

// ailment is one thing that doctor has found.
type ailment struct {
	severity string
	// check is the stable name of what was looked at.
	check string
	// where it is: a place, a table, a replica, a setting.
	where string
	what  string
	// remedy is empty where there is nothing to do.
	remedy string
}

// examination gathers what was looked at and what was found.
type examination struct {
	s      *session
	checks []string
	found  []ailment
	asked  asked
}

// began notes that a check is made.
func (x *examination) began(check string) {
	if !slices.Contains(x.checks, check) {
		x.checks = append(x.checks, check)
	}
}

func (x *examination) add(severity, check, where, what, remedy string) {
	x.began(check)
	x.found = append(x.found, ailment{severity, check, withoutPassword(where), what, remedy})
}

// failed is an error as a finding: our errors name the remedy.
func (x *examination) failed(check, where string, err error) {
	for _, e := range split(err) {
		x.add(severityError, check, where, strings.TrimPrefix(e.Error(), where+", "), hintOf(e))
	}
}

// split are the errors that were joined.
func split(err error) []error {
	if all, ok := err.(interface{ Unwrap() []error }); ok && strings.Contains(err.Error(), "\n") {
		var out []error
		for _, e := range all.Unwrap() {
			out = append(out, split(e)...)
		}
		return out
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

func (c *doctorCommand) Run(ctx context.Context, s *session) error {
	x := &examination{s: s}
	config, settings := x.configured(ctx, c.fileName(s))
	if x.whom(config, c.fileName(s), settings) {
		x.server(ctx, config != nil, !c.NoTables)
	}
	if err := x.show(); err != nil {
		return err
	}
	errors, warnings := x.count(severityError), x.count(severityWarning)
	switch {
	case errors > 0:
		return &codedError{fmt.Errorf("%s, %s", number.Of(errors, "error"), number.Of(warnings, "warning")), exitErrorsFound}
	case warnings > 0:
		return &codedError{fmt.Errorf("%s", number.Of(warnings, "warning")), exitWarningsFound}
	}
	return nil
}

// fileName is the configuration file's name for messages.
func (c *doctorCommand) fileName(s *session) string {
	path, _ := s.env("TXCOORD_CONFIG")
	return cmp.Or(c.File, path)
}

func (x *examination) count(severity string) (n int) {
	for _, f := range x.found {
		if f.severity == severity {
			n++
		}
	}
	return n
}

// show prints the gravest first.
func (x *examination) show() error {
	rank := map[string]int{severityError: 0, severityWarning: 1, severityNote: 2}
	slices.SortStableFunc(x.found, func(a, b ailment) int { return rank[a.severity] - rank[b.severity] })
	switch x.s.Output {
	case "json":
		b, err := marshal(x.json())
		if err != nil {
			return err
		}
		return x.s.lines([]string{string(b)})
	case "id":
		var all []string
		for _, f := range x.found {
			all = append(all, f.severity+" "+f.check)
		}
		return x.s.lines(all)
	}
	g := newGrid(x.s.out)
	g.pair("asked", x.asks())
	g.pair("looked at", strings.Join(x.checks, ", "))
	g.pair("found", fmt.Sprintf("%s, %s, %s", number.Of(x.count(severityError), "error"), number.Of(x.count(severityWarning), "warning"), number.Of(x.count(severityNote), "note")))
	for _, f := range x.found {
		g.gap()
		g.row(fmt.Sprintf("%s: %s: %s", strings.ToUpper(f.severity), orDash(f.where), f.what))
		if f.remedy != "" {
			g.row("  what to do: " + f.remedy)
		}
	}
	return g.flush()
}

func (x *examination) json() object {
	findings := []object{}
	for _, f := range x.found {
		findings = append(findings, object{
			{"severity", f.severity}, {"check", f.check}, {"where", f.where}, {"what", f.what}, {"remedy", f.remedy},
		})
	}
	return object{
		{"errors", x.count(severityError)},
		{"warnings", x.count(severityWarning)},
		{"notes", x.count(severityNote)},
		{"checks", x.checks},
		{"asked", object{{"address", x.asked.address}, {"from", x.asked.from}}},
		{"findings", findings},
	}
}
