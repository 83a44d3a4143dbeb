// Package boltstore is a lock.Store in one bbolt file, for one process on one
// machine. A put is on disk before it is acknowledged.
//
// Writes queue, and one goroutine takes all that wait into one transaction, in the
// order in which they came: conditions see the writes in front of them, and one
// that does not hold refuses its own write only. Hence a write that was queued
// earlier is durable no later than one that was queued later, however many callers
// there are, and all that wait share the price of one commit (two syncs). There is
// no timer: a lone write is committed at once.
//
// A reader never learns what a power failure could take back: bbolt shows a commit
// before its last sync, so a read that meets a key of the commit in flight waits
// for that commit.
//
// The file is locked against other processes while it is open. It must lie on a
// local disk: its lock and its memory map mean little on network file systems.
package boltstore
