package coordinator_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/twophase"
)

func (w *world) lease(q coordinator.LeaseRequest) (coordinator.Lease, []string) {
	w.t.Helper()
	l, warnings, err := w.catalog.Lease(w.ctx(), q)
	if err != nil {
		w.t.Fatal(err)
	}
	return l, warnings
}

func leaseErr(_ coordinator.Lease, _ []string, err error) error { return err }

func (w *world) leases() (ids []string) {
	w.t.Helper()
	all, err := w.catalog.Leases(w.ctx())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range all {
		ids = append(ids, l.ID)
	}
	return ids
}

func TestLeaseLife(t *testing.T) {
	t.Parallel()
	clock := &clock{}
	w := &world{}
	w.cfg.Boot = clock.now
	w.cfg.Limits.LeaseInterval = 10 * time.Millisecond
	w.cfg.Limits.LeaseCount = 3
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("1", blind("t", "1"))
	a, warnings := w.lease(coordinator.LeaseRequest{ID: "a", Snapshot: 1, TTL: time.Hour, Note: "report"})
	if a.Snapshot != 1 || a.Note != "report" || len(warnings) != 0 || a.Until.Sub(a.Since) != time.Hour {
		t.Errorf("%+v, %v", a, warnings)
	}
	again, _ := w.lease(coordinator.LeaseRequest{ID: "a", Snapshot: 1, TTL: 2 * time.Hour})
	if !again.Since.Equal(a.Since) || !again.Until.After(a.Until) || again.Note != "report" {
		t.Errorf("the same call again: %+v", again)
	}
	b, _ := w.lease(coordinator.LeaseRequest{})
	if b.Snapshot != w.catalog.Shown() || !strings.HasPrefix(b.ID, "l-") || b.Until.Sub(b.Since) != 24*time.Hour {
		t.Errorf("defaults: %+v", b)
	}
	wantReason(t, "another snapshot", leaseErr(w.catalog.Lease(w.ctx(), coordinator.LeaseRequest{ID: "a", Snapshot: 2})), coordinator.LeaseExists)
	wantReason(t, "no such snapshot", leaseErr(w.catalog.Lease(w.ctx(), coordinator.LeaseRequest{Snapshot: 99})), coordinator.SnapshotNotFound)
	wantReason(t, "an id that is none", leaseErr(w.catalog.Lease(w.ctx(), coordinator.LeaseRequest{ID: "a b"})), coordinator.InvalidRequest)
	wantReason(t, "a note that is none", leaseErr(w.catalog.Lease(w.ctx(), coordinator.LeaseRequest{Note: "\xff"})), coordinator.InvalidRequest)
	if own := wantReason(t, "too long", leaseErr(w.catalog.Lease(w.ctx(), coordinator.LeaseRequest{TTL: 1e6 * time.Hour})), coordinator.LimitExceeded); own.Limit.Name != "max_lease_ttl" ||
		!strings.HasPrefix(own.Message, "max_lease_ttl is 1000000h, the limit is 720h; ") {
		t.Errorf("%+v", own.Limit)
	}
	wantReason(t, "renewal of none", leaseErr(w.catalog.RenewLease(w.ctx(), coordinator.LeaseRequest{ID: "c"})), coordinator.LeaseNotFound)
	wantReason(t, "end of none", w.catalog.EndLease(w.ctx(), "c"), coordinator.LeaseNotFound)
	w.lease(coordinator.LeaseRequest{ID: "c", TTL: time.Minute})
	if own := wantReason(t, "one too many", leaseErr(w.catalog.Lease(w.ctx(), coordinator.LeaseRequest{ID: "d"})), coordinator.QuotaExceeded); own.Limit.Name != "lease_count" {
		t.Errorf("%+v", own.Limit)
	}

	// They survive a restart. Time ends one, and not the one that is renewed.
	w.stop()
	w.start()
	if got := w.leases(); !cmp.Equal(got, []string{"a", "c", b.ID}) {
		t.Fatalf("after a restart: %v", got)
	}
	if l, _, err := w.catalog.RenewLease(w.ctx(), coordinator.LeaseRequest{ID: "a", TTL: 3 * time.Hour}); err != nil || l.Until.Sub(a.Since) < 3*time.Hour {
		t.Errorf("%+v, %v", l, err)
	}
	w.eventually("the renewed lease was looked at", func() bool { clock.advance(2 * time.Second); return len(w.leases()) == 2 })
	if got := w.leases(); !cmp.Equal(got, []string{"a", b.ID}) {
		t.Errorf("after its time: %v", got)
	}
	wantReason(t, "renewal of what has ended", leaseErr(w.catalog.RenewLease(w.ctx(), coordinator.LeaseRequest{ID: "c"})), coordinator.LeaseNotFound)
	if err := w.catalog.EndLease(w.ctx(), "a"); err != nil {
		t.Error(err)
	}
	w.stop()
	w.start()
	if got := w.leases(); !cmp.Equal(got, []string{b.ID}) {
		t.Errorf("at the end: %v", got)
	}
}

