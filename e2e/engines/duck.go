package engines

import (
	"context"
	_ "embed"
	"fmt"
	"testing"

	"github.com/txcoord/txcoord/e2e/readers"
)

//go:embed py/duck.py
var duckScript string

// Duck is a running DuckDB. It inserts into Delta tables, and cannot delete or update.
type Duck struct{ *Session }

// StartDuck starts one for a test, or skips the test as readers.Require does.
func StartDuck(t testing.TB) *Duck {
	t.Helper()
	return &Duck{start(t, "DuckDB", readers.Require(t).Path, duckScript, nil, struct{}{})}
}

// SQL carries out one statement, in which the table in the folder is called t.
func (d *Duck) SQL(ctx context.Context, folder, statement string) ([]Row, error) {
	rows, err := d.do(ctx, map[string]any{"path": folder, "sql": statement})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", statement, err)
	}
	return rows, nil
}
