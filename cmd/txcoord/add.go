package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/tables/datafile"
)

type txAdd struct {
	tableArg
	Files     []string `arg:"" name:"file" help:"Parquet files that lie in the table's folder; a relative path is taken from where this command runs, and else from that folder. Only their footers are read."`
	Token     string   `help:"Stage to this transaction. Without it the files are committed at once, as a transaction of their own." placeholder:"TOKEN" type:"given"`
	Key       string   `help:"Key of that transaction; a random one if left out." xor:"alone" type:"given"`
	Attempt   uint32   `help:"Attempt of the key, from 1. The next one may commit once all before are aborted."`
	Partition []string `help:"Partition value of all files, for what their paths do not say; it may not contradict them. COLUMN alone is null." placeholder:"COLUMN=VALUE" sep:"none"`
	readFlags
	decideFlags
}

func (c *txAdd) Run(ctx context.Context, s *session) error {
	if c.Token != "" && (c.Key != "" || len(c.Read) > 0 || c.WaitLimit != 0 || c.VerifyFiles) {
		return usage("--token", "", "with it nothing is committed yet; leave --key, --read, --wait-limit and --verify-files to tx commit")
	}
	if c.Attempt != 0 && c.Key == "" {
		return usage("--attempt", fmt.Sprint(c.Attempt), "it counts the attempts of a key: give it with --key, or leave it out")
	}
	return s.call(ctx, "adding to "+c.Table, func(ctx context.Context, api *client.Client) error {
		d, err := api.Tables.DescribeTable(ctx, &txcoordv1.DescribeTableRequest{Table: c.Table})
		if err != nil {
			return advise(err, map[string]string{"TABLE_NOT_FOUND": "A table that begins in this transaction takes Parquet files where it is made: txcoord tx create NAME LOCATION --add FILE --token TOKEN …"})
		}
		actions, err := c.actions(ctx, s, d)
		if err != nil {
			return err
		}
		read, err := c.declaration(actions)
		if err != nil {
			return err
		}
		if c.Token == "" {
			return c.commitAlone(ctx, s, api, read, actions)
		}
		part, err := stage(ctx, api, c.Token, c.Table, read, actions)
		if err != nil {
			return err
		}
		return s.showPart(c.Table, part)
	})
}

func (c *txAdd) commitAlone(
	ctx context.Context, s *session, api *client.Client, read *txcoordv1.ReadDeclaration, actions []byte,
) error {
	req := &txcoordv1.CommitOnceRequest{
		Key: or(c.Key, "txcoord tx add "+uuid.NewString()), Attempt: c.Attempt, VerifyFiles: c.VerifyFiles,
		Tables: []*txcoordv1.OnceTable{{Table: c.Table, Read: read, Actions: actions}},
	}
	var err error
	if req.Reads, err = c.reads(); err != nil {
		return err
	}
	req.Wait, req.WaitLimit = c.wait()
	a, err := commitWhole(ctx, api, req)
	if err != nil && c.Key != "" {
		return advise(err, nextAttempt(fmt.Sprintf("--attempt %d", max(c.Attempt, 1)+1)))
	}
	if err != nil {
		return err
	}
	return s.showCommitted(a, a.GetOutcome())
}

// actions makes an add for each file.
func (c *txAdd) actions(ctx context.Context, s *session, d *txcoordv1.DescribeTableResponse) ([]byte, error) {
	if d.GetState() == nil {
		return nil, fmt.Errorf("the log of %s cannot be read: %s", c.Table, strings.Join(d.GetWarnings(), "; "))
	}
	root, err := localRoot(d.GetTable().GetUri())
	if err != nil {
		return nil, err
	}
	st := d.GetState()
	return s.addActions(ctx, c.Table, root, st.GetSchemaJson(), st.GetPartitionColumns(), st.GetProperties(), c.Files, c.Partition)
}

// addActions makes an add for each file of a table, which need not be there yet.
func (s *session) addActions(
	ctx context.Context, name, root, schema string, partitionBy []string, properties map[string]string, files, partition []string,
) ([]byte, error) {
	table, err := datafile.NewTable(schema, partitionBy, properties)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", name, err)
	}
	values := map[string]*string{}
	for _, p := range partition {
		for column, value := range partitionOf(strings.ReplaceAll(p, ",", `\,`)) {
			values[column] = value
		}
	}
	var lines bytes.Buffer
	for i, file := range files {
		s.busy.now("reading footers, %d of %d", i, len(files))
		line, err := addAction(ctx, table, root, file, values)
		if fit, ok := errors.AsType[*datafile.FitError](err); ok {
			return nil, fmt.Errorf("table %s: %w", name, fit)
		}
		if err != nil {
			return nil, err
		}
		lines.Write(line)
		lines.WriteByte('\n')
	}
	return lines.Bytes(), nil
}

// localRoot is the folder of a table on this machine.
func localRoot(uri string) (string, error) {
	path, ok := strings.CutPrefix(uri, "file://")
	if filepath.IsAbs(uri) {
		return filepath.EvalSymlinks(uri)
	}
	if !ok {
		return "", usage("table", uri, "its files are not on this machine, so their footers cannot be read from here; stage the actions with tx stage")
	}
	path, err := url.PathUnescape(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

func addAction(
	ctx context.Context, table *datafile.Table, root, name string, values map[string]*string,
) ([]byte, error) {
	name, err := find(root, name)
	if err != nil {
		return nil, err
	}
	path, err := below(root, name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, usage("file", name, "it is a folder; name the Parquet files in it, such as "+filepath.Join(name, "*.parquet"))
	}
	footer, err := datafile.Describe(ctx, f, info.Size())
	if err != nil {
		return nil, usage(name, "", "its Parquet footer cannot be read: "+err.Error())
	}
	footer.Modified = info.ModTime()
	return table.Add(footer, path, values)
}

// find is a file by its path from here, or else from the table's folder.
func find(root, name string) (string, error) {
	_, err := os.Stat(name)
	if !errors.Is(err, fs.ErrNotExist) || filepath.IsAbs(name) {
		return name, err
	}
	inTable := filepath.Join(root, name)
	if _, err := os.Stat(inTable); err == nil {
		return inTable, nil
	}
	here, err := filepath.Abs(".")
	if err != nil {
		return "", err
	}
	return "", usage("file", name, "no such file, neither in "+here+", where this command runs, nor in the table's folder "+root)
}

// below is a file's path below the table's root, with slashes.
func below(root, name string) (string, error) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", err
	}
	if real, err = filepath.Abs(real); err != nil {
		return "", err
	}
	rel, err := filepath.Rel(root, real)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", usage("file", name, "it does not lie below the table's folder "+root+"; move it there first")
	}
	if rel = filepath.ToSlash(rel); rel == "_delta_log" || strings.HasPrefix(rel, "_delta_log/") {
		return "", usage("file", name, "it lies in the table's log, which is no place for data")
	}
	return rel, nil
}
