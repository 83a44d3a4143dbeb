package twophase

// Ring is the layout of the journal in a store (R1): entry n lives in slot n mod
// Slots. Slots are never deleted, so an old position can never be written again.
type Ring struct {
	Slots Position
	weak  weakness
}

// SlotState is what a slot means to whoever wants a position there.
type SlotState uint8

// The states of a slot.
const (
	// SlotFree: it holds what the entry at the position replaces: nothing below
	// Slots, the entry n-Slots above.
	SlotFree SlotState = iota + 1
	// SlotFilled: it holds the position.
	SlotFilled
	// SlotPassed: it holds a later position. Whoever wants this one has fallen
	// behind and starts again from a checkpoint.
	SlotPassed
	// SlotShort: it holds an earlier entry than the one to be replaced, or nothing.
	// The journal is shorter than the fold: it was put back to an older state (R7).
	// Nothing is appended, and the catalog stops.
	SlotShort
)

// Slot is the slot of a position.
func (r Ring) Slot(n Position) Position { return n % r.Slots }

// State says what the slot of position n means that holds an entry at position
// held, or nothing.
func (r Ring) State(n, held Position, filled bool) SlotState {
	switch {
	case filled && held == n:
		return SlotFilled
	case r.weak.has(weakRing):
		return SlotFree
	case filled && held > n:
		return SlotPassed
	case n < r.Slots && !filled, n >= r.Slots && filled && held == n-r.Slots:
		return SlotFree
	}
	return SlotShort
}

// MustCheckpoint reports whether the entry at a position should carry a checkpoint
// record, when the newest checkpoint is the fold before another one (R1).
func (r Ring) MustCheckpoint(n, checkpoint Position) bool { return n-checkpoint >= r.Slots/2 }

// MayAppend reports whether an entry may be appended at a position (R1): entries
// from the newest checkpoint on stay in the ring for replicas that start. The last
// places in front of it are kept for entries that carry a checkpoint record, so
// that a stalled object store cannot fill the ring for ever. An entry carries one
// only if MustCheckpoint would ask for no other after it: a record that was made
// long ago would use up a place and win none.
func (r Ring) MayAppend(n, checkpoint Position, carriesCheckpoint bool) bool {
	if carriesCheckpoint {
		return n-checkpoint < r.Slots
	}
	return n-checkpoint < r.Slots-max(r.Slots/8, 1)
}
