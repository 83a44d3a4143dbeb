// Command kumo serves the DynamoDB API, and S3's, on a loopback port of its own
// choice: it prints the address and ends when its standard input does. Everything
// is in memory.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/sivchari/kumo"
)

func main() {
	srv := kumo.NewServer()
	defer srv.Close()
	fmt.Println(srv.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
