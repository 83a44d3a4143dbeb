package readers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Opened is what delta-rs found when it opened a table, and what that took it.
type Opened struct {
	Version int64 `json:"version"`
	// Files is the number of live files.
	Files int64 `json:"files"`
	// Opened is the time until the table was open, Listed until its files were
	// listed as well. The start of the process is in neither.
	Opened time.Duration `json:"opened"`
	Listed time.Duration `json:"listed"`
	// Idle and Peak are the process' resident memory before, and at most; 0 where the
	// system does not say.
	Idle int64 `json:"idle"`
	Peak int64 `json:"peak"`
}

// Opened opens the table in a folder, in a process of its own.
func (p *Python) Opened(ctx context.Context, path string) (Opened, error) {
	in, err := json.Marshal(map[string]string{"path": path})
	if err != nil {
		return Opened{}, err
	}
	cmd := p.command(ctx, "opened.py")
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &stderr
	out, err := cmd.Output()
	if err != nil {
		return Opened{}, fmt.Errorf("open %s with delta-rs: %w: %s", path, err, tail(stderr.Bytes()))
	}
	var o Opened
	if err := json.Unmarshal(out, &o); err != nil {
		return o, fmt.Errorf("delta-rs said %q: %w", out, err)
	}
	return o, nil
}
