package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/internal/number"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

type gcCommands struct {
	Collect gcCollect `cmd:"" default:"withargs" help:"Find what nothing names any more in the catalog's store and folder, and put it into quarantine."`
	Restore gcRestore `cmd:"" help:"Put back what an earlier call has put into quarantine."`
}

type gcCollect struct {
	Yes            bool          `help:"Do it. Without it what would go is shown, and on a terminal you are asked."`
	DryRun         bool          `help:"Only show what would go, and do not ask."`
	FormerJournals bool          `help:"Take the journals of former incarnations too: on your word that no server of theirs runs or sleeps."`
	OlderThan      time.Duration `help:"Remove for good what has been in quarantine longer than this; ${default} if not given." default:"168h" placeholder:"DURATION"`
}

// Run shows what would go. What goes is judged anew by the server, so it may be less by
// then, and more.
func (c *gcCollect) Run(ctx context.Context, s *session) error {
	switch {
	case c.Yes && c.DryRun:
		return usage("--dry-run", "", "it stands beside --yes; leave one of them out")
	case c.OlderThan < 0:
		return usage("--older-than", c.OlderThan.String(), "give a duration of 0 or more, such as 168h")
	}
	if !c.Yes {
		some, err := c.preview(ctx, s)
		if err != nil || !some || c.DryRun {
			return err
		}
		if !s.confirmed("Do it?") {
			s.note("nothing was done; with --yes it is")
			return nil
		}
	}
	for {
		more, err := c.remove(ctx, s)
		if err != nil || !more {
			return err
		}
	}
}

func (c *gcCollect) request(remove bool) *txcoordv1.CollectGarbageRequest {
	return &txcoordv1.CollectGarbageRequest{Remove: remove, FormerJournals: c.FormerJournals, QuarantineFor: durationpb.New(c.OlderThan)}
}

// preview says whether there is anything to do.
func (c *gcCollect) preview(ctx context.Context, s *session) (some bool, err error) {
	err = s.call(ctx, "looking for garbage", func(ctx context.Context, api *client.Client) error {
		a, err := api.Operations.CollectGarbage(ctx, c.request(false))
		if err != nil {
			return err
		}
		some = len(a.GetFound()) > 0
		return s.show(a, garbageKeys(a), func(g *grid) { garbageGrid(g, a) })
	})
	return some, err
}

// remove says whether there is more than one call has taken on.
func (c *gcCollect) remove(ctx context.Context, s *session) (more bool, err error) {
	err = s.call(ctx, "collecting garbage", func(ctx context.Context, api *client.Client) error {
		a, err := api.Operations.CollectGarbage(ctx, c.request(true))
		if err != nil {
			return err
		}
		more = a.GetMore() && len(a.GetFound()) > 0
		ids := []string{}
		if a.GetRun() != "" {
			ids = append(ids, a.GetRun())
		}
		return s.show(a, ids, func(g *grid) { garbageGrid(g, a) })
	})
	return more, err
}

func garbageKeys(a *txcoordv1.CollectGarbageResponse) []string {
	keys := []string{}
	for _, f := range a.GetFound() {
		keys = append(keys, f.GetKey())
	}
	return keys
}

func garbageGrid(g *grid, a *txcoordv1.CollectGarbageResponse) {
	if len(a.GetFound()) == 0 {
		g.row("Nothing is to be removed.")
	} else {
		g.row("KIND", "WHERE", "KEY", "SIZE", "AGE", "WHY")
	}
	for _, f := range a.GetFound() {
		where := "objects"
		if f.GetInStore() {
			where = "store"
		}
		g.row(word(f.GetKind()), where, f.GetKey(), bytesText(f.GetBytes()), inDays(f.GetAge().AsDuration()), f.GetWhy())
	}
	garbageCounts(g, a)
	if len(a.GetQuarantines()) > 0 {
		g.gap()
		g.row("QUARANTINE", "THINGS", "SIZE", "SINCE")
		for _, q := range a.GetQuarantines() {
			g.row(q.GetRun(), q.GetCount(), bytesText(q.GetBytes()), q.GetSince())
		}
	}
}

func garbageCounts(g *grid, a *txcoordv1.CollectGarbageResponse) {
	if len(a.GetTotals()) > 0 {
		g.gap()
	}
	verb := "would go"
	if a.GetRemoved() {
		verb = "gone"
	}
	for _, t := range a.GetTotals() {
		g.row(verb, word(t.GetKind()), number.Of(t.GetCount(), "thing"), bytesText(t.GetBytes()))
	}
	if a.GetMore() {
		g.row("there is more than one call takes on")
	}
	if y := a.GetYoung(); y.GetCount() > 0 {
		g.row("too young", "under "+coordinator.InUnits(a.GetMinAge().AsDuration()), number.Of(y.GetCount(), "thing"), bytesText(y.GetBytes()))
	}
	if u := a.GetUnknown(); u.GetCount() > 0 {
		g.row("not known", "left alone", number.Of(u.GetCount(), "thing"), bytesText(u.GetBytes()))
		for _, key := range a.GetUnknownKeys() {
			g.row("", key)
		}
		if more := u.GetCount() - uint64(len(a.GetUnknownKeys())); more > 0 && more < u.GetCount() {
			g.row("", fmt.Sprintf("and %d more", more))
		}
	}
	for _, line := range a.GetSkipped() {
		g.row("left: " + line)
	}
}

// inDays is an age for people.
func inDays(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return d.Round(time.Second).String()
}

type gcRestore struct {
	Quarantine string `arg:"" name:"quarantine" help:"The quarantine, as gc lists it."`
	Yes        bool   `help:"Do it. Without it only what would come back is said, and on a terminal you are asked."`
}

// Run puts back what is in a quarantine.
func (c *gcRestore) Run(ctx context.Context, s *session) error {
	if !c.Yes {
		if err := c.restore(ctx, s, true); err != nil {
			return err
		}
		if !s.confirmed("Do it?") {
			s.note("nothing was done; with --yes it is")
			return nil
		}
	}
	return c.restore(ctx, s, false)
}

func (c *gcRestore) restore(ctx context.Context, s *session, dry bool) error {
	return s.call(ctx, "putting back "+c.Quarantine, func(ctx context.Context, api *client.Client) error {
		a, err := api.Operations.RestoreGarbage(ctx, &txcoordv1.RestoreGarbageRequest{Run: c.Quarantine, DryRun: dry})
		if err != nil {
			return err
		}
		return s.show(a, []string{c.Quarantine}, func(g *grid) {
			verb := "put back"
			if dry {
				verb = "would come back"
			}
			g.row(verb, number.Of(a.GetCount(), "thing"), bytesText(a.GetBytes()))
			if a.GetCopiesKept() {
				g.row("copies stay", "the gc that filled this quarantine is at work, or died, and may remove them once more: call again when it is over")
			}
			for _, key := range a.GetTaken() {
				g.row("left", key, "something else lies in its place")
			}
			for _, key := range a.GetRefused() {
				g.row("left", key, "gc does not take such things away, so it puts none back")
			}
		})
	})
}
