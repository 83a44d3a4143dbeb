// Package fairness holds the benchmark of what one principal that is at its limit costs
// another one that asks for little.
package fairness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/bench/measure"
	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator/access"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// P99Ratio is the goal: the light principal's p99 beside the heavy one that is at its
// limit, over its p99 alone.
const P99Ratio = 2.0

// Config says how large a run is.
type Config struct {
	// Dir is where the server's folder goes.
	Dir string
	// Launch prepares a server for a folder, with more flags of serve.
	Launch func(dir string, flags ...string) (contend.Running, error)
	// Rounds is how often the light principal commits alone and beside the heavy one, in
	// turns, and Duration how long all of them take together in each of the two.
	Rounds   int
	Duration time.Duration
	// Quota is the heavy principal's limit of commits a second, and Writers how many it
	// has asking.
	Quota, Writers int
	// Progress gets a line now and then; nil is silent.
	Progress io.Writer
}

// pause is that of the light principal between two transactions.
const pause = 5 * time.Millisecond

// Run measures a light principal, which commits one transaction after the other into a
// table of its own, alone and beside a heavy one, whose writers commit into another table
// as fast as its quota lets them.
func Run(ctx context.Context, c Config) (r *measure.Result, err error) {
	b := &bench{Config: c}
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	var alone, beside measure.Rounds
	each := c.Duration / time.Duration(c.Rounds)
	for round := range c.Rounds {
		b.progress("fair: round %d of %d", round+1, c.Rounds)
		s, err := b.light(ctx, each)
		if err != nil {
			return nil, err
		}
		alone = append(alone, s)
		if s, err = b.both(ctx, each); err != nil {
			return nil, err
		}
		beside = append(beside, s)
	}
	if b.refused == 0 {
		return nil, fmt.Errorf("fair: the heavy principal never met its quota of %d commits a second, with %d in %s: more writers, or a smaller -quota",
			c.Quota, b.committed, c.Duration)
	}
	return b.result(alone, beside), nil
}

func (b *bench) result(alone, beside measure.Rounds) *measure.Result {
	r := &measure.Result{
		Name: "fair", Title: fmt.Sprintf("a light principal alone, and beside %d writers of one with %d commits a second", b.Writers, b.Quota),
		Columns: []string{"light principal", "transactions", "p50 ms", "p99 ms", "heavy one's commits/s", "refused"},
	}
	one, two := alone.All(), beside.All()
	r.Add("alone", len(one), one.Median(), one.Quantile(0.99), 0.0, 0)
	r.Add("beside it", len(two), two.Median(), two.Quantile(0.99), float64(b.committed)/b.Duration.Seconds(), b.refused)
	r.AtMost("light, p99 beside / alone", float64(two.Quantile(0.99))/float64(one.Quantile(0.99)), P99Ratio)
	return r
}

// bench is one run.
type bench struct {
	Config
	server    contend.Running
	principal map[string]*client.Client
	lights    int // transactions of the light principal
	// number counts the heavy one's calls; committed and refused how they ended.
	mu                         sync.Mutex
	number, committed, refused int
}

func (b *bench) progress(format string, args ...any) {
	if b.Progress != nil {
		fmt.Fprintf(b.Progress, format+"\n", args...)
	}
}

// names of the principals, and of their tables.
var names = []string{"light", "heavy"}

