package quota_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/txcoord/txcoord/coordinator/quota"
)

func exceeded(t *testing.T, err error) quota.Exceeded {
	t.Helper()
	var e *quota.Exceeded
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *Exceeded", err)
	}
	return *e
}

func TestTake(t *testing.T) {
	var b quota.Book
	a := quota.Caller{Name: "a", Limits: quota.Limits{Calls: 2, StagedBytes: 100}}
	for range 2 {
		if err := b.Take(a, quota.Calls, 1); err != nil {
			t.Fatal(err)
		}
	}
	want := quota.Exceeded{Limit: "principal_calls", Value: 3, Bound: 2, RetryAfter: time.Second}
	if diff := cmp.Diff(want, exceeded(t, b.Take(a, quota.Calls, 1))); diff != "" {
		t.Error(diff)
	}
	for _, other := range []quota.Caller{{Name: "b", Limits: a.Limits}, {Name: "a"}, {}} {
		if err := b.Take(other, quota.Calls, 1); err != nil {
			t.Errorf("%+v: %v", other, err)
		}
	}
	b.Give("a", quota.Calls, 2)
	if err := b.Take(a, quota.Calls, 1); err != nil {
		t.Error(err)
	}
	for _, n := range []int64{101, 1 << 62} { // which no wait helps
		if e := exceeded(t, b.Take(a, quota.StagedBytes, n)); e.RetryAfter != 0 || e.Value != n || e.Bound != 100 {
			t.Errorf("%+v", e)
		}
	}
}

func TestCommits(t *testing.T) {
	now := time.Unix(1000, 0)
	b := quota.Book{Now: func() time.Time { return now }}
	c := quota.Caller{Name: "a", Limits: quota.Limits{Commits: 4}}
	commits := func(want int) {
		t.Helper()
		got := 0
		for ; got < 100 && b.Commit(c) == nil; got++ {
		}
		if got != want {
			t.Fatalf("%d commits, not %d", got, want)
		}
	}
	commits(4) // and one more, which was told to come in 250 ms
	if e := exceeded(t, b.Commit(c)); e.RetryAfter != 500*time.Millisecond || e.Limit != "principal_commits" || e.Bound != 4 {
		t.Errorf("%+v", e)
	}
	// What was refused costs nothing: after the wait there is one.
	now = now.Add(250 * time.Millisecond)
	commits(1)
	b.Add("a", quota.Calls, 1)
	b.Give("a", quota.Calls, 1)
	commits(0) // and who holds nothing is not given anew
	now = now.Add(time.Hour)
	commits(4)
	c.Limits.Commits = 10 // the limit is raised, and counts from here
	commits(0)
	now = now.Add(time.Second)
	commits(10)
	c.Limits.Commits = 2
	commits(0)
	now = now.Add(time.Second)
	commits(2)
	c.Limits.Commits = 0
	commits(100)
}

// TestRefusedComeInTurn: many who are refused at once are told times of their own, and each
// that comes then is served.
func TestRefusedComeInTurn(t *testing.T) {
	start := time.Unix(1000, 0)
	now := start
	b := quota.Book{Now: func() time.Time { return now }}
	c := quota.Caller{Name: "a", Limits: quota.Limits{Commits: 4}}
	for range 4 {
		if err := b.Commit(c); err != nil {
			t.Fatal(err)
		}
	}
	const turns = 20 // in five seconds
	for i := range turns {
		if e := exceeded(t, b.Commit(c)); e.RetryAfter != time.Duration(i+1)*250*time.Millisecond {
			t.Errorf("refusal %d: come in %s", i, e.RetryAfter)
		}
	}
	if e := exceeded(t, b.Commit(c)); e.RetryAfter != 250*time.Millisecond {
		t.Errorf("one more: come in %s", e.RetryAfter) // the queue of turns has an end
	}
	for i := range turns {
		now = start.Add(time.Duration(i+1) * 250 * time.Millisecond)
		if err := b.Commit(c); err != nil {
			t.Errorf("turn %d: %v", i, err)
		}
	}
}

// TestForgets: callers who come once, each with another name, do not stay.
func TestForgets(t *testing.T) {
	now := time.Unix(1000, 0)
	b := quota.Book{Now: func() time.Time { return now }}
	for i := range 20_000 {
		now = now.Add(time.Second)
		c := quota.Caller{Name: fmt.Sprint(i), Limits: quota.Limits{Commits: 1, Calls: 1}}
		if err := errors.Join(b.Commit(c), b.Take(c, quota.Calls, 1)); err != nil {
			t.Fatal(err)
		}
		b.Give(c.Name, quota.Calls, 1)
	}
	if n := b.Accounts(); n > 2500 {
		t.Errorf("%d accounts", n)
	}
}

