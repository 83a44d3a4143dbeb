//go:build unix

package s3obj_test

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/tables/objstore/s3obj"
)

func TestMain(m *testing.M) {
	hermetic()
	goleak.VerifyTestMain(m)
}

// hermetic sees that nobody but the servers of the tests is asked for anything.
func hermetic() {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		_ = os.Unsetenv(name) // Only a bad name is an error.
	}
	for name, value := range map[string]string{
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		_ = os.Setenv(name, value)
	}
}

// handle is a store that knows where it is, so that it can be opened again.
type handle struct {
	*s3obj.Store
	cfg s3obj.Config
}

// config is a bucket of its own on a server.
func config(t testing.TB, s *servers.S3) s3obj.Config {
	return s3obj.Config{Bucket: s.Bucket(t), Region: s.Region, Endpoint: s.Endpoint, AccessKey: s.AccessKey, SecretKey: s.SecretKey}
}

func open(t objtest.T, cfg s3obj.Config) handle {
	t.Helper()
	s, err := s3obj.New(t.Context(), cfg)
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

// Also where each put is sent twice at once.
func TestConformance(t *testing.T) {
	t.Parallel()
	s := servers.StartVersity(t)
	for name, hedge := range map[string]time.Duration{"once": 0, "hedged": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objtest.Run(t, objtest.Config{
				New: func(lt objtest.T) objstore.Store {
					cfg := config(t, s)
					cfg.HedgeAfter = hedge
					return open(lt, cfg)
				},
				Reopen:  func(t objtest.T, s objstore.Store) objstore.Store { return open(t, s.(handle).cfg) },
				Without: map[objtest.Capability]string{objtest.Nesting: "versitygw keeps objects as files; S3 itself nests"},
			})
		})
	}
}
