package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	client "github.com/txcoord/txcoord/clients/go"
)

// report prints an error and returns its exit code.
func report(w io.Writer, output string, err error) int {
	code := exitCode(err)
	switch {
	case err == nil, code == exitInterrupted:
	case output == "json":
		reportJSON(w, code, err)
	default:
		reportText(w, err)
	}
	return code
}

func reportText(w io.Writer, err error) {
	fmt.Fprintf(w, "txcoord: %v\n", err)
	var e *client.Error
	if errors.As(err, &e) {
		for _, line := range detailLines(e) {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	if hint := hintOf(err); hint != "" {
		fmt.Fprintf(w, "  %s\n", hint)
	}
	if e != nil && errors.Is(e, client.ErrUnavailable) && !errors.Is(e, client.ErrUnreached) && !e.Table.GetOutOfReach() {
		fmt.Fprintln(w, "  The same command may be repeated; it finds out what became of it.")
	}
}

// detailLines are the details, each once, and without what the message says.
func detailLines(e *client.Error) []string {
	var out []string
	for _, d := range details(e) {
		for line := range strings.SplitSeq(detailText(d.message), "\n") {
			name, value, _ := strings.Cut(line, ": ")
			if name == "file" && digest.MatchString(value) {
				line = "digest: " + value
			}
			if d.name == "limit" && (name == "value" || name == "limit") && isDuration(e.Limit.GetName()) {
				continue // in milliseconds; the message says them as one writes them
			}
			if line != "" && !slices.Contains(out, line) && !isSaid(e, name, value) {
				out = append(out, line)
			}
		}
	}
	return out
}

var digest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// isSaid reports whether the message holds a detail that is there to be read.
func isSaid(e *client.Error, name, value string) bool {
	switch name {
	case "detail", "reason", "transaction id":
		return strings.Contains(e.Message, value)
	case "field", "value", "remedy":
		return strings.Contains(e.Message, e.Field.GetField()) && e.Field.GetRemedy() != "" && strings.Contains(e.Message, e.Field.GetRemedy())
	}
	return false
}

func reportJSON(w io.Writer, code int, err error) {
	out := object{{"exit", json.Number(fmt.Sprint(code))}, {"message", err.Error()}}
	var e *client.Error
	if errors.As(err, &e) {
		out = append(out, field{"code", e.Code.String()}, field{"reason", e.Reason})
		for _, d := range details(e) {
			out = append(out, field{d.name, detailJSON(d.message)})
		}
	}
	if hint := hintOf(err); hint != "" {
		out = append(out, field{"hint", hint})
	}
	if b, err := json.Marshal(object{{"error", out}}); err == nil {
		fmt.Fprintf(w, "%s\n", b)
	}
}

// detailJSON leaves out a version and a winner that are none.
func detailJSON(m proto.Message) any {
	all, ok := messageJSON(m.ProtoReflect()).(object)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(all, func(f field) bool {
		return f.name == "version" && f.value == int64(-1) || f.name == "winner" && f.value == ""
	})
}

// detail is one of the typed details of an error.
type detail struct {
	name    string
	message proto.Message
}

func details(e *client.Error) []detail {
	var all []detail
	add := func(name string, present bool, m proto.Message) {
		if present {
			all = append(all, detail{name, m})
		}
	}
	add("conflict", e.Conflict != nil, e.Conflict)
	add("limit", e.Limit != nil, e.Limit)
	add("field", e.Field != nil, e.Field)
	add("frozen", e.Frozen != nil, e.Frozen)
	add("feature", e.Feature != nil, e.Feature)
	add("transaction", e.Transaction != nil, e.Transaction)
	add("table", e.Table != nil, e.Table)
	add("owner", e.Owner != nil, e.Owner)
	return all
}
