package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/durationpb"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// Tx is one attempt of a transaction. Safe for concurrent use, with one caution:
// parts of one table are put together in the order in which their Stage calls
// return.
type Tx struct {
	client   *Client
	settings settings

	id, key, token string
	attempt        uint32
	deadline       time.Time
	// aborted: the abort is recorded; open: it may not be.
	aborted, open bool

	mu     sync.Mutex
	tables []*txcoordv1.TableParts // by table id, in the order of first staging
	reads  []*txcoordv1.ReadParticipant
	leaves []string
}

func newTx(c *Client, key string, attempt uint32, b *txcoordv1.BeginResponse, s settings) *Tx {
	return &Tx{
		client: c, settings: s, key: key, attempt: attempt,
		id: b.GetTransactionId(), token: b.GetToken(), deadline: b.GetDeadline().AsTime(),
	}
}

// ID is the transaction's id: other for each attempt, and the one that the
// versions in the tables' logs name.
func (tx *Tx) ID() string { return tx.id }

// Key is the key, also if Transact made it.
func (tx *Tx) Key() string { return tx.key }

// Attempt counts the attempts of the key, from 1.
func (tx *Tx) Attempt() uint32 { return tx.attempt }

// Token names the transaction to the server. Whoever has it may stage, commit and
// abort.
func (tx *Tx) Token() string {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return tx.token
}

// Deadline is when the transaction may be expired.
func (tx *Tx) Deadline() time.Time {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return tx.deadline
}

// Extend moves the deadline to ttl from now.
func (tx *Tx) Extend(ctx context.Context, ttl time.Duration) error {
	begun, err := tx.client.Transactions.Begin(ctx, &txcoordv1.BeginRequest{
		Token: tx.Token(), Ttl: durationpb.New(ttl),
	})
	if err != nil {
		return fmt.Errorf("extend: %w", err)
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.token, tx.deadline = begun.GetToken(), begun.GetDeadline().AsTime()
	return nil
}

const (
	// streamAbove is the size from which Stage streams.
	streamAbove = 1 << 20
	// chunkBytes is the contract's limit on a chunk.
	chunkBytes = 1 << 20
)

// Stage stores Delta action lines for a table and makes them part of the
// transaction. The data files that they name have to be written before Commit. What
// it answers includes a hint if the commit would fail as things stand.
func (tx *Tx) Stage(
	ctx context.Context, table string, read *txcoordv1.ReadDeclaration, actions []byte,
) (*txcoordv1.StagedPart, error) {
	if len(actions) > streamAbove {
		return tx.StageReader(ctx, table, read, bytes.NewReader(actions))
	}
	return tx.stage(ctx, &txcoordv1.StageRequest{Table: table, Read: read, Actions: actions}, "")
}

// Create makes a new table part of the transaction, with the action lines that its
// version 0 shall hold beside its definition; nil if it begins empty. Until the commit
// nothing is written at its place.
func (tx *Tx) Create(
	ctx context.Context, name string, table *txcoordv1.NewTable, actions []byte,
) (*txcoordv1.StagedPart, error) {
	if len(actions) > streamAbove {
		header := &txcoordv1.StageHeader{Token: tx.Token(), Table: name, Create: table}
		return tx.stageStream(ctx, header, bytes.NewReader(actions), name)
	}
	return tx.stage(ctx, &txcoordv1.StageRequest{Table: name, Create: table, Actions: actions}, name)
}

// Alter changes schema, properties or comments of a table, with action lines for the
// same version; nil if there are none.
func (tx *Tx) Alter(
	ctx context.Context, table string, change *txcoordv1.TableAlteration, actions []byte,
) (*txcoordv1.StagedPart, error) {
	return tx.stage(ctx, &txcoordv1.StageRequest{Table: table, Alter: change, Actions: actions}, "")
}

// Release takes a table out of the catalog with the transaction. Its files stay.
func (tx *Tx) Release(table string) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.leaves = append(tx.leaves, table)
}

// stage stores one part. name, if it is set, is what Commit calls the table.
func (tx *Tx) stage(ctx context.Context, req *txcoordv1.StageRequest, name string) (*txcoordv1.StagedPart, error) {
	req.Token = tx.Token()
	answer, err := tx.client.Transactions.Stage(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("stage %s: %w", req.GetTable(), err)
	}
	tx.add(answer.GetPart(), name)
	return answer.GetPart(), nil
}

