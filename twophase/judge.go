package twophase

import "fmt"

// TxnDigest names a transaction in a version of ours.
type TxnDigest struct {
	Txn    TxnID
	Digest Digest
}

// Seen is what was read at one version of a table's log.
type Seen struct {
	Version  Version
	Identity Hash
	// Catalog is the catalog id in its tags; empty for a version without our tags.
	Catalog     string
	Incarnation string
	Txns        []TxnDigest
	NotApplied  []TxnDigest
	// Marker of this catalog in the version; 0 if it carries none.
	Marker ChangeNumber

	// For a foreign version: what its record needs.
	Facts      Facts
	FactsRef   ObjectRef
	MetaDataID string
	Apps       []AppVersion
	Engine     string
	InCommit   Time
}

// Finding is what a version in a log turned out to be.
type Finding uint8

// The findings.
const (
	// FoundOurs: transactions of the open round. Go on.
	FoundOurs Finding = iota + 1
	// FoundBarrier: an empty version of ours; it wants a record (R4).
	FoundBarrier
	// FoundForeign: somebody else's; it wants a record (R4).
	FoundForeign
	// FoundUnfit: it names this catalog and does not fit what is folded. Fold to a
	// head read afterwards and walk again; if it still does not fit, journal and log
	// disagree (R3, A17).
	FoundUnfit
)

// Judge says what a version is, for a table with the given pending changes of its
// open round that are in no lower version, in order; none without a round (R3). A
// different grouping is no contradiction (A13), another order is: the marker speaks
// for all changes below it.
func Judge(catalog, incarnation string, rest []*Change, v *Seen) (Finding, string) {
	switch {
	case v.Catalog != catalog:
		return FoundForeign, ""
	case v.Incarnation != incarnation:
		return FoundUnfit, fmt.Sprintf("version %d is of incarnation %s", v.Version, v.Incarnation)
	case len(v.Txns) == 0 && len(v.NotApplied) > 0:
		return FoundBarrier, ""
	case len(v.Txns) == 0:
		return FoundUnfit, fmt.Sprintf("version %d names no transaction", v.Version)
	}
	for i, td := range v.Txns {
		switch {
		case i >= len(rest) || rest[i].Txn != td.Txn:
			return FoundUnfit, fmt.Sprintf("version %d holds transaction %s, which is not the next that is pending here", v.Version, td.Txn)
		case rest[i].Part.Digest() != td.Digest:
			return FoundUnfit, fmt.Sprintf("version %d holds transaction %s with digest %.8s, decided was %.8s",
				v.Version, td.Txn, td.Digest, rest[i].Part.Digest())
		}
	}
	return FoundOurs, ""
}
