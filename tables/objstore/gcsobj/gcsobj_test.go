//go:build unix

package gcsobj_test

import (
	"testing"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/gcsobj"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
)

// handle is a store that knows where it is, so that it can be opened again.
type handle struct {
	*gcsobj.Store
	cfg gcsobj.Config
}

func config(t testing.TB, g *servers.GCS) gcsobj.Config {
	return gcsobj.Config{Bucket: g.Bucket(t), Endpoint: g.Endpoint, Anonymous: true}
}

func open(t objtest.T, cfg gcsobj.Config) handle {
	t.Helper()
	s, err := gcsobj.New(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return handle{s, cfg}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	g := servers.StartGCS(t)
	objtest.Run(t, objtest.Config{
		New:    func(lt objtest.T) objstore.Store { return open(lt, config(t, g)) },
		Reopen: func(t objtest.T, s objstore.Store) objstore.Store { return open(t, s.(handle).cfg) },
	})
}
