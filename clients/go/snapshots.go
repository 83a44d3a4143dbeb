package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// Snapshot returns the latest snapshot, or only some of its tables. It is never
// older than what this client has written or seen.
func (c *Client) Snapshot(ctx context.Context, tables ...string) (*txcoordv1.Snapshot, error) {
	return c.snapshot(ctx, &txcoordv1.GetSnapshotRequest{Tables: tables})
}

// SnapshotAt returns the snapshot of a version, or only some of its tables.
func (c *Client) SnapshotAt(
	ctx context.Context, version uint64, tables ...string,
) (*txcoordv1.Snapshot, error) {
	return c.snapshot(ctx, &txcoordv1.GetSnapshotRequest{
		Select: &txcoordv1.GetSnapshotRequest_Version{Version: version}, Tables: tables,
	})
}

func (c *Client) snapshot(
	ctx context.Context, req *txcoordv1.GetSnapshotRequest,
) (*txcoordv1.Snapshot, error) {
	answer, err := c.Snapshots.GetSnapshot(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return answer.GetSnapshot(), nil
}

// Watch yields every snapshot after a version, once and in order, until the context
// ends or the loop is left. It connects again after a lost connection and goes on
// where it was; it gives up when that fails for as long as Options.RetryFor. The
// last pair holds the error. To begin now, pass the version of Snapshot.
func (c *Client) Watch(ctx context.Context, after uint64) iter.Seq2[*txcoordv1.SnapshotChange, error] {
	return func(yield func(*txcoordv1.SnapshotChange, error) bool) {
		w := watch{client: c, after: after, yield: yield}
		w.run(ctx)
	}
}

// watch is a loop over Watch. after is the last version that was yielded.
type watch struct {
	client *Client
	after  uint64
	yield  func(*txcoordv1.SnapshotChange, error) bool
	left   bool
}

// steady is how long a connection must have lasted to count as one that worked.
const steady = 5 * time.Second

func (w *watch) run(ctx context.Context) {
	pauses := newBackOff(20*time.Millisecond, steady)
	failing := time.Now()
	for {
		opened, before := time.Now(), w.after
		err := w.connection(ctx)
		if w.left {
			return
		}
		if w.after > before || time.Since(opened) > steady {
			pauses.Reset()
			failing = time.Now()
		}
		if w.client.conn.hopeless(err) || !repeatable(ctx, err) || time.Since(failing) > w.client.conn.retryFor || !sleep(ctx, pauses.NextBackOff()) {
			w.yield(nil, fmt.Errorf("watch snapshots after %d: %w", w.after, err))
			return
		}
	}
}

// connection yields what one stream brings, and returns why it ended.
func (w *watch) connection(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := w.client.Snapshots.WatchSnapshots(ctx, &txcoordv1.WatchSnapshotsRequest{After: proto.Uint64(w.after)})
	if err != nil {
		return err
	}
	for {
		answer, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return &Error{Code: codes.Unavailable, Message: "the server ended the stream"}
		} else if err != nil {
			return err
		}
		change := answer.GetSnapshot()
		if change.GetVersion() != w.after+1 {
			return fmt.Errorf("snapshot %d came after %d", change.GetVersion(), w.after)
		}
		w.after = change.GetVersion()
		if !w.yield(change, nil) {
			w.left = true
			return nil
		}
	}
}
