package engines

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"testing"

	"github.com/txcoord/txcoord/e2e/readers"
)

//go:embed py/delta_rs.py
var deltaRSScript string

// DeltaRS is a running delta-rs.
type DeltaRS struct{ *Session }

// StartDeltaRS starts one for a test, or skips the test as readers.Require does.
func StartDeltaRS(t testing.TB) *DeltaRS {
	t.Helper()
	return &DeltaRS{start(t, "delta-rs", readers.Require(t).Path, deltaRSScript, nil, struct{}{})}
}

// Arguments of an operation, by the names that the script knows them by; "mark" is
// put into the commit's commitInfo.
type Arguments map[string]any

// Do carries out one operation on the table in a folder: append, delete, merge,
// compact, z_order, vacuum, create_checkpoint, cleanup_metadata, alter, add_column,
// restore, version, count.
func (d *DeltaRS) Do(ctx context.Context, operation, folder string, a Arguments) (Row, error) {
	request := maps.Clone(a)
	if request == nil {
		request = Arguments{}
	}
	request["operation"], request["path"] = operation, folder
	rows, err := d.do(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", operation, err)
	}
	return rows[0], nil
}
