// Command releasecheck reads the configuration of a release as goreleaser does. It refuses
// fields that goreleaser does not know, values of another type, and another version of the
// format.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "releasecheck:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: releasecheck FILE")
	}
	read, err := config.Load(args[0])
	if err != nil {
		return fmt.Errorf("read %s: %w", args[0], err)
	}
	if read.Version != 2 {
		return fmt.Errorf("read %s: format version %d, goreleaser takes 2", args[0], read.Version)
	}
	return nil
}
