package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/e2e/servers"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/tables/logstore"
	"github.com/txcoord/txcoord/tables/logstore/dynamo"
	"github.com/txcoord/txcoord/tables/logstore/sparktest"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
)

// openLogStore is the log store of a server, with its writes passing the gate.
func openLogStore(ctx context.Context, c *dynamo.Config, g *gate) (coordinator.LogStore, error) {
	if c == nil {
		return nil, nil
	}
	entries, err := dynamo.Open(ctx, *c)
	if err != nil {
		return nil, err
	}
	return logstore.New(logstore.Config{Entries: gatedEntries{entries, g}, Name: entries.Name()})
}

type gatedEntries struct {
	*dynamo.Entries
	g *gate
}

func (e gatedEntries) name(verb string, of logstore.Entry) string {
	return verb + " " + e.g.names.ofKey(of.TablePath+"/_delta_log/"+of.FileName)
}

func (e gatedEntries) Claim(ctx context.Context, of logstore.Entry) (held logstore.Entry, err error) {
	err = e.g.pass(e.name("claim", of), func() error {
		held, err = e.Entries.Claim(ctx, of)
		return err
	})
	return held, err
}

func (e gatedEntries) Complete(ctx context.Context, of logstore.Entry, expires int64) error {
	return e.g.pass(e.name("complete", of), func() error { return e.Entries.Complete(ctx, of, expires) })
}

// sparkVariable holds a sparkConfig in JSON and makes the test binary a driver of the
// model of Spark.
const sparkVariable = "TXCOORD_E2E_SPARK"

// sparkConfig is what a driver process is told.
type sparkConfig struct {
	Warehouse, Table, Name string
	Log                    dynamo.Config
	Conditional            bool
	// Commits are the add lines of its commits, one by one.
	Commits []string
}

func (c sparkConfig) driver() (*sparktest.Driver, *sparktest.Dynamo, error) {
	files, err := fileobj.New(c.Warehouse, fileobj.Config{})
	if err != nil {
		return nil, nil, err
	}
	d := sparktest.Connect(c.Log.Endpoint, c.Log.Region, c.Log.AccessKey, c.Log.SecretKey, c.Log.Table)
	return &sparktest.Driver{
		Objects: files, Entries: d, Root: c.Table, TablePath: "file:" + filepath.Join(c.Warehouse, c.Table), Conditional: c.Conditional,
	}, d, nil
}

// sparkMain makes the commits by Spark's loop, and prints the version of each.
func sparkMain(config string) int {
	var c sparkConfig
	err := json.Unmarshal([]byte(config), &c)
	if err == nil {
		err = c.run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "spark:", err)
		return 1
	}
	return 0
}

func (c sparkConfig) run(ctx context.Context) error {
	s, _, err := c.driver()
	if err != nil {
		return err
	}
	info := `{"commitInfo":{"timestamp":1700000000000,"operation":"WRITE","operationParameters":{},"engineInfo":"Apache-Spark/4.0.1 Delta-Lake/4.0.0"}}` + "\n"
	for n, add := range c.Commits {
		for {
			versions, err := s.List(ctx)
			if err != nil {
				return err
			}
			v := versions[len(versions)-1] + 1
			err = s.Write(ctx, v, fmt.Sprintf("%s-%d", c.Name, n), []byte(info+add))
			if err == nil {
				fmt.Println(v)
				break
			}
			if !errors.Is(err, sparktest.ErrExists) {
				return err
			}
		}
	}
	return nil
}

// sparkRun is a driver process, and the versions that it says it made.
type sparkRun struct {
	config   sparkConfig
	cmd      *exec.Cmd
	stderr   bytes.Buffer
	versions []string
	done     chan struct{}
}

// spark starts a driver that commits files of one row each to a table.
func (w *world) spark(table, name string, commits int, conditional bool) *sparkRun {
	w.t.Helper()
	r := &sparkRun{done: make(chan struct{}), config: sparkConfig{
		Warehouse: w.warehouse(), Table: table, Name: name, Log: *w.config.LogStore, Conditional: conditional,
	}}
	for range commits {
		r.config.Commits = append(r.config.Commits, string(write(w.t, w.table(table), 1, 0).add))
	}
	raw, err := json.Marshal(r.config)
	if err != nil {
		w.t.Fatal(err)
	}
	r.cmd = exec.Command(os.Args[0])
	r.cmd.Env = append(os.Environ(), sparkVariable+"="+string(raw))
	r.cmd.Stderr = &r.stderr
	out, err := r.cmd.StdoutPipe()
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = r.cmd.Process.Kill(); <-r.done })
	go func() {
		defer close(r.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			r.versions = append(r.versions, lines.Text())
		}
		_ = r.cmd.Wait()
	}()
	return r
}

// finish waits for the driver, and wants each of its commits in the version that it
// named, and nowhere else.
func (w *world) finish(r *sparkRun) {
	w.t.Helper()
	select {
	case <-r.done:
	case <-time.After(2 * time.Minute):
		w.t.Fatalf("driver %s does not end\n%s\n%s", r.config.Name, &r.stderr, w.log())
	}
	if !r.cmd.ProcessState.Success() || len(r.versions) != len(r.config.Commits) {
		w.t.Fatalf("driver %s made %d commits of %d\n%s", r.config.Name, len(r.versions), len(r.config.Commits), &r.stderr)
	}
	for i, add := range r.config.Commits {
		var in []string
		for v := 0; ; v++ {
			b, err := os.ReadFile(filepath.Join(w.table(r.config.Table), "_delta_log", fmt.Sprintf("%020d.json", v)))
			if err != nil {
				break
			}
			if bytes.Contains(b, []byte(strings.TrimSpace(add))) {
				in = append(in, fmt.Sprint(v))
			}
		}
		if !slices.Equal(in, r.versions[i:i+1]) {
			w.t.Errorf("commit %d of driver %s was acknowledged at %s, and is in %v", i, r.config.Name, r.versions[i], in)
		}
	}
}

