package export

import (
	"fmt"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/sdk/trace"
)

// sampler is what Sample or OTEL_TRACES_SAMPLER says.
func (c *Config) sampler() (trace.Sampler, error) {
	if c.Sample != nil {
		return trace.ParentBased(linked{trace.TraceIDRatioBased(*c.Sample)}), nil
	}
	name, share := c.env("OTEL_TRACES_SAMPLER"), DefaultSample
	if arg := c.env("OTEL_TRACES_SAMPLER_ARG"); strings.HasSuffix(name, "traceidratio") {
		var err error
		if share = 1; arg != "" {
			if share, err = strconv.ParseFloat(arg, 64); err != nil || !(share >= 0 && share <= 1) {
				return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q: give a number from 0 to 1", arg)
			}
		}
	}
	root, based := strings.CutPrefix(name, "parentbased_")
	var s trace.Sampler
	switch root {
	case "", "traceidratio":
		s = trace.TraceIDRatioBased(share)
	case "always_on":
		s = trace.AlwaysSample()
	case "always_off":
		s = trace.NeverSample()
	default:
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER is %q: there are always_on, always_off and traceidratio, and these after parentbased_", name)
	}
	if s = (linked{s}); based || name == "" {
		s = trace.ParentBased(s)
	}
	return s, nil
}

// linked samples what is linked with something sampled: the append that a traced
// transaction was decided by.
type linked struct{ trace.Sampler }

// ShouldSample implements trace.Sampler.
func (l linked) ShouldSample(p trace.SamplingParameters) trace.SamplingResult {
	for _, to := range p.Links {
		if to.SpanContext.IsSampled() {
			return trace.AlwaysSample().ShouldSample(p)
		}
	}
	return l.Sampler.ShouldSample(p)
}
