// Package client changes several Delta tables together through a txcoord server.
//
// Transact is the way in: it begins a transaction under a key, calls a function
// that stages changes, and commits. It repeats what may be repeated, and only that:
// a call whose answer was lost is made again with the same token, and a
// transaction that lost a conflict runs its function again as the next attempt of
// the same key. So a key is committed once at most, however often the job starts.
//
// What the package adds to the generated stubs: the catalog's name and the highest
// snapshot version seen go out with every call, lost answers are repeated, and
// errors are of type *Error. The stubs themselves, with all that, are the fields
// of Client.
package client
