// Package logstore writes commits of a Delta table by the protocol of Spark's
// S3DynamoDBLogStore, so that Spark clusters with that log store and txcoord
// exclude each other on one table, also on an object store whose plain puts
// overwrite.
//
// A commit N is four writes:
//
//	T(N)   a temporary file with its bytes, under _delta_log/.tmp/
//	E(N)   an entry in a table of entries, if there is none: the claim. From here on
//	       N is taken, and its content is that of T(N), whoever writes it
//	N.json a copy of T(N), if there is none
//	E(N)   the entry is marked complete, with a time from which it may be removed
//
// Whoever meets an incomplete entry does the last two writes for its owner: a
// reader that lists the log, a writer that wants N or N+1, or a reader of N that
// does not find it. That is also how this package recovers its own commits, on any
// replica; Spark does the same. So dying between any two writes loses nothing.
//
// # What this package does not do
//
// It never deletes an entry or a temporary file, its own or another's: an entry
// that is gone re-opens its version, and without its temporary file nobody can
// finish it. It never writes a commit over another one, and never without a claim.
// Completing an entry is conditional on its being the same incomplete entry, where
// Spark's is not, so that a process that slept does not bring a removed entry back.
//
// # An entry that has expired
//
// Completed entries are removed after a while (a day by default). A writer that
// looked at N before that and claims it afterwards gets the claim although N.json
// is there. Its put of N.json is refused then, and that voids the claim; the entry
// is completed, so that nobody copies the void file.
//
// # Where it is stricter than Spark
//
// N-1.json may be missing when N is put, if there is a checkpoint of N-1: Spark
// refuses that, and a cleaned log could not be written any more. An entry is not
// repaired when the version below it is gone, checkpoint and all: the table was
// dropped, and the copy would be a version without predecessors in the next one.
package logstore
