package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/lock/boltstore"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/datafile"
)

// The exit codes. Scripts rely on them: never change one.
const (
	exitOK           = 0
	exitOther        = 1
	exitUsage        = 2
	exitNotFound     = 3
	exitAborted      = 4
	exitExists       = 5
	exitPrecondition = 6
	exitUnavailable  = 7
	exitDataLoss     = 8
	exitReadAgain    = 9
	exitQuota        = 10
	exitDenied       = 11
	exitInterrupted  = 130
)

// usageError is a command line, or a file of the user's, that has to be mended.
type usageError struct {
	what, value, remedy string
}

func usage(what, value, remedy string) error { return &usageError{what, value, remedy} }

func (e *usageError) Error() string {
	if e.value == "" {
		return e.what + ": " + e.remedy
	}
	return fmt.Sprintf("%s: %q: %s", e.what, e.value, e.remedy)
}

// usageOf makes an error of the parser one of ours.
func usageOf(err error) error {
	var ours *usageError
	if errors.As(err, &ours) {
		return ours
	}
	return &usageError{what: err.Error(), remedy: "see txcoord --help"}
}

// codedError gives an error an exit code of its own.
type codedError struct {
	error
	code int
}

func (e *codedError) Unwrap() error { return e.error }

// exitCode is the one table of exit codes.
func exitCode(err error) int {
	var coded *codedError
	var e *client.Error
	var use *usageError
	var path *fs.PathError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &use), errors.As(err, &path), isInput(err):
		return exitUsage
	case errors.Is(err, boltstore.ErrInUse):
		return exitPrecondition
	case errors.As(err, &e):
		return exitOfStatus(e)
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, context.DeadlineExceeded):
		return exitUnavailable
	}
	return exitOther
}

func exitOfStatus(e *client.Error) int {
	switch {
	case e.Code == codes.Canceled:
		return exitInterrupted
	case errors.Is(e, client.ErrUnavailable):
		return exitUnavailable
	}
	switch e.Code {
	case codes.InvalidArgument:
		return exitUsage
	case codes.NotFound:
		return exitNotFound
	case codes.Aborted:
		return exitAborted
	case codes.AlreadyExists:
		return exitExists
	case codes.FailedPrecondition:
		return exitPrecondition
	case codes.OutOfRange:
		return exitReadAgain
	case codes.ResourceExhausted:
		return exitQuota
	case codes.DeadlineExceeded:
		return exitUnavailable
	case codes.DataLoss:
		return exitDataLoss
	case codes.PermissionDenied, codes.Unauthenticated:
		return exitDenied
	default:
		return exitOther
	}
}

// isInput: a file that does not fit its table, or a location that makes no sense.
func isInput(err error) bool {
	var fit *datafile.FitError
	var input *tables.InputError
	return errors.As(err, &fit) || errors.As(err, &input)
}

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
	if !errors.As(err, &e) {
		return
	}
	for _, d := range details(e) {
		for _, line := range strings.Split(detailText(d.message), "\n") {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	if errors.Is(e, client.ErrUnavailable) {
		fmt.Fprintln(w, "  The same command may be repeated; it finds out what became of it.")
	}
}

func reportJSON(w io.Writer, code int, err error) {
	out := object{{"exit", json.Number(fmt.Sprint(code))}, {"message", err.Error()}}
	var e *client.Error
	if errors.As(err, &e) {
		out = append(out, field{"code", e.Code.String()}, field{"reason", e.Reason})
		for _, d := range details(e) {
			out = append(out, field{d.name, messageJSON(d.message.ProtoReflect())})
		}
	}
	if b, err := json.Marshal(object{{"error", out}}); err == nil {
		fmt.Fprintf(w, "%s\n", b)
	}
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
