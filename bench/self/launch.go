package self

import (
	"context"
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
	// KeysAlong: the simulated key-value store takes keys along with an entry, as etcd does,
	// and is otherwise as quick as the one that does not, as DynamoDB.
	KeysAlong bool
	// Kept: it is killed and started again. Its simulated keys lie in a file, and it has the
	// limits of txcoord with --maintain.
	Kept bool
	// Stalls: its object store can be made to fail. Then it has the limits that txcoord
	// has, also what it does by the clock.
	Stalls bool
	// Etcd is the host:port of one that holds the store, below EtcdPrefix; empty: a file.
	Etcd string
	// Ungathered: it waits before no entry for those whom the one before has answered.
	Ungathered bool
	// Hedge is when it sends a put to simulated stores once more; 0 never does.
	Hedge time.Duration
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
			fmt.Sprintf("-keys-along=%t", o.KeysAlong), fmt.Sprintf("-kept=%t", o.Kept), fmt.Sprintf("-stalls=%t", o.Stalls), "-etcd", o.Etcd, fmt.Sprintf("-ungathered=%t", o.Ungathered), "-hedge", o.Hedge.String(),
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

// seen is what the process answers of itself.
type seen struct {
	Requests contend.Requests
	// Staged: there are payloads that are not removed yet.
	Staged bool
	// Bytes that are live in the store, if they were asked for.
	Bytes int64
}

// answerWithin is how long it may take to answer: it is busy, and so is the machine.
const answerWithin = 30 * time.Second

// Requests asks the process; nil if it does not answer.
func (c *counted) Requests() contend.Requests {
	s, err := c.ask(context.Background(), "")
	if err != nil {
		return nil
	}
	return s.Requests
}

// Tidy implements contend.Tidying.
func (c *counted) Tidy(ctx context.Context) (bool, error) {
	s, err := c.ask(ctx, "")
	return !s.Staged, err
}

// StoreBytes implements contend.Sized.
func (c *counted) StoreBytes(ctx context.Context) (int64, error) {
	s, err := c.ask(ctx, askBytes)
	return s.Bytes, err
}

// Out makes the object store fail, or no more.
func (c *counted) Out(ctx context.Context, out bool) error {
	_, err := c.ask(ctx, map[bool]string{true: askOut, false: askBack}[out])
	return err
}

// What a server is asked beside its counts.
const (
	askBytes = "/bytes"
	askOut   = "/out"
	askBack  = "/back"
)

func (c *counted) ask(ctx context.Context, what string) (s seen, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.counts+what, nil)
	if err != nil {
		return s, err
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return s, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return s, fmt.Errorf("counts: %s", answer.Status)
	}
	s.Requests = contend.Requests{}
	return s, json.NewDecoder(answer.Body).Decode(&s)
}
