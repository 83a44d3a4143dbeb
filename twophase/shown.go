package twophase

// Snapshots in checkpoints, as compact bytes.

// nameSnapshot gives the names in a snapshot their numbers: here and not when it is
// written, which replicas do at different times.
func (s *State) nameSnapshot(sn *Snapshot) {
	s.names.number(sn.Kind)
	for _, t := range sn.Tables {
		s.names.number(string(t.Table))
	}
	for _, id := range sn.Removed {
		s.names.number(string(id))
	}
}

func (s *State) packSnapshots(run []*Snapshot) []byte {
	p := packer{names: s.names}
	for _, sn := range run {
		p.uint(uint64(sn.Version))
		p.int(int64(sn.Time))
		p.int(int64(sn.AsOf))
		p.uint(uint64(sn.Position))
		p.name(sn.Kind)
		p.count(len(sn.Txns))
		for i := range sn.Txns {
			p.raw(sn.Txns[i][:])
		}
		p.count(len(sn.Tables))
		for _, t := range sn.Tables {
			p.name(string(t.Table))
			p.int(int64(t.Version))
		}
		p.count(len(sn.Removed))
		for _, id := range sn.Removed {
			p.name(string(id))
		}
	}
	return p.b
}

func (s *State) loadSnapshots(run []byte) error {
	u := unpacker{b: run, names: s.names}
	for len(u.b) > 0 {
		sn := &Snapshot{
			Version: SnapshotVersion(u.uint()), Time: Time(u.int()), AsOf: Time(u.int()), Position: Position(u.uint()), Kind: u.name(),
			Txns: make([]TxnID, u.count(len(TxnID{}))),
		}
		for i := range sn.Txns {
			sn.Txns[i] = u.txn()
		}
		sn.Tables = make([]SnapshotTable, u.count(2))
		for i := range sn.Tables {
			sn.Tables[i] = SnapshotTable{TableID(u.name()), Version(u.int())}
		}
		for range u.count(1) {
			sn.Removed = append(sn.Removed, TableID(u.name()))
		}
		s.snapshots = append(s.snapshots, sn)
	}
	return u.end()
}
