package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

type commitCommand struct {
	File string `arg:"" help:"JSON file with the transaction; - is standard input. docs/cli.md has its form."`
	decideFlags
}

func (c *commitCommand) Run(ctx context.Context, s *session) error {
	b, err := s.readInput(c.File)
	if err != nil {
		return err
	}
	req, err := parseCommit(inputName(c.File), b)
	if err != nil {
		return err
	}
	reads, err := c.reads()
	if err != nil {
		return err
	}
	req.Reads = append(req.Reads, reads...)
	req.Wait, req.WaitLimit = c.wait()
	req.VerifyFiles, req.Releases = c.VerifyFiles, append(req.GetReleases(), c.Release...)
	return s.call(ctx, "committing "+req.GetKey(), func(ctx context.Context, api *client.Client) error {
		a, err := commitWhole(ctx, api, req)
		if err != nil {
			return advise(err, nextAttempt(fmt.Sprintf("\"attempt\": %d in the file", max(req.GetAttempt(), 1)+1)))
		}
		return s.showCommitted(a, a.GetOutcome())
	})
}

// commitFile is a whole transaction. Actions are kept as they came: 64-bit integers,
// and fields that nobody here knows, reach the log byte for byte.
type commitFile struct {
	Key      string      `json:"key"`
	Attempt  uint32      `json:"attempt"`
	Tables   []fileTable `json:"tables"`
	Reads    []fileRead  `json:"reads"`
	Releases []string    `json:"releases"`
}

type fileTable struct {
	fileRead
	Create  *fileNew          `json:"create"`
	Alter   *fileAlter        `json:"alter"`
	Actions []json.RawMessage `json:"actions"`
}

// fileRead is a table with what was read of it.
type fileRead struct {
	Table string `json:"table"`
	reading
}

// member is what a member is called in a file: that.
func member(name string) string { return name }

// parseCommit reads a commit file and refuses members that it does not know: a
// misspelt one would change what is promised.
func parseCommit(name string, b []byte) (*txcoordv1.CommitOnceRequest, error) {
	var f commitFile
	if err := decodeStrict(name, b, &f); err != nil {
		return nil, err
	}
	if f.Key == "" {
		return nil, usage(name+": key", "", "give the transaction a key: it names the piece of work, and is committed once at most")
	}
	if len(f.Tables)+len(f.Releases) == 0 {
		return nil, usage(name+": tables", "", "list at least one table")
	}
	req := &txcoordv1.CommitOnceRequest{Key: f.Key, Attempt: f.Attempt, Releases: f.Releases}
	for i, t := range f.Tables {
		once, err := t.once()
		if err != nil {
			return nil, usage(fmt.Sprintf("%s: tables[%d]", name, i), t.Table, err.Error())
		}
		req.Tables = append(req.Tables, once)
	}
	for i, r := range f.Reads {
		read, err := r.declaration(nil, member)
		if err != nil {
			return nil, usage(fmt.Sprintf("%s: reads[%d]", name, i), r.Table, err.Error())
		}
		req.Reads = append(req.Reads, &txcoordv1.ReadParticipant{Table: r.Table, Read: read})
	}
	return req, nil
}

func (t *fileTable) once() (*txcoordv1.OnceTable, error) {
	actions, err := actionLines(t.Actions)
	if err != nil {
		return nil, err
	}
	out := &txcoordv1.OnceTable{Table: t.Table, Actions: actions}
	if err := t.defines(out); err != nil {
		return nil, err
	}
	if (t.Create != nil || t.Alter != nil) && t.empty() {
		return out, nil
	}
	if out.Read, err = t.declaration(actions, member); err != nil {
		return nil, err
	}
	if len(t.Actions) == 0 && t.Alter == nil {
		return nil, errNoAction
	}
	return out, nil
}

// actionLines puts each action on a line of its own. Only white space between
// tokens goes: nothing is decoded and written again.
func actionLines(all []json.RawMessage) ([]byte, error) {
	b := bytes.NewBuffer([]byte{}) // not nil: there is a list
	for i, a := range all {
		if len(a) == 0 || a[0] != '{' {
			return nil, fmt.Errorf("actions[%d] is not an object", i)
		}
		if err := json.Compact(b, a); err != nil {
			return nil, fmt.Errorf("actions[%d]: %w", i, err)
		}
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

// members are those of a commit file.
var members = []string{
	"key", "attempt", "tables", "reads", "table", "actions", "blind", "readVersion", "readSnapshot", "readTable",
	"readFiles", "readPartitions", "readApps", "isolation", "releases", "create", "alter", "location", "schema", "partitionBy",
	"properties", "description", "mode", "oneTxnPerVersion", "addColumns", "set", "unset", "widen", "comments", "name", "type", "comment",
}
