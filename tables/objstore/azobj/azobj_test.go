//go:build unix

package azobj_test

import (
	"strings"
	"testing"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/azobj"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
)

// handle is a store that knows where it is, so that it can be opened again.
type handle struct {
	*azobj.Store
	cfg azobj.Config
}

// config is a container of its own on a server.
func config(t testing.TB, a *servers.Azure) azobj.Config {
	return azobj.Config{Account: a.Account, Container: a.Container(t), Endpoint: a.Endpoint, Key: a.Key}
}

func open(t objtest.T, cfg azobj.Config) handle {
	t.Helper()
	s, err := azobj.New(t.Context(), cfg)
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
	a := servers.StartAzure(t)
	objtest.Run(t, objtest.Config{
		New:     func(lt objtest.T) objstore.Store { return open(lt, config(t, a)) },
		Reopen:  func(t objtest.T, s objstore.Store) objstore.Store { return open(t, s.(handle).cfg) },
		Without: map[objtest.Capability]string{objtest.Backslashes: "Azure takes them for slashes, and they are refused"},
	})
	key := `a\b`
	if err := open(t, config(t, a)).Put(t.Context(), key, nil); err == nil || !strings.Contains(err.Error(), "backslash") {
		t.Errorf("a key with a backslash: %v", err)
	}
}
