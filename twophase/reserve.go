package twophase

import (
	"slices"

	"github.com/txcoord/txcoord/twophase/recordpb"
)

// The rule against starvation. A transaction that reads much loses to those that write
// little and often, attempt after attempt. So a key that has lost some attempts reserves
// its tables: until the reservation ends, commits of others there are decided after the
// key's next one. DESIGN.md says how it ends, and why nobody waits for ever.

// Reserved lets the next attempt of a key go first on tables, at positions below Until.
// It stands behind the Aborted of the attempt that lost, in the same entry. Ignored if
// the key has a reservation, or one of the tables rests from others, or has as many as it can.
type Reserved struct {
	Key string
	// Attempt is the one that lost.
	Attempt uint32
	// Tables that it would have written or released, or read, by id.
	Tables []ReservedTable
	Until  Position
}

// ReservedTable is a table of a reservation.
type ReservedTable struct {
	Table TableID
	// Facts are those of the attempt that lost: appends that do not conflict with them are
	// not held up. Without them everything is, as they were too large.
	Facts Facts
}

// ReservationEnded takes a key's reservation away: somebody has waited behind it for as
// long as one has to, by the clock of who asks for the record (R16: a clock only permits
// it).
type ReservationEnded struct {
	Key string
	// From is the position of the reservation's record.
	From Position
}

// Reservation is one that stands. It is not to be changed.
type Reservation struct {
	Reserved
	// From is the position of its record, and Since the time of that entry.
	From  Position
	Since Time
	// ends with this entry; unused: though its key did not come back.
	ends, unused bool
}

// turn is a span in which a table is reserved, by one key or by several that overlap,
// and the rest behind it: about as long, so that a table is held up for half of its
// positions at most, and half of the time, whoever loses there how often. Positions alone
// would not do: while all are held up there are hardly any.
type turn struct {
	since   Position // of the first reservation
	open    Position // others may join below it: the end of the first
	least   Position // the rest is no shorter
	rests   Position // when the rest is over; 0 while the table is reserved
	sinceAt Time     // of the first reservation's entry
	restsAt Time     // the rest is not over before, by the times of entries
}

// ReservationsMost are the reservations that one table has at a time. All replicas have
// to draw the same, so it is part of the codec.
const ReservationsMost = 16

// Reservations are those that stand, in the order in which their keys go first.
func (s *State) Reservations() []*Reservation { return s.reservations }

// Reserves returns the place of a table in the reservation.
func (r *Reservation) Reserves(id TableID) (*ReservedTable, bool) {
	i, ok := slices.BinarySearchFunc(r.Tables, id, func(t ReservedTable, id TableID) int { return compareStrings(t.Table, id) })
	if !ok {
		return nil, false
	}
	return &r.Tables[i], true
}

// reservable reports whether a key may reserve a table in the entry at the position.
func (s *State) reservable(id TableID, at Position) bool {
	t := s.turns[id]
	return t == nil || s.weak.has(weakReservedTwice) || t.rests == 0 && at < t.open
}

// heldEnough reports whether a table has as many reservations as it can.
func heldEnough(id TableID, have []*Reservation) bool {
	n := 0
	for _, r := range have {
		if _, ok := r.Reserves(id); ok {
			n++
		}
	}
	return n >= ReservationsMost
}

// endedBy reports whether what became of a later attempt ends the reservation: it is
// committed, or whoever made it gave it up. One that loses again goes on to go first.
func (r *Reservation) endedBy(key string, attempt uint32, rule Rule) bool {
	return key != "" && key == r.Key && attempt > r.Attempt && !rule.lost()
}

func (f *fold) reserved(r *Reserved) {
	standing := func(o *Reservation) bool { return o.Key == r.Key }
	if r.Key == "" || r.Until <= f.entry.Position || slices.ContainsFunc(f.reservations, standing) {
		return
	}
	for _, t := range r.Tables {
		if !f.reservable(t.Table, f.entry.Position) || heldEnough(t.Table, f.reservations) {
			return
		}
	}
	for _, t := range r.Tables {
		if have := f.turns[t.Table]; have == nil || have.rests > 0 {
			f.turns[t.Table] = &turn{since: f.entry.Position, open: r.Until, sinceAt: f.entry.Time}
		}
	}
	f.reservations = append(slices.Clip(f.reservations), &Reservation{Reserved: *r, From: f.entry.Position, Since: f.entry.Time})
}

// goesOn marks the reservation that ends with what became of an attempt.
func (f *fold) goesOn(key string, attempt uint32, rule Rule) {
	for _, r := range f.reservations {
		r.ends = r.ends || r.endedBy(key, attempt, rule)
	}
}

