// Package twophase is the commit protocol, pure: no I/O, no clock, no goroutine.
//
// All state is the fold of a journal. State is that fold; Decide turns waiting
// requests into the next entry; Plan says what still has to be published; Judge
// says what a version found in a table's log is; Append and Walk are the loops
// that append an entry and walk a log, as step functions: they hand out an
// effect and take its result. DESIGN.md in this folder explains the rules that
// each part keeps (R2 to R10, R12 to R22).
package twophase
