package main

import (
	"errors"
	"time"

	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/bench/scenario"
	"github.com/txcoord/txcoord/bench/self"
)

// A variant of a contender has a server with other options.
const (
	ungatheredName    = "txcoord" + scenario.Ungathered
	hedgedName        = "txcoord-hedged"
	hedgedDecidedName = "txcoord-decided-hedged"
)

// hedgeAfter is short, since a version that many writers share is worth two puts.
const hedgeAfter = time.Millisecond

// variants adds those of the contenders that there are.
func variants(o options, launch launch, all map[string]contend.Contender) {
	plain := all["txcoord"].(contend.Txcoord)
	all[ungatheredName] = variant(o, plain, ungatheredName, self.Options{Ungathered: true}, func(dir string) (contend.Running, error) {
		return launch(dir, "--limit", "gather_at_most=1ns")
	})
	unhedged := func(string) (contend.Running, error) {
		return nil, errors.New("puts into folders are not hedged: take " + hedgedName + " with -stores sim")
	}
	all[hedgedName] = variant(o, plain, hedgedName, self.Options{Hedge: hedgeAfter}, unhedged)
	all[hedgedDecidedName] = variant(o, all["txcoord-decided"].(contend.Txcoord), hedgedDecidedName, self.Options{Hedge: hedgeAfter}, unhedged)
}

// variant has the benchmark's own server with these options, and without simulated stores
// and profile the real one.
func variant(o options, c contend.Txcoord, name string, with self.Options, real func(dir string) (contend.Running, error)) contend.Txcoord {
	with = o.stores(with)
	c.Label, c.Stall = name, nil
	c.Counting = func(dir string) (contend.Running, error) { return self.Launch(dir, with) }
	c.Launch = func(dir string) (contend.Running, error) {
		if o.profile == "" && !o.simulated {
			return real(dir)
		}
		profiled := with
		profiled.Profile = profileOf(o, dir)
		return self.Launch(dir, profiled)
	}
	return c
}
