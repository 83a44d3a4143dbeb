package checker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind names what a violation breaks.
type Kind string

// The kinds of violations.
const (
	// LogGap: a version is missing between others.
	LogGap Kind = "log-gap"
	// LogUnreadable: an empty, torn or malformed commit.
	LogUnreadable Kind = "log-unreadable"
	// VersionRewritten: a version's bytes are not those that were seen earlier.
	VersionRewritten Kind = "version-rewritten"
	// VersionVanished: a version that was seen earlier is gone, and no checkpoint covers it.
	VersionVanished Kind = "version-vanished"
	// TagsMalformed: the commitInfo of a version of ours is not as CONTRACT.md section 5 has it.
	TagsMalformed Kind = "tags-malformed"
	// MarkerMalformed: line 2 of a version of ours is not the marker, or there is another one.
	MarkerMalformed Kind = "marker-malformed"
	// MarkerOrder: the markers of a table do not rise with the transactions delivered.
	MarkerOrder Kind = "marker-order"
	// TransactionTwice: a log holds a transaction more than once.
	TransactionTwice Kind = "transaction-twice"
	// TransactionLost: an acknowledged transaction is missing in one of its tables.
	TransactionLost Kind = "transaction-lost"
	// TransactionTorn: a transaction without an answer is in some of its tables only.
	TransactionTorn Kind = "transaction-torn"
	// TransactionRefused: a refused transaction is in a log.
	TransactionRefused Kind = "transaction-refused"
	// TransactionStray: a log holds a transaction that does not belong there.
	TransactionStray Kind = "transaction-stray"
	// TransactionMisplaced: not the version or the digests that the client knows.
	TransactionMisplaced Kind = "transaction-misplaced"
	// TransactionGivenUp: a log gives a transaction up and delivers it, or the
	// client was told otherwise.
	TransactionGivenUp Kind = "transaction-given-up"
	// PathWrong: an added path is not exactly where its transaction is.
	PathWrong Kind = "path-wrong"
	// OrderCycle: two tables hold the same transactions in contradicting order.
	OrderCycle Kind = "order-cycle"
	// ManifestGap: the manifests' snapshots are not 1, 2, 3, …, each in one file.
	ManifestGap Kind = "manifest-gap"
	// ManifestMalformed: a manifest is not as docs/manifest.md has it.
	ManifestMalformed Kind = "manifest-malformed"
	// ManifestRewritten: a manifest's bytes are not those that were seen earlier, or it is gone.
	ManifestRewritten Kind = "manifest-rewritten"
	// ManifestTime: a manifest's timestamp is before its predecessor's.
	ManifestTime Kind = "manifest-time"
	// ManifestFold: a full manifest is not the fold of the deltas.
	ManifestFold Kind = "manifest-fold"
	// ManifestTable: a manifest's table is not one of the run, or changed its name or place.
	ManifestTable Kind = "manifest-table"
	// ManifestBack: a table's version is lower than in an earlier manifest.
	ManifestBack Kind = "manifest-back"
	// ManifestTransactions: the transactions a manifest lists are not those that it makes visible.
	ManifestTransactions Kind = "manifest-transactions"
	// SnapshotUnreal: a manifest names a version that no log has.
	SnapshotUnreal Kind = "snapshot-unreal"
	// SnapshotTorn: a snapshot shows a transaction in some of its tables only.
	SnapshotTorn Kind = "snapshot-torn"
	// SnapshotWrong: an acknowledged transaction became visible at another snapshot than the client was told.
	SnapshotWrong Kind = "snapshot-wrong"
	// SnapshotUnsettled: at rest, something decided is in no snapshot.
	SnapshotUnsettled Kind = "snapshot-unsettled"
)

// Kinds lists every kind, so that tests can hold that each of them fires.
func Kinds() []Kind {
	return []Kind{
		LogGap, LogUnreadable, VersionRewritten, VersionVanished, TagsMalformed, MarkerMalformed, MarkerOrder,
		TransactionTwice, TransactionLost, TransactionTorn, TransactionRefused, TransactionStray,
		TransactionMisplaced, TransactionGivenUp, PathWrong, OrderCycle, ManifestGap, ManifestMalformed,
		ManifestRewritten, ManifestTime, ManifestFold, ManifestTable, ManifestBack, ManifestTransactions,
		SnapshotUnreal, SnapshotTorn, SnapshotWrong, SnapshotUnsettled,
	}
}

// Violation is one thing that is wrong, with as much of its place as is known.
type Violation struct {
	Kind     Kind
	Table    string
	Version  int64
	Snapshot uint64
	Txn      string
	Detail   string
}

func (v Violation) String() string {
	var b strings.Builder
	b.WriteString(string(v.Kind) + ":")
	if v.Table != "" {
		fmt.Fprintf(&b, " table %s version %d", v.Table, v.Version)
	}
	if v.Snapshot != 0 {
		fmt.Fprintf(&b, " snapshot %d", v.Snapshot)
	}
	if v.Txn != "" {
		fmt.Fprintf(&b, " transaction %s", v.Txn)
	}
	return b.String() + ": " + v.Detail
}

// Report is what a check found.
type Report struct {
	Violations []Violation
	// Versions and OwnVersions count the commits that were read, Transactions the
	// transactions that were found in them, Manifests the snapshots in the
	// manifests that were read.
	Versions, OwnVersions, Transactions, Manifests int
	// Unverified counts parts that may lie in versions which others cleaned before
	// anybody looked; they are neither found nor reported as lost.
	Unverified int
}

// OK reports whether nothing is wrong.
func (r *Report) OK() bool { return len(r.Violations) == 0 }

// Has reports whether a violation of the kind was found.
func (r *Report) Has(k Kind) bool {
	return slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Kind == k })
}

// Err is nil if nothing is wrong, and otherwise an error that names the violations.
func (r *Report) Err() error {
	if r.OK() {
		return nil
	}
	return errors.New(r.String())
}

// mostPerKind bounds what String prints of one kind: a run that is wrong is
// often wrong thousands of times in the same way.
const mostPerKind = 10

func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "checked %d versions (%d of ours, %d transactions) and %d snapshots in manifests: ",
		r.Versions, r.OwnVersions, r.Transactions, r.Manifests)
	if r.OK() {
		b.WriteString("nothing wrong")
	} else {
		fmt.Fprintf(&b, "%d violations", len(r.Violations))
	}
	seen := map[Kind]int{}
	for _, v := range r.Violations {
		if seen[v.Kind]++; seen[v.Kind] <= mostPerKind {
			b.WriteString("\n  " + v.String())
		}
	}
	for _, k := range Kinds() {
		if n := seen[k] - mostPerKind; n > 0 {
			fmt.Fprintf(&b, "\n  … and %d more of %s", n, k)
		}
	}
	return b.String()
}

// finish puts violations into an order that does not depend on map iteration.
func (r *Report) finish() {
	slices.SortStableFunc(r.Violations, func(a, b Violation) int {
		return slices.Index(Kinds(), a.Kind) - slices.Index(Kinds(), b.Kind)
	})
}
