// Package dynamostore is a lock.Store in one DynamoDB table.
//
// A put is one PutItem with a condition on the item's version, an attribute that is
// random and new with every write, so that two writes of equal bytes differ. Reads
// are consistent. Nothing has a time to live.
//
// # What is unknown
//
// The SDK would send a write again when it hears nothing, and its second try would
// be refused by what the first has written; so it may not, for any write. What
// DynamoDB answers with a fault of the caller's (HTTP 4xx: the condition, a limit on
// the rate, a conflict with a transaction, an invalid request) was certainly not
// carried out. Everything else that happens after a connection was there, be it a
// time-out, a broken connection or HTTP 5xx, is lock.ErrUnknown. Should a proxy
// send a request twice, the item that comes back with the failed condition shows
// that the first one was ours.
//
// A write that is refused for its rate is sent again, with growing pauses, as long
// as a request may take.
//
// # Layout, format 1
//
// The sort key is the whole key, so that a partition is in the order of its keys.
// The partition key spreads the keys that are written all the time, since a
// partition takes 1,000 writes of 1 KB in a second: the ring over 8 partitions,
// payloads over their 64 shards, announcements over 16, and one for the rest. A scan
// merges the partitions that may hold its keys.
//
// # What the table must not be
//
// A global table: its replicas accept writes under conditions that hold in their
// own region only. Nor may it be restored from a backup while replicas run (R7).
package dynamostore
