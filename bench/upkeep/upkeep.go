// Package upkeep holds the benchmarks of what a table's log costs those who open it
// and keep it in order: replay beside delta-rs, and checkpoints of large tables. Each
// measured step runs in a process of its own, so that its memory is its own.
package upkeep

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Config says how large a run is.
type Config struct {
	// Dir is where the tables lie.
	Dir string
	// Files is the number of live files of B9's table.
	Files int
	// Versions is the number of versions that are replayed.
	Versions int
	// Rounds is how often everything is measured, in turns.
	Rounds int
	// Progress gets a line now and then; nil is silent.
	Progress io.Writer
}

func (c Config) progress(format string, args ...any) {
	if c.Progress != nil {
		fmt.Fprintf(c.Progress, format+"\n", args...)
	}
}

// Command is the argument with which the benchmark starts itself for one step.
const Command = "upkeep-step"

// op is what a step does.
type op string

const (
	opCheckpoint op = "checkpoint" // of the newest version
	opState      op = "state"      // replay, as before a commit: live set by hash, profile, txns, domains
	opFiles      op = "files"      // replay, keeping every live file's path and action
)

// step is one measured piece of work, on the table in a folder.
type step struct {
	Op  op     `json:"op"`
	Dir string `json:"dir"`
}

// outcome is what a step did, and what it took.
type outcome struct {
	Nanoseconds int64 `json:"nanoseconds"`
	// CPU is the processor time of the whole process. Set by who started it.
	CPU time.Duration `json:"-"`
	// Idle and Peak are the process' resident memory before, and at most; 0 where the
	// system does not say.
	Idle int64 `json:"idle"`
	Peak int64 `json:"peak"`
	// Requests to the object store.
	Requests map[string]int64 `json:"requests"`
	// Version and Files are the table's, as the step saw it.
	Version int64 `json:"version"`
	Files   int64 `json:"files"`
	// Bytes is the size of the checkpoint, Sidecars the number of its sidecars and
	// Reused how many of them older checkpoints have, too.
	Bytes    int64 `json:"bytes"`
	Sidecars int   `json:"sidecars"`
	Reused   int   `json:"reused"`
}

func (o outcome) took() time.Duration { return time.Duration(o.Nanoseconds) }

// above is the memory above idle, in MB.
func (o outcome) above() float64 { return float64(o.Peak-o.Idle) / 1e6 }

// run runs a step in a process of its own.
func (s step) run(ctx context.Context) (outcome, error) {
	arg, err := json.Marshal(s)
	if err != nil {
		return outcome{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return outcome{}, err
	}
	cmd := exec.CommandContext(ctx, self, Command, string(arg))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return outcome{}, fmt.Errorf("%s of %s: %w: %s", s.Op, s.Dir, err, strings.TrimSpace(stderr.String()))
	}
	var o outcome
	if err := json.Unmarshal(out, &o); err != nil {
		return o, fmt.Errorf("%s of %s: %w", s.Op, s.Dir, err)
	}
	o.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return o, nil
}
