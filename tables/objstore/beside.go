package objstore

import (
	"context"
	"errors"
)

// What folders know and buckets do not: whether the place that an object is put into is
// still the one that is meant.
var (
	// ErrNoFolder: the put was refused, because the folder that it was to go into is not
	// there, and this put may not make it. Nothing was written.
	ErrNoFolder = errors.New("the folder is not there")
	// ErrMoved: the put was refused, because what should lie beside the object does not.
	// Nothing was written.
	ErrMoved = errors.New("the folder is not the one that is meant")
	// ErrAway: the folder of the whole store is gone, which was there. This says nothing
	// of the objects: it may be renamed, or not mounted. Nothing was read or written.
	ErrAway = errors.New("the folder of the object store is gone")
)

// Neighbour is an object that has to lie in the folder of another when that gets its
// name.
type Neighbour struct {
	// Name below the folder.
	Name string
	// SHA256 of its content; zero if it is enough that it is there.
	SHA256 [32]byte
}

// Guarded is a Store that sees to a Neighbour at the moment of a put.
type Guarded interface {
	Store
	// PutBeside is PutIfAbsent into a folder that has to be there and to hold the
	// neighbour: else ErrNoFolder or ErrMoved. Look and put are done in the same folder,
	// whatever takes its name between them: one that was removed gets nothing, one that
	// was renamed gets the object where it is now. Only one that is emptied and filled
	// anew in this moment gets an object that was meant for another.
	PutBeside(ctx context.Context, key string, data []byte, n Neighbour) error
}

// PutBeside is PutIfAbsent, with the guard where the store offers it.
func PutBeside(ctx context.Context, s Store, key string, data []byte, n Neighbour) error {
	if g, ok := s.(Guarded); ok {
		return g.PutBeside(ctx, key, data, n)
	}
	return s.PutIfAbsent(ctx, key, data)
}
