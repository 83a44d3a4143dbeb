package main

import (
	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/bench/scenario"
	"github.com/txcoord/txcoord/bench/self"
)

const ungatheredName = "txcoord" + scenario.Ungathered

// ungathered is a contender whose server does not wait before an entry for those whom the
// one before has answered.
func ungathered(o options, launch launch, c contend.Txcoord) contend.Txcoord {
	itself := func(dir, profile string) (contend.Running, error) {
		return self.Launch(dir, self.Options{Profile: profile, Simulated: o.simulated, Etcd: o.etcd, Ungathered: true})
	}
	c.Label, c.Stall = ungatheredName, nil
	c.Counting = func(dir string) (contend.Running, error) { return itself(dir, "") }
	c.Launch = func(dir string) (contend.Running, error) {
		if o.profile != "" || o.simulated {
			return itself(dir, profileOf(o, dir))
		}
		return launch(dir, "--limit", "gather_at_most=1ns")
	}
	return c
}
