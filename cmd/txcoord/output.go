package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// show prints an answer as --output says. ids are what a script hands to later
// commands; where there are none, -o id prints what people get.
func (s *session) show(m proto.Message, ids []string, people func(g *grid)) error {
	s.quiet()
	switch {
	case s.Output == "json":
		return s.showJSON(m, "  ")
	case s.Output == "id" && ids != nil:
		return s.ids(ids...)
	}
	g := newGrid(s.out)
	people(g)
	return g.flush()
}

// ids prints those that there are: an empty line names nothing.
func (s *session) ids(all ...string) error {
	return s.lines(slices.DeleteFunc(all, func(id string) bool { return id == "" }))
}

func (s *session) lines(all []string) error {
	for _, l := range all {
		if _, err := fmt.Fprintln(s.out, l); err != nil {
			return err
		}
	}
	return nil
}

// showJSON prints a message; without an indent on one line.
func (s *session) showJSON(m proto.Message, indent string) error {
	b, err := marshal(messageJSON(m.ProtoReflect()))
	if err != nil {
		return err
	}
	if indent != "" {
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, b, "", indent); err != nil {
			return err
		}
		b = pretty.Bytes()
	}
	_, err = fmt.Fprintf(s.out, "%s\n", b)
	return err
}

// grid prints columns.
type grid struct {
	tabs *tabwriter.Writer
	err  error
}

func newGrid(w io.Writer) *grid { return &grid{tabs: tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)} }

// row prints cells side by side. What could move the cursor is taken out.
func (g *grid) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = printable(c)
	}
	_, err := fmt.Fprintln(g.tabs, strings.Join(texts, "\t"))
	if g.err == nil {
		g.err = err
	}
}

// pair prints a name and a value, unless the value says nothing.
func (g *grid) pair(name string, value any) {
	if text := printable(value); text != "" {
		g.row(name, text)
	}
}

// gap ends a block: the columns of the next one have widths of their own.
func (g *grid) gap() {
	if err := g.flush(); err == nil {
		g.row()
	}
	if err := g.tabs.Flush(); err != nil && g.err == nil {
		g.err = err
	}
}

func (g *grid) flush() error {
	if err := g.tabs.Flush(); err != nil && g.err == nil {
		g.err = err
	}
	return g.err
}

func printable(c any) string {
	if t, ok := c.(*timestamppb.Timestamp); ok {
		return clock(t)
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, fmt.Sprint(c))
}

// clock is a time for people, empty if it is unset.
func clock(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Format(time.RFC3339)
}

// exact is a time by which something can be asked for, without the loss of what stands behind
// the second; empty if it is unset.
func exact(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Format(time.RFC3339Nano)
}

// since is a time up to which something may have been forgotten.
func since(t *timestamppb.Timestamp) string {
	if t != nil && t.AsTime().Unix() <= 0 {
		return "the beginning"
	}
	return clock(t)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// versionText is a Delta version, or a dash where there is none.
func versionText(v int64) string {
	if v < 0 {
		return "-"
	}
	return fmt.Sprint(v)
}
