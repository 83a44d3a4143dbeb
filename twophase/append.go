package twophase

import "bytes"

// Append is the loop that puts one entry at the end of the journal (R1, R5), as a
// step function: Next is what to do, Feed takes what came of it. It is done when
// something fills the position, whoever wrote it; that entry is what to fold.
type Append struct {
	pos    Position
	bytes  []byte
	effect AppendEffect
	filled []byte
	behind bool
	weak   weakness
}

// AppendEffect is what an append needs next.
type AppendEffect uint8

// The effects of an append.
const (
	// AppendPut: put the bytes at the position, if the slot allows it (R1).
	AppendPut AppendEffect = iota
	// AppendGet: read what stands at the position.
	AppendGet
	// AppendDone: the position is filled; or the journal went on past it.
	AppendDone
)

// AppendResult is what came of an effect.
type AppendResult struct {
	// Put: exactly one of the three, for AppendPut.
	Done, Refused, Unknown bool
	// For AppendGet: Entry is what stands at the position; nil if it is not filled.
	// Behind: the slot holds a higher position.
	Entry  []byte
	Behind bool
}

// NewAppend begins to put an entry's bytes at a position.
func NewAppend(pos Position, entry []byte) *Append { return &Append{pos: pos, bytes: entry} }

// Next is the effect to carry out, and the position and bytes it is about.
func (a *Append) Next() (AppendEffect, Position, []byte) { return a.effect, a.pos, a.bytes }

// Feed takes the result of the effect. An unknown put is looked up, and repeated
// byte for byte while nothing fills the position: a read that finds nothing
// concludes nothing (A5 b). A read that failed is fed as the zero result of a get.
func (a *Append) Feed(r AppendResult) {
	switch {
	case a.effect == AppendPut && r.Done:
		a.filled, a.effect = a.bytes, AppendDone
	case a.effect == AppendPut:
		a.effect = AppendGet
	case a.effect == AppendGet && r.Entry != nil:
		a.filled, a.effect = r.Entry, AppendDone
	case a.effect == AppendGet && r.Behind:
		a.behind, a.effect = true, AppendDone
	case a.effect == AppendGet && a.weak.has(weakAbsentIsNo):
		a.effect = AppendDone
	case a.effect == AppendGet:
		a.effect = AppendPut
	}
}

// Filled is the entry that stands at the position, once done; nil if the journal
// went on past it (R1: fallen behind, start again from a checkpoint).
func (a *Append) Filled() []byte { return a.filled }

// Won reports whether the entry at the position is the one that was asked for.
func (a *Append) Won() bool { return a.filled != nil && bytes.Equal(a.filled, a.bytes) }

// Losses counts positions lost in a row; after two a replica hands its queue to
// the writer of the last entry, and keeps it (R15).
type Losses struct{ n int }

// Count takes the end of an append. It reports whether to forward the queue now.
func (l *Losses) Count(a *Append) (forward bool) { return l.Ended(a.Won()) }

// Ended is Count for who knows only whether the append was won.
func (l *Losses) Ended(won bool) (forward bool) {
	if won {
		l.n = 0
		return false
	}
	l.n++
	return l.n >= 2
}