// isWholeToSpark wants Spark to list every version, every entry to be complete, and
// every temporary file to be what its commit is.
func (w *world) isWholeToSpark(table string) {
	w.t.Helper()
	s, entries, err := sparkConfig{Warehouse: w.warehouse(), Table: table, Log: *w.config.LogStore}.driver()
	if err != nil {
		w.t.Fatal(err)
	}
	versions, err := s.List(w.ctx())
	if err != nil {
		w.t.Fatal(err)
	}
	all, err := entries.All(w.ctx(), s.TablePath)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, v := range versions {
		if v != int64(i) {
			w.t.Fatalf("Spark lists %v", versions)
		}
	}
	if newest := versionIn(w.snapshot(), table); len(all) != len(versions) || newest != int64(len(versions))-1 {
		w.t.Errorf("%d entries, %d versions, the newest snapshot has version %d", len(all), len(versions), newest)
	}
	for _, e := range all {
		log := filepath.Join(w.table(table), "_delta_log")
		temp, err := os.ReadFile(filepath.Join(log, e.TempPath))
		commit, err2 := os.ReadFile(filepath.Join(log, e.FileName))
		if err := errors.Join(err, err2); err != nil || !e.Complete || e.ExpireTime == 0 || !bytes.Equal(temp, commit) {
			w.t.Errorf("%+v, %v, the same as its file: %v", e, err, bytes.Equal(temp, commit))
		}
	}
}

// sharedConfig is a server's with a fresh table of entries, as Spark makes it.
func sharedConfig(t testing.TB, s *servers.Dynamo, table string) serverConfig {
	t.Helper()
	c := serverConfig{LogStore: &dynamo.Config{Table: table, Region: s.Region, Endpoint: s.Endpoint, AccessKey: s.AccessKey, SecretKey: s.SecretKey}}
	if err := sparktest.Connect(s.Endpoint, s.Region, s.AccessKey, s.SecretKey, table).Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSharedVersionKilled kills the server before and after each of the four writes of
// a version of a shared table, with drivers of Spark at work beside it.
func TestSharedVersionKilled(t *testing.T) {
	t.Parallel()
	s := servers.StartKumo(t)
	t.Run("each", func(t *testing.T) { // ends when all of them have, and the server after it
		for i, write := range []string{"overwrite temporary file of shared", "claim version # of shared", "version # of shared", "complete version # of shared"} {
			for j, when := range []moment{before, after} {
				t.Run(strings.NewReplacer(" ", "-", "#", "n").Replace(string(when)+" "+write), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, sharedConfig(t, s, fmt.Sprintf("log-%d-%d", i, j)))
					w.start(&kill{write, 1, when})
					w.create("shared", txcoordv1.TableMode_TABLE_MODE_DELTA_STORAGE)
					w.create("ours", txcoordv1.TableMode_TABLE_MODE_EXCLUSIVE)
					w.look()
					w.commitOnce("first", w.rows("shared", "ours"))
					one, two := w.spark("shared", "one", 5, true), w.spark("shared", "two", 5, false)
					w.arm()
					changes := w.rows("shared", "ours")
					done := make(chan struct{})
					go func() {
						defer close(done)
						w.commitOnce("killed", changes)
					}()
					if !w.ended(startLimit) || !w.wasKilled() {
						t.Fatalf("the server was not killed %s %s; its writes: %q\n%s", when, write, w.landed(), w.log())
					}
					w.start(nil)
					<-done
					w.commitOnce("killed", changes)
					w.finish(one)
					w.finish(two)
					w.commitOnce("afterwards", w.rows("shared", "ours"))
					w.rest()
					w.isWholeToSpark("shared")
				})
			}
		}
	})
}

// TestBesideSparksLogStore commits to two shared tables at once while drivers of Spark
// commit to each, and the server is killed at random moments.
func TestBesideSparksLogStore(t *testing.T) {
	t.Parallel()
	config := sharedConfig(t, servers.StartKumo(t), "delta_log")
	config.Limits.PollInterval = 100 * time.Millisecond
	w := newWorld(t, config)
	w.start(nil)
	tables := []string{"left", "right"}
	var drivers []*sparkRun
	for _, table := range tables {
		w.create(table, txcoordv1.TableMode_TABLE_MODE_DELTA_STORAGE)
	}
	w.look()
	for i, table := range tables {
		drivers = append(drivers, w.spark(table, "old", 25, false), w.spark(table, fmt.Sprint("new", i), 25, true))
	}
	for n := 0; ; n++ {
		w.commitOnce(fmt.Sprint("beside ", n), w.rows(tables...))
		if n%6 == 5 && n < 20 {
			w.kill()
			w.start(nil)
		}
		if n >= 15 && !slices.ContainsFunc(drivers, func(r *sparkRun) bool {
			select {
			case <-r.done:
				return false
			default:
				return true
			}
		}) {
			break
		}
	}
	for _, r := range drivers {
		w.finish(r)
	}
	w.commitOnce("the last", w.rows(tables...))
	w.rest()
	for _, table := range tables {
		w.isWholeToSpark(table)
	}
	committed, _, _ := w.numbers()
	t.Logf("%d transactions of ours, %v", committed, w.snapshot().GetTables())
}