func TestSet(t *testing.T) {
	l := quota.Defaults()
	for i, name := range quota.Names() {
		if err := l.Set(name, fmt.Sprintf("%dKiB", i+1)); err != nil {
			t.Error(err)
		}
	}
	if want := (quota.Limits{OpenTransactions: 1 << 10, StagedBytes: 2 << 10, Commits: 3 << 10, Calls: 4 << 10, Streams: 5 << 10}); l != want {
		t.Errorf("%+v", l)
	}
	for value, bad := range map[string]bool{"0": false, "7": false, "1TiB": false, "": true, "-1": true, "1.5": true, "x": true, "99999999999999999999": true, "1125899906842625": true, "1025TiB": true} {
		if err := l.Set("principal_calls", value); (err != nil) != bad {
			t.Errorf("%q: %v", value, err)
		}
	}
	if err := l.Set("calls", "1"); err == nil || !strings.Contains(err.Error(), "principal_calls") {
		t.Errorf("%v", err)
	}
	d := quota.Defaults()
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
	for _, name := range quota.Names() {
		bad := quota.Defaults()
		*bad.Field(name) = -1
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBudgetShares: one alone has it all; another one who comes gets in as soon as
// something is given back, and the first gets no further than half until he is gone.
func TestBudgetShares(t *testing.T) {
	now := time.Unix(1000, 0)
	b := quota.Budget{Name: "bytes", Limit: 100, Now: func() time.Time { return now }}
	ok := func(who string, n int64) {
		t.Helper()
		if err := b.Take(who, n); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(who string, n int64, want quota.Exceeded) {
		t.Helper()
		want.Limit, want.RetryAfter = "bytes", time.Second
		if diff := cmp.Diff(want, exceeded(t, b.Take(who, n))); diff != "" {
			t.Fatal(diff)
		}
	}
	ok("heavy", 60)
	ok("heavy", 40)
	refused("light", 10, quota.Exceeded{Value: 110, Bound: 100})
	b.Give("heavy", 20)
	refused("heavy", 10, quota.Exceeded{Value: 90, Bound: 50, Share: true})
	ok("light", 10)
	refused("heavy", 10, quota.Exceeded{Value: 90, Bound: 50, Share: true})
	b.Give("heavy", 40)
	ok("heavy", 10)
	b.Give("light", 10)
	ok("heavy", 50) // alone again
	refused("light", 10, quota.Exceeded{Value: 110, Bound: 100})
	b.Give("heavy", 20)
	now = now.Add(time.Minute) // light never came back
	ok("heavy", 20)
}

func TestLargeBudget(t *testing.T) {
	b := quota.Budget{Name: "bytes", Limit: 100, Large: true}
	for _, step := range []struct {
		who string
		n   int64
		ok  bool
	}{{"a", 1000, true}, {"b", 1, false}, {"a", -1000, true}, {"b", 10, true}, {"a", 80, true}, {"a", 5, false}, {"b", 5, true}} {
		if step.n < 0 {
			b.Give(step.who, -step.n)
		} else if err := b.Take(step.who, step.n); (err == nil) != step.ok {
			t.Errorf("%+v: %v", step, err)
		}
	}
}

// TestBudgetModel: never more than the limit, what is given back is free, and who asks
// again and again for little gets it when the others have given back half.
func TestBudgetModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1000, 0)
		b := quota.Budget{Name: "bytes", Limit: 100, Now: func() time.Time { return now }}
		held, used := map[string]int64{}, int64(0)
		who := rapid.SampledFrom([]string{"a", "b", "c"})
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				name, n := who.Draw(t, "who"), rapid.Int64Range(1, 120).Draw(t, "n")
				if b.Take(name, n) == nil {
					held[name] += n
					used += n
				} else if used == 0 && n <= 50 {
					t.Fatalf("%s is refused %d of nothing", name, n)
				}
			},
			"give": func(t *rapid.T) {
				name := who.Draw(t, "who")
				n := rapid.Int64Range(0, held[name]).Draw(t, "n")
				b.Give(name, n)
				held[name] -= n
				used -= n
			},
			"time": func(t *rapid.T) { now = now.Add(time.Second) },
			"": func(t *rapid.T) {
				if b.Used() != used || used > 100 {
					t.Fatalf("%d are used, the model has %d", b.Used(), used)
				}
			},
		})
	})
}
