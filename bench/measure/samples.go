// Package measure turns what a benchmark saw into figures that can be compared:
// medians and percentiles, their spread over rounds, ratios against limits.
package measure

import (
	"math"
	"slices"
	"time"
)

// Samples are times of one kind.
type Samples []time.Duration

// Quantile is the smallest sample that at least the share q of all samples does
// not exceed (nearest rank); 0 without samples.
func (s Samples) Quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median is the middle sample.
func (s Samples) Median() time.Duration { return s.Quantile(0.5) }

// Rounds are the samples of the rounds of one run. Contenders take turns, round
// by round, so that what disturbs the machine disturbs all of them.
type Rounds []Samples

// All are the samples of all rounds.
func (r Rounds) All() Samples { return slices.Concat(r...) }

// Spread is the lowest and the highest of the rounds' medians.
func (r Rounds) Spread() (low, high time.Duration) {
	for i, s := range r {
		m := s.Median()
		if i == 0 || m < low {
			low = m
		}
		high = max(high, m)
	}
	return low, high
}

// Milliseconds is a time as a number for reports, to the microsecond.
func Milliseconds(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }

// Median is the middle of numbers, the mean of the two middle ones where there
// are two; 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Range is the lowest and the highest number; 0, 0 of none.
func Range(values []float64) (low, high float64) {
	if len(values) == 0 {
		return 0, 0
	}
	return slices.Min(values), slices.Max(values)
}
