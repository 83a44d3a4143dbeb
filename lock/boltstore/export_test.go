package boltstore

import "go.etcd.io/bbolt"

// OnCommit puts a hook around every commit; commit runs the real one.
func OnCommit(s *Store, hook func(commit func() error) error) {
	s.update = func(fn func(*bbolt.Tx) error) error {
		return hook(func() error { return s.db.Update(fn) })
	}
}
