// Package tables knows Delta: it reads a table's log, checks staged actions
// against the table, says in facts what the protocol's rules have to know of a
// change, judges by them, and renders the versions that we write.
//
// From the log: Log lists and reads commits and checkpoints and replays a State;
// Profile is the part of it that changes rarely (protocol, metadata). From a
// client: ParseActions, Validate, PartFacts, Digest. For the protocol: Rules and
// View implement twophase's interfaces. To the log: RenderCommit, RenderCreate,
// Log.PutCommit. DESIGN.md in this folder has the invariants and decisions.
//
// Package checkpoint knows Arrow and is handed in (LogConfig.ReadCheckpoint), so
// this package links none of it.
package tables
