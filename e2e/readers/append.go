package readers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// Append says what the delta-rs process appends.
type Append struct {
	// Path is the table's folder, absolute.
	Path string
	// URI is where delta-rs finds it, with StorageOptions, if it is not to use the folder.
	URI            string
	StorageOptions map[string]string
	// Create makes the table first, with columns id, amount and note.
	Create bool
	// Batches is the number of commits, Rows that of the rows in each.
	Batches, Rows int
	// First is the first value of integer and float columns; it counts up over all batches.
	First int64
	// Constants are columns with one value in all rows.
	Constants map[string]any
	// Pause between batches.
	Pause time.Duration
}

// Appended is one batch.
type Appended struct {
	// Version holds the batch, if Error is empty.
	Version int64  `json:"version"`
	First   int64  `json:"first"`
	Rows    int64  `json:"rows"`
	Error   string `json:"error"`
}

// Appender is a running delta-rs process.
type Appender struct {
	cmd    *exec.Cmd
	lines  *bufio.Scanner
	stderr *bytes.Buffer
}

// StartAppend starts the process and returns when it has opened the table. The
// caller has to call Wait. Ending ctx kills the process.
func (p *Python) StartAppend(ctx context.Context, a Append) (*Appender, error) {
	in, err := json.Marshal(map[string]any{
		"path": a.Path, "create": a.Create, "batches": a.Batches, "rows": a.Rows, "first": a.First,
		"constants": a.Constants, "pause_seconds": a.Pause.Seconds(), "uri": a.URI, "storage_options": a.StorageOptions,
	})
	if err != nil {
		return nil, err
	}
	r := &Appender{cmd: p.command(ctx, "append.py"), stderr: &bytes.Buffer{}}
	r.cmd.Stdin, r.cmd.Stderr = bytes.NewReader(in), r.stderr
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start delta-rs: %w", err)
	}
	r.lines = bufio.NewScanner(out)
	if !r.lines.Scan() {
		_, err := r.Wait()
		return nil, errors.Join(errors.New("delta-rs did not open the table"), err)
	}
	return r, nil
}

// Next waits for the next batch. io.EOF: there are no more.
func (r *Appender) Next() (Appended, error) {
	if !r.lines.Scan() {
		return Appended{}, io.EOF
	}
	var a Appended
	if err := json.Unmarshal(r.lines.Bytes(), &a); err != nil {
		return a, fmt.Errorf("delta-rs said %q: %w", r.lines.Text(), err)
	}
	return a, nil
}

// Wait reads what is left and waits for the process to end.
func (r *Appender) Wait() ([]Appended, error) {
	var all []Appended
	var wrong error
	for {
		a, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		wrong = errors.Join(wrong, err)
		all = append(all, a)
	}
	if err := r.cmd.Wait(); err != nil {
		return all, errors.Join(wrong, fmt.Errorf("delta-rs: %w: %s", err, tail(r.stderr.Bytes())))
	}
	return all, wrong
}

// Append runs the process to its end.
func (p *Python) Append(ctx context.Context, a Append) ([]Appended, error) {
	r, err := p.StartAppend(ctx, a)
	if err != nil {
		return nil, err
	}
	return r.Wait()
}
