// Package e2e_test runs txcoord as processes and kills them. A server is this test
// binary started again, on the stores and through the wire that a real one uses;
// clients are the Go client; and what is left on disk afterwards is judged by
// package checker, which shares no code with the writer, and by engines that
// nobody here wrote.
package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var (
	stormKills   = flag.Int("storm.kills", 10, "how often the storm's server is killed; raise it for hours of storm")
	stormClients = flag.Int("storm.clients", 8, "how many clients the storm has")
	stormSeed    = flag.Uint64("storm.seed", 0, "the storm's seed; 0 takes another one each time, and prints it")
	full         = flag.Bool("full", false, "run what takes minutes, too: the second version of Spark, and more of everything with engines")
	keep         = flag.String("keep", "", "where folders of tests are made, and left; a temporary one if empty")
)

func TestMain(m *testing.M) {
	if c := os.Getenv(serverVariable); c != "" {
		os.Exit(serverMain(c))
	}
	if c := os.Getenv(sparkVariable); c != "" {
		os.Exit(sparkMain(c))
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		// These tests wait for disks and processes most of the time.
		_ = flag.Set("test.parallel", "8")
	}
	code := m.Run()
	if found := leaks.all(); len(found) > 0 {
		fmt.Fprintf(os.Stderr, "FAIL: what servers wrote holds a secret: %s\n", strings.Join(found, "; "))
		code = 1
	}
	os.Exit(code)
}
