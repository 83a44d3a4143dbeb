package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"github.com/txcoord/txcoord/coordinator/quota"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/tables"
)

type stageStream = grpc.ClientStreamingServer[pb.StageStreamRequest, pb.StageStreamResponse]

// StageStream collects the chunks and stages them as one. Nothing reaches the
// catalog before the client has said that it is done, so a stream that breaks off
// leaves nothing behind.
func (s transactions) StageStream(stream stageStream) error {
	ctx := stream.Context()
	answer, err := s.stageStream(ctx, stream)
	if err != nil {
		return s.faults.status(ctx, err)
	}
	return stream.SendAndClose(answer)
}

func (s transactions) stageStream(ctx context.Context, stream stageStream) (*pb.StageStreamResponse, error) {
	first, err := stream.Recv()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	h := first.GetHeader()
	if h == nil {
		return nil, refuse("header", "", "send the header as the first message of the stream")
	}
	c, leave, err := s.enter(ctx, h, quota.Streams)
	if err != nil {
		return nil, err
	}
	defer leave()
	in, err := headerFromProto(h, client(ctx))
	if err != nil {
		return nil, err
	}
	held := &held{budget: s.memory, by: payerOf(callerOf(ctx))}
	defer held.release()
	if in.Actions, err = s.collect(stream, held); err != nil {
		return nil, err
	}
	p, err := c.Stage(ctx, in)
	if err != nil {
		return nil, err
	}
	answer := &pb.StageStreamResponse{Part: stagedToProto(p)}
	setLatest(answer, c)
	return answer, nil
}

// collect reads chunks up to the end of the stream. A part past a limit is refused as
// soon as it is seen to be.
func (s transactions) collect(stream stageStream, held *held) ([]byte, error) {
	all := blocks{held: held, most: s.limits.PartBytes}
	var lines tables.LineCount
	for n := 1; ; n++ {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all.join(&s.joining), nil
		}
		if err != nil {
			return nil, err
		}
		chunk, err := s.chunk(m, n)
		if err != nil {
			return nil, err
		}
		if size := all.size + len(chunk); size > s.limits.PartBytes {
			return nil, tooMany("part_bytes", size, s.limits.PartBytes)
		}
		if lines.Add(chunk) > s.limits.Actions {
			return nil, tooMany("actions", s.limits.Actions+1, s.limits.Actions)
		}
		if err := all.add(chunk); err != nil {
			return nil, err
		}
	}
}

func (s transactions) chunk(m *pb.StageStreamRequest, n int) ([]byte, error) {
	chunk, ok := m.GetMessage().(*pb.StageStreamRequest_Chunk)
	if !ok {
		return nil, refuse(fmt.Sprintf("message %d of the stream", n+1), "", "send the header once, then chunks only")
	}
	if size := len(chunk.Chunk); size > s.limits.ChunkBytes {
		return nil, tooMany("chunk_bytes", size, s.limits.ChunkBytes)
	}
	return chunk.Chunk, nil
}
