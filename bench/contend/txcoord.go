package contend

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/e2e/checker"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/twophase"
)

// Txcoord commits through a txcoord server and its Go client: one CommitOnce call
// per transaction, answered when the snapshot can be read.
type Txcoord struct {
	// Label is the contender's name.
	Label   string
	Objects OpenObjects
	// Launch prepares a server for a folder.
	Launch func(dir string) (Running, error)
	// Token is asked for what each call shows; nil shows nothing.
	Token func() (string, error)
	// Mode is the mode in which the tables are registered.
	Mode txcoordv1.TableMode
	// Wait says when commits are answered; when they are published if unset. With
	// WAIT_DECIDED the mode has to be fenced.
	Wait txcoordv1.Wait
	// Counting, if set, is Launch for a server whose requests can be seen.
	Counting func(dir string) (Running, error)
	// Stall, if set, is Launch for a server whose object store can be made to fail.
	Stall func(dir string) (Running, error)
}

// Stalling is the contender with such a server, if it answers DECIDED.
func (c Txcoord) Stalling() (Contender, bool) {
	if c.Stall != nil {
		c.Launch = c.Stall
	}
	return c, c.Wait == txcoordv1.Wait_WAIT_DECIDED
}

// Tidying is a Running that tells when it has done with the transactions it answered,
// to what it removes after the last of them. One whose requests are counted is.
type Tidying interface {
	Tidy(ctx context.Context) (bool, error)
}

// Running is a server that can be started, ended and killed.
type Running interface {
	// Start starts it and returns at once.
	Start() error
	// Target is its address in gRPC's syntax.
	Target() string
	// Requests counts its requests to stores; nil if they cannot be seen.
	Requests() Requests
	// Kill ends it as a crash would, Stop properly; both return when it is gone.
	Kill() error
	Stop() error
}

// Counted is the contender with a server whose requests can be seen.
func (c Txcoord) Counted() Contender {
	if c.Counting != nil {
		c.Launch = c.Counting
	}
	return c
}

// Replaces says that sessions take such work.
func (Txcoord) Replaces() {}

// Name is the label.
func (c Txcoord) Name() string { return c.Label }

// Open starts a server with fresh tables.
func (c Txcoord) Open(ctx context.Context, dir string, tables int) (Session, error) {
	return c.OpenServer(ctx, dir, tables)
}

// OpenServer starts a server with fresh tables.
func (c Txcoord) OpenServer(ctx context.Context, dir string, tables int) (Server, error) {
	objects, err := c.Objects(dir)
	if err != nil {
		return nil, err
	}
	if err := createTables(ctx, objects, tables); err != nil {
		return nil, err
	}
	server, err := c.Launch(dir)
	if err != nil {
		return nil, fmt.Errorf("launch server: %w", err)
	}
	s := &txcoordSession{Running: server, dir: dir, tables: tables, wait: c.Wait}
	if err := s.begin(ctx, c); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

type txcoordSession struct {
	Running
	books
	client    *client.Client
	probe     *client.Client
	dir       string
	tables    int
	catalogID string
	wait      txcoordv1.Wait
	// newest is the highest version of any table that an answer named: what a client
	// has read that goes on from there.
	newest atomic.Int64
}

// reconnect is quick, so that what is measured after a kill is the server's way
// back and not the client's patience.
var reconnect = grpc.WithConnectParams(grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.2, Jitter: 0.1, MaxDelay: 20 * time.Millisecond},
	MinConnectTimeout: time.Second,
})

// begin starts the server and registers the tables.
func (s *txcoordSession) begin(ctx context.Context, c Txcoord) error {
	err := s.Start()
	if err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	dial := []grpc.DialOption{reconnect}
	if s.client, err = client.Dial(s.Target(), client.Options{DialOptions: dial, Token: c.Token}); err != nil {
		return err
	}
	if s.probe, err = client.Dial(s.Target(), client.Options{DialOptions: dial, RetryFor: -1, Token: c.Token}); err != nil {
		return err
	}
	if err := s.Serving(ctx); err != nil {
		return err
	}
	return parallel(ctx, s.tables, func(ctx context.Context, i int) error { return s.register(ctx, i, c.Mode) })
}

// register registers a table, and fences it where that is the mode.
func (s *txcoordSession) register(ctx context.Context, i int, mode txcoordv1.TableMode) error {
	_, err := s.client.Tables.RegisterTable(ctx, &txcoordv1.RegisterTableRequest{
		Name: TableName(i), Uri: filepath.Join(s.dir, TableName(i)), Mode: mode,
	})
	if err != nil {
		return fmt.Errorf("register %s: %w", TableName(i), err)
	}
	if mode != txcoordv1.TableMode_TABLE_MODE_FENCED {
		return nil
	}
	if err := s.fenced(ctx, TableName(i)); err != nil {
		return fmt.Errorf("fence %s: %w", TableName(i), err)
	}
	return nil
}

// fenced lets a table's fence count at once, since nobody else has ever seen the table,
// and books the catalog's own transactions that raised it.
func (s *txcoordSession) fenced(ctx context.Context, table string) error {
	_, err := s.client.Tables.FenceTable(ctx, &txcoordv1.FenceTableRequest{Table: table, NoOlderWriters: true})
	if err != nil {
		return err
	}
	all, err := s.client.Transactions.ListTransactions(ctx, &txcoordv1.ListTransactionsRequest{Table: table, IncludeDecided: true})
	if err != nil {
		return err
	}
	for _, o := range all.GetDecided() {
		if o.GetCommitted() != nil {
			s.note(&s.committed, checker.Transaction{ID: o.GetTransactionId(), Parts: []checker.Part{{Table: table}}})
		}
	}
	return nil
}

