package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// labels are the values of a metric's labels: none, one or two.
type labels [2]string

// combinations are all that a metric's labels can be, beside what is common to all.
func (m *Metric) combinations() []labels {
	out := []labels{{}}
	for i, l := range m.Labels {
		var more []labels
		for _, at := range out {
			for _, v := range l.Values {
				at[i] = v
				more = append(more, at)
			}
		}
		out = more
	}
	return out
}

func (m *Metric) set(common attribute.KeyValue, at labels) attribute.Set {
	all := []attribute.KeyValue{common}
	for i, l := range m.Labels {
		all = append(all, attribute.String(l.Name, at[i]))
	}
	return attribute.NewSet(all...)
}

// histogram records with the options of each combination made beforehand, so that a
// record allocates nothing.
type histogram struct {
	in      metric.Float64Histogram
	options map[labels][]metric.RecordOption
}

func (m *Metric) histogram(meter metric.Meter, common attribute.KeyValue) (histogram, error) {
	in, err := meter.Float64Histogram(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.About), metric.WithExplicitBucketBoundaries(m.Buckets...))
	h := histogram{in: in, options: map[labels][]metric.RecordOption{}}
	for _, at := range m.combinations() {
		h.options[at] = []metric.RecordOption{metric.WithAttributeSet(m.set(common, at))}
	}
	return h, err
}

func (h *histogram) record(ctx context.Context, v float64, at labels) {
	h.at(at).record(ctx, v)
}

// at is the series of a combination of labels, for those that are asked for again and
// again; of another combination it records nothing.
func (h *histogram) at(at labels) series { return series{h.in, h.options[at]} }

// series is one of a histogram.
type series struct {
	in      metric.Float64Histogram
	options []metric.RecordOption
}

func (s series) record(ctx context.Context, v float64) {
	if len(s.options) > 0 {
		s.in.Record(ctx, v, s.options...)
	}
}

type counter struct {
	in      metric.Int64Counter
	options map[labels][]metric.AddOption
}

// counter begins each of its series at 0: of one that appears with its first event a rate does
// not know that, and an expression with one that is not there yet has no value, whatever the
// others say.
func (m *Metric) counter(meter metric.Meter, common attribute.KeyValue) (counter, error) {
	in, err := meter.Int64Counter(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.About))
	c := counter{in: in, options: map[labels][]metric.AddOption{}}
	if err != nil {
		return c, err
	}
	for _, at := range m.combinations() {
		c.options[at] = []metric.AddOption{metric.WithAttributeSet(m.set(common, at))}
		c.add(context.Background(), 0, at)
	}
	return c, nil
}

func (c *counter) add(ctx context.Context, n int64, at labels) {
	if o, ok := c.options[at]; ok {
		c.in.Add(ctx, n, o...)
	}
}
