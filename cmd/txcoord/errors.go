package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc/codes"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/internal/nearest"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/datafile"
	"github.com/txcoord/txcoord/tables/objstore"
)

// The exit codes. Scripts rely on them: never change one.
const (
	exitOK            = 0
	exitOther         = 1
	exitUsage         = 2
	exitNotFound      = 3
	exitAborted       = 4
	exitExists        = 5
	exitPrecondition  = 6
	exitUnavailable   = 7
	exitDataLoss      = 8
	exitReadAgain     = 9
	exitQuota         = 10
	exitDenied        = 11
	exitNotApplied    = 12
	exitWarningsFound = 13
	exitErrorsFound   = 14
	exitInterrupted   = 130
)

// usageError is a command line, or a file of the user's, that has to be mended.
type usageError struct {
	what, value, remedy string
}

// usage leaves out of the remedy what it begins with, if that is the value: errors that come
// up from below name it, too.
func usage(what, value, remedy string) error {
	value = withoutPassword(value)
	if value != "" {
		remedy = strings.TrimPrefix(remedy, value+": ")
	}
	return &usageError{what, value, remedy}
}

// withoutPassword is a value as it may be shown, if it is a URL with user and password.
func withoutPassword(value string) string { return tables.WithoutPassword(value) }

func (e *usageError) Error() string {
	if e.value == "" {
		return e.what + ": " + e.remedy
	}
	return fmt.Sprintf("%s: %q: %s", e.what, e.value, e.remedy)
}

// mistakes are all that is wrong with a configuration, if it is more than one thing.
type mistakes []error

// allOf is nil if all are, the one that is not, or all of them.
func allOf(all ...error) error {
	var out mistakes
	for _, err := range all {
		var more mistakes
		switch {
		case errors.As(err, &more):
			out = append(out, more...)
		case err != nil:
			out = append(out, err)
		}
	}
	switch len(out) {
	case 0:
		return nil
	case 1:
		return out[0]
	}
	return out
}

func (m mistakes) Error() string { return errors.Join(m...).Error() }

func (m mistakes) Unwrap() []error { return m }

// usageOf makes an error of the parser one of ours.
func usageOf(err error) error {
	var many mistakes
	if errors.As(err, &many) {
		out := make(mistakes, len(many))
		for i, e := range many {
			out[i] = usageOf(e)
		}
		return out
	}
	var ours *usageError
	if errors.As(err, &ours) {
		return ours
	}
	what, command := err.Error(), "txcoord"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		node := parse.Context.Model.Node
		if selected := parse.Context.Selected(); selected != nil {
			node = selected
		}
		command = node.FullPath()
		if word, ok := strings.CutPrefix(what, "unexpected argument "); ok && len(node.Children) > 0 {
			what = "unknown command " + word
		}
		if flag, ok := strings.CutPrefix(what, "unknown flag --"); ok {
			flag, _, _ = strings.Cut(flag, ",") // a guess
			return parserSays(what, command+" --help"+whoHas(parse.Context.Model, node, flag))
		}
	}
	return parserSays(what, command+" --help")
}

// whoHas says who has a flag that a command has not; or that it is a command.
func whoHas(model *kong.Application, node *kong.Node, name string) string {
	if node == model.Node && slices.ContainsFunc(node.Children, func(n *kong.Node) bool { return n.Name == name }) {
		return "; the command is txcoord " + name
	}
	var have []string
	_ = kong.Visit(model, func(v kong.Visitable, next kong.Next) error { // it never errs
		n, ok := v.(*kong.Node)
		if ok && n.Leaf() && slices.ContainsFunc(n.Flags, func(f *kong.Flag) bool { return f.Name == name }) {
			have = append(have, strings.TrimPrefix(n.Path(), "txcoord "))
		}
		return next(nil)
	})
	switch {
	case len(have) == 0:
		return ""
	case slices.Contains(have, "serve") && !slices.Contains(notOf[node.Name], "server"):
		return "; " + strings.Join(have, ", ") + " have it, and this command asks the server of --server"
	}
	return "; it belongs to " + strings.Join(have, ", ")
}

// parserSays is an error of the parser, with where to read on, and its guess, if it has one,
// behind that, as ours have it.
func parserSays(what, help string) error {
	what, meant, guessed := strings.Cut(what, ", did you mean ")
	if guessed {
		meant = "; did you mean " + meant
	}
	if m := notOneOf.FindStringSubmatch(what); m != nil {
		known := slices.DeleteFunc(strings.Split(strings.ReplaceAll(m[2], `"`, ""), ","), func(k string) bool { return k == "" })
		what, meant = fmt.Sprintf("%s must be one of %s, and is %q", m[1], strings.Join(known, ", "), m[3]), nearest.Meant(m[3], known)
	}
	return &usageError{what: what, remedy: "see " + help + meant}
}

// notOneOf is the parser's error about a value that is none of those that there are.
var notOneOf = regexp.MustCompile(`^(\S+) must be one of (\S+) but got "(.*)"$`)

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
	var lost *coordinator.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &use), errors.As(err, &path), isInput(err):
		return exitUsage
	case errors.As(err, &lost) && (lost.Reason == coordinator.JournalContradiction || lost.Reason == coordinator.LogContradiction):
		return exitDataLoss
	case errors.Is(err, boltstore.ErrInUse), errors.Is(err, lock.ErrUnfit), errors.Is(err, objstore.ErrUnconditional):
		return exitPrecondition
	case errors.Is(err, lock.ErrMisconfigured), errors.Is(err, objstore.ErrMisconfigured):
		return exitUsage
	case errors.Is(err, lock.ErrMissing), errors.Is(err, objstore.ErrMissing):
		return exitNotFound
	case errors.Is(err, lock.ErrDenied), errors.Is(err, objstore.ErrDenied):
		return exitDenied
	case errors.Is(err, lock.ErrUnreachable), errors.Is(err, objstore.ErrUnreachable):
		return exitUnavailable
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
