package quota_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator/quota"
)

// The fullest principal of each limit counts, by the limits that it has now; and each
// refusal is told of, and nothing else.
func TestFullest(t *testing.T) {
	now, refused := time.Unix(1000, 0), []string{}
	b := quota.Book{Now: func() time.Time { return now }, Refused: func(limit string) { refused = append(refused, limit) }}
	full := func(open, staged, commits, calls, streams int64) {
		t.Helper()
		want := map[string]int64{
			"principal_open_transactions": open, "principal_staged_bytes": staged, "principal_commits": commits, "principal_calls": calls, "principal_streams": streams,
		}
		if diff := cmp.Diff(want, b.Fullest()); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
	full(0, 0, 0, 0, 0)
	heavy := quota.Caller{Name: "heavy", Limits: quota.Limits{OpenTransactions: 4, Commits: 4, Calls: 2}}
	light := quota.Caller{Name: "light", Limits: quota.Limits{OpenTransactions: 100, StagedBytes: 1000, Calls: 100}}
	take := func(c quota.Caller, r quota.Resource, n int64, ok bool) {
		t.Helper()
		if err := b.Take(c, r, n); (err == nil) != ok {
			t.Errorf("%v", err)
		}
	}
	take(heavy, quota.OpenTransactions, 1, true)
	take(light, quota.OpenTransactions, 50, true)
	take(light, quota.StagedBytes, 333, true)
	take(heavy, quota.StagedBytes, 1<<40, true) // without a limit
	take(heavy, quota.Calls, 2, true)
	full(50, 33, 0, 100, 0)
	take(heavy, quota.Calls, 1, false)
	take(light, quota.StagedBytes, 2000, false)
	for i := range 5 {
		if err := b.Commit(heavy); (err == nil) != (i < 4) {
			t.Errorf("commit %d: %v", i, err)
		}
	}
	full(50, 33, 100, 100, 0)
	now = now.Add(500 * time.Millisecond)
	full(50, 33, 50, 100, 0)
	light.Limits.OpenTransactions = 25 // lowered below what it has
	take(light, quota.OpenTransactions, 1, false)
	take(light, quota.Calls, 1, true)
	full(200, 33, 50, 100, 0)
	b.Give("light", quota.OpenTransactions, 50)
	b.Give("heavy", quota.Calls, 2)
	full(25, 33, 50, 1, 0)

	budget := quota.Budget{Name: "queue_bytes", Limit: 100, Refused: b.Refused}
	for who, ok := range []bool{true, false} {
		if err := budget.Take([]string{"a", "b"}[who], 80); (err == nil) != ok {
			t.Error(err)
		}
	}
	if want := []string{"principal_calls", "principal_staged_bytes", "principal_commits", "principal_open_transactions", "queue_bytes"}; !slices.Equal(refused, want) {
		t.Errorf("told of %v, want %v", refused, want)
	}
}