// looked has the replica with this clock look at all leases that there are now: one of a
// second, made after them, has ended.
func (w *world) looked(boot *clock) {
	w.t.Helper()
	l, _ := w.lease(coordinator.LeaseRequest{TTL: time.Second})
	w.eventually("leases were looked at", func() bool { boot.advance(10 * time.Millisecond); return !slices.Contains(w.leases(), l.ID) })
}

// A replica whose clock is two hours ahead ends no lease before its time: it counts from
// when it saw the lease (R16). One that was made long ago, as it finds out at its start, is
// not given all of its time again.
func TestLeaseBesideAFastClock(t *testing.T) {
	t.Parallel()
	one := &world{}
	one.cfg.Limits.LeaseInterval = 24 * time.Hour
	one.open(t)
	one.create("t", twophase.ModeExclusive)
	one.lease(coordinator.LeaseRequest{ID: "a", TTL: 30 * time.Minute})
	one.lease(coordinator.LeaseRequest{ID: "b", TTL: 500 * time.Hour})

	boot := &clock{}
	var ahead atomic.Int64
	ahead.Store(int64(2 * time.Hour))
	two := &world{objects: one.objects, shared: one.store}
	two.cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	two.cfg.Boot = boot.now
	two.cfg.Limits.LeaseInterval = 10 * time.Millisecond
	two.open(t)
	want := func(when string, ids ...string) {
		t.Helper()
		two.looked(boot)
		if got := two.leases(); !cmp.Equal(got, ids) {
			t.Errorf("%s: %v, want %v", when, got, ids)
		}
	}
	want("at once", "a", "b")
	boot.advance(29 * time.Minute)
	want("after 29 minutes", "a", "b")
	boot.advance(time.Minute)
	want("after 30 minutes", "b")
	two.stop()
	ahead.Store(int64(490 * time.Hour))
	two.start()
	want("after a start ten hours before its end", "b")
	boot.advance(34 * time.Hour)
	want("a day later", "b")
	boot.advance(2 * time.Hour)
	want("a day and some hours later")
}

