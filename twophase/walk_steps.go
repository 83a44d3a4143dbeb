package twophase

import "time"

// WalkInput is what a walk starts from. It is a copy: the fold may move on.
type WalkInput struct {
	Catalog     string
	Incarnation string
	Table       TableID
	MetaDataID  string
	Recorded    Version
	Identity    Hash
	Marker      ChangeNumber
	// Deliverable is the highest change number that a version can hold.
	Deliverable ChangeNumber
	// Changes of the open round on the table, in order; empty for a look-up.
	Changes          []*Change
	Caps             Caps
	OneTxnPerVersion bool
	// GiveUp names changes that an operator gives up by a barrier (R4).
	GiveUp map[TxnID]bool
	// LookUp: put nothing; end where the log ends.
	LookUp bool
	// Ended is when this process last saw the log end with the recorded version, on
	// its boot-time clock: it put that version, or listed the log and found nothing
	// above it (Sight.Ended). Having read the version is not enough, since those above
	// it may be cleaned. NoSight if it never did.
	Ended time.Duration
	weak  weakness
}

// WalkInput of a table and its open round, if there is one.
func (s *State) WalkInput(id TableID, ended time.Duration) WalkInput {
	t := s.tables[id]
	in := WalkInput{
		Catalog: s.catalog, Incarnation: s.incarnation, Table: id, MetaDataID: t.MetaDataID,
		Recorded: t.Recorded, Identity: t.Identity, Marker: t.Marker, Deliverable: t.deliverable(), OneTxnPerVersion: t.OneTxnPerVersion, Ended: ended, weak: s.weak,
	}
	if s.weak.has(weakSettledMarker) {
		in.Marker = t.settled()
	}
	if r := s.busy[id]; r != nil {
		in.Caps = r.Caps
		if s.weak.has(weakCapsOfNow) {
			in.Caps = s.caps
		}
		for _, c := range t.Pending {
			if c.Round == r || s.weak.has(weakOwnRoundEnd) {
				in.Changes = append(in.Changes, c)
			}
		}
	}
	return in
}

// WalkEffect is what a walk needs next; one of the types below.
type WalkEffect interface{ walkEffect() }

// The effects of a walk.
type (
	// ClaimPlace: put the owner object of a table that a transaction creates (R21).
	// Result: PlaceClaimed.
	ClaimPlace struct{}
	// ReadVersion: read a version. Result: SeenVersion or AbsentVersion.
	ReadVersion struct{ Version Version }
	// ListFrom: list the log from a version on; all of it from NoVersion. Result: Listing.
	ListFrom struct{ Version Version }
	// ReadCleaned: list the whole log and read the newest complete checkpoint (R22). Result: Cleaned.
	ReadCleaned struct{}
	// PutVersion: render these changes as a version, and put it if absent. Result: PutResult.
	PutVersion struct {
		Version Version
		Changes []*Change
	}
	// PutBarrier: put an empty version that gives the changes up (R4). Result: PutResult.
	PutBarrier struct {
		Version Version
		GiveUp  []*Change
		Marker  ChangeNumber
	}
	// AppendRecord: the walk found what must become history first. It ends here;
	// after the record, or whatever took its place, is folded, a new walk goes on.
	// For a Range the Base is the state at its end.
	AppendRecord struct {
		Record Record
		Base   Base
	}
	// WalkDone: every change of the round is in a version of the log, or, for a
	// look-up, the log ends at the version Free.
	WalkDone struct {
		Found []FoundVersion
		Free  Version
	}
	// WalkUnfit: journal and log do not fit. Fold to a head read from now on, and
	// walk again; the same reason twice is a contradiction (R3).
	WalkUnfit struct{ Reason string }
)

func (ClaimPlace) walkEffect()   {}
func (ReadVersion) walkEffect()  {}
func (ListFrom) walkEffect()     {}
func (ReadCleaned) walkEffect()  {}
func (PutVersion) walkEffect()   {}
func (PutBarrier) walkEffect()   {}
func (AppendRecord) walkEffect() {}
func (WalkDone) walkEffect()     {}
func (WalkUnfit) walkEffect()    {}

// WalkResult is what came of an effect; one of the types below.
type WalkResult interface{ walkResult() }

// The results of a walk's effects.
type (
	// PlaceClaimed: the owner object is there, and names this table, or Other, the
	// catalog to which the place belongs.
	PlaceClaimed struct{ Other string }
	// SeenVersion: the version is there.
	SeenVersion struct{ Seen }
	// AbsentVersion: it is not.
	AbsentVersion struct{}
	// Listing of a log from version From on.
	Listing struct {
		// From is there, and Identity is its content's (an equal ETag may stand for it).
		FromThere bool
		Identity  Hash
		// Owner: the folder of the owner object is there (R21).
		Owner bool
		// Highest commit and Highest checkpoint at or above From; NoVersion if none.
		Commit     Version
		Checkpoint Version
	}
	// Cleaned is the whole log, and the state at its newest complete checkpoint.
	Cleaned struct {
		Owner bool
		// Commits that are there, from the recorded version on, ascending.
		Commits []Version
		// Checkpoint is the newest complete one; NoVersion if there is none.
		Checkpoint Version
		MetaDataID string
		Marker     ChangeNumber
		// Identity of the checkpoint version's commit; zero if that is gone.
		Identity Hash
		Base     Base
	}
	// PutResult: exactly one is set.
	PutResult struct {
		Done, Exists, Unknown bool
		// Identity of the bytes that were put.
		Identity Hash
	}
)

func (PlaceClaimed) walkResult()  {}
func (SeenVersion) walkResult()   {}
func (AbsentVersion) walkResult() {}
func (Listing) walkResult()       {}
func (Cleaned) walkResult()       {}
func (PutResult) walkResult()     {}

// settled is the highest change number below all that is pending.
func (t *Table) settled() ChangeNumber {
	if len(t.Pending) > 0 {
		return t.Pending[0].Number - 1
	}
	return t.Next - 1
}