// Serving returns when the server answers what its catalog's state is. It asks
// without the pauses that the client makes for other callers.
func (s *txcoordSession) Serving(ctx context.Context) error {
	for {
		status, err := s.probe.Status.GetStatus(ctx, &txcoordv1.GetStatusRequest{})
		if err == nil {
			s.catalogID = status.GetCatalogId()
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the server: %w", errors.Join(err, ctx.Err()))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (w Work) key() string { return fmt.Sprintf("w%d-%d", w.Writer, w.Number) }

// Commit makes one call. The client repeats it while the outcome is unknown.
func (s *txcoordSession) Commit(ctx context.Context, w Work) error { return s.commit(ctx, s.client, w) }

// Try implements Stallable.
func (s *txcoordSession) Try(ctx context.Context, w Work) error { return s.commit(ctx, s.probe, w) }

func (s *txcoordSession) commit(ctx context.Context, by *client.Client, w Work) error {
	req := &txcoordv1.CommitOnceRequest{Key: w.key(), Wait: s.wait}
	read, lines := client.Blind(), w.lines()
	if w.Replaces != "" {
		read = client.AtVersion(s.newest.Load(), client.Files(w.Replaces))
	}
	for _, t := range w.Tables {
		req.Tables = append(req.Tables, &txcoordv1.OnceTable{Table: TableName(t), Read: read, Actions: lines})
	}
	result, err := by.CommitOnce(ctx, req)
	switch {
	case err == nil:
		for _, d := range result.Outcome.GetCommitted().GetTables() {
			s.saw(d.GetVersion())
		}
		s.note(&s.committed, w.answered(result.Outcome))
		return nil
	case errors.Is(err, client.ErrAborted):
		s.note(&s.refused, s.unanswered(w))
		return ErrAborted
	}
	s.note(&s.unresolved, s.unanswered(w))
	return err
}

// saw notes a version that can be read.
func (s *txcoordSession) saw(version int64) {
	for {
		old := s.newest.Load()
		if version <= old || s.newest.CompareAndSwap(old, version) {
			return
		}
	}
}

// answered is the transaction as the server's answer has it. The digests are the
// server's own and are not compared.
func (w Work) answered(o *txcoordv1.Outcome) checker.Transaction {
	c := o.GetCommitted()
	x := checker.Transaction{ID: o.GetTransactionId(), Snapshot: c.GetSnapshotVersion()}
	for _, d := range c.GetTables() {
		p := checker.Part{Table: d.GetTable(), Adds: []string{w.Path()}}
		switch d.GetState() {
		case txcoordv1.DeliveryState_DELIVERY_STATE_PUBLISHED:
			place := int(d.GetPlace())
			p.Version, p.Place = max(d.GetVersion(), 0), &place
		case txcoordv1.DeliveryState_DELIVERY_STATE_DIVERGED, txcoordv1.DeliveryState_DELIVERY_STATE_NOT_APPLIED:
			p.NotApplied = true
		default:
			p.Pending = true // the server has not told the version
		}
		x.Parts = append(x.Parts, p)
	}
	return x
}

// unanswered is the transaction as its client knows it without an answer: the id
// follows from the key.
func (s *txcoordSession) unanswered(w Work) checker.Transaction {
	x := checker.Transaction{ID: twophase.DeriveTxnID(s.catalogID, w.key(), 1).String()}
	for _, t := range w.Tables {
		x.Parts = append(x.Parts, checker.Part{Table: TableName(t), Adds: []string{w.Path()}})
	}
	return x
}

// settleLimit bounds how long it may take until all is at rest.
const settleLimit = 5 * time.Minute

// Settle waits until no round is open and the newest snapshot has its manifest, and,
// where requests are counted, until nothing is left of what was staged: what comes
// then is asked for by later transactions.
func (s *txcoordSession) Settle(ctx context.Context) error { return s.rest(ctx, s.tidy) }

// Drain is Settle, but for what was staged.
func (s *txcoordSession) Drain(ctx context.Context) error {
	return s.rest(ctx, func(context.Context) (bool, error) { return true, nil })
}

func (s *txcoordSession) rest(ctx context.Context, tidied func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for {
		st, err := s.client.Status.GetStatus(ctx, &txcoordv1.GetStatusRequest{})
		if err != nil {
			return fmt.Errorf("ask for status: %w", err)
		}
		tidy, err := tidied(ctx)
		if err != nil {
			return fmt.Errorf("ask what is left to remove: %w", err)
		}
		if tidy && len(st.GetOpenRounds()) == 0 && st.GetManifestSnapshot() >= st.GetLatestSnapshot() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d rounds are open, the manifest of snapshot %d is the newest of %d, all is removed: %t: %w",
				len(st.GetOpenRounds()), st.GetManifestSnapshot(), st.GetLatestSnapshot(), tidy, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *txcoordSession) tidy(ctx context.Context) (bool, error) {
	if t, ok := s.Running.(Tidying); ok {
		return t.Tidy(ctx)
	}
	return true, nil
}

// Books are what clients were told; the run is at rest.
func (s *txcoordSession) Books() checker.Run {
	run := s.run(s.dir, s.tables)
	run.Settled = true
	return run
}

// Close ends the client and the server.
func (s *txcoordSession) Close() error {
	var err error
	for _, c := range []*client.Client{s.client, s.probe} {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	return errors.Join(err, s.Stop())
}
