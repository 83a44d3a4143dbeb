// Package objstore is the object storage that Delta tables, manifests and large
// payloads live on: a few operations, each with its contract. Backends are in
// the folders beside this file; objtest is the suite that all of them pass.
package objstore

import (
	"context"
	"errors"
	"iter"
	"time"
)

// The answers that callers branch on. Everything else means that the operation
// was certainly not carried out.
var (
	// ErrNotFound: there is no object of that key.
	ErrNotFound = errors.New("object not found")
	// ErrExists: the put was refused, because the key holds an object. Nothing was written.
	ErrExists = errors.New("object exists")
	// ErrUnknown: the put, or the deletion, may have landed, or may land later. Only
	// reading the key settles it, and a put only by finding something.
	ErrUnknown = errors.New("outcome unknown")
	// ErrLinked: a folder on the way to the object is a symbolic link that is not
	// followed. Nothing was read or written.
	ErrLinked = errors.New("a symbolic link is not followed")
	// ErrNoAnswer: the store gave none for as long as a request may take. It is the caller's
	// deadline that passes in other errors.
	ErrNoAnswer = errors.New("no answer")
)

// Info describes an object.
type Info struct {
	// Key is the object's key: segments parted by single slashes, no leading slash.
	Key  string
	Size int64
	// ETag changes with the content; empty where the store has none.
	ETag     string
	Modified time.Time
}

// Range selects bytes of an object. The zero Range is the whole object; a
// negative Offset counts from the end, and Length 0 means up to the end.
type Range struct{ Offset, Length int64 }

// Entry is one line of a listing: an object, or, with a delimiter, a common prefix.
type Entry struct {
	Info
	// Prefix is set instead of Info for a "folder"; it ends with a slash.
	Prefix string
}

// ListOptions say what to list.
type ListOptions struct {
	// Prefix that all keys have. It need not end at a slash.
	Prefix string
	// StartAfter leaves out keys that are not after it.
	StartAfter string
	// Delimiter folds everything behind the next slash after Prefix into one Entry.
	Delimiter bool
	// Linked is called with the key of each symbolic link below the place that is listed,
	// and none is followed. Without it links are followed as far as the store follows
	// links, and one that it does not follow fails the listing. Only folders have any.
	Linked func(key string)
}

// Store is one bucket, or one folder. Implementations are safe for concurrent use
// by many goroutines and processes, and never retry a conditional put by themselves.
type Store interface {
	// Get reads an object, or a range of it. Read after write: an object whose put
	// was acknowledged is found. ErrNotFound if there is none.
	Get(ctx context.Context, key string, r Range) ([]byte, Info, error)
	// Stat is Get without the bytes.
	Stat(ctx context.Context, key string) (Info, error)
	// PutIfAbsent writes the object unless the key holds one. nil: written and
	// durable. ErrExists, ErrUnknown as above. Of any number of racing puts at most
	// one returns nil. A reader never sees part of an object.
	PutIfAbsent(ctx context.Context, key string, data []byte) error
	// Put writes the object, whether or not the key holds one. Same durability.
	Put(ctx context.Context, key string, data []byte) error
	// List yields entries in byte order of their keys (prefixes in order with them).
	// An error ends the sequence.
	List(ctx context.Context, o ListOptions) iter.Seq2[Entry, error]
	// Delete removes the object; a missing one is no error.
	Delete(ctx context.Context, key string) error
}