func (b *bench) start(ctx context.Context) (err error) {
	dir := filepath.Join(b.Dir, "fair")
	if err := os.MkdirAll(filepath.Join(dir, "warehouse"), 0o755); err != nil {
		return err
	}
	rights := "roles:\n  all:\n  - {catalogs: [\"*\"], tables: [\"*\"], actions: [read, write, ddl]}\nbindings:\n- {role: all, principals: [\"token:light\", \"token:heavy\"]}\n" +
		fmt.Sprintf("quotas:\n- {principals: [\"token:heavy\"], limits: {principal_commits: %d}}\ntokens:\n", b.Quota)
	secrets := map[string]string{}
	for _, name := range names {
		secret, t := access.NewToken(name, nil)
		secrets[name] = secret
		rights += fmt.Sprintf("- {principal: %s, sha256: %s}\n", t.Principal, t.SHA256)
	}
	file := filepath.Join(dir, "access.yaml")
	if err := os.WriteFile(file, []byte(rights), 0o600); err != nil {
		return err
	}
	if b.server, err = b.Launch(filepath.Join(dir, "warehouse"), "--access", file); err != nil {
		return err
	}
	if err := b.server.Start(); err != nil {
		return err
	}
	b.principal = map[string]*client.Client{}
	for _, name := range names {
		if err := b.join(ctx, name, secrets[name], filepath.Join(dir, "warehouse", name)); err != nil {
			return errors.Join(fmt.Errorf("fair, principal %s: %w", name, err), b.stop())
		}
	}
	return nil
}

// join has a principal create its table.
func (b *bench) join(ctx context.Context, name, secret, at string) (err error) {
	options := client.Options{Token: func() (string, error) { return secret, nil }}
	if name == "heavy" {
		options.RetryFor = -1 // it is to hear that it is refused
	}
	if b.principal[name], err = client.Dial(b.server.Target(), options); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := b.principal[name].Tables.CreateTable(ctx, &txcoordv1.CreateTableRequest{
			Name: name, Uri: "file://" + at, Mode: txcoordv1.TableMode_TABLE_MODE_EXCLUSIVE,
			SchemaJson: `{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}`,
		})
		if !errors.Is(err, client.ErrUnavailable) || ctx.Err() != nil { // not answering yet
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (b *bench) stop() (err error) {
	for _, p := range b.principal {
		err = errors.Join(err, p.Close())
	}
	return errors.Join(err, b.server.Stop())
}

// light has the light principal commit for a while.
func (b *bench) light(ctx context.Context, d time.Duration) (out measure.Samples, err error) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(pause) {
		b.lights++
		began := time.Now()
		if err := b.commit(ctx, "light", fmt.Sprint("light-", b.lights)); err != nil {
			return nil, err
		}
		out = append(out, time.Since(began))
	}
	return out, nil
}

// both does so beside the heavy one.
func (b *bench) both(ctx context.Context, d time.Duration) (measure.Samples, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	for i := range b.Writers {
		all.Go(func() {
			if err := b.heavy(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	out, err := b.light(ctx, d)
	if why := context.Cause(ctx); why != nil {
		err = why
	}
	cancel(nil)
	all.Wait()
	return out, err
}

// heavy is one writer of the heavy principal, until ctx ends.
func (b *bench) heavy(ctx context.Context, writer int) error {
	for ctx.Err() == nil {
		b.mu.Lock()
		b.number++
		key := fmt.Sprintf("heavy-%d-%d", writer, b.number)
		b.mu.Unlock()
		err := b.commit(ctx, "heavy", key)
		var told *client.Error
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, client.ErrExhausted) && errors.As(err, &told):
			b.count(&b.refused)
			time.Sleep(min(told.RetryAfter, time.Second))
		case err != nil:
			return fmt.Errorf("the heavy principal: %w", err)
		default:
			b.count(&b.committed)
		}
	}
	return nil
}

func (b *bench) count(n *int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*n++
}

// commit appends one file to a principal's table.
func (b *bench) commit(ctx context.Context, name, key string) error {
	add := fmt.Sprintf(`{"add":{"path":"%s.parquet","partitionValues":{},"size":1000,"modificationTime":1,"dataChange":true,"stats":"{\"numRecords\":1}"}}`+"\n", key)
	_, err := b.principal[name].CommitOnce(ctx, &txcoordv1.CommitOnceRequest{
		Key: key, Tables: []*txcoordv1.OnceTable{{Table: name, Read: client.Blind(), Actions: []byte(add)}},
	})
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}
