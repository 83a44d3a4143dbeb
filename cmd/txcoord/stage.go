package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

const (
	// streamAbove is the size from which actions go as a stream.
	streamAbove = 1 << 20
	// onceAbove is the size from which a whole transaction does not go in one
	// message; it is below what servers take.
	onceAbove = 4 << 20
	// chunkBytes is the contract's limit on a chunk.
	chunkBytes = 1 << 20
	// restPause is between two tries of a stream.
	restPause = 200 * time.Millisecond
)

// stage stores one part. A stream that breaks off is sent again until the context
// ends: staging the same bytes twice is staging them once.
func stage(
	ctx context.Context, api *client.Client, token, table string, read *txcoordv1.ReadDeclaration, actions []byte,
) (*txcoordv1.StagedPart, error) {
	return stagePart(ctx, api, token, &txcoordv1.OnceTable{Table: table, Read: read, Actions: actions})
}

// stagePart is stage for a table that may begin, or change what it is.
func stagePart(ctx context.Context, api *client.Client, token string, t *txcoordv1.OnceTable) (*txcoordv1.StagedPart, error) {
	if len(t.GetActions()) <= streamAbove {
		a, err := api.Transactions.Stage(ctx, &txcoordv1.StageRequest{
			Token: token, Table: t.GetTable(), Read: t.GetRead(), Actions: t.GetActions(), Create: t.GetCreate(), Alter: t.GetAlter(),
		})
		return a.GetPart(), err
	}
	header := &txcoordv1.StageHeader{Token: token, Table: t.GetTable(), Read: t.GetRead(), Create: t.GetCreate(), Alter: t.GetAlter()}
	for {
		part, err := stageStream(ctx, api, header, t.GetActions())
		if err == nil || !errors.Is(err, client.ErrUnavailable) {
			return part, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(restPause):
		}
	}
}

func stageStream(
	ctx context.Context, api *client.Client, header *txcoordv1.StageHeader, actions []byte,
) (*txcoordv1.StagedPart, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := api.Transactions.StageStream(ctx)
	if err != nil {
		return nil, err
	}
	err = stream.Send(&txcoordv1.StageStreamRequest{Message: &txcoordv1.StageStreamRequest_Header{Header: header}})
	for chunk := range slices.Chunk(actions, chunkBytes) {
		if err != nil {
			break
		}
		err = stream.Send(&txcoordv1.StageStreamRequest{Message: &txcoordv1.StageStreamRequest_Chunk{Chunk: chunk}})
	}
	if err != nil && !errors.Is(err, io.EOF) { // io.EOF: the answer says why
		return nil, err
	}
	a, err := stream.CloseAndRecv()
	return a.GetPart(), err
}

// commitWhole commits a transaction that is all there: in one call, or, if it is
// too large for a message, by begin, stage and commit, which the same key makes
// just as safe to repeat.
func commitWhole(
	ctx context.Context, api *client.Client, q *txcoordv1.CommitOnceRequest,
) (*txcoordv1.CommitOnceResponse, error) {
	size := 0
	for _, t := range q.GetTables() {
		size += len(t.GetActions())
	}
	if size <= onceAbove {
		return api.Transactions.CommitOnce(ctx, q)
	}
	begun, err := api.Transactions.Begin(ctx, &txcoordv1.BeginRequest{Key: q.GetKey(), Attempt: q.GetAttempt()})
	if err != nil {
		return nil, err
	}
	commit := &txcoordv1.CommitRequest{
		Token: begun.GetToken(), Reads: q.GetReads(), Wait: q.GetWait(), WaitLimit: q.GetWaitLimit(), VerifyFiles: q.GetVerifyFiles(),
		Releases: q.GetReleases(),
	}
	for _, t := range q.GetTables() {
		part, err := stagePart(ctx, api, begun.GetToken(), t)
		if err != nil {
			return nil, fmt.Errorf("stage %s: %w", t.GetTable(), err)
		}
		commit.Tables = append(commit.Tables, &txcoordv1.TableParts{Table: t.GetTable(), Digests: []string{part.GetDigest()}})
	}
	a, err := api.Transactions.Commit(ctx, commit)
	if err != nil {
		return nil, err
	}
	return &txcoordv1.CommitOnceResponse{
		LatestSnapshot: a.GetLatestSnapshot(), Outcome: a.GetOutcome(), Token: begun.GetToken(),
	}, nil
}
