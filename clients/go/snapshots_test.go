package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

type watchStream = grpc.ServerStreamingServer[txcoordv1.WatchSnapshotsResponse]

// send sends the snapshots from first to last.
func send(out watchStream, first, last uint64) error {
	for v := first; v <= last; v++ {
		if err := out.Send(&txcoordv1.WatchSnapshotsResponse{
			LatestSnapshot: v, Snapshot: &txcoordv1.SnapshotChange{Version: v},
		}); err != nil {
			return err
		}
	}
	return nil
}

func TestWatchGoesOnAfterLostConnections(t *testing.T) {
	var ends []error
	s := &server{watch: func(r *txcoordv1.WatchSnapshotsRequest, out watchStream) error {
		if err := send(out, r.GetAfter()+1, r.GetAfter()+2); err != nil {
			return err
		}
		end := ends[0]
		ends = ends[1:]
		return end
	}}
	ends = []error{lostReply, nil, fail(codes.Unavailable, "SHUTTING_DOWN"), lostReply}
	c := start(t, s, client.Options{})
	var got []uint64
	for change, err := range c.Watch(t.Context(), 4) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, change.GetVersion()); len(got) == 8 {
			break
		}
	}
	if want := []uint64{5, 6, 7, 8, 9, 10, 11, 12}; !slices.Equal(got, want) {
		t.Errorf("saw %v, want %v", got, want)
	}
	if c.LatestSnapshot() != 12 {
		t.Errorf("latest %d", c.LatestSnapshot())
	}
}

func TestWatchEndsWithTheError(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(watchStream) error
		is   error
	}{
		{"too old", func(watchStream) error { return fail(codes.OutOfRange, "SNAPSHOT_OUT_OF_RANGE") }, client.ErrOutOfRange},
		{"never back", func(watchStream) error { return lostReply }, client.ErrUnavailable},
		{"a hole", func(out watchStream) error { return send(out, 9, 9) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &server{watch: func(_ *txcoordv1.WatchSnapshotsRequest, out watchStream) error { return c.end(out) }}
			cl := start(t, s, client.Options{RetryFor: 100 * time.Millisecond})
			var last error
			for change, err := range cl.Watch(t.Context(), 4) {
				if err == nil {
					t.Fatalf("yielded %v", change)
				}
				last = err
			}
			if last == nil || c.is != nil && !errors.Is(last, c.is) {
				t.Errorf("ended with %v", last)
			}
		})
	}
}

func TestWatchEndsWithTheContext(t *testing.T) {
	s := &server{watch: func(r *txcoordv1.WatchSnapshotsRequest, out watchStream) error {
		if err := send(out, 1, 1); err != nil {
			return err
		}
		<-out.Context().Done()
		return nil
	}}
	c := start(t, s, client.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range c.Watch(ctx, 0) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("ended with %v", last)
	}
}

func (s *server) GetSnapshot(
	_ context.Context, r *txcoordv1.GetSnapshotRequest,
) (*txcoordv1.GetSnapshotResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &txcoordv1.GetSnapshotResponse{
		LatestSnapshot: s.snapshot, Snapshot: &txcoordv1.Snapshot{Version: max(r.GetVersion(), s.snapshot)},
	}, nil
}

// Every call carries the highest snapshot seen, a caller's own value stays, and
// the caller's message is left alone.
func TestCallsCarryTheHighestSnapshotSeen(t *testing.T) {
	s := &server{snapshot: 7}
	c := start(t, s, client.Options{Catalog: "sales"})
	if _, err := c.Snapshot(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	s.snapshot = 5 // a replica that is behind
	if _, err := c.SnapshotAt(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	mine := &txcoordv1.GetSnapshotRequest{Catalog: "other", AtLeastSnapshot: 3}
	if _, err := c.Snapshots.GetSnapshot(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	c.Observe(11)
	empty := &txcoordv1.GetSnapshotRequest{}
	if _, err := c.Snapshots.GetSnapshot(t.Context(), empty); err != nil {
		t.Fatal(err)
	}
	if empty.GetCatalog() != "" || empty.GetAtLeastSnapshot() != 0 {
		t.Errorf("changed the caller's request: %v", empty)
	}
	var seen []uint64
	var catalogs []string
	for _, r := range s.requests {
		seen = append(seen, r.(*txcoordv1.GetSnapshotRequest).GetAtLeastSnapshot())
		catalogs = append(catalogs, r.(*txcoordv1.GetSnapshotRequest).GetCatalog())
	}
	if want := []uint64{0, 7, 3, 11}; !slices.Equal(seen, want) {
		t.Errorf("sent %v, want %v", seen, want)
	}
	if want := []string{"sales", "sales", "other", "sales"}; !slices.Equal(catalogs, want) {
		t.Errorf("sent %v, want %v", catalogs, want)
	}
}
