// Command deploycheck reads what is in deploy/ with the libraries of those who will read
// it: Kustomize, Compose, HCL. It refuses what is not well formed, or names what is not
// there, and prints the rest as JSON for the tests of deploy/, so that these need none of
// the libraries.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

func main() {
	out, err := run(os.Args[1:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "deploycheck:", err)
		os.Exit(1)
	}
}

func run(args []string) (any, error) {
	if len(args) < 2 {
		return nil, errors.New("usage: deploycheck kustomize|compose|terraform PATH [NAME=JSON…]")
	}
	switch args[0] {
	case "kustomize":
		return kustomize(args[1])
	case "compose":
		return composition(args[1])
	case "terraform":
		return terraform(args[1], args[2:])
	default:
		return nil, fmt.Errorf("%q: not one of kustomize, compose, terraform", args[0])
	}
}
