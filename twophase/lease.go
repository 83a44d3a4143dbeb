package twophase

import "time"

// Leases and tags keep the versions of a snapshot readable. They steer nothing in the
// publication: whoever cleans a log looks at them, says with a record what is to go, and
// deletes once that is folded. Whoever makes one looks at those records behind his own. So
// of a clean-up and a lease that do not know of each other one gives way, however long
// either is halted between any two steps.

// Tagged names a snapshot; Snapshot 0 takes the tag away.
type Tagged struct {
	Name     string
	Snapshot SnapshotVersion
}

// Leased keeps the versions of a snapshot readable until it ends: log clean-up of
// ours leaves them alone. A lease that is there under this id, for this snapshot, is
// made to last TTL from this entry on; one for another snapshot is left as it is.
type Leased struct {
	ID       string
	Snapshot SnapshotVersion
	TTL      time.Duration
	Note     string
	// Renew: only a lease that is there is changed. What it kept may be gone
	// otherwise.
	Renew bool
}

// LeaseEnded takes a lease away. With Until it does so because that time has
// passed, and is ignored if the lease was renewed meanwhile (R16: a clock only
// permits the record).
type LeaseEnded struct {
	ID    string
	Until Time
}

// LogCut says that a table's log may lose what lies below a version: nothing is deleted
// before. Whoever leases or tags a snapshot that needs it finds that in the fold behind
// the own record, and takes this back. If one was made that needs it since the leases and
// tags were looked at, or if the newest snapshot does, the record is ignored.
type LogCut struct {
	Table TableID
	// Cut is the oldest version that stays.
	Cut Version
	// Seen is the position up to which leases and tags were looked at, and Snapshot the
	// newest one there: what is leased or tagged of that one or later ones stays anyway.
	Seen     Position
	Snapshot SnapshotVersion
}

// leased makes a lease, or makes the one that is there last longer.
func (f *fold) leased(r *Leased) {
	if !f.leasable(r) {
		return
	}
	l := Lease{ID: r.ID, Snapshot: r.Snapshot, Note: r.Note, Since: f.entry.Time, At: f.entry.Position}
	if have := f.leases[r.ID]; have != nil {
		l = *have
	}
	l.TTL, l.Until = r.TTL, f.entry.Time+Time(r.TTL.Milliseconds())
	if have := f.leases[r.ID]; have != nil && l.Until == have.Until {
		l.Until++ // the journal's time may stand still, and each renewal has an end of its own
	}
	f.leases[r.ID] = &l
}

// leasable reports whether the fold takes the record: the snapshot is there, and the
// id is that of no lease for another one.
func (s *State) leasable(r *Leased) bool {
	have := s.leases[r.ID]
	if have == nil {
		return !r.Renew && r.Snapshot > 0 && r.Snapshot <= s.shown
	}
	return have.Snapshot == r.Snapshot
}

func (f *fold) leaseEnded(r *LeaseEnded) {
	if f.endable(r) {
		delete(f.leases, r.ID)
	}
}

// endable reports whether the record ends a lease that is there. One that was
// renewed after its end was seen to have passed goes on.
func (s *State) endable(r *LeaseEnded) bool {
	l := s.leases[r.ID]
	return l != nil && (r.Until == 0 || l.Until == r.Until)
}

// lease answers a request for a lease, or for a renewal of one. A repeated request
// is answered with another record: the lease then lasts from that one.
func (d *decision) lease(r *Leased) Answer {
	if !d.leasable(r) {
		return refuse(Refused{Reason: ReasonStale, Detail: "lease " + r.ID})
	}
	return d.add(r)
}

func (d *decision) leaseEnd(r *LeaseEnded) Answer {
	if !d.endable(r) {
		return refuse(Refused{Reason: ReasonStale, Detail: "lease " + r.ID})
	}
	return d.add(r)
}

// logCut notes that a log may lose what lies below a version.
func (f *fold) logCut(r *LogCut) {
	if t := f.live(r.Table); t != nil && f.cuts(t, r) {
		t.Cut = r.Cut
	}
}

// cuts reports whether the fold takes the record: what stays is what the newest
// snapshot names, or older, and no older snapshot was leased or tagged since somebody
// looked. What was leased or tagged before, the record goes by.
func (s *State) cuts(t *Table, r *LogCut) bool {
	if r.Cut <= t.Cut || r.Cut > t.Shown {
		return false
	}
	missed := func(snapshot SnapshotVersion, at Position) bool { return at >= r.Seen && snapshot < r.Snapshot }
	for _, l := range s.leases {
		if missed(l.Snapshot, l.At) {
			return false
		}
	}
	for _, t := range s.tags {
		if missed(t.snapshot, t.at) {
			return false
		}
	}
	return true
}

func (d *decision) cutLog(r *LogCut) Answer {
	t, ok := d.tables[r.Table]
	switch {
	case !ok || t.Released:
		return refuse(Refused{Reason: ReasonUnknownTable, Table: r.Table})
	case !d.cuts(t, r):
		return refuse(Refused{Reason: ReasonStale, Table: r.Table})
	}
	return d.add(r)
}
