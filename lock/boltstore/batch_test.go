package boltstore_test

import (
	"fmt"
	"testing"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
)

// A batch costs what a put does.
func TestBatchIsOneCommit(t *testing.T) {
	s := openNew(t)
	commits := 0
	boltstore.OnCommit(s.Store, func(commit func() error) error {
		commits++
		return commit()
	})
	var with []lock.Write
	for i := range 20 {
		with = append(with, lock.Write{Key: fmt.Sprintf("pay/%d", i)})
	}
	if _, err := s.PutBatch(t.Context(), "k", nil, lock.IfAbsent(), with); err != nil || commits != 1 {
		t.Errorf("%v, after %d commits", err, commits)
	}
}