// Each renewal has an end of its own, also while the journal's time stands still, as after
// an entry of a clock that was ahead: who saw the end before pass does not end the renewed one.
func TestLeaseRenewedWhileTimeStands(t *testing.T) {
	t.Parallel()
	boot, now := &clock{}, time.Now()
	w := &world{}
	w.cfg.Boot, w.cfg.Now = boot.now, func() time.Time { return now }
	w.cfg.Limits.LeaseInterval = 10 * time.Millisecond
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.lease(coordinator.LeaseRequest{ID: "a", TTL: time.Hour})
	w.looked(boot)
	boot.advance(50 * time.Minute)
	if _, _, err := w.catalog.RenewLease(w.ctx(), coordinator.LeaseRequest{ID: "a", TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	w.looked(boot)
	boot.advance(20 * time.Minute)
	w.looked(boot)
	if got := w.leases(); !cmp.Equal(got, []string{"a"}) {
		t.Errorf("70 minutes after it was made, and 20 after it was renewed: %v", got)
	}
}

// Log clean-up leaves alone what a lease needs, and a lease is not given on what it has
// taken away.
func TestLeaseHoldsTheLog(t *testing.T) {
	w := newTended(t)
	w.stop()
	w.cfg.Maintain = &coordinator.MaintainConfig{Format: checkpoint.Format(), TempDir: t.TempDir()}
	w.cfg.Limits.MaxLeaseTTL = 100 * 24 * time.Hour
	w.start()
	w.create("a", twophase.ModeExclusive)
	keep := func() coordinator.MaintainReport {
		t.Helper()
		r, err := w.catalog.Maintain(w.ctx(), coordinator.MaintainRequest{Table: "a"})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	w.grow("a", 3)
	keep()
	w.grow("a", 2)
	leased := w.catalog.Shown()
	w.lease(coordinator.LeaseRequest{ID: "audit", Snapshot: leased, TTL: 99 * 24 * time.Hour})
	w.grow("a", 2)
	keep()
	w.grow("a", 1)
	w.later.Store(int64(month))
	if r := keep(); r.CleanUp.Cut != 3 || r.CleanUp.HeldBy != "lease audit" {
		t.Errorf("%+v", r.CleanUp)
	}
	if _, _, err := w.catalog.Lease(w.ctx(), coordinator.LeaseRequest{ID: "second", Snapshot: leased}); err != nil {
		t.Errorf("what is held can be leased again: %v", err)
	}
	for _, id := range []string{"audit", "second"} {
		if err := w.catalog.EndLease(w.ctx(), id); err != nil {
			t.Fatal(err)
		}
	}
	if r := keep(); r.CleanUp.Cut != 8 || r.CleanUp.HeldBy != "" {
		t.Errorf("%+v", r.CleanUp)
	}
	own := wantReason(t, "too late", leaseErr(w.catalog.Lease(w.ctx(), coordinator.LeaseRequest{ID: "late", Snapshot: leased})), coordinator.SnapshotOutOfRange)
	if own.Table == nil || own.Table.Table != "a" {
		t.Errorf("%+v", own.Table)
	}
	if got := w.leases(); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

// Tables whose own settings would let another engine break a lease or a tag are named,
// with the property; explain says it as well.
func TestLeaseWarnings(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.createWith(coordinator.CreateRequest{
		Name: "short", Schema: schema, Mode: twophase.ModeOpen,
		Properties: map[string]string{"delta.deletedFileRetentionDuration": "interval 2 days", "delta.logRetentionDuration": "interval 2 days"},
	})
	w.create("usual", twophase.ModeOpen)
	w.create("ours", twophase.ModeExclusive)
	_, none := w.lease(coordinator.LeaseRequest{ID: "brief", TTL: time.Hour})
	if len(none) != 0 {
		t.Errorf("brief: %q", none)
	}
	_, got := w.lease(coordinator.LeaseRequest{ID: "long", TTL: 10 * 24 * time.Hour})
	for i, want := range []string{
		"delta.deletedFileRetentionDuration of 2 tables (short, usual) is 48h or more: ", "delta.logRetentionDuration of table short",
	} {
		if len(got) != 2 || !strings.Contains(got[i], want) || !strings.Contains(got[i], "interval 241 hours") {
			t.Fatalf("long: %q", got)
		}
	}
	tagged, err := w.catalog.Tag(w.ctx(), "month-end", w.catalog.Shown())
	if err != nil || len(tagged) != 2 || !strings.Contains(tagged[1], "delta.logRetentionDuration of 2 tables (short, usual)") {
		t.Errorf("tag: %q, %v", tagged, err)
	}
	for i, line := range tagged { // one line, and where to read on
		want := []string{"another engine's VACUUM may take files of the snapshot from ", "another engine's log clean-up may take the log of the snapshot from "}[i]
		if len(line) > 240 || !strings.Contains(line, want) || !strings.HasSuffix(line, "see docs/operations.md, Tags and leases") {
			t.Errorf("tag: %q", line)
		}
	}
	n := 0
	for _, f := range w.explain("short").Findings {
		if f.Code == coordinator.FoundRetention && f.Property != "" && !f.Blocks && f.Remedy != "" {
			n++
		}
	}
	if n != 4 { // two properties, the long lease and the tag
		t.Errorf("%d findings", n)
	}
	if tags, err := w.catalog.Tags(w.ctx()); err != nil || len(tags) != 1 || tags[0].Name != "month-end" {
		t.Errorf("%v, %v", tags, err)
	}
	if errors.Is(w.catalog.EndLease(w.ctx(), "long"), &coordinator.Error{Reason: coordinator.LeaseNotFound}) {
		t.Error("it was there")
	}
}
