// Package etcdstore is a lock.Store in an etcd cluster, version 3.5.6 or newer.
//
// A put is one transaction that compares the key's mod-revision; the revision of an
// item is that number, which etcd gives out once. Reads are linearizable. There are
// no leases: nothing here depends on a clock.
//
// # What is unknown
//
// etcd answers an error also for what it has carried out: a time-out while the
// leader changes, a connection that breaks, and even "database space exceeded",
// which the put that reaches the quota gets although it is applied. Only errors that
// etcd gives before it applies anything are taken for "certainly not carried out";
// all others are lock.ErrUnknown. The client's own repetitions are turned off, since
// they repeat a put as well when a proxy answers in the server's place that a
// request was cancelled, and the second try would be refused by the first.
//
// # A cluster that goes back
//
// A cluster that was restored from a backup hands its positions out again. The store
// remembers the newest put of its own and has etcd compare it in the same
// transaction as the next, together with the write that a condition names
// (lock.Condition.After), and it holds the revision of every answer against those
// before. Once they disagree the store refuses everything (lock.ErrShort, R7). The
// revisions alone say nothing where the backup was restored with newer ones
// (--bump-revision), and nor does a put that is gone: whoever sweeps may have deleted
// it. What a condition names is never deleted.
//
// # Space
//
// etcd keeps every old value until it is told to compact, and stops taking writes
// when its quota is used up; a journal writes megabytes a second. The store compacts
// by itself what is older than the last look but one, which several replicas may do
// side by side: only old values go. It reports when a member has used 60 % of its
// quota.
package etcdstore