// StageReader is Stage for actions that need not fit in memory. It reads from where
// r stands to its end, and again from there if the stream has to be repeated.
func (tx *Tx) StageReader(
	ctx context.Context, table string, read *txcoordv1.ReadDeclaration, r io.ReadSeeker,
) (*txcoordv1.StagedPart, error) {
	return tx.stageStream(ctx, &txcoordv1.StageHeader{Token: tx.Token(), Table: table, Read: read}, r, "")
}

func (tx *Tx) stageStream(
	ctx context.Context, header *txcoordv1.StageHeader, r io.ReadSeeker, name string,
) (*txcoordv1.StagedPart, error) {
	table := header.GetTable()
	start, err := r.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, fmt.Errorf("stage %s: %w", table, err)
	}
	var part *txcoordv1.StagedPart
	err = tx.client.conn.retry(ctx, tx.client.conn.retryFor, func(to *peer.Peer) error {
		if _, err := r.Seek(start, io.SeekStart); err != nil {
			return err
		}
		part, err = tx.stream(ctx, header, r, to)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("stage %s: %w", table, err)
	}
	tx.add(part, name)
	return part, nil
}

// stream sends the parts once, and says who has answered. An early return cancels the
// stream, and nothing is stored then. grpc.Peer would be written after such a return.
func (tx *Tx) stream(ctx context.Context, header *txcoordv1.StageHeader, r io.Reader, to *peer.Peer) (*txcoordv1.StagedPart, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := tx.client.Transactions.StageStream(ctx)
	if err != nil {
		return nil, err
	}
	message := &txcoordv1.StageStreamRequest{Message: &txcoordv1.StageStreamRequest_Header{Header: header}}
	for {
		if err := s.Send(message); errors.Is(err, io.EOF) {
			break // the server has answered; the answer says why
		} else if err != nil {
			return nil, err
		}
		chunk, err := nextChunk(r)
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		message = &txcoordv1.StageStreamRequest{Message: &txcoordv1.StageStreamRequest_Chunk{Chunk: chunk}}
	}
	answer, err := s.CloseAndRecv()
	if from, ok := peer.FromContext(s.Context()); ok {
		*to = *from
	}
	return answer.GetPart(), err
}

// nextChunk allocates each chunk anew: gRPC may look at a message after Send.
func nextChunk(r io.Reader) ([]byte, error) {
	chunk := make([]byte, chunkBytes)
	n, err := io.ReadFull(r, chunk)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return chunk[:n], err
}

// ReadOnly declares a table that the transaction depends on and does not write. Its
// read declaration has a read point and a read set.
func (tx *Tx) ReadOnly(table string, read *txcoordv1.ReadDeclaration) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.reads = append(tx.reads, &txcoordv1.ReadParticipant{Table: table, Read: read})
}

// add makes a staged part one that Commit lists. Equal bytes staged twice are one
// part. A new table goes by its name, by which roles are granted.
func (tx *Tx) add(p *txcoordv1.StagedPart, name string) {
	if name == "" {
		name = p.GetTableId()
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	i := slices.IndexFunc(tx.tables, func(t *txcoordv1.TableParts) bool { return t.GetTable() == name })
	if i < 0 {
		i = len(tx.tables)
		tx.tables = append(tx.tables, &txcoordv1.TableParts{Table: name})
	}
	if t := tx.tables[i]; !slices.Contains(t.GetDigests(), p.GetDigest()) {
		t.Digests = append(t.Digests, p.GetDigest())
	}
}

// commit is repeated with the same token and digests until its answer says
// something.
func (tx *Tx) commit(ctx context.Context) (*Result, error) {
	req := tx.commitRequest()
	answer, err := tx.client.Transactions.Commit(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	return &Result{Outcome: answer.GetOutcome(), Token: req.GetToken()}, nil
}

func (tx *Tx) commitRequest() *txcoordv1.CommitRequest {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.settings.wait == txcoordv1.Wait_WAIT_UNSPECIFIED {
		tx.settings.wait = txcoordv1.Wait_WAIT_PUBLISHED
	}
	req := &txcoordv1.CommitRequest{
		Token: tx.token, Tables: tx.tables, Reads: tx.reads, Releases: tx.leaves,
		Wait: tx.settings.wait, VerifyFiles: tx.settings.verify,
	}
	if tx.settings.waitLimit > 0 {
		req.WaitLimit = durationpb.New(tx.settings.waitLimit)
	}
	return req
}
