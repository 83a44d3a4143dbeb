// Command supply looks at what the program is built on: vulnerabilities that are known
// of it, and its licences. Nothing is asked of the network but the Go module proxy, which
// has the database of vulnerabilities as a module; its version is pinned in go.mod.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "supply:", err)
		os.Exit(1)
	}
}

const usage = "usage: supply vulnerabilities [-db URL] [-std] ROOT PACKAGE… | supply licences [-list FILE] [-texts FILE] [-check] ROOT PACKAGE…"

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	switch args[0] {
	case "vulnerabilities":
		var v vulnerabilities
		flags.StringVar(&v.db, "db", "", "the URL of another database, such as https://vuln.go.dev, which is newer than the pinned one")
		flags.BoolVar(&v.std, "std", false, "fail for the standard library as well, instead of a warning")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if flags.NArg() < 2 {
			return errors.New(usage)
		}
		v.root, v.packages, v.out = flags.Arg(0), flags.Args()[1:], out
		v.scan = v.govulncheck
		return v.check(ctx)
	case "licences":
		var l licences
		flags.StringVar(&l.list, "list", "", "the list, in Markdown")
		flags.StringVar(&l.texts, "texts", "", "the licences' texts, for those who pass the program on")
		flags.BoolVar(&l.check, "check", false, "compare with the files, and write nothing")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if flags.NArg() < 2 {
			return errors.New(usage)
		}
		l.root, l.packages = flags.Arg(0), flags.Args()[1:]
		return l.run(ctx)
	default:
		return fmt.Errorf("%q: %s", args[0], usage)
	}
}
