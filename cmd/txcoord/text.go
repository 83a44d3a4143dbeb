package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// What is no UTF-8 would become U+FFFD on its way, and two keys, names or folders one.
// So it is refused where it comes in: arguments and variables before anything is parsed,
// files where they are read.

const notText = "it is not valid UTF-8; give it in UTF-8, or rename what it names"

// checkWords checks the arguments, and the variables that stand for flags.
func checkWords(args []string, env lookup, model *kong.Application) error {
	for i, a := range args {
		if !utf8.ValidString(a) {
			return usage(flagAt(args, i), "", notText)
		}
	}
	for _, name := range variables(model) {
		if v, _ := env(name); !utf8.ValidString(v) {
			return usage("$"+name, "", notText)
		}
	}
	return nil
}

// flagAt is the flag that an argument belongs to.
func flagAt(args []string, i int) string {
	name, _, _ := strings.Cut(args[i], "=")
	switch {
	case strings.HasPrefix(name, "-") && utf8.ValidString(name):
		return name
	case i > 0 && strings.HasPrefix(args[i-1], "-") && len(args[i-1]) > 1 && !strings.Contains(args[i-1], "="):
		return args[i-1]
	}
	return fmt.Sprintf("argument %d", i+1)
}

// variables are all that this program reads by itself.
func variables(model *kong.Application) []string {
	all := []string{"TXCOORD_TOKEN", "TXCOORD_ETCD_PASSWORD"}
	visit := func(n kong.Visitable, next kong.Next) error {
		if f, ok := n.(*kong.Flag); ok && f.Tag.Get("environ") != "" {
			all = append(all, f.Tag.Get("environ"))
		}
		return next(nil)
	}
	_ = kong.Visit(model, visit) // visit never errs
	slices.Sort(all)
	return slices.Compact(all)
}

// readText reads a file that has to be text; what is its flag.
func readText(what, name string) ([]byte, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return b, checkText(what, name, b)
}

func checkText(what, name string, b []byte) error {
	if utf8.Valid(b) {
		return nil
	}
	at := 0
	for at < len(b) {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return usage(what, name, fmt.Sprintf("line %d is not valid UTF-8", 1+bytes.Count(b[:at], []byte("\n"))))
}

// outputOf is how errors are printed before, or because, the arguments do not parse.
func outputOf(args []string) string {
	out := "table"
	for i, a := range args {
		switch {
		case a == "--":
			return out
		case (a == "-o" || a == "--output") && i+1 < len(args):
			out = args[i+1]
		case strings.HasPrefix(a, "--output="):
			out = strings.TrimPrefix(a, "--output=")
		case strings.HasPrefix(a, "-o") && !strings.HasPrefix(a, "--"):
			out = strings.TrimPrefix(strings.TrimPrefix(a, "-o"), "=")
		}
	}
	return out
}
