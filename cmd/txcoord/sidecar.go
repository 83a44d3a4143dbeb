package main

import (
	"context"
	"time"
)

// sidecarCommand is a server beside one job: the same as serve, on an address that
// only its own machine, or pod, reaches. Other replicas need not be able to reach it.
type sidecarCommand struct {
	Config     `embed:""`
	HandOver   time.Duration `help:"A sidecar: at the end, how long to go on publishing what was decided here. What is left then is published by another server of the catalog, or by the next one." default:"5s"`
	ListLimits listLimits    `help:"List the limits that --limit sets, and end."`
}

// Validate refuses an address that others reach: what is a sidecar then?
func (c *sidecarCommand) Validate() error {
	if !isSocket(c.Listen) && !loopback(c.Listen) {
		return usage("--listen", c.Listen, "a sidecar serves its own machine: give unix:PATH or a loopback address; txcoord serve is for others")
	}
	if c.HandOver < 0 {
		return usage("--hand-over", c.HandOver.String(), "give a duration of 0 or more")
	}
	return c.Config.Validate()
}

func (c *sidecarCommand) Run(ctx context.Context, s *session) error {
	c.env, c.peerCA, c.drainFor = s.env, s.TLSCA, &c.HandOver
	return serve(ctx, &c.Config, s.Catalog, s.out, s.err)
}
