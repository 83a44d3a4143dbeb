package quota

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/txcoord/txcoord/internal/nearest"
)

// Limits are those of one principal in one catalog, at one server. What is zero bounds
// nothing.
type Limits struct {
	// OpenTransactions that it began here and that are not decided.
	OpenTransactions int64
	// StagedBytes of those.
	StagedBytes int64
	// Commits a second; as many may come at once.
	Commits int64
	// Calls under way, without streams.
	Calls int64
	// Streams under way: parts that are streamed in, and watches.
	Streams int64
}

// Defaults are so generous that only what runs away meets them.
func Defaults() Limits {
	return Limits{OpenTransactions: 100_000, StagedBytes: 64 << 30, Commits: 10_000, Calls: 10_000, Streams: 1_000}
}

// Names of the limits, as errors give them.
const (
	NameOpenTransactions = "principal_open_transactions"
	NameStagedBytes      = "principal_staged_bytes"
	NameCommits          = "principal_commits"
	NameCalls            = "principal_calls"
	NameStreams          = "principal_streams"
)

// Names of the limits of all principals together, of which each has a share.
const (
	NameQueueBytes  = "queue_bytes"
	NameStreamBytes = "stream_bytes"
)

// Resource is something that principals hold.
type Resource int

// The resources.
const (
	OpenTransactions Resource = iota
	StagedBytes
	Calls
	Streams
	resources
)

func (r Resource) name() string {
	return [resources]string{NameOpenTransactions, NameStagedBytes, NameCalls, NameStreams}[r]
}

func (l *Limits) of(r Resource) int64 {
	return [resources]int64{l.OpenTransactions, l.StagedBytes, l.Calls, l.Streams}[r]
}

// Names are those of all limits.
func Names() []string {
	return []string{NameOpenTransactions, NameStagedBytes, NameCommits, NameCalls, NameStreams}
}

// Field is the limit of a name; nil if there is none.
func (l *Limits) Field(name string) *int64 {
	fields := []*int64{&l.OpenTransactions, &l.StagedBytes, &l.Commits, &l.Calls, &l.Streams}
	if i := slices.Index(Names(), name); i >= 0 {
		return fields[i]
	}
	return nil
}

// most bounds values, so that sums of them fit.
const most = 1 << 50

// Set sets the limit of a name from text, such as 100 or 10GiB.
func (l *Limits) Set(name, value string) error {
	field := l.Field(name)
	if field == nil {
		return fmt.Errorf("is no limit of a principal; use some of %v%s", Names(), nearest.Meant(name, Names()))
	}
	digits, factor := value, int64(1)
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if d, ok := strings.CutSuffix(value, unit); ok {
			digits, factor = d, int64(1)<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > most/factor {
		return fmt.Errorf("%q is no whole number from 0 to %d; write it as 100 or 10GiB, or 0 for no limit", value, int64(most))
	}
	*field = n * factor
	return nil
}

// Validate names the first limit that makes no sense.
func (l *Limits) Validate() error {
	for r := range resources {
		if n := l.of(r); n < 0 {
			return fmt.Errorf("limit %s is %d: give a number above 0, or 0 for none", r.name(), n)
		}
	}
	if l.Commits < 0 {
		return fmt.Errorf("limit %s is %d: give a number above 0, or 0 for none", NameCommits, l.Commits)
	}
	return nil
}
