package twophase

import "sort"

// The decisions behind effects that are neither a walk nor an append.

// MaySweep reports whether the staged payloads of a transaction may be deleted
// (R20): it is aborted, or nothing can happen to it any more, or its token is below
// the floor and nothing pending names it. No outcome alone is no reason: the
// transaction may be decided at any moment.
func (s *State) MaySweep(txn TxnID, begun Position) bool {
	if !s.isDecided(txn) {
		return begun < s.floor || s.weak.has(weakSweepsUnknown)
	}
	o := s.unsettled[txn]
	return o == nil || o.settled()
}

// HistoryLost reports whether the newest manifest object is newer than the fold
// (R7): the journal was put back to an older state, and the catalog stops. To be
// asked after folding to the head, at the start and before a replica's first append.
func (s *State) HistoryLost(manifest SnapshotVersion) bool {
	return manifest > s.shown && !s.weak.has(weakNoManifestLook)
}

// NextManifests are the snapshots that come next into a manifest, in order and without a
// hole, when written is the newest that is known to be durable in one (R18); at most so
// many. None if the fold holds none above it, or does not hold the next one any more.
func (s *State) NextManifests(written SnapshotVersion, most int) []*Snapshot {
	next := written + 1
	if s.weak.has(weakManifestJumps) {
		next = s.shown
	}
	i := sort.Search(len(s.snapshots), func(i int) bool { return s.snapshots[i].Version >= next })
	if i == len(s.snapshots) || s.snapshots[i].Version != next {
		return nil
	}
	return s.snapshots[i:min(i+most, len(s.snapshots)):len(s.snapshots)]
}

// MayForget is the highest floor that keeps every snapshot whose manifest is not
// known to be durable (R6, R18).
func (s *State) MayForget(written SnapshotVersion) Position {
	for _, sn := range s.snapshots {
		if sn.Version > written {
			return sn.Position
		}
	}
	return s.next
}
