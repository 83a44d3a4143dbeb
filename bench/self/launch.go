package self

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/txcoord/txcoord/bench/contend"
)

// Options say how the server runs.
type Options struct {
	// Profile is the file for a profile of its processor; empty takes none.
	Profile string
	// Simulated makes its stores as slow as those behind a network.
	Simulated bool
}

// Launch prepares the running binary as a server.
func Launch(dir string, o Options) (contend.Running, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	counts, err := contend.FreeAddress()
	if err != nil {
		return nil, fmt.Errorf("find a port: %w", err)
	}
	p, err := contend.NewProcess(binary, dir, func(address string) []string {
		return []string{
			Command, "-listen", address, "-counts", counts, "-dir", dir, "-profile", o.Profile, fmt.Sprintf("-simulated=%t", o.Simulated),
		}
	})
	if err != nil {
		return nil, err
	}
	return &counted{Process: p, counts: counts}, nil
}

// counted is a server process whose requests can be seen.
type counted struct {
	*contend.Process
	counts string
}

// Requests asks the process; nil if it does not answer.
func (c *counted) Requests() contend.Requests {
	answer, err := (&http.Client{Timeout: time.Second}).Get("http://" + c.counts)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	r := contend.Requests{}
	if json.NewDecoder(answer.Body).Decode(&r) != nil {
		return nil
	}
	return r
}
