// Package lock is compare-and-swap: the Store interface that backends implement,
// and the journal that stands on it.
package lock