func (f *fold) reservationEnded(e *ReservationEnded) {
	for _, r := range f.reservations {
		if r.Key == e.Key && r.From == e.From && !f.weak.has(weakReservedForever) {
			r.ends, r.unused = true, true
		}
	}
}

// endReservations ends what the entry ended, and has tables rest, and begin anew. It is the
// only rule of the fold that compares the times of entries (R16, and DESIGN.md why it may):
// a clock that is wrong makes a rest too short or too long, and decides nothing else.
func (f *fold) endReservations() {
	if len(f.reservations)+len(f.turns) == 0 {
		return
	}
	next := f.entry.Position + 1
	var stand []*Reservation
	reserved := map[TableID]bool{}
	for _, r := range f.reservations {
		if r.ends || next >= r.Until && !f.weak.has(weakReservedForever) {
			f.leaves(r, next)
			continue
		}
		stand = append(stand, r)
		for _, t := range r.Tables {
			reserved[t.Table] = true
		}
	}
	f.reservations = stand
	for id, t := range f.turns {
		if t.rests == 0 && !reserved[id] {
			t.rests = next + max(next-t.since, t.least)
			t.restsAt = f.entry.Time + max(f.entry.Time-t.sinceAt, 0)
		} else if t.rests > 0 && next >= t.rests && (f.entry.Time >= t.restsAt || f.weak.has(weakReservedTimeless)) {
			delete(f.turns, id)
		}
	}
}

// leaves closes the spans to others that a reservation was the first of, however early
// it ends: or else one key after the other could join just before the one in front is
// sent away. And tables rest longer that were reserved for a key which did not come
// back: as if it had held them to the end.
func (f *fold) leaves(r *Reservation, next Position) {
	for _, t := range r.Tables {
		turn := f.turns[t.Table]
		if turn == nil {
			continue
		}
		if turn.since == r.From && !f.weak.has(weakReservedJoined) {
			turn.open = min(turn.open, next)
		}
		if r.unused {
			turn.least = max(turn.least, r.Until-turn.since)
		}
	}
}

func reservedToPB(r *Reserved) *recordpb.Reserved {
	return &recordpb.Reserved{
		Key: r.Key, Attempt: r.Attempt, Until: uint64(r.Until),
		Tables: mapTo(r.Tables, func(t ReservedTable) *recordpb.ReservedTable {
			return &recordpb.ReservedTable{Table: string(t.Table), Facts: t.Facts}
		}),
	}
}

func reservedFromPB(m *recordpb.Reserved) *Reserved {
	return &Reserved{
		Key: m.GetKey(), Attempt: m.GetAttempt(), Until: Position(m.GetUntil()),
		Tables: mapTo(m.GetTables(), func(t *recordpb.ReservedTable) ReservedTable {
			return ReservedTable{Table: TableID(t.GetTable()), Facts: t.GetFacts()}
		}),
	}
}

func (s *State) reservationsToPB() (out []*recordpb.Reservation, turns []*recordpb.Turn) {
	for _, r := range s.reservations {
		out = append(out, &recordpb.Reservation{Reserved: reservedToPB(&r.Reserved), From: uint64(r.From), SinceMs: int64(r.Since)})
	}
	for _, id := range sortedKeys(s.turns) {
		t := s.turns[id]
		turns = append(turns, &recordpb.Turn{
			Table: string(id), Since: uint64(t.since), Open: uint64(t.open), Least: uint64(t.least), Rests: uint64(t.rests),
			SinceMs: int64(t.sinceAt), RestsMs: int64(t.restsAt),
		})
	}
	return out, turns
}

func (s *State) loadReservations(h *recordpb.CheckpointHead) {
	for _, m := range h.GetReservations() {
		s.reservations = append(s.reservations, &Reservation{
			Reserved: *reservedFromPB(m.GetReserved()), From: Position(m.GetFrom()), Since: Time(m.GetSinceMs()),
		})
	}
	for _, t := range h.GetTurns() {
		turn := &turn{
			since: Position(t.GetSince()), open: Position(t.GetOpen()), least: Position(t.GetLeast()), rests: Position(t.GetRests()),
			sinceAt: Time(t.GetSinceMs()), restsAt: Time(t.GetRestsMs()),
		}
		if turn.sinceAt == 0 {
			// From a build that did not note it: else the table would rest for as long as it
			// is since 1970. A replica that has folded the entry knows better, and may go on
			// to take a reservation where this one does not: that costs fairness alone.
			turn.sinceAt = s.time
		}
		s.turns[TableID(t.GetTable())] = turn
	}
}
