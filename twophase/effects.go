package twophase

// The decisions behind effects that are neither a walk nor an append.

// MaySweep reports whether the staged payloads of a transaction may be deleted
// (R20): it is aborted, or nothing can happen to it any more, or its token is below
// the floor and nothing pending names it. No outcome alone is no reason: the
// transaction may be decided at any moment.
func (s *State) MaySweep(txn TxnID, begun Position) bool {
	o := s.outcomes[txn]
	if o == nil {
		return begun < s.floor || s.weak.has(weakSweepsUnknown)
	}
	return o.settled()
}

// HistoryLost reports whether the newest manifest object is newer than the fold
// (R7): the journal was put back to an older state, and the catalog stops. To be
// asked after folding to the head, at the start and before a replica's first append.
func (s *State) HistoryLost(manifest SnapshotVersion) bool {
	return manifest > s.shown && !s.weak.has(weakNoManifestLook)
}

// NextManifest is the snapshot whose manifest is to be written next, when written
// is the newest that is known to be durable (R18): k before k+1, so that a reader
// of the objects alone never misses one.
func (s *State) NextManifest(written SnapshotVersion) (*Snapshot, bool) {
	next := written + 1
	if s.weak.has(weakManifestJumps) {
		next = s.shown
	}
	for i := len(s.snapshots) - 1; i >= 0 && s.snapshots[i].Version >= next; i-- {
		if s.snapshots[i].Version == next {
			return s.snapshots[i], true
		}
	}
	return nil, false
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
