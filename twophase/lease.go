package twophase

// Leases and tags keep the versions of a snapshot readable. They steer nothing in the
// publication: whoever cleans a log looks at them, says with a record what is to go, and
// deletes once that is folded. Whoever makes one looks at those records behind his own. So
// of a clean-up and a lease that do not know of each other one gives way, however long
// either is halted between any two steps.

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
