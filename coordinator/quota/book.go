package quota

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Exceeded is what a refusal says. The same call may be repeated after RetryAfter; after
// 0 never: it alone is more than the limit.
type Exceeded struct {
	Limit        string
	Value, Bound int64
	// Share: the bound is a principal's share of a limit of all.
	Share      bool
	RetryAfter time.Duration
}

func (e *Exceeded) Error() string {
	return fmt.Sprintf("%s is %d, the limit is %d", e.Limit, e.Value, e.Bound)
}

// retry is how long to wait for something that others of the same principal hold.
const retry = time.Second

// Book counts what principals hold. The zero value is empty. It is safe for concurrent
// use. What was taken has to be given back by whoever took it, once; who has no name is
// not counted.
type Book struct {
	// Now is the clock of what counts by the second; time.Now if nil.
	Now func() time.Time
	// Refused, if set, is told of the limit of each refusal.
	Refused func(limit string)

	mu sync.Mutex
	m  map[string]*account
	// prune is how many accounts there may be before those without a use are closed.
	prune int
}

type account struct {
	held [resources]int64
	// limits are those of the last time that something was asked for.
	limits  Limits
	commits *rate.Limiter
	// told is when the last one that was refused was told to come back.
	told time.Time
}

// furthest is how far ahead refused commits are told to come back, one after the other;
// more of them begin in front again.
const furthest = 5 * time.Second

// leastAccounts are kept without a look at whether they are needed.
const leastAccounts = 1024

// Take counts n more of a resource, or refuses with *Exceeded.
func (b *Book) Take(c Caller, r Resource, n int64) error {
	if c.Name == "" {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var held int64
	if a := b.m[c.Name]; a != nil {
		held = a.held[r]
	}
	switch limit := c.Limits.of(r); {
	case limit > 0 && n > limit:
		return told(b.Refused, &Exceeded{Limit: r.name(), Value: n, Bound: limit})
	case limit > 0 && n > 0 && held > limit-n:
		return told(b.Refused, &Exceeded{Limit: r.name(), Value: held + n, Bound: limit, RetryAfter: retry})
	}
	a := b.account(c.Name)
	a.held[r] += n
	a.limits = c.Limits
	return nil
}

// Add counts what is there already, whatever the limit.
func (b *Book) Add(name string, r Resource, n int64) {
	if name == "" || n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.account(name).held[r] += n
}

// Give gives back what was taken or added.
func (b *Book) Give(name string, r Resource, n int64) {
	if name == "" || n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(name)
	a.held[r] -= n
	if a.idle(b.now()) {
		delete(b.m, name)
	}
}

// Commit counts one commit, or refuses it with *Exceeded until the next is free. Each that
// is refused is told a time of its own, as far apart as commits are allowed: all told the
// same would all come then, and all but one of them in vain.
func (b *Book) Commit(c Caller) error {
	if c.Name == "" || c.Limits.Commits == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now, a := b.now(), b.account(c.Name)
	a.limits = c.Limits
	r := a.limiter(c.Limits.Commits, now).ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	r.CancelAt(now)
	return told(b.Refused, &Exceeded{Limit: NameCommits, Value: c.Limits.Commits + 1, Bound: c.Limits.Commits, RetryAfter: a.turn(now, wait, c.Limits.Commits)})
}

func told(refused func(string), e *Exceeded) error {
	if refused != nil {
		refused(e.Limit)
	}
	return e
}

// turn is how long somebody who is refused shall wait, if a commit is free after wait.
func (a *account) turn(now time.Time, wait time.Duration, perSecond int64) time.Duration {
	at := a.told.Add(time.Second / time.Duration(perSecond))
	if free := now.Add(wait); at.Before(free) || at.Sub(now) > furthest {
		at = free
	}
	a.told = at
	return at.Sub(now)
}

func (b *Book) now() time.Time {
	if b.Now != nil {
		return b.Now()
	}
	return time.Now()
}

// limiter is the account's token bucket, for as many a second as are allowed now.
func (a *account) limiter(perSecond int64, now time.Time) *rate.Limiter {
	if a.commits == nil {
		a.commits = rate.NewLimiter(rate.Limit(perSecond), int(perSecond))
	}
	if a.commits.Burst() != int(perSecond) {
		a.commits.SetLimitAt(now, rate.Limit(perSecond))
		a.commits.SetBurstAt(now, int(perSecond))
	}
	return a.commits
}

// idle reports whether the account says nothing that a new one would not.
func (a *account) idle(now time.Time) bool {
	return a.held == [resources]int64{} && (a.commits == nil || a.commits.TokensAt(now) >= float64(a.commits.Burst()))
}

func (b *Book) account(name string) *account {
	if a := b.m[name]; a != nil {
		return a
	}
	if b.m == nil {
		b.m = map[string]*account{}
	}
	if len(b.m) >= max(b.prune, leastAccounts) {
		b.close()
	}
	a := &account{}
	b.m[name] = a
	return a
}

// close closes the accounts without a use, so that callers who come once, each with
// another name, do not fill the memory.
func (b *Book) close() {
	now := b.now()
	for name, a := range b.m {
		if a.idle(now) {
			delete(b.m, name)
		}
	}
	b.prune = 2 * len(b.m)
}

// Held is what a principal holds of a resource.
func (b *Book) Held(name string, r Resource) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.m[name]; a != nil {
		return a.held[r]
	}
	return 0
}
