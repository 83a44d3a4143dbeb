package contend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

var (
	_ Stallable = (*txcoordSession)(nil)
	_ Cut       = (*txcoordSession)(nil)
	_ Sized     = (*txcoordSession)(nil)
)

// Snapshot implements Cut.
func (s *txcoordSession) Snapshot(ctx context.Context) (map[string]int64, error) {
	got, err := s.client.Snapshots.GetSnapshot(ctx, &txcoordv1.GetSnapshotRequest{})
	if err != nil {
		return nil, fmt.Errorf("read the newest snapshot: %w", err)
	}
	versions := map[string]int64{}
	for _, t := range got.GetSnapshot().GetTables() {
		versions[t.GetName()] = t.GetVersion()
	}
	return versions, nil
}

// Frozen implements Stallable.
func (s *txcoordSession) Frozen(ctx context.Context) (int, error) {
	st, err := s.client.Status.GetStatus(ctx, &txcoordv1.GetStatusRequest{})
	return len(st.GetFrozen()), err
}

// stalls is a Running whose object store can be made to fail.
type stalls interface {
	Out(ctx context.Context, out bool) error
}

// errCannot: the server is not the benchmark's own.
var errCannot = errors.New("the server that runs cannot be asked that")

// Out implements Stallable.
func (s *txcoordSession) Out(ctx context.Context, out bool) error {
	if r, ok := s.Running.(stalls); ok {
		return r.Out(ctx, out)
	}
	return errCannot
}

// StoreBytes implements Sized.
func (s *txcoordSession) StoreBytes(ctx context.Context) (int64, error) {
	if r, ok := s.Running.(Sized); ok {
		return r.StoreBytes(ctx)
	}
	return 0, errCannot
}

// Memory implements Weighed.
func (s *txcoordSession) Memory() (int64, error) {
	if r, ok := s.Running.(Weighed); ok {
		return r.Memory()
	}
	return 0, errCannot
}

// Memory is what the process has in memory, as Linux counts it.
func (p *Process) Memory() (int64, error) {
	if p.cmd == nil {
		return 0, errors.New("the server does not run")
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("the system does not tell the memory of a process")
}
