package memobj_test

import (
	"testing"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
)

func TestConformance(t *testing.T) {
	objtest.Run(t, objtest.Config{
		New:     func(objtest.T) objstore.Store { return memobj.New() },
		Without: map[objtest.Capability]string{objtest.Reopening: "nothing outlives the process"},
	})
}
